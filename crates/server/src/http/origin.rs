//! Keeps pages of other sites from writing here. A browser on this machine can reach a loopback address, and sends some
//! requests for any page that asks it to; it says so in a header.

use axum::{
    extract::Request,
    http::{HeaderValue, Method},
    middleware::Next,
    response::Response,
};
use tonic::Code;

use super::errors;
use crate::failure::Failure;

/// Refuses what a browser sends for a page of another site, unless it only looks: the page can't see the answer.
pub(super) async fn only_own_pages(request: Request, next: Next) -> Response {
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    let foreign = matches!(site, Some(b"cross-site" | b"same-site"));
    let looks = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !foreign || looks {
        return next.run(request).await;
    }
    let message = "a page of another site asked the browser to send this; only this server's own pages may";
    errors::response(&Failure::new(Code::PermissionDenied, "FOREIGN_PAGE", message))
}

//! The page that describes the interface, and plain answers for those who look after the server.

use std::sync::{Arc, LazyLock};

use anabranch_api::openapi;
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
};

use super::{Http, refuse};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi::document().to_string());
static DOCS: LazyLock<String> = LazyLock::new(openapi::page);

/// The process is alive.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// Requests are served, or why not.
pub(super) async fn readiness(State(http): State<Arc<Http>>) -> Response {
    match http.operations.check_ready() {
        Ok(()) => match http.operations.observe.bus.away() {
            None => "ready\n".into_response(),
            Some(why) => format!("ready; {why}: wide partitions are split later\n").into_response(),
        },
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

pub(super) async fn metrics(State(http): State<Arc<Http>>) -> Response {
    let engine = &http.operations.engine.metrics().registry;
    match http.operations.observe.text(engine) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(failure) => refuse(&failure),
    }
}

pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

pub(super) async fn docs() -> Html<&'static str> {
    Html(DOCS.as_str())
}

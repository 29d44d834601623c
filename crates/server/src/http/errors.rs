//! Failures as JSON, with the HTTP status that is the twin of their code. Nothing is cut: bodies may be long.

use std::time::Duration;

use anabranch_api::wkt;
use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use tonic::Code;

use crate::{failure::Failure, observe::code_name};

const TYPES: &str = "type.googleapis.com";

/// The answer that tells of a failure.
pub(super) fn response(failure: &Failure) -> Response {
    with_status(http_status(failure.code), failure)
}

/// The same with another status than its code's twin.
pub(super) fn with_status(status: StatusCode, failure: &Failure) -> Response {
    let body = body(failure) + "\n";
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    if let Some(delay) = failure.details.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, whole_seconds(delay));
    }
    response
}

/// `{"error":{…}}`, as `google.rpc.Status` in JSON.
pub(super) fn body(failure: &Failure) -> String {
    let (code, status) = (failure.code.into(), code_name(failure.code));
    let body = Body { error: Told { code, status, message: &failure.message, details: details(failure) } };
    serde_json::to_string(&body).expect("texts, numbers and lists of them have a JSON form")
}

#[derive(Serialize)]
struct Body<'a> {
    error: Told<'a>,
}

#[derive(Serialize)]
struct Told<'a> {
    code: i32,
    status: &'a str,
    message: &'a str,
    details: Vec<Value>,
}

fn details(failure: &Failure) -> Vec<Value> {
    let mut details = Vec::new();
    details.push(json!({
        "@type": format!("{TYPES}/google.rpc.ErrorInfo"),
        "reason": failure.reason,
        "domain": "anabranch",
    }));
    if let Some(delay) = failure.details.retry_after {
        let delay = wkt::Duration::try_from(delay).map(|delay| delay.to_string()).unwrap_or_default();
        details.push(json!({"@type": format!("{TYPES}/google.rpc.RetryInfo"), "retryDelay": delay}));
    }
    if let Some((kind, name)) = &failure.details.resource {
        let resource = format!("{TYPES}/google.rpc.ResourceInfo");
        details.push(json!({"@type": resource, "resourceType": kind, "resourceName": name}));
    }
    if let Some(outcome) = &failure.details.outcome {
        let mut outcome = serde_json::to_value(outcome).unwrap_or_default();
        outcome["@type"] = json!(format!("{TYPES}/anabranch.v1.WriteOutcome"));
        details.push(outcome);
    }
    if !failure.details.violations.is_empty() {
        let violation =
            |found: &anabranch_engine::Violation| json!({"field": found.field, "description": found.reason});
        let violations: Vec<Value> = failure.details.violations.iter().map(violation).collect();
        details.push(json!({"@type": format!("{TYPES}/google.rpc.BadRequest"), "fieldViolations": violations}));
    }
    details
}

fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// `Retry-After` counts in seconds, and 0 would mean at once.
fn whole_seconds(delay: Duration) -> HeaderValue {
    HeaderValue::from(delay.as_secs() + u64::from(delay.subsec_nanos() > 0))
}

/// A path that leads nowhere.
pub(super) async fn no_such_route(request: Request) -> Response {
    let message = format!("there is nothing at {}; /docs lists what is", request.uri().path());
    response(&Failure::new(Code::NotFound, "NO_SUCH_ROUTE", message))
}

/// A path that servers have and workers don't.
pub(super) async fn not_of_a_worker(request: Request) -> Response {
    let message = format!(
        "there is nothing at {}: this is a worker, which serves only /healthz, /readyz, /metrics and /v1/tasks",
        request.uri().path()
    );
    response(&Failure::new(Code::NotFound, "NO_SUCH_ROUTE", message))
}

/// A path that takes other methods.
pub(super) async fn wrong_method(request: Request) -> Response {
    let message = format!("{} can't be used with {}; /docs lists what can", request.method(), request.uri().path());
    with_status(StatusCode::METHOD_NOT_ALLOWED, &Failure::new(Code::Unimplemented, "WRONG_METHOD", message))
}

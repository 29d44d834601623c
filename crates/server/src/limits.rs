//! How many requests are worked on at once, and what a panic becomes.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::HeaderMap,
    middleware::Next,
    response::Response,
};
use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument as _;

use crate::{
    failure::Failure,
    observe::{Observe, Protocol},
    traces,
};

/// The door that requests of one protocol go through; the room behind it is shared by all.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) protocol: Protocol,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) observe: Arc<Observe>,
    /// Paths that begin otherwise go in freely: health checks have to answer while everything is full.
    pub(crate) prefix: &'static str,
    /// How this protocol tells of a failure.
    pub(crate) refuse: fn(&Failure) -> Response,
}

/// A place among the requests that are worked on, held until the last clone is gone.
#[derive(Clone)]
pub(crate) struct Permit(#[expect(dead_code, reason = "it matters until when it is held")] Arc<Held>);

struct Held {
    _place: OwnedSemaphorePermit,
    observe: Arc<Observe>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.observe.in_flight.dec();
    }
}

impl Gate {
    fn enter(&self) -> Result<Permit, Failure> {
        let Ok(place) = self.room.clone().try_acquire_owned() else {
            self.observe.refused.with_label_values(&[self.protocol.name()]).inc();
            return Err(Failure::overloaded("the server works on as many requests as it may; try again later"));
        };
        self.observe.in_flight.inc();
        Ok(Permit(Arc::new(Held { _place: place, observe: self.observe.clone() })))
    }
}

/// Lets a request in if there is room, and turns a panic into an error.
pub(crate) async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let mut held = None;
    if request.uri().path().starts_with(gate.prefix) {
        match gate.enter() {
            Ok(permit) => {
                // For streams, which go on after their answer has begun.
                request.extensions_mut().insert(permit.clone());
                held = Some(permit);
            }
            Err(failure) => return (gate.refuse)(&failure),
        }
    }
    let span = match held {
        Some(_) => traces::of_request(gate.protocol.name(), &request),
        None => tracing::Span::none(),
    };
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span).await;
    drop(held);
    answer.unwrap_or_else(|_| {
        gate.observe.panics.inc();
        tracing::error!(protocol = gate.protocol.name(), "a request ended in a panic");
        (gate.refuse)(&Failure::internal("the server failed; its log has more"))
    })
}

/// How long the client will wait, by its `grpc-timeout` header: up to eight digits and a unit.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, http::StatusCode, routing::get};
    use tower::ServiceExt;

    use super::*;

    fn gate(requests: usize) -> Gate {
        Gate {
            protocol: Protocol::Http,
            room: Arc::new(Semaphore::new(requests)),
            observe: Observe::new(anabranch_runtime::Env::system()),
            prefix: "/v1/",
            refuse: crate::http::refuse,
        }
    }

    async fn status(gate: &Gate, path: &str) -> StatusCode {
        let router = Router::new()
            .route(
                "/v1/panic",
                get(|| async {
                    if true {
                        panic!("as asked")
                    }
                }),
            )
            .route("/v1/fine", get(|| async {}))
            .route("/healthz", get(|| async {}))
            .layer(axum::middleware::from_fn_with_state(gate.clone(), pass));
        let request = axum::http::Request::builder().uri(path).body(Body::empty()).unwrap();
        router.oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_and_counted() {
        let gate = gate(1);
        assert_eq!(status(&gate, "/v1/panic").await, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(gate.observe.panics.get(), 1);
        assert_eq!(gate.observe.in_flight.get(), 0);
        assert_eq!(status(&gate, "/v1/fine").await, StatusCode::OK);
    }

    #[tokio::test]
    async fn one_request_too_many_is_refused_and_health_is_not() {
        let gate = gate(1);
        let permit = gate.enter().unwrap();
        assert_eq!(status(&gate, "/v1/fine").await, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(status(&gate, "/healthz").await, StatusCode::OK);
        drop(permit);
        assert_eq!(status(&gate, "/v1/fine").await, StatusCode::OK);
        assert_eq!(gate.observe.refused.with_label_values(&["http"]).get(), 1);
    }

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        let read =
            |text: &str| timeout(&HeaderMap::from_iter([("grpc-timeout".parse().unwrap(), text.parse().unwrap())]));
        assert_eq!(read("5S"), Some(Duration::from_secs(5)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "S", "5", "123456789S", "-1S", "5s", "1.5S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}

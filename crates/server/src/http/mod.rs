//! HTTP: the same messages as JSON, and the pages for people and for those who look after the server.

mod errors;
mod events;
mod message;
mod namespaces;
mod observe;
mod origin;
mod pages;
mod splits;
mod tuning;

use std::sync::Arc;

use axum::{
    Router,
    http::StatusCode,
    middleware::{from_fn, from_fn_with_state},
    response::Response,
    routing::{get, post},
};

use crate::{
    dashboard,
    failure::Failure,
    limits::{Gate, pass},
    observe::Protocol,
    operations::{Answer, Operations},
};

/// What every handler sees.
pub(crate) struct Http {
    pub(crate) operations: Arc<Operations>,
    pub(crate) max_body_bytes: usize,
}

impl Http {
    /// Counts a request, and answers with its message or its failure.
    async fn answer<T: serde::Serialize>(
        &self,
        method: &'static str,
        work: impl Future<Output = Answer<T>>,
    ) -> Response {
        let answer = self.operations.observe.track(Protocol::Http, method, work).await;
        answer.map_or_else(|failure| refuse(&failure), |message| message::json(&message))
    }
}

/// The routes, as the OpenAPI document lists them.
pub(crate) fn router(http: Http, gate: Gate) -> Router {
    Router::new()
        .route("/v1/namespaces", get(namespaces::list).post(namespaces::create))
        .route(
            "/v1/namespaces/{namespace}",
            get(namespaces::show).patch(namespaces::update).delete(namespaces::delete).post(namespaces::restore),
        )
        .route("/v1/namespaces/{namespace}/blockList:add", post(namespaces::block))
        .route("/v1/namespaces/{namespace}/blockList:remove", post(namespaces::unblock))
        .route("/v1/namespaces/{namespace}/backfills", get(namespaces::list_backfills).post(namespaces::open_backfill))
        // `{id}:close`: the verb is part of the segment.
        .route("/v1/namespaces/{namespace}/backfills/{id}", post(namespaces::close_backfill))
        .route("/v1/namespaces/{namespace}/events:writeSync", post(events::write_sync))
        .route("/v1/namespaces/{namespace}/events:write", post(events::write))
        .route("/v1/namespaces/{namespace}/events:read", post(events::read))
        .route("/v1/namespaces/{namespace}/events:search", post(events::search))
        .route("/v1/namespaces/{namespace}/events:aggregate", post(events::aggregate))
        .route("/v1/namespaces/{namespace}/events:stream", post(events::stream))
        .route("/v1/namespaces/{namespace}/splits", get(splits::list))
        .route("/v1/namespaces/{namespace}/splits/{slice}/{series}/{bucket}/{event_bucket}", get(splits::show))
        .route("/v1/namespaces/{namespace}/splits:differences", get(splits::differences))
        .route("/v1/namespaces/{namespace}/splits:request", post(splits::request))
        .route("/v1/namespaces/{namespace}/splits:retry", post(splits::retry))
        .route("/v1/namespaces/{namespace}/splits:abandon", post(splits::abandon))
        .route("/v1/namespaces/{namespace}/splits:verify", post(splits::verify))
        .route("/v1/namespaces/{namespace}/splits:setReadMode", post(splits::set_read_mode))
        .route("/v1/namespaces/{namespace}/slices", get(tuning::list_slices))
        .route("/v1/namespaces/{namespace}/slices/{slice}", get(tuning::show_slice))
        .route("/v1/namespaces/{namespace}/tuning", get(tuning::decisions))
        .route("/v1/namespaces/{namespace}/tuning:propose", post(tuning::propose))
        .route("/v1/namespaces/{namespace}/tuning:apply", post(tuning::apply))
        .route("/v1/namespaces/{namespace}/tuning:reject", post(tuning::reject))
        .route("/v1/tasks", get(splits::tasks))
        .route("/v1/overview", get(observe::overview))
        .route("/v1/namespaces/{namespace}/series/{series}/partitions", get(observe::partitions))
        .route("/v1/heatmap", get(observe::heat_map))
        .route("/healthz", get(pages::health))
        .route("/readyz", get(pages::readiness))
        .route("/metrics", get(pages::metrics))
        .route("/openapi.json", get(pages::openapi))
        .route("/docs", get(pages::docs))
        .merge(dashboard::routes())
        .fallback(errors::no_such_route)
        .method_not_allowed_fallback(errors::wrong_method)
        .with_state(Arc::new(http))
        .layer(from_fn_with_state(gate, pass))
        .layer(from_fn(origin::only_own_pages))
}

/// The routes of a worker: how it is, and nothing to write or read.
pub(crate) fn worker_router(http: Http, gate: Gate) -> Router {
    Router::new()
        .route("/v1/tasks", get(splits::tasks))
        .route("/healthz", get(pages::health))
        .route("/readyz", get(pages::readiness))
        .route("/metrics", get(pages::metrics))
        .fallback(errors::not_of_a_worker)
        .method_not_allowed_fallback(errors::wrong_method)
        .with_state(Arc::new(http))
        .layer(from_fn_with_state(gate, pass))
}

/// How HTTP tells of a failure.
pub(crate) fn refuse(failure: &Failure) -> Response {
    match failure.reason {
        message::TOO_LARGE => errors::with_status(StatusCode::PAYLOAD_TOO_LARGE, failure),
        _ => errors::response(failure),
    }
}

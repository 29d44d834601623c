//! gRPC: the services, health and reflection, as one router.

mod namespace;
mod observe;
mod pages;
mod split;
pub(crate) mod status;
mod time_series;
mod tuning;

use std::sync::Arc;

use anabranch_api::v1::{
    namespace_service_server::NamespaceServiceServer, observe_service_server::ObserveServiceServer,
    split_service_server::SplitServiceServer, time_series_service_server::TimeSeriesServiceServer,
    tuning_service_server::TuningServiceServer,
};
use anabranch_runtime::Env;
use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, Version},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use tonic::{server::NamedService, service::Routes};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    failure::Failure,
    limits::{Gate, pass},
    observe::Protocol,
    operations::{Answer, Operations},
};

/// The services of our own, behind the generated code.
struct Services(Arc<Operations>);

impl Services {
    /// Counts a request, and answers with its message or a status that tells why not.
    async fn tracked<T>(
        &self,
        method: &'static str,
        work: impl Future<Output = Answer<T>>,
    ) -> Result<tonic::Response<T>, tonic::Status> {
        self.0.observe.track(Protocol::Grpc, method, work).await.map(tonic::Response::new).map_err(status::status)
    }
}

type TimeSeries = TimeSeriesServiceServer<Services>;
type Namespaces = NamespaceServiceServer<Services>;
type Splits = SplitServiceServer<Services>;
type Observations = ObserveServiceServer<Services>;
type Tuning = TuningServiceServer<Services>;

/// Whose health is told: the server as a whole, and each service.
const WATCHED: [&str; 6] = ["", TimeSeries::NAME, Namespaces::NAME, Splits::NAME, Observations::NAME, Tuning::NAME];

/// All services, with the reporter of their health.
pub(crate) fn router(
    operations: &Arc<Operations>,
    gate: Gate,
    max_message_bytes: usize,
    http_hint: String,
) -> Result<(Router, HealthReporter), tonic_reflection::server::Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let series = TimeSeries::new(Services(operations.clone())).max_decoding_message_size(max_message_bytes);
    let namespaces = Namespaces::new(Services(operations.clone())).max_decoding_message_size(max_message_bytes);
    let splits = Splits::new(Services(operations.clone())).max_decoding_message_size(max_message_bytes);
    let observations = Observations::new(Services(operations.clone())).max_decoding_message_size(max_message_bytes);
    let tuning = Tuning::new(Services(operations.clone())).max_decoding_message_size(max_message_bytes);
    let routes = Routes::new(series)
        .add_service(namespaces)
        .add_service(splits)
        .add_service(observations)
        .add_service(tuning)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let router = pages::add(routes.prepare().into_axum_router(), operations, max_message_bytes)
        .layer(from_fn_with_state((gate, Arc::<str>::from(http_hint)), enter));
    Ok((router, reporter))
}

/// Every message that may be sent or found in the details of an error, so that tools need no files.
fn reflection<'a>() -> tonic_reflection::server::Builder<'a> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(anabranch_api::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}

/// How gRPC tells of a failure outside of a service.
pub(crate) fn refuse(failure: &Failure) -> Response {
    status::status(failure.clone()).into_http()
}

/// Lets a request in. A browser or `curl` that came to the wrong port learns so.
async fn enter(State((gate, hint)): State<(Gate, Arc<str>)>, request: Request, next: Next) -> Response {
    if request.version() == Version::HTTP_2 {
        return pass(State(gate), request, next).await;
    }
    (StatusCode::HTTP_VERSION_NOT_SUPPORTED, format!("This port speaks gRPC over HTTP/2. {hint}\n")).into_response()
}

/// Tells everybody who asks whether requests are served.
pub(crate) async fn report(reporter: &HealthReporter, serving: bool) {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in WATCHED {
        reporter.set_service_status(service, status).await;
    }
}

/// Ends the streams of those who watch the health, after they have heard the last of it.
pub(crate) async fn end_watches(mut reporter: HealthReporter, env: &Env, after: std::time::Duration) {
    env.sleep(after).await;
    for service in WATCHED {
        reporter.clear_service_status(service).await;
    }
}

//! A collector that takes OTLP over gRPC and keeps what it gets.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use anabranch_runtime::Env;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::Span,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, async_trait, transport::Server};

/// A span that came.
#[derive(Clone, Debug)]
pub(crate) struct Collected {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) start: u64,
    attributes: Vec<(String, String)>,
}

impl Collected {
    fn of(span: Span) -> Collected {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let text = |value: Option<Value>| match value {
            Some(Value::StringValue(text)) => text,
            Some(Value::IntValue(number)) => number.to_string(),
            other => format!("{other:?}"),
        };
        Collected {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            name: span.name,
            start: span.start_time_unix_nano,
            attributes: span
                .attributes
                .into_iter()
                .map(|found| (found.key, text(found.value.and_then(|value| value.value))))
                .collect(),
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

/// Spans, to be asked for by name.
#[derive(Debug)]
pub(crate) struct Spans(Vec<Collected>);

impl Spans {
    pub(crate) fn called(&self, name: &str) -> Vec<&Collected> {
        self.0.iter().filter(|span| span.name == name).collect()
    }

    pub(crate) fn only(&self, name: &str) -> &Collected {
        let found = self.called(name);
        assert_eq!(found.len(), 1, "{name} in {self:?}");
        found[0]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Collected> {
        self.0.iter()
    }
}

pub(crate) struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Collected>>>,
}

struct Service(Arc<Mutex<Vec<Collected>>>);

#[async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let spans = resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans);
        self.0.lock().unwrap().extend(spans.map(Collected::of));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// An address where nobody listens.
pub(crate) async fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

impl Collector {
    pub(crate) async fn start(env: &Env) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let service = TraceServiceServer::new(Service(spans.clone()));
        let serving = Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener));
        env.spawn(async move { serving.await.unwrap() });
        Collector { address, spans }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn all(&self) -> Spans {
        Spans(self.spans.lock().unwrap().clone())
    }

    pub(crate) fn trace(&self, id: &str) -> Spans {
        Spans(self.all().0.into_iter().filter(|span| span.trace == id).collect())
    }
}

//! Traces by OTLP: the spans of one request in so many, sent to a collector. Off unless an endpoint is named. A collector that is
//! slow or away costs spans, which are counted, and never a request's time.
//!
//! Spans are made by `tracing-opentelemetry`, and sent by a task of our own instead of the SDK's batch processor: that one has a
//! thread and a runtime of its own, and doesn't tell how many spans it dropped.

use std::{sync::LazyLock, time::Duration};

use anabranch_runtime::{Env, Task};
use axum::{extract::Request, http::HeaderMap};
use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, TextMapPropagator as _},
    trace::{TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_proto::{
    tonic::collector::trace::v1::{ExportTraceServiceRequest, trace_service_client::TraceServiceClient},
    transform::{common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use prometheus::{IntCounterVec, Opts};
use tokio::sync::{mpsc, oneshot};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::{StartError, config};

/// Spans that are sent at once.
const BATCH: usize = 512;
/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_millis(500);

/// What became of spans. There is one log and one tracer in a process, so there is one of these, too.
static SPANS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let opts = Opts::new("anabranch_trace_spans_total", "Spans, by what became of them");
    IntCounterVec::new(opts, &["outcome"]).expect("names and labels are constants")
});

/// What is counted of spans; the same counter at every call.
pub fn spans() -> IntCounterVec {
    SPANS.clone()
}

fn count(outcome: &str, spans: usize) {
    SPANS.with_label_values(&[outcome]).inc_by(spans as u64);
}

/// What goes to the task that sends.
#[expect(clippy::large_enum_variant, reason = "nearly all of them are spans")]
enum Message {
    Span(SpanData),
    Flush(oneshot::Sender<()>),
}

/// Traces that are sent to a collector.
pub struct Traces {
    provider: SdkTracerProvider,
    queue: mpsc::Sender<Message>,
    env: Env,
    timeout: Duration,
    _sender: Task<()>,
}

impl Traces {
    /// Begins to send; `None` where no endpoint is named.
    pub fn start(config: &config::Traces, env: &Env) -> Result<Option<Traces>, StartError> {
        if config.endpoint.is_empty() {
            return Ok(None);
        }
        let channel = channel(config).map_err(|error| StartError::Internal(format!("traces.endpoint: {error}")))?;
        let (queue, messages) = mpsc::channel(config.max_spans);
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", "anabranch"),
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            ])
            .build();
        let sender = Sender {
            client: TraceServiceClient::new(channel),
            resource: ResourceAttributesWithSchema::from(&resource),
            env: env.clone(),
            timeout: config.timeout,
            failing: false,
        };
        let ratio = 1.0 / f64::from(config.one_in.max(1));
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
            .with_span_processor(Enqueue(queue.clone()))
            .with_resource(resource)
            .build();
        let sender = env.spawn(sender.run(messages));
        Ok(Some(Traces { provider, queue, env: env.clone(), timeout: config.timeout, _sender: sender }))
    }

    /// What turns spans of the program into spans to send. Goes beside the log.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("anabranch"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|found| found.target() == anabranch_engine::TRACE))
    }

    /// Sends what is there, within the time that one sending may take.
    pub async fn flush(&self) {
        let (done, sent) = oneshot::channel();
        let flush = async {
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                let _ = sent.await;
            }
        };
        let _ = self.env.timeout(self.timeout, flush).await;
    }
}

fn channel(config: &config::Traces) -> Result<Channel, tonic::transport::Error> {
    let endpoint =
        Endpoint::from_shared(config.endpoint.clone())?.connect_timeout(config.timeout).timeout(config.timeout);
    let tls = endpoint.uri().scheme_str() == Some("https");
    let endpoint = if tls { endpoint.tls_config(ClientTlsConfig::new())? } else { endpoint };
    Ok(endpoint.connect_lazy())
}

/// Takes spans that have ended, on the thread where they end: never waits.
#[derive(Debug)]
struct Enqueue(mpsc::Sender<Message>);

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Message::Span(_) => "Span",
            Message::Flush(_) => "Flush",
        })
    }
}

impl SpanProcessor for Enqueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.0.try_send(Message::Span(span)).is_err() {
            count("dropped", 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends spans, a batch at a time.
struct Sender {
    client: TraceServiceClient<Channel>,
    resource: ResourceAttributesWithSchema,
    env: Env,
    timeout: Duration,
    failing: bool,
}

impl Sender {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(first) = messages.recv().await {
            let (mut batch, mut flushes) = (Vec::new(), Vec::new());
            let mut take = |message| match message {
                Message::Span(span) => batch.push(span),
                Message::Flush(done) => flushes.push(done),
            };
            take(first);
            let env = self.env.clone();
            let gather = async {
                for _ in 1..BATCH {
                    let Some(message) = messages.recv().await else { return };
                    let is_flush = matches!(message, Message::Flush(_));
                    take(message);
                    if is_flush {
                        return;
                    }
                }
            };
            let _ = env.timeout(LINGER, gather).await;
            if !batch.is_empty() {
                self.send(batch).await;
            }
            for done in flushes {
                let _ = done.send(()); // whoever asked may have gone
            }
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let request = ExportTraceServiceRequest { resource_spans };
        let env = self.env.clone();
        let reason = match env.timeout(self.timeout, self.client.export(request)).await {
            Ok(Ok(answer)) => {
                let refused = answer.into_inner().partial_success.map_or(0, |partial| partial.rejected_spans.max(0));
                let refused = usize::try_from(refused).unwrap_or(usize::MAX).min(spans);
                count("refused", refused);
                count("sent", spans - refused);
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the collector of traces takes spans again");
                }
                return;
            }
            Ok(Err(status)) => status.message().to_owned(),
            Err(_) => "it doesn't answer in time".to_owned(),
        };
        count("failed", spans);
        // Once: it fails with every batch while the collector is away.
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(reason, "the collector of traces takes no spans; they are dropped and counted");
        }
    }
}

/// The headers of a request, as those who look for a trace read them.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

static PROPAGATOR: LazyLock<TraceContextPropagator> = LazyLock::new(TraceContextPropagator::new);

/// The span of a request: part of the trace that its `traceparent` names, or the beginning of its own. Nothing where traces are off.
/// It has to have its name before it is entered, so that over HTTP only the attribute `method` tells which rpc it is.
pub(crate) fn of_request(protocol: &'static str, request: &Request) -> tracing::Span {
    let span = tracing::trace_span!(
        target: anabranch_engine::TRACE,
        "request",
        otel.name = name(request),
        otel.kind = "server",
        protocol,
        method = Empty,
        code = Empty
    );
    if !span.is_disabled() {
        let parent = PROPAGATOR.extract(&Headers(request.headers()));
        if parent.span().span_context().is_valid() {
            // It fails where spans go only to the log.
            let _ = span.set_parent(parent);
        }
    }
    span
}

/// The method of an rpc; of anything else what is done over HTTP, for ids may be in its path.
fn name(request: &Request) -> String {
    match request.uri().path().strip_prefix("/anabranch.") {
        Some(rpc) => rpc.rsplit('/').next().unwrap_or(rpc).to_owned(),
        None => format!("HTTP {}", request.method()),
    }
}

/// The request that is worked on here turned out to be this method; it was answered with this code.
pub(crate) fn note_answer(method: &str, code: &str) {
    let span = tracing::Span::current();
    span.record("method", method);
    span.record("code", code);
}

//! What the server counts beside the engine, and the text of `/metrics`. Labels are fixed words and a bounded number of namespaces.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use anabranch_bus::{BusError, BusLosses};
use anabranch_runtime::Env;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
    core::Collector, exponential_buckets,
};
use tonic::Code;

use crate::{failure::Failure, traces};

/// How a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    Http,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Grpc => "grpc",
            Protocol::Http => "http",
        }
    }
}

/// Namespaces that are told apart; the rest is `other`.
const NAMED_NAMESPACES: usize = 200;

/// The server's counters.
pub(crate) struct Observe {
    registry: Registry,
    env: Env,
    requests: HistogramVec,
    by_namespace: HistogramVec,
    named: Mutex<BTreeSet<String>>,
    pub(crate) in_flight: IntGauge,
    pub(crate) refused: IntCounterVec,
    pub(crate) panics: IntCounter,
    pub(crate) connections: IntGaugeVec,
    pub(crate) bus: BusHealth,
}

/// What is known of the bus.
pub(crate) struct BusHealth {
    up: IntGauge,
    lag: IntGauge,
    dropped: IntCounter,
    dead_letters: IntCounter,
    away: Mutex<Option<String>>,
}

impl BusHealth {
    fn new(registry: &Registry) -> BusHealth {
        let gauge = |name: &str, help: &str| register(registry, IntGauge::new(name, help));
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help));
        BusHealth {
            up: gauge("anabranch_bus_up", "Whether the bus of detections can be reached"),
            lag: gauge("anabranch_bus_lag", "Detections on the bus that nobody has acknowledged"),
            dropped: counter(
                "anabranch_bus_dropped_total",
                "Detections dropped because the bus didn't take them in time",
            ),
            dead_letters: counter("anabranch_bus_dead_letters_total", "Messages on the bus that couldn't be read"),
            away: Mutex::default(),
        }
    }

    /// Keeps what the bus said.
    pub(crate) fn tell(&self, waiting: Result<u64, BusError>, losses: BusLosses) {
        self.up.set(i64::from(waiting.is_ok()));
        self.dropped.inc_by(losses.dropped.saturating_sub(self.dropped.get()));
        self.dead_letters.inc_by(losses.dead_letters.saturating_sub(self.dead_letters.get()));
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting {
            Ok(waiting) => {
                self.lag.set(i64::try_from(waiting).unwrap_or(i64::MAX));
                if away.take().is_some() {
                    tracing::info!("the bus is back");
                }
            }
            Err(error) => {
                if away.is_none() {
                    tracing::warn!("{error}; detections wait, reads and writes don't");
                }
                *away = Some(error.to_string());
            }
        }
    }

    /// Why it can't be reached, if it can't.
    pub(crate) fn away(&self) -> Option<String> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observe {
    pub(crate) fn new(env: Env) -> Arc<Observe> {
        let registry = Registry::new();
        // From 100 µs to 13 s, each twice the one before.
        let buckets = exponential_buckets(0.0001, 2.0, 18).expect("bounds are constants");
        let opts = HistogramOpts::new("anabranch_request_seconds", "Time that requests took").buckets(buckets);
        let requests = HistogramVec::new(opts, &["protocol", "method", "code"]);
        // Fewer of them, for there are many of these.
        let buckets = exponential_buckets(0.0002, 4.0, 9).expect("bounds are constants");
        let help = "Time that requests took, by namespace";
        let opts = HistogramOpts::new("anabranch_namespace_request_seconds", help).buckets(buckets);
        let by_namespace = HistogramVec::new(opts, &["method", "namespace"]);
        let in_flight = IntGauge::new("anabranch_requests_in_flight", "Requests being worked on");
        let refused = Opts::new("anabranch_requests_refused_total", "Requests refused because too many are worked on");
        let panics = IntCounter::new("anabranch_panics_total", "Requests that ended in a panic");
        let connections = Opts::new("anabranch_connections", "Open connections");
        let build = IntGaugeVec::new(Opts::new("anabranch_build_info", "The version that runs"), &["version"]);
        let build = register(&registry, build);
        register(&registry, Ok(traces::spans()));
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Arc::new(Observe {
            requests: register(&registry, requests),
            by_namespace: register(&registry, by_namespace),
            named: Mutex::default(),
            in_flight: register(&registry, in_flight),
            refused: register(&registry, IntCounterVec::new(refused, &["protocol"])),
            panics: register(&registry, panics),
            connections: register(&registry, IntGaugeVec::new(connections, &["protocol"])),
            bus: BusHealth::new(&registry),
            registry,
            env,
        })
    }

    /// Counts a request with its code and the time it took.
    pub(crate) async fn track<T>(
        &self,
        protocol: Protocol,
        method: &'static str,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let begun = self.env.monotonic();
        let result = request.await;
        let code = result.as_ref().err().map_or(Code::Ok, |failure| failure.code);
        let took = self.env.monotonic().saturating_sub(begun);
        let requests = self.requests.with_label_values(&[protocol.name(), method, code_name(code)]);
        requests.observe(took.as_secs_f64());
        traces::note_answer(method, code_name(code));
        if let Err(failure) = &result {
            log(protocol, method, failure);
        }
        result
    }

    /// Takes the time of what is done in a namespace.
    pub(crate) async fn in_namespace<T>(
        &self,
        method: &'static str,
        namespace: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let begun = self.env.monotonic();
        let result = work.await;
        let took = self.env.monotonic().saturating_sub(begun);
        let label = if self.is_named(namespace, result.is_ok()) { namespace } else { "other" };
        self.by_namespace.with_label_values(&[method, label]).observe(took.as_secs_f64());
        result
    }

    /// Only a success shows that there is such a namespace: names that clients make up don't take the room.
    fn is_named(&self, namespace: &str, exists: bool) -> bool {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.contains(namespace) {
            return true;
        }
        exists && named.len() < NAMED_NAMESPACES && named.insert(namespace.to_owned())
    }

    /// Everything counted, in Prometheus's text format.
    pub(crate) fn text(&self, engine: &Registry) -> Result<String, Failure> {
        let mut families = engine.gather();
        families.extend(self.registry.gather());
        let text = TextEncoder::new().encode_to_string(&families);
        text.map_err(|error| Failure::internal(format!("the metrics can't be written: {error}")))
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: prometheus::Result<C>) -> C {
    let collector = collector.expect("names and labels are constants");
    registry.register(Box::new(collector.clone())).expect("every name is registered once");
    collector
}

/// What a person has to look at is logged as an error; what a client did wrong isn't worth a line by default.
fn log(protocol: Protocol, method: &str, failure: &Failure) {
    let (protocol, code, message) = (protocol.name(), code_name(failure.code), &failure.message);
    match failure.code {
        Code::Internal | Code::DataLoss | Code::Unknown => {
            tracing::error!(protocol, method, code, %message, "a request failed");
        }
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted => {
            tracing::warn!(protocol, method, code, %message, "a request could not be served");
        }
        _ => tracing::debug!(protocol, method, code, %message, "a request was refused"),
    }
}

/// The name of a code as the gRPC specification has it.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that wait too long are dropped just while nobody answers.
    #[test]
    fn what_a_bus_loses_is_told_also_while_it_is_away() {
        let bus = BusHealth::new(&Registry::new());
        bus.tell(Ok(7), BusLosses { dropped: 1, dead_letters: 0 });
        let away = || Err(BusError { reason: "on purpose".to_owned() });
        bus.tell(away(), BusLosses { dropped: 3, dead_letters: 2 });
        bus.tell(away(), BusLosses { dropped: 3, dead_letters: 2 });
        assert_eq!((bus.up.get(), bus.dropped.get(), bus.dead_letters.get()), (0, 3, 2));
        assert!(bus.away().is_some());
    }
}

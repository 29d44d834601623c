//! Starting a server, and stopping it without losing anything.

use std::{
    fmt::Write as _,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_bus::{Bus, BusError};
use anabranch_engine::EngineError;
use anabranch_runtime::{Env, Task};
use anabranch_store_cassandra::ConnectError;
use anabranch_store_fjall::OpenError;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tonic_health::server::HealthReporter;

use crate::{
    BusUrl, Config, Problem, StoreUrl,
    backend::{Backend, Waiting},
    doors::Doors,
    grpc,
    http::{self, Http},
    limits::Gate,
    listen::{self, Listener},
    observe::{Observe, Protocol},
    operations::Operations,
    tls,
};

pub use crate::tls::TlsError;

/// How often the health that gRPC tells is brought up to date.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// How long those who watch the health get to hear that the server stops, before their streams end.
const WATCH_GRACE: Duration = Duration::from_millis(500);

/// Why a server can't start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration breaks rules.
    #[error("the configuration can't be used:{}", list(.0))]
    Config(Vec<Problem>),
    /// Somebody else listens there.
    #[error(
        "{address} ({setting}) is in use by another process; stop it (`ss -ltnp 'sport = :{port}'` shows which), or name \
         another port", port = .address.port()
    )]
    InUse {
        /// Which setting names it.
        setting: &'static str,
        /// Where.
        address: SocketAddr,
    },
    /// The system doesn't let us listen there.
    #[error("can't listen on {address} ({setting}): {source}; name an address of this machine and a port above 1023")]
    Bind {
        /// Which setting names it.
        setting: &'static str,
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The store can't be shared, so that nobody but its server can work on it.
    #[error(
        "the embedded store in {data} can't be shared: one process holds it. `anabranch serve` splits wide partitions by \
         itself (`--split-workers N` says how many at once); `anabranch worker` is for servers on a shared store"
    )]
    NotShared {
        /// Where the store lies.
        data: String,
    },
    /// TLS can't be offered.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The data directory can't be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A file that a setting names can't be read.
    #[error("cannot read {} ({setting}): {source}", path.display())]
    File {
        /// Which setting names it.
        setting: &'static str,
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The cluster can't be used.
    #[error(transparent)]
    Cassandra(#[from] ConnectError),
    /// The bus can't be reached.
    #[error("{url}: {error}")]
    Bus {
        /// Which.
        url: BusUrl,
        /// What it said.
        error: BusError,
    },
    /// There is no bus that could be watched from outside.
    #[error("detections stay inside of the server: its bus is `in-process`; name one with `--bus kafka://HOST:PORT`")]
    InProcessBus,
    /// What is stored can't be loaded.
    #[error("the store is open, but what it holds can't be loaded: {0}")]
    Engine(#[from] EngineError),
    /// A part of the server failed in a way that the code doesn't foresee.
    #[error("the server can't start: {0}")]
    Internal(String),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |mut text, problem| {
        let _ = write!(text, "\n  {problem}");
        text
    })
}

/// A running server. Dropping it lets it run on; [`Server::shutdown`] stops it.
pub struct Server {
    grpc_addr: SocketAddr,
    http_addr: SocketAddr,
    operations: Arc<Operations>,
    bus: Arc<dyn Bus>,
    health: HealthReporter,
    env: Env,
    stop: watch::Sender<bool>,
    listeners: Vec<Task<()>>,
}

impl Server {
    /// Listens, opens the store, starts the engine and serves.
    pub async fn start(config: Config, env: Env) -> Result<Server, StartError> {
        config.validate().map_err(StartError::Config)?;
        let grpc_tls = tls::acceptor(&config.listen, &[b"h2"])?;
        let http_tls = tls::acceptor(&config.listen, &[b"h2", b"http/1.1"])?;
        // Before the store is opened, which may take longer: connections wait until it is.
        let grpc_tcp = bind("listen.grpc", config.listen.grpc).await?;
        let http_tcp = bind("listen.http", config.listen.http).await?;
        let (grpc_addr, http_addr) = (address(&grpc_tcp)?, address(&http_tcp)?);

        let observe = Observe::new(env.clone());
        let connections = Arc::new(Semaphore::new(config.limits.max_connections));
        let waiting = Waiting::default();
        let doors = match config.store.url {
            // Opening takes a moment: connections wait for it.
            StoreUrl::Embedded => None,
            StoreUrl::Cassandra { .. } => Some(Doors::new(&waiting, &connections, &observe, &env)),
        };
        if let Some(doors) = &doors {
            doors.answer(Protocol::Grpc, &grpc_tcp, grpc_tls.clone(), grpc::refuse)?;
            doors.answer(Protocol::Http, &http_tcp, http_tls.clone(), http::refuse)?;
        }
        let backend = Backend::open(&config, &env, &waiting).await?;
        drop(doors);
        backend.watch_bus(&config.bus.url, &observe, &env);
        let Backend { engine, bus } = backend;
        let operations = Arc::new(Operations {
            engine,
            env: env.clone(),
            observe: observe.clone(),
            stopping: AtomicBool::new(false),
        });
        let requests = Arc::new(Semaphore::new(config.limits.max_requests));
        let gate = |protocol, prefix, refuse| Gate {
            protocol,
            room: requests.clone(),
            observe: observe.clone(),
            prefix,
            refuse,
        };
        let scheme = if http_tls.is_some() { "https" } else { "http" };
        let hint = format!("HTTP/JSON is at {scheme}://{http_addr}/");
        let grpc_gate = gate(Protocol::Grpc, "/anabranch.", grpc::refuse);
        let max_message = config.limits.max_message.as_usize();
        let (grpc_router, health) = grpc::router(&operations, grpc_gate, max_message, hint)
            .map_err(|error| StartError::Internal(error.to_string()))?;
        let http = Http { operations: operations.clone(), max_body_bytes: config.limits.max_body.as_usize() };
        let http_router = http::router(http, gate(Protocol::Http, "/v1/", http::refuse));

        let (stop, stopping) = watch::channel(false);
        let listen = |protocol, tcp, tls, router| {
            let (room, observe) = (connections.clone(), observe.clone());
            let listener = Listener { protocol, tcp, tls, router, room, observe, env: env.clone() };
            env.spawn(listener.serve(stopping.clone(), config.limits.shutdown_grace))
        };
        let listeners = vec![
            listen(Protocol::Grpc, grpc_tcp, grpc_tls, grpc_router),
            listen(Protocol::Http, http_tcp, http_tls, http_router),
        ];
        grpc::report(&health, true).await;
        watch_health(operations.clone(), health.clone(), stopping);
        Ok(Server { grpc_addr, http_addr, operations, bus, health, env, stop, listeners })
    }

    /// Where gRPC is served.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Where HTTP is served.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Says that it won't serve, stops accepting, lets requests under way finish, writes what is queued, and closes the
    /// store with everything durable.
    pub async fn shutdown(self) -> Result<(), EngineError> {
        self.operations.stopping.store(true, Ordering::Release);
        grpc::report(&self.health, false).await;
        self.stop.send_replace(true);
        let health = self.health;
        let inner = self.env.clone();
        let watches = self.env.spawn(async move { grpc::end_watches(health, &inner, WATCH_GRACE).await });
        for listener in self.listeners {
            listener.await;
        }
        watches.abort();
        let stopped = self.operations.engine.shutdown().await;
        self.bus.close().await;
        stopped
    }
}

pub(crate) async fn bind(setting: &'static str, address: SocketAddr) -> Result<tokio::net::TcpListener, StartError> {
    listen::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::InUse { setting, address },
        _ => StartError::Bind { setting, address, source },
    })
}

pub(crate) fn address(listener: &tokio::net::TcpListener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|error| StartError::Internal(error.to_string()))
}

/// Keeps the health that gRPC tells true to what the engine says.
fn watch_health(operations: Arc<Operations>, health: HealthReporter, mut stopping: watch::Receiver<bool>) {
    let env = operations.env.clone();
    env.clone().spawn(async move {
        let mut told = true;
        while env.timeout(HEALTH_INTERVAL, stopping.wait_for(|stop| *stop)).await.is_err() {
            let serving = operations.engine.check_ready().is_ok();
            if serving != told {
                grpc::report(&health, serving).await;
                told = serving;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use anabranch_api::v1::{CreateNamespaceRequest, ReadEventRecordsRequest};
    use futures_util::StreamExt;

    use super::*;
    use crate::operations::Answer;

    /// A server with an empty namespace, and a request for all of a history in it.
    async fn server(directory: &tempfile::TempDir) -> (Server, ReadEventRecordsRequest) {
        let mut config = Config::default();
        config.store.data = directory.path().to_owned();
        config.listen.grpc = ([127, 0, 0, 1], 0).into();
        config.listen.http = ([127, 0, 0, 1], 0).into();
        let server = Server::start(config, Env::system()).await.unwrap();
        let namespace = "plays".to_owned();
        let create = CreateNamespaceRequest { name: namespace.clone(), ..CreateNamespaceRequest::default() };
        server.operations.create_namespace(create).await.unwrap();
        let time_series_id = "profile:123".to_owned();
        (server, ReadEventRecordsRequest { namespace, time_series_id, ..ReadEventRecordsRequest::default() })
    }

    /// Encoding a whole history must not keep the threads busy that answer everybody else.
    #[tokio::test(flavor = "multi_thread")]
    async fn pages_of_a_stream_get_their_form_from_threads_that_give_way() {
        let directory = tempfile::tempdir().unwrap();
        let (server, all) = server(&directory).await;
        let form = |_| Ok(std::thread::current().name().map(str::to_owned));
        let mut pages = server.operations.stream(Protocol::Grpc, all, None, None, form);
        let thread = pages.next().await.expect("even an empty history is a page").unwrap();
        assert_eq!(thread.as_deref(), Some("anabranch-background"));
        assert!(pages.next().await.is_none());
        server.shutdown().await.unwrap();
    }

    /// A history must not look shorter than it is because its page could not be written, or its server ended.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_stream_that_is_cut_short_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let (server, all) = server(&directory).await;
        let panics = |_| -> Answer<()> { panic!("on purpose") };
        let pages = server.operations.stream(Protocol::Grpc, all.clone(), None, None, panics);
        let ends: Vec<_> = pages.map(|page| page.expect_err("it panicked").reason).collect().await;
        assert_eq!(ends, ["INTERNAL"]);
        server.operations.env.kill();
        let pages = server.operations.stream(Protocol::Grpc, all, None, None, |_| Ok(()));
        let ends: Vec<_> = pages.map(|page| page.expect_err("it was ended").reason).collect().await;
        assert_eq!(ends, ["NOT_SERVING"]);
    }
}

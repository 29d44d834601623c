//! A process that only splits: the engine with its workers on a store that others share, and HTTP for those who look after it.
//! Takes no writes and answers no reads.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anabranch_bus::Bus;
use anabranch_engine::EngineError;
use anabranch_runtime::{Env, Task};
use anabranch_store::Store;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Config, Problem, StartError, StoreUrl,
    backend::{Backend, Waiting},
    doors::Doors,
    http::{self, Http},
    limits::Gate,
    listen::Listener,
    observe::{Observe, Protocol},
    operations::Operations,
    start::{address, bind},
    tls,
};

/// A running worker. Dropping it lets it run on; [`Worker::shutdown`] stops it.
pub struct Worker {
    http_addr: SocketAddr,
    operations: Arc<Operations>,
    bus: Arc<dyn Bus>,
    stop: watch::Sender<bool>,
    listener: Task<()>,
}

impl Worker {
    /// Works on the store that is configured, once it answers. The embedded one is refused before it is touched.
    pub async fn start(config: Config, env: Env) -> Result<Worker, StartError> {
        if config.store.url == StoreUrl::Embedded {
            config.validate().map_err(StartError::Config)?;
            return Err(not_shared(&config));
        }
        let port = Port::open(config, env).await?;
        let waiting = Waiting::default();
        let doors = Doors::new(&waiting, &port.room, &port.observe, &port.env);
        doors.answer(Protocol::Http, &port.tcp, port.tls.clone(), http::refuse)?;
        let backend = Backend::open(&port.config, &port.env, &waiting).await?;
        drop(doors);
        Ok(port.serve(backend))
    }

    /// Works on a store that is open already.
    pub async fn start_on(store: Arc<dyn Store>, config: Config, env: Env) -> Result<Worker, StartError> {
        if !store.capabilities().shared {
            return Err(not_shared(&config));
        }
        let port = Port::open(config, env).await?;
        let backend = Backend::over(store, &port.config, &port.env).await?;
        Ok(port.serve(backend))
    }

    /// Where its health and metrics are served.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Stops. What was under way goes on from its last checkpoint, by whoever takes its lease.
    pub async fn shutdown(self) -> Result<(), EngineError> {
        self.operations.stopping.store(true, Ordering::Release);
        self.stop.send_replace(true);
        self.listener.await;
        let stopped = self.operations.engine.shutdown().await;
        self.bus.close().await;
        stopped
    }
}

fn not_shared(config: &Config) -> StartError {
    StartError::NotShared { data: config.store.data.display().to_string() }
}

/// Where a worker tells how it is.
struct Port {
    config: Config,
    env: Env,
    tcp: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    room: Arc<Semaphore>,
    observe: Arc<Observe>,
}

impl Port {
    async fn open(config: Config, env: Env) -> Result<Port, StartError> {
        config.validate().map_err(StartError::Config)?;
        if config.splits.workers == 0 {
            let reason = "a worker needs at least 1: it has nothing else to do".to_owned();
            return Err(StartError::Config(vec![Problem { path: "splits.workers", reason }]));
        }
        let tls = tls::acceptor(&config.listen, &[b"h2", b"http/1.1"])?;
        let tcp = bind("listen.http", config.listen.http).await?;
        let address = address(&tcp)?;
        let room = Arc::new(Semaphore::new(config.limits.max_connections));
        let observe = Observe::new(env.clone());
        Ok(Port { config, env, tcp, address, tls, room, observe })
    }

    fn serve(self, backend: Backend) -> Worker {
        backend.watch_bus(&self.config.bus.url, &self.observe, &self.env);
        let Port { config, env, tcp, address, tls, room, observe } = self;
        let Backend { engine, bus } = backend;
        let stopping = AtomicBool::new(false);
        let operations = Arc::new(Operations { engine, env: env.clone(), observe: observe.clone(), stopping });
        let gate = Gate {
            protocol: Protocol::Http,
            room: Arc::new(Semaphore::new(config.limits.max_requests)),
            observe: observe.clone(),
            prefix: "/v1/",
            refuse: http::refuse,
        };
        let http = Http { operations: operations.clone(), max_body_bytes: config.limits.max_body.as_usize() };
        let router = http::worker_router(http, gate);
        let listener = Listener { protocol: Protocol::Http, tcp, tls, router, room, env: env.clone(), observe };
        let (stop, stopped) = watch::channel(false);
        let listener = env.spawn(listener.serve(stopped, config.limits.shutdown_grace));
        Worker { http_addr: address, operations, bus, stop, listener }
    }
}

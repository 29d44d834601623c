//! A process that only splits: the engine with its workers on a store that others share, and HTTP for those who look after it.
//! Takes no writes and answers no reads.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anabranch_engine::{Engine, EngineError};
use anabranch_runtime::{Env, Task};
use anabranch_store::Store;
use tokio::sync::{Semaphore, watch};

use crate::{
    Config, Problem, StartError,
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
    stop: watch::Sender<bool>,
    listener: Task<()>,
}

impl Worker {
    /// Works on the store that is configured. The embedded one is refused before it is touched.
    pub async fn start(config: Config, _env: Env) -> Result<Worker, StartError> {
        config.validate().map_err(StartError::Config)?;
        Err(StartError::NotShared { data: config.store.data.display().to_string() })
    }

    /// Works on a store that is open already.
    pub async fn start_on(store: Arc<dyn Store>, config: Config, env: Env) -> Result<Worker, StartError> {
        config.validate().map_err(StartError::Config)?;
        if !store.capabilities().shared {
            return Err(StartError::NotShared { data: config.store.data.display().to_string() });
        }
        if config.splits.workers == 0 {
            let reason = "a worker needs at least 1: it has nothing else to do".to_owned();
            return Err(StartError::Config(vec![Problem { path: "splits.workers", reason }]));
        }
        let tls = tls::acceptor(&config.listen, &[b"h2", b"http/1.1"])?;
        let tcp = bind("listen.http", config.listen.http).await?;
        let http_addr = address(&tcp)?;
        let engine = Engine::start(store, env.clone(), config.engine_options()).await?;
        let observe = Observe::new(env.clone());
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
        let listener = Listener {
            protocol: Protocol::Http,
            tcp,
            tls,
            router: http::worker_router(http, gate),
            room: Arc::new(Semaphore::new(config.limits.max_connections)),
            env: env.clone(),
            observe,
        };
        let (stop, stopped) = watch::channel(false);
        let listener = env.spawn(listener.serve(stopped, config.limits.shutdown_grace));
        Ok(Worker { http_addr, operations, stop, listener })
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
        self.operations.engine.shutdown().await
    }
}

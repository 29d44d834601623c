//! The store and the bus that are configured, with the engine over them. A cluster that is away is waited for, and who asks
//! meanwhile is told so. A broker that is away isn't: only detections wait for it.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_bus::{Bus, BusError, LocalBus};
use anabranch_engine::{Engine, EngineError, ErrorKind};
use anabranch_runtime::Env;
use anabranch_store::{self as store, Store};
use anabranch_store_cassandra::{CassandraOptions, CassandraStore, ConnectError, Credentials};
use anabranch_store_fjall::FjallStore;

use crate::{
    BusUrl, Config, StartError,
    observe::Observe,
    timed_store::{TimedStore, store_seconds},
};

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How often the bus is asked how it is.
const BUS_INTERVAL: Duration = Duration::from_secs(5);

/// An engine, and the bus that its detections go over.
pub(crate) struct Backend {
    pub(crate) engine: Arc<Engine>,
    pub(crate) bus: Arc<dyn Bus>,
}

/// What a start waits for.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<String>>);

impl Waiting {
    /// For those who ask.
    pub(crate) fn reason(&self) -> EngineError {
        let what = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reason = if what.is_empty() { "this server is starting".to_owned() } else { what };
        EngineError::NotServing { reason }
    }

    fn say(&self, error: &StartError) {
        tracing::warn!("{error}; it is tried again until it answers");
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = format!("this server is starting, and waits: {error}");
    }
}

impl Backend {
    /// Opens what is configured.
    pub(crate) async fn open(config: &Config, env: &Env, waiting: &Waiting) -> Result<Backend, StartError> {
        let options = cluster_options(config)?;
        // What can never work is refused before anything is waited for.
        let bus = open_bus(config, env)?;
        let Some(options) = options else { return Backend::embedded(bus, config, env).await };
        let mut wait = FIRST_WAIT;
        loop {
            match Backend::cluster(bus.clone(), config, options.clone(), env).await {
                Err(error) if may_pass(&error) => waiting.say(&error),
                decided => return decided,
            }
            env.sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn embedded(bus: Arc<dyn Bus>, config: &Config, env: &Env) -> Result<Backend, StartError> {
        let (data, options, inner) = (config.store.data.clone(), config.store_options(), env.clone());
        let opened = env.blocking(move || FjallStore::open(data, options, inner)).await;
        let panicked = || StartError::Internal("opening the store panicked; the log has more".to_owned());
        let store: Arc<dyn Store> = Arc::new(opened.ok_or_else(panicked)??);
        Backend::join(store, bus, config, env).await
    }

    async fn cluster(
        bus: Arc<dyn Bus>,
        config: &Config,
        options: CassandraOptions,
        env: &Env,
    ) -> Result<Backend, StartError> {
        // Boxed: the driver's futures are large, and live only for a moment.
        let store = Box::pin(CassandraStore::connect(options, env.clone())).await?;
        Backend::join(Arc::new(store), bus, config, env).await
    }

    /// On a store that is open.
    pub(crate) async fn over(store: Arc<dyn Store>, config: &Config, env: &Env) -> Result<Backend, StartError> {
        Backend::join(store, open_bus(config, env)?, config, env).await
    }

    async fn join(store: Arc<dyn Store>, bus: Arc<dyn Bus>, config: &Config, env: &Env) -> Result<Backend, StartError> {
        let seconds = store_seconds();
        let store: Arc<dyn Store> = Arc::new(TimedStore::new(store, env.clone(), seconds.clone()));
        let engine = Engine::start_on(store.clone(), bus.clone(), env.clone(), config.engine_options()).await;
        let started = engine.map_err(StartError::from).and_then(|engine| {
            let registered = engine.metrics().registry.register(Box::new(seconds));
            registered.map_err(|error| StartError::Internal(error.to_string()))?;
            Ok(Backend { engine, bus })
        });
        if started.is_err() {
            let _ = store.close().await;
        }
        started
    }

    /// Keeps what is told of the bus up to date until the engine stops.
    pub(crate) fn watch_bus(&self, url: &BusUrl, observe: &Arc<Observe>, env: &Env) {
        let url = url.clone();
        let (engine, bus, observe, inner) = (self.engine.clone(), self.bus.clone(), observe.clone(), env.clone());
        env.spawn(async move {
            while !engine.is_stopping() {
                let waiting = bus.waiting().await;
                let waiting = waiting.map_err(|error| BusError { reason: format!("{url}: {}", error.reason) });
                observe.bus.tell(waiting, bus.losses());
                inner.sleep(BUS_INTERVAL).await;
            }
        });
    }
}

/// The bus, whether anybody answers there or not.
fn open_bus(config: &Config, env: &Env) -> Result<Arc<dyn Bus>, StartError> {
    match &config.bus.url {
        BusUrl::InProcess => Ok(Arc::new(LocalBus::new(config.splits.max_detections))),
        #[cfg(feature = "kafka")]
        BusUrl::Kafka { brokers, topic } => {
            let options = config.kafka_options(brokers, topic.as_deref())?;
            let bus = anabranch_bus::KafkaBus::open(options, env.clone());
            Ok(Arc::new(bus.map_err(|unusable| config.kafka_refused(&unusable))?))
        }
        #[cfg(not(feature = "kafka"))]
        BusUrl::Kafka { .. } => {
            let _ = env;
            Err(StartError::Internal(crate::config::WITHOUT_KAFKA.to_owned()))
        }
    }
}

/// How the configured cluster is reached, credentials included; `None` for the embedded store.
pub fn cluster_options(config: &Config) -> Result<Option<CassandraOptions>, StartError> {
    let Some(mut options) = config.cassandra_options() else { return Ok(None) };
    options.credentials = credentials(config)?;
    Ok(Some(options))
}

fn credentials(config: &Config) -> Result<Option<Credentials>, StartError> {
    let (Some(user), Some(file)) = (&config.cassandra.user, &config.cassandra.password_file) else { return Ok(None) };
    let password = read("cassandra.password_file", file)?.trim_end_matches(['\r', '\n']).to_owned();
    Ok(Some(Credentials { user: user.clone(), password }))
}

/// A file that a setting names.
pub(crate) fn read(setting: &'static str, path: &Path) -> Result<String, StartError> {
    fs::read_to_string(path).map_err(|source: io::Error| StartError::File { setting, path: path.to_owned(), source })
}

/// Whether waiting can help.
fn may_pass(error: &StartError) -> bool {
    match error {
        StartError::Cassandra(ConnectError::Schema(error)) => {
            matches!(error.kind(), store::ErrorKind::Retry | store::ErrorKind::Unknown)
        }
        StartError::Cassandra(error) => matches!(error, ConnectError::Unreachable { .. }),
        StartError::Engine(error) => matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::DeadlineExceeded),
        _ => false,
    }
}

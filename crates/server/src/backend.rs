//! The store and the bus that are configured, with the engine over them. A cluster that is away is waited for, and who asks
//! meanwhile is told so.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_bus::{Bus, LocalBus};
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
        let Some(options) = cluster_options(config)? else { return Backend::embedded(config, env).await };
        // What can never work is refused before anything is waited for.
        #[cfg(feature = "kafka")]
        if let BusUrl::Kafka { brokers, topic } = &config.bus.url {
            config.kafka_options(brokers, topic.as_deref())?;
        }
        let mut wait = FIRST_WAIT;
        loop {
            match Backend::cluster(config, options.clone(), env).await {
                Err(error) if may_pass(&error) => waiting.say(&error),
                decided => return decided,
            }
            env.sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn embedded(config: &Config, env: &Env) -> Result<Backend, StartError> {
        let (data, options, inner) = (config.store.data.clone(), config.store_options(), env.clone());
        let opened = env.blocking(move || FjallStore::open(data, options, inner)).await;
        let panicked = || StartError::Internal("opening the store panicked; the log has more".to_owned());
        let store: Arc<dyn Store> = Arc::new(opened.ok_or_else(panicked)??);
        Backend::over(store, config, env).await
    }

    async fn cluster(config: &Config, options: CassandraOptions, env: &Env) -> Result<Backend, StartError> {
        // Boxed: the driver's futures are large, and live only for a moment.
        let store = Box::pin(CassandraStore::connect(options, env.clone())).await?;
        Backend::over(Arc::new(store), config, env).await
    }

    /// On a store that is open.
    pub(crate) async fn over(store: Arc<dyn Store>, config: &Config, env: &Env) -> Result<Backend, StartError> {
        let seconds = store_seconds();
        let store: Arc<dyn Store> = Arc::new(TimedStore::new(store, env.clone(), seconds.clone()));
        let bus = connect_bus(config, env).await;
        let started = match bus {
            Ok(bus) => {
                let engine = Engine::start_on(store.clone(), bus.clone(), env.clone(), config.engine_options()).await;
                engine.map_err(StartError::from).and_then(|engine| {
                    let registered = engine.metrics().registry.register(Box::new(seconds));
                    registered.map_err(|error| StartError::Internal(error.to_string()))?;
                    Ok(Backend { engine, bus })
                })
            }
            Err(error) => Err(error),
        };
        if started.is_err() {
            let _ = store.close().await;
        }
        started
    }

    /// Keeps what is told of the bus up to date until the engine stops.
    pub(crate) fn watch_bus(&self, observe: &Arc<Observe>, env: &Env) {
        let (engine, bus, observe, inner) = (self.engine.clone(), self.bus.clone(), observe.clone(), env.clone());
        env.spawn(async move {
            while !engine.is_stopping() {
                observe.bus.tell(bus.state().await);
                inner.sleep(BUS_INTERVAL).await;
            }
        });
    }
}

async fn connect_bus(config: &Config, env: &Env) -> Result<Arc<dyn Bus>, StartError> {
    match &config.bus.url {
        BusUrl::InProcess => Ok(Arc::new(LocalBus::new(config.splits.max_detections))),
        #[cfg(feature = "kafka")]
        BusUrl::Kafka { brokers, topic } => {
            let options = config.kafka_options(brokers, topic.as_deref())?;
            let bus = anabranch_bus::KafkaBus::connect(options, env.clone()).await;
            Ok(Arc::new(bus.map_err(|error| StartError::Bus { url: config.bus.url.clone(), error })?))
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
        StartError::Bus { .. } => true,
        StartError::Engine(error) => matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::DeadlineExceeded),
        _ => false,
    }
}

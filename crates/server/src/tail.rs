//! Watching detections pass on the bus that is configured.

use anabranch_bus::Detection;
use anabranch_model::Timestamp;
use anabranch_runtime::Env;

use crate::{Config, StartError};

/// A message on the bus.
#[derive(Clone, Debug)]
pub struct PassingDetection {
    /// When it was published.
    pub published: Option<Timestamp>,
    /// What it says, or why it can't be read.
    pub detection: Result<Detection, String>,
    /// The bytes themselves.
    pub payload: Vec<u8>,
}

/// Detections as they pass; none is taken away.
pub struct Tail {
    #[cfg(feature = "kafka")]
    inner: anabranch_bus::KafkaTail,
    #[cfg(feature = "kafka")]
    url: crate::BusUrl,
}

impl Tail {
    /// Begins with what comes next, or with the oldest that there is.
    #[cfg(feature = "kafka")]
    pub async fn open(config: &Config, from_beginning: bool, env: &Env) -> Result<Tail, StartError> {
        let crate::BusUrl::Kafka { brokers, topic } = &config.bus.url else { return Err(StartError::InProcessBus) };
        let options = config.kafka_options(brokers, topic.as_deref())?;
        let url = config.bus.url.clone();
        match anabranch_bus::KafkaTail::open(&options, from_beginning, env).await {
            Ok(inner) => Ok(Tail { inner, url }),
            Err(error) => Err(StartError::Bus { url, error }),
        }
    }

    /// Always refused: this program was built without Kafka, and the in-process bus has nobody to watch it.
    #[cfg(not(feature = "kafka"))]
    pub async fn open(config: &Config, _from_beginning: bool, _env: &Env) -> Result<Tail, StartError> {
        match config.bus.url {
            crate::BusUrl::InProcess => Err(StartError::InProcessBus),
            crate::BusUrl::Kafka { .. } => {
                let reason = crate::config::WITHOUT_KAFKA.to_owned();
                Err(StartError::Config(vec![crate::Problem { path: "bus.url", reason }]))
            }
        }
    }

    /// Waits for the next one.
    #[cfg(feature = "kafka")]
    pub async fn next(&self) -> Result<PassingDetection, StartError> {
        let gone = |error| StartError::Bus { url: self.url.clone(), error };
        let passing = self.inner.next().await.map_err(gone)?;
        let published = passing.published_millis.map(|millis| Timestamp::from_nanos(millis.saturating_mul(1_000_000)));
        let detection = Detection::from_json(&passing.payload).map_err(|error| error.to_string());
        Ok(PassingDetection { published, detection, payload: passing.payload })
    }

    /// Never called: there is none to call it on.
    #[cfg(not(feature = "kafka"))]
    pub async fn next(&self) -> Result<PassingDetection, StartError> {
        Err(StartError::InProcessBus)
    }
}

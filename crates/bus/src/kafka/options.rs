//! What can be chosen about the bus on Kafka.

use std::{collections::BTreeMap, time::Duration};

use rdkafka::{ClientConfig, error::KafkaError};
use thiserror::Error;

/// The topic of detections.
pub const TOPIC: &str = "wide_partition_detection_events";

/// How the broker is reached and used.
#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// Some brokers, as `host:port`; the others are found through them.
    pub brokers: Vec<String>,
    /// Where detections go.
    pub topic: String,
    /// Where messages go that can't be read.
    pub dead_letter_topic: String,
    /// Workers of one group share the detections.
    pub group: String,
    /// Of topics that are made: the most workers that can share.
    pub partitions: i32,
    /// Of topics that are made.
    pub replication: i32,
    /// Detections that may wait for the broker; more are dropped.
    pub capacity: usize,
    /// How long the broker may take to answer a call.
    pub timeout: Duration,
    /// How long a detection waits for a broker that is away before it is dropped.
    pub patience: Duration,
    /// Settings of librdkafka as they are, for all clients: security, above all.
    pub settings: BTreeMap<String, String>,
}

/// librdkafka can't work with what was chosen, and never will.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("librdkafka refuses {}: {reason}", .setting.as_ref().map_or_else(|| "its settings".to_owned(), |name| format!("`{name}`")))]
pub struct Unusable {
    /// Which of its settings, where it says so.
    pub setting: Option<String>,
    /// What it said.
    pub reason: String,
}

impl Unusable {
    pub(super) fn new(error: &KafkaError) -> Self {
        match error {
            KafkaError::ClientConfig(_, reason, setting, _) => {
                Unusable { setting: Some(setting.clone()), reason: reason.clone() }
            }
            KafkaError::ClientCreation(reason) => Unusable { setting: None, reason: reason.clone() },
            error => Unusable { setting: None, reason: error.to_string() },
        }
    }
}

impl KafkaOptions {
    /// The defaults, for brokers at these addresses.
    pub fn new(brokers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        KafkaOptions {
            brokers: brokers.into_iter().map(Into::into).collect(),
            topic: TOPIC.to_owned(),
            dead_letter_topic: format!("{TOPIC}.dead"),
            group: "anabranch-workers".to_owned(),
            partitions: 16,
            replication: 1,
            capacity: 10_000,
            timeout: Duration::from_secs(10),
            patience: Duration::from_secs(300),
            settings: BTreeMap::new(),
        }
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers.join(","));
        config.set("client.id", "anabranch");
        // The default waits for up to 10 s before it looks whether a broker is back.
        config.set("reconnect.backoff.max.ms", "1000");
        // Beginning anew with the addresses given can go on forever when the only broker was away for a while.
        config.set("metadata.recovery.strategy", "none");
        for (name, value) in &self.settings {
            config.set(name, value);
        }
        config
    }

    pub(super) fn admin(&self) -> ClientConfig {
        self.client()
    }

    pub(super) fn producer(&self) -> ClientConfig {
        let mut config = self.client();
        config.set("queue.buffering.max.messages", self.capacity.max(1).to_string());
        config.set("message.timeout.ms", self.patience.as_millis().to_string());
        config.set("acks", "all");
        // The broker would make the topic its own way, before it is made as the options say.
        if config.get("allow.auto.create.topics").is_none() {
            config.set("allow.auto.create.topics", "false");
        }
        // What the broker had may go to the dead letters as it is, and a bit more: it is for the broker to say what is too large.
        if config.get("message.max.bytes").is_none() {
            config.set("message.max.bytes", "16777216");
        }
        config
    }

    pub(super) fn consumer(&self) -> ClientConfig {
        let mut config = self.client();
        config.set("group.id", &self.group);
        // Only what is acknowledged is committed, and only by us.
        config.set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false");
        config.set("auto.offset.reset", "earliest");
        config.set("session.timeout.ms", "6000");
        config.set("heartbeat.interval.ms", "1000");
        config
    }
}

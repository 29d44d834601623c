//! Watching detections pass, without taking any away.

use anabranch_runtime::Env;
use rdkafka::{
    Message, Offset, TopicPartitionList,
    consumer::{Consumer, StreamConsumer},
    metadata::MetadataTopic,
};

use super::{KafkaOptions, away, panicked};
use crate::BusError;

/// A message as it passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// Which partition of the topic.
    pub partition: i32,
    /// Where in it.
    pub offset: i64,
    /// When it was published, in milliseconds since the epoch, where the broker says so.
    pub published_millis: Option<i64>,
    /// What it says.
    pub payload: Vec<u8>,
}

/// Reads a topic beside those who work on it: no group, nothing committed.
pub struct KafkaTail {
    consumer: StreamConsumer,
}

impl KafkaTail {
    /// Begins with what comes next, or with the oldest that the broker has.
    pub async fn open(options: &KafkaOptions, from_beginning: bool, env: &Env) -> Result<Self, BusError> {
        let mut config = options.consumer();
        config.set("group.id", "anabranch-tail");
        let consumer: StreamConsumer = config.create().map_err(|error| away(&error))?;
        let (topic, timeout) = (options.topic.clone(), options.timeout);
        let assigned = env.blocking(move || {
            let metadata = consumer.fetch_metadata(Some(&topic), timeout).map_err(|error| away(&error))?;
            let offset = if from_beginning { Offset::Beginning } else { Offset::End };
            let mut list = TopicPartitionList::new();
            for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
                list.add_partition_offset(&topic, partition.id(), offset).map_err(|error| away(&error))?;
            }
            if list.count() == 0 {
                return Err(BusError {
                    reason: format!("there is no topic `{topic}` yet: servers and workers make it when they start"),
                });
            }
            consumer.assign(&list).map_err(|error| away(&error))?;
            Ok(consumer)
        });
        let consumer = assigned.await.ok_or_else(|| panicked("asking for the topic"))??;
        Ok(KafkaTail { consumer })
    }

    /// Waits for the next one.
    pub async fn next(&self) -> Result<Passing, BusError> {
        let message = self.consumer.recv().await.map_err(|error| away(&error))?;
        Ok(Passing {
            partition: message.partition(),
            offset: message.offset(),
            published_millis: message.timestamp().to_millis(),
            payload: message.payload().unwrap_or_default().to_vec(),
        })
    }
}

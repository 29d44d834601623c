//! The topics: made where they aren't there, and how much waits on them.

use std::{sync::Arc, time::Duration};

use anabranch_runtime::Env;
use rdkafka::{
    Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
    metadata::MetadataTopic,
};

use super::{KafkaOptions, away, panicked};
use crate::BusError;

/// Makes the topics that aren't there. Those that are need no right to make any.
pub(super) async fn provide(options: &KafkaOptions, looking: &Arc<BaseConsumer>, env: &Env) -> Result<(), BusError> {
    let mut missing = Vec::new();
    for topic in [&options.topic, &options.dead_letter_topic] {
        match partitions(topic, options.timeout, looking, env).await? {
            None => missing.push(topic),
            Some(found) => {
                let wanted = options.partitions;
                if i32::try_from(found) != Ok(wanted) {
                    tracing::info!(
                        topic,
                        found,
                        wanted,
                        "the topic is there, with another number of partitions; it is used as it is"
                    );
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let admin: AdminClient<DefaultClientContext> = options.admin().create().map_err(|error| away(&error))?;
    let replication = || TopicReplication::Fixed(options.replication);
    let new: Vec<NewTopic<'_>> =
        missing.into_iter().map(|topic| NewTopic::new(topic, options.partitions, replication())).collect();
    let limits = AdminOptions::new().request_timeout(Some(options.timeout)).operation_timeout(Some(options.timeout));
    for outcome in admin.create_topics(&new, &limits).await.map_err(|error| away(&error))? {
        let Err((topic, code)) = outcome else { continue };
        // Somebody else may have made it meanwhile, and a broker may say less of that than of rights.
        let is_there = code == RDKafkaErrorCode::TopicAlreadyExists
            || partitions(&topic, options.timeout, looking, env).await?.is_some();
        if !is_there {
            return Err(BusError { reason: format!("topic `{topic}` isn't there and can't be made: {code}") });
        }
    }
    Ok(())
}

/// How many partitions a topic has; nothing when it isn't there, or isn't for us to see.
async fn partitions(
    topic: &str,
    timeout: Duration,
    looking: &Arc<BaseConsumer>,
    env: &Env,
) -> Result<Option<usize>, BusError> {
    let (looking, name) = (looking.clone(), topic.to_owned());
    let work = move || {
        let metadata = looking.fetch_metadata(Some(&name), timeout)?;
        let found = metadata.topics().iter().map(|topic| topic.partitions().len()).find(|count| *count > 0);
        Ok::<_, KafkaError>(found)
    };
    let found = env.blocking(work).await.ok_or_else(|| panicked("asking for a topic"))?;
    found.map_err(|error| away(&error))
}

/// How many messages of a topic the group hasn't done.
pub(super) fn lag_of(consumer: &BaseConsumer, topic: &str, timeout: Duration) -> Result<u64, KafkaError> {
    let metadata = consumer.fetch_metadata(Some(topic), timeout)?;
    let mut list = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
        list.add_partition(topic, partition.id());
    }
    let mut lag = 0;
    for done in consumer.committed_offsets(list, timeout)?.elements() {
        let (first, end) = consumer.fetch_watermarks(topic, done.partition(), timeout)?;
        let done = match done.offset() {
            Offset::Offset(offset) => offset,
            _ => first,
        };
        lag += waiting(done, first, end);
    }
    Ok(lag)
}

/// What retention has taken away waits for nobody.
fn waiting(done: i64, first: i64, end: i64) -> u64 {
    u64::try_from(end - done.max(first)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_that_are_still_there_wait() {
        assert_eq!(waiting(40, 0, 100), 60);
        assert_eq!(waiting(40, 90, 100), 10, "those below 90 are gone");
        assert_eq!(waiting(100, 0, 100), 0);
        assert_eq!(waiting(120, 0, 100), 0, "the topic was made anew");
    }
}

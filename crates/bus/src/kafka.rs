//! A bus on Kafka: servers publish to a topic, workers of one group share it. A detection is committed only once it
//! and everything before it in its Kafka partition is acknowledged, so that a worker that ends leaves nothing behind.

mod options;
mod outstanding;
mod tail;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_runtime::Env;
use async_trait::async_trait;
pub use options::{KafkaOptions, TOPIC};
use outstanding::{Outstanding, Place};
use rdkafka::{
    ClientContext, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedHeaders, BorrowedMessage, DeliveryResult, Header, OwnedHeaders},
    metadata::MetadataTopic,
    producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer},
    topic_partition_list::TopicPartitionListElem,
};
pub use tail::{KafkaTail, Passing};
use tokio::sync::OnceCell;

use crate::{Bus, BusError, BusState, Delivery, Detection, Published};

/// The header of a dead letter that says why.
const REASON: &str = "reason";

/// Detections between processes, by a topic of Kafka.
pub struct KafkaBus {
    env: Env,
    options: KafkaOptions,
    producer: ThreadedProducer<Publishing>,
    publishing: Publishing,
    /// Made with the first [`Bus::receive`]: one who only publishes takes no share of the group.
    consumer: OnceCell<Arc<StreamConsumer<Receiving>>>,
    receiving: Receiving,
    /// Asks for the group's offsets without taking a share of it: a member that receives nothing would hold up the others.
    looking: Arc<BaseConsumer>,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KafkaStats {
    /// Detections that the broker has.
    pub published: u64,
    /// Detections that found no room, or waited too long for the broker.
    pub dropped: u64,
    /// Detections received.
    pub received: u64,
    /// Messages that couldn't be read.
    pub dead_letters: u64,
}

impl KafkaBus {
    /// Connects. Makes the topics that aren't there, and checks those that are.
    pub async fn connect(options: KafkaOptions, env: Env) -> Result<Self, BusError> {
        make_topics(&options).await?;
        let publishing = Publishing::default();
        let producer = options.producer().create_with_context(publishing.clone()).map_err(|error| away(&error))?;
        let looking = Arc::new(options.consumer().create().map_err(|error| away(&error))?);
        let (consumer, receiving) = (OnceCell::new(), Receiving::default());
        Ok(KafkaBus { env, options, producer, publishing, consumer, receiving, looking })
    }

    /// What has happened so far.
    pub fn stats(&self) -> KafkaStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        KafkaStats {
            published: count(&self.publishing.counts.published),
            dropped: count(&self.publishing.counts.dropped),
            received: count(&self.receiving.0.received),
            dead_letters: count(&self.receiving.0.dead_letters),
        }
    }

    /// Detections on the topic that the group hasn't done.
    pub async fn lag(&self) -> Result<u64, BusError> {
        let (looking, topic, timeout) = (self.looking.clone(), self.options.topic.clone(), self.options.timeout);
        let work = move || lag_of(&looking, &topic, timeout);
        let lag = self.env.blocking(work).await.ok_or_else(|| panicked("asking for the lag"))?;
        lag.map_err(|error| away(&error))
    }

    /// Waits until the broker has everything that was published, for a server that ends.
    pub async fn flush(&self, timeout: Duration) -> Result<(), BusError> {
        let producer = self.producer.clone();
        let flushed = self.env.blocking(move || producer.flush(timeout)).await;
        flushed.ok_or_else(|| panicked("flushing"))?.map_err(|error| away(&error))
    }

    async fn consumer(&self) -> Result<&Arc<StreamConsumer<Receiving>>, BusError> {
        let make = async || {
            let consumer: StreamConsumer<Receiving> =
                self.options.consumer().create_with_context(self.receiving.clone()).map_err(|error| away(&error))?;
            consumer.subscribe(&[&self.options.topic]).map_err(|error| away(&error))?;
            Ok(Arc::new(consumer))
        };
        self.consumer.get_or_try_init(make).await
    }

    /// Puts a message aside that can't be read. Only when the broker has it there may the original be passed over.
    async fn put_aside(&self, message: &BorrowedMessage<'_>, reason: &str) -> Result<(), BusError> {
        let header = Header { key: REASON, value: Some(reason) };
        let headers = message.headers().map_or_else(OwnedHeaders::new, BorrowedHeaders::detach);
        let topic = &self.options.dead_letter_topic;
        let opaque = Box::new(Sent::Other);
        let mut record: BaseRecord<'_, [u8], [u8], Box<Sent>> = BaseRecord::with_opaque_to(topic, opaque)
            .headers(headers.insert(header))
            .payload(message.payload().unwrap_or_default());
        if let Some(key) = message.key() {
            record = record.key(key);
        }
        self.producer.send(record).map_err(|(error, _)| away(&error))?;
        self.flush(self.options.timeout).await?;
        self.receiving.0.dead_letters.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn commit(&self, tag: u64, place: Place) -> Result<(), BusError> {
        let consumer = self.consumer().await?.clone();
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(place.offset);
        list.add_partition_offset(&self.options.topic, place.partition, offset).map_err(|error| away(&error))?;
        // Waited for: an asynchronous commit that fails says nothing.
        let committed = self.env.blocking(move || consumer.commit(&list, CommitMode::Sync)).await;
        let committed =
            committed.ok_or_else(|| panicked("committing")).and_then(|done| done.map_err(|error| away(&error)));
        match &committed {
            Ok(()) => self.receiving.outstanding().committed(tag),
            Err(_) => self.receiving.outstanding().not_committed(place),
        }
        committed
    }
}

#[async_trait]
impl Bus for KafkaBus {
    fn publish(&self, detection: Detection) -> Published {
        if !self.publishing.under_way().insert(detection.clone()) {
            return Published::Merged;
        }
        let (key, json) = (key_of(&detection), detection.to_json());
        let opaque = Box::new(Sent::Detection(detection));
        let record = BaseRecord::with_opaque_to(&self.options.topic, opaque).key(&key).payload(&json);
        match self.producer.send(record) {
            Ok(()) => Published::Accepted,
            Err((_, record)) => {
                self.publishing.lost(&record.delivery_opaque);
                Published::Dropped
            }
        }
    }

    async fn receive(&self) -> Result<Delivery, BusError> {
        let consumer = self.consumer().await?;
        loop {
            let message = consumer.recv().await.map_err(|error| away(&error))?;
            let place = Place { partition: message.partition(), offset: message.offset() };
            match Detection::from_json(message.payload().unwrap_or_default()) {
                Ok(detection) => {
                    let tag = self.receiving.outstanding().received(place);
                    self.receiving.0.received.fetch_add(1, Ordering::Relaxed);
                    return Ok(Delivery { detection, tag });
                }
                Err(error) => {
                    self.put_aside(&message, &error.to_string()).await?;
                    let tag = self.receiving.outstanding().received(place);
                    self.acknowledge_tag(tag).await?;
                }
            }
        }
    }

    async fn acknowledge(&self, delivery: &Delivery) -> Result<(), BusError> {
        self.acknowledge_tag(delivery.tag).await
    }

    fn reaches_others(&self) -> bool {
        true
    }

    async fn state(&self) -> Result<BusState, BusError> {
        let KafkaStats { dropped, dead_letters, .. } = self.stats();
        Ok(BusState { waiting: self.lag().await?, dropped, dead_letters })
    }

    async fn close(&self) {
        // What the broker doesn't take is seen again by the next read.
        let _ = self.flush(self.options.timeout).await;
    }
}

impl KafkaBus {
    async fn acknowledge_tag(&self, tag: u64) -> Result<(), BusError> {
        let done = self.receiving.outstanding().acknowledged(tag);
        match done {
            Some(place) => self.commit(tag, place).await,
            None => Ok(()),
        }
    }
}

/// The same partition of the store, the same partition of the topic.
fn key_of(detection: &Detection) -> String {
    let Detection { namespace, time_slice, time_series_id, time_bucket, event_bucket, .. } = detection;
    format!("{namespace}/{time_slice}/{time_series_id}/{time_bucket}/{event_bucket}")
}

async fn make_topics(options: &KafkaOptions) -> Result<(), BusError> {
    let admin: AdminClient<DefaultClientContext> = options.admin().create().map_err(|error| away(&error))?;
    let topics = [&options.topic, &options.dead_letter_topic];
    let new =
        topics.map(|topic| NewTopic::new(topic, options.partitions, TopicReplication::Fixed(options.replication)));
    let limits = AdminOptions::new().request_timeout(Some(options.timeout)).operation_timeout(Some(options.timeout));
    for outcome in admin.create_topics(&new, &limits).await.map_err(|error| away(&error))? {
        match outcome {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                return Err(BusError { reason: format!("topic `{topic}` isn't there and can't be made: {code}") });
            }
        }
    }
    Ok(())
}

fn lag_of(consumer: &BaseConsumer, topic: &str, timeout: Duration) -> Result<u64, KafkaError> {
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
        lag += u64::try_from(end - done).unwrap_or(0);
    }
    Ok(lag)
}

fn away(error: &KafkaError) -> BusError {
    BusError { reason: error.to_string() }
}

fn panicked(what: &str) -> BusError {
    BusError { reason: format!("{what} panicked") }
}

/// What a message of ours was.
#[derive(Debug)]
enum Sent {
    Detection(Detection),
    Other,
}

/// The publishing side, told by the broker's answers.
#[derive(Clone, Default)]
struct Publishing {
    counts: Arc<PublishCounts>,
    under_way: Arc<Mutex<BTreeSet<Detection>>>,
}

#[derive(Default)]
struct PublishCounts {
    published: AtomicU64,
    dropped: AtomicU64,
}

impl Publishing {
    fn under_way(&self) -> MutexGuard<'_, BTreeSet<Detection>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self, sent: &Sent) {
        if let Sent::Detection(detection) = sent {
            self.under_way().remove(detection);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl ClientContext for Publishing {}

impl ProducerContext for Publishing {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        match (result, &*sent) {
            (Ok(_), Sent::Detection(detection)) => {
                self.under_way().remove(detection);
                self.counts.published.fetch_add(1, Ordering::Relaxed);
            }
            (Ok(_), Sent::Other) => {}
            (Err(_), sent) => self.lost(sent),
        }
    }
}

/// The receiving side, told when partitions come and go.
#[derive(Clone, Default)]
struct Receiving(Arc<ReceiveState>);

#[derive(Default)]
struct ReceiveState {
    outstanding: Mutex<Outstanding>,
    received: AtomicU64,
    dead_letters: AtomicU64,
}

impl Receiving {
    fn outstanding(&self) -> MutexGuard<'_, Outstanding> {
        self.0.outstanding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Receiving {}

impl ConsumerContext for Receiving {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            self.outstanding().revoked(partitions.elements().iter().map(TopicPartitionListElem::partition));
        }
    }
}

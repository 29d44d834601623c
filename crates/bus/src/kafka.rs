//! A bus on Kafka: servers publish to a topic, workers of one group share it. A detection is committed only once it
//! and everything before it in its Kafka partition is acknowledged, so that a worker that ends leaves nothing behind.

mod letter;
mod options;
mod outstanding;
mod publishing;
mod tail;
mod topics;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_runtime::Env;
use async_trait::async_trait;
use letter::{Letter, is_too_large};
pub use options::{KafkaOptions, TOPIC, Unusable};
use outstanding::{Outstanding, Place};
use publishing::{Publishing, Sent};
use rdkafka::{
    ClientContext, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer},
    error::KafkaError,
    message::BorrowedMessage,
    producer::{BaseRecord, Producer, ThreadedProducer},
    topic_partition_list::TopicPartitionListElem,
};
pub use tail::{KafkaTail, Passing};
use tokio::sync::{OnceCell, oneshot};

use crate::{Bus, BusError, BusLosses, Delivery, Detection, Published};

/// How long new messages are looked for before what is held comes again.
const LOOK: Duration = Duration::from_millis(100);
/// What is held comes again after so long also where new messages never end.
const HELD_WAITS: Duration = Duration::from_secs(1);

/// Detections between processes, by a topic of Kafka.
pub struct KafkaBus {
    env: Env,
    options: KafkaOptions,
    producer: ThreadedProducer<Publishing>,
    publishing: Publishing,
    /// Set once the topics are there.
    topics: OnceCell<()>,
    /// Made with the first [`Bus::receive`]: one who only publishes takes no share of the group.
    consumer: OnceCell<Arc<StreamConsumer<Receiving>>>,
    receiving: Receiving,
    /// What can't be read and isn't put aside yet.
    letters: tokio::sync::Mutex<VecDeque<Letter>>,
    turns: Mutex<Turns>,
    /// Asks for the group's offsets without taking a share of it: a member that receives nothing would hold up the others.
    looking: Arc<BaseConsumer>,
}

/// Whose turn it is to be received.
#[derive(Default)]
struct Turns {
    /// When something that was held came last.
    held_came: Option<Duration>,
    /// What was read from the topic, and comes behind what was held.
    next: Option<Delivery>,
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
    /// Needs no broker: what is published waits for one, and the topics are looked at when one is asked for anything.
    pub fn open(options: KafkaOptions, env: Env) -> Result<Self, Unusable> {
        let publishing = Publishing::default();
        let producer =
            options.producer().create_with_context(publishing.clone()).map_err(|error| Unusable::new(&error))?;
        let looking = Arc::new(options.consumer().create().map_err(|error| Unusable::new(&error))?);
        Ok(KafkaBus {
            env,
            options,
            producer,
            publishing,
            topics: OnceCell::new(),
            consumer: OnceCell::new(),
            receiving: Receiving::default(),
            letters: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
            looking,
        })
    }

    /// Connects. Makes the topics that aren't there.
    pub async fn connect(options: KafkaOptions, env: Env) -> Result<Self, BusError> {
        let bus = KafkaBus::open(options, env).map_err(|unusable| BusError { reason: unusable.to_string() })?;
        bus.topics().await?;
        Ok(bus)
    }

    async fn topics(&self) -> Result<(), BusError> {
        let provide = || topics::provide(&self.options, &self.looking, &self.env);
        self.topics.get_or_try_init(provide).await.copied()
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
        let work = move || topics::lag_of(&looking, &topic, timeout);
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

    /// What comes next, as far as it can be read.
    async fn take(&self, message: &BorrowedMessage<'_>) -> Result<Option<Delivery>, BusError> {
        let place = Place { partition: message.partition(), offset: message.offset() };
        // Outstanding from now on, whatever happens: no commit passes over it.
        let tag = self.receiving.outstanding().received(place);
        match Detection::from_json(message.payload().unwrap_or_default()) {
            Ok(detection) => {
                self.receiving.0.received.fetch_add(1, Ordering::Relaxed);
                Ok(Some(Delivery { detection, tag }))
            }
            Err(error) => {
                let letter = Letter::new(message, tag, place, error.to_string());
                self.letters.lock().await.push_back(letter);
                self.put_letters_aside().await?;
                Ok(None)
            }
        }
    }

    /// Puts aside what can't be read. What fails is tried again while nothing new comes, and now and then.
    async fn put_letters_aside(&self) -> Result<(), BusError> {
        let mut letters = self.letters.lock().await;
        while let Some(letter) = letters.front_mut() {
            // Otherwise it went to another worker, which puts it aside.
            if self.receiving.outstanding().is_open(letter.tag) {
                if !letter.is_aside {
                    self.put_aside(letter).await?;
                }
                self.acknowledge_tag(letter.tag).await?;
            }
            letters.pop_front();
        }
        Ok(())
    }

    /// Waits for the broker's word: that it was sent says nothing.
    async fn put_aside(&self, letter: &mut Letter) -> Result<(), BusError> {
        while !letter.is_aside {
            let outcome = match self.send_letter(letter) {
                Ok(told) => {
                    // It stays under way when the broker takes longer, and isn't sent a second time.
                    let told = self.env.timeout(self.options.timeout, told).await;
                    let told = told.map_err(|_| letter_fails("the broker hasn't answered yet"))?;
                    told.map_err(|_| letter_fails("it was let go of"))?
                }
                Err(error) => Err(error),
            };
            letter.under_way = None;
            match outcome {
                Ok(()) => letter.is_aside = true,
                Err(error) if is_too_large(&error) => {
                    if !letter.shrink() {
                        let Place { partition, offset } = letter.place;
                        tracing::error!(partition, offset, %error, "a message that can't be read is passed over");
                        letter.is_aside = true;
                    }
                }
                Err(error) => return Err(letter_fails(&error.to_string())),
            }
        }
        self.receiving.0.dead_letters.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a letter, unless it is on its way.
    fn send_letter<'a>(
        &self,
        letter: &'a mut Letter,
    ) -> Result<&'a mut oneshot::Receiver<Result<(), KafkaError>>, KafkaError> {
        if letter.under_way.is_none() {
            let (tell, told) = oneshot::channel();
            let record = letter.record(&self.options.dead_letter_topic, Sent::Letter(tell));
            self.producer.send(record).map_err(|(error, _)| error)?;
            letter.under_way = Some(told);
        }
        Ok(letter.under_way.as_mut().expect("it was just sent"))
    }

    /// Stops those partitions of which something is held, and lets the others go on. Whether anything is held.
    async fn settle(&self, consumer: &StreamConsumer<Receiving>) -> bool {
        let mut held = self.receiving.outstanding().returned_from();
        held.extend(self.letters.lock().await.iter().map(|letter| letter.place.partition));
        let mut stopped = self.receiving.0.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let freed: Vec<i32> = stopped.difference(&held).copied().collect();
        // Where it fails, the partition isn't this worker's any more.
        if !freed.is_empty() {
            let _ = consumer.resume(&self.list(freed));
        }
        if !held.is_empty() {
            let _ = consumer.pause(&self.list(held.iter().copied()));
        }
        stopped.clone_from(&held);
        !held.is_empty()
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something that is held comes next: when nothing else does, or nothing of it came for long.
    fn is_time_for_held(&self, nothing_else: bool) -> bool {
        let (now, mut turns) = (self.env.monotonic(), self.turns());
        let waited = now.saturating_sub(*turns.held_came.get_or_insert(now));
        let is_time = nothing_else || waited >= HELD_WAITS;
        if is_time {
            turns.held_came = Some(now);
        }
        is_time
    }

    fn list(&self, partitions: impl IntoIterator<Item = i32>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&self.options.topic, partition);
        }
        list
    }

    async fn commit(&self, tag: u64, place: Place) -> Result<(), BusError> {
        let consumer = self.consumer().await?.clone();
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(place.offset);
        list.add_partition_offset(&self.options.topic, place.partition, offset).map_err(|error| away(&error))?;
        // Waited for: an asynchronous commit that fails says nothing.
        let work = self.env.blocking(move || consumer.commit(&list, CommitMode::Sync));
        let committed = match self.env.timeout(self.options.timeout, work).await {
            Ok(Some(done)) => done.map_err(|error| away(&error)),
            Ok(None) => Err(panicked("committing")),
            Err(_) => Err(BusError { reason: "the broker doesn't answer a commit".to_owned() }),
        };
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
        if !self.publishing.begins(&detection) {
            return Published::Merged;
        }
        let (key, json) = (key_of(&detection), detection.to_json());
        let opaque = Box::new(Sent::Detection(detection));
        let record = BaseRecord::with_opaque_to(&self.options.topic, opaque).key(&key).payload(&json);
        match self.producer.send(record) {
            Ok(()) => Published::Accepted,
            Err((error, record)) => {
                self.publishing.ended(*record.delivery_opaque, Err(error));
                Published::Dropped
            }
        }
    }

    async fn receive(&self) -> Result<Delivery, BusError> {
        self.topics().await?;
        let consumer = self.consumer().await?;
        loop {
            if let Some(next) = self.turns().next.take().filter(|next| self.receiving.outstanding().is_open(next.tag)) {
                return Ok(next);
            }
            // Whatever is held, the consumer is asked first: only that keeps its place in the group, and tells what it lost.
            let holds = self.settle(consumer).await;
            let message =
                if holds { self.env.timeout(LOOK, consumer.recv()).await.ok() } else { Some(consumer.recv().await) };
            let message = message.transpose().map_err(|error| away(&error))?;
            let comes_again = holds && self.is_time_for_held(message.is_none());
            if let Some(message) = message
                && let Some(delivery) = self.take(&message).await?
            {
                if !comes_again {
                    return Ok(delivery);
                }
                self.turns().next = Some(delivery);
            }
            if comes_again {
                let returned = self.receiving.outstanding().take_returned();
                if let Some(delivery) = returned {
                    return Ok(delivery);
                }
                self.put_letters_aside().await?;
            }
        }
    }

    async fn acknowledge(&self, delivery: &Delivery) -> Result<(), BusError> {
        self.acknowledge_tag(delivery.tag).await
    }

    fn give_back(&self, delivery: Delivery) {
        self.receiving.outstanding().give_back(delivery);
    }

    fn reaches_others(&self) -> bool {
        true
    }

    async fn waiting(&self) -> Result<u64, BusError> {
        self.topics().await?;
        self.lag().await
    }

    fn losses(&self) -> BusLosses {
        let KafkaStats { dropped, dead_letters, .. } = self.stats();
        BusLosses { dropped, dead_letters }
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

fn away(error: &KafkaError) -> BusError {
    BusError { reason: error.to_string() }
}

fn letter_fails(why: &str) -> BusError {
    BusError { reason: format!("a message that can't be read can't be put aside: {why}") }
}

fn panicked(what: &str) -> BusError {
    BusError { reason: format!("{what} panicked") }
}

/// The receiving side, told when partitions come and go.
#[derive(Clone, Default)]
struct Receiving(Arc<ReceiveState>);

#[derive(Default)]
struct ReceiveState {
    outstanding: Mutex<Outstanding>,
    /// Partitions of which nothing is asked for, since something of them is held.
    stopped: Mutex<BTreeSet<i32>>,
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

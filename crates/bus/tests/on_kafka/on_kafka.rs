//! What a bus must do, kept on a real broker. All but the crash share one, each test with topics of its own.

use std::{
    collections::BTreeSet,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anabranch_bus::{Bus, BusError, Delivery, Detection, KafkaBus, KafkaOptions, Published};
use anabranch_runtime::Env;
use anabranch_testbed::Kafka;
use rdkafka::{
    ClientConfig, Message,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    message::Headers,
    producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer},
};

static BROKER: OnceLock<Kafka> = OnceLock::new();
static TOPICS: AtomicU32 = AtomicU32::new(0);
const PATIENCE: Duration = Duration::from_secs(60);

/// Topics and a group that no other test has.
async fn options() -> KafkaOptions {
    let start = || BROKER.get_or_init(|| Kafka::start().unwrap_or_else(|error| panic!("{error}"))).address();
    let address = Env::system().blocking(start).await.expect("the broker starts");
    options_at(&address.to_string())
}

fn options_at(address: &str) -> KafkaOptions {
    let mut options = KafkaOptions::new([address]);
    let number = TOPICS.fetch_add(1, Ordering::Relaxed);
    options.topic = format!("detections{number}");
    options.dead_letter_topic = format!("detections{number}.dead");
    options.group = format!("group{number}");
    options.partitions = 4;
    options
}

async fn connect(options: &KafkaOptions) -> KafkaBus {
    KafkaBus::connect(options.clone(), Env::system()).await.unwrap()
}

fn detection(time_bucket: u32) -> Detection {
    let text = format!(
        r#"{{"namespace":"plays","time_slice":"data_20260328","time_series_id":"profileId:123","time_bucket":{time_bucket},"event_bucket":2,"immutable":true,"version":"0"}}"#
    );
    Detection::from_json(text.as_bytes()).unwrap()
}

/// What a worker does with a broker that is loading, electing or sharing out anew: it asks again.
async fn patiently<T>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T, BusError>) -> T {
    let (env, mut last) = (Env::system(), None);
    let begun = env.monotonic();
    while env.monotonic() - begun < PATIENCE {
        match env.timeout(PATIENCE, attempt()).await {
            Ok(Ok(done)) => return done,
            Ok(Err(error)) => last = Some(error),
            Err(_) => break,
        }
    }
    panic!("{what}: never within {PATIENCE:?}, the last error is {last:?}")
}

async fn next(bus: &KafkaBus) -> Delivery {
    patiently("receiving", async || bus.receive().await).await
}

async fn lag(bus: &KafkaBus) -> u64 {
    patiently("asking for the lag", async || bus.lag().await).await
}

async fn acknowledge(bus: &KafkaBus, delivery: &Delivery) {
    patiently("acknowledging", async || bus.acknowledge(delivery).await).await;
}

/// Receives until nothing is missing; acknowledges all of it. A detection may come more than once.
async fn receive_all(bus: &KafkaBus, mut missing: BTreeSet<u32>) {
    while !missing.is_empty() {
        let delivery = next(bus).await;
        missing.remove(&delivery.detection.time_bucket);
        acknowledge(bus, &delivery).await;
    }
}

/// The first message of a topic, as anyone would read it: key, payload, header `reason`.
fn first_message(options: &KafkaOptions, topic: &str) -> (String, Vec<u8>, Option<String>) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", options.brokers.join(",")).set("group.id", format!("onlooker of {topic}"));
    let consumer: BaseConsumer = config.set("auto.offset.reset", "earliest").create().unwrap();
    consumer.subscribe(&[topic]).unwrap();
    // A poll may come back early, with nothing but news of the group.
    let polls = std::iter::repeat_with(|| consumer.poll(PATIENCE / 60)).take(60);
    let message = polls.flatten().next().expect("a message is there").unwrap();
    let reason = message.headers().and_then(|headers| {
        let found = headers.iter().find(|header| header.key == "reason")?;
        Some(String::from_utf8(found.value?.to_vec()).unwrap())
    });
    let key = String::from_utf8(message.key().unwrap_or_default().to_vec()).unwrap();
    (key, message.payload().unwrap_or_default().to_vec(), reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detection_goes_over_the_wire_as_documented_and_keyed_by_its_partition() {
    let options = options().await;
    let bus = connect(&options).await;
    assert_eq!(bus.publish(detection(7)), Published::Accepted);
    bus.flush(PATIENCE).await.unwrap();
    let (key, payload, _) = first_message(&options, &options.topic);
    assert_eq!(key, "plays/data_20260328/profileId:123/7/2");
    assert_eq!(payload, detection(7).to_json());
    assert_eq!(next(&bus).await.detection, detection(7));
    assert_eq!(bus.stats().published, 1);
}

/// A worker that ends before the work is recorded leaves it to the next one; what is recorded doesn't come again.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_acknowledged_comes_again_to_the_next_worker() {
    let options = options().await;
    let first = connect(&options).await;
    for bucket in 0..20 {
        assert_eq!(first.publish(detection(bucket)), Published::Accepted);
    }
    let (mut done, mut open) = (BTreeSet::new(), BTreeSet::new());
    while done.len() + open.len() < 20 {
        let delivery = next(&first).await;
        let bucket = delivery.detection.time_bucket;
        if bucket.is_multiple_of(2) {
            acknowledge(&first, &delivery).await;
            done.insert(bucket);
        } else {
            open.insert(bucket);
        }
    }
    assert_eq!(open.len(), 10);
    assert!(lag(&first).await >= 10, "what is open isn't done");
    drop(first);
    let second = connect(&options).await;
    receive_all(&second, open).await;
    // What the first had done behind something open comes again too, in any order among the topic's partitions.
    while lag(&second).await > 0 {
        let delivery = next(&second).await;
        acknowledge(&second, &delivery).await;
    }

    drop(second);
    let third = connect(&options).await;
    assert_eq!(third.publish(detection(100)), Published::Accepted);
    let only = next(&third).await;
    assert_eq!(only.detection, detection(100), "what is recorded came again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_can_not_be_read_is_put_aside_with_the_reason() {
    let options = options().await;
    let bus = connect(&options).await;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", options.brokers.join(","));
    let stranger: ThreadedProducer<DefaultProducerContext> = config.create().unwrap();
    let bad = BaseRecord::to(&options.topic).key("who").payload("{\"version\":\"9\"}").partition(0);
    stranger.send(bad).map_err(|(error, _)| error).unwrap();
    stranger.flush(PATIENCE).unwrap();
    bus.publish(detection(1));
    assert_eq!(next(&bus).await.detection, detection(1));
    // It lies in another partition, so it may come later.
    for bucket in 2..1000 {
        if bus.stats().dead_letters > 0 {
            break;
        }
        bus.publish(detection(bucket));
        next(&bus).await;
    }
    assert_eq!(bus.stats().dead_letters, 1);
    let (key, payload, reason) = first_message(&options, &options.dead_letter_topic);
    assert_eq!((key.as_str(), &payload[..]), ("who", &b"{\"version\":\"9\"}"[..]));
    let reason = reason.expect("the reason is a header");
    assert!(reason.contains("not a detection event"), "{reason}");
}

/// What a producer of somebody else's puts on the topic.
fn send_unreadable(options: &KafkaOptions, bytes: usize) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", options.brokers.join(",")).set("message.max.bytes", "2000000");
    let stranger: ThreadedProducer<DefaultProducerContext> = config.create().unwrap();
    let payload = "x".repeat(bytes);
    let record = BaseRecord::<str, str>::to(&options.topic).payload(&payload).partition(0);
    stranger.send(record).map_err(|(error, _)| error).unwrap();
    stranger.flush(PATIENCE).unwrap();
}

/// Receives, though nothing that can be read comes, until so many messages were put aside and all is done.
async fn put_aside(bus: &KafkaBus, letters: u64) {
    let env = Env::system();
    let begun = env.monotonic();
    while bus.stats().dead_letters < letters || lag(bus).await > 0 {
        let _ = env.timeout(Duration::from_secs(1), bus.receive()).await;
        assert!(env.monotonic() - begun < PATIENCE, "{:?}", bus.stats());
    }
}

/// Brokers take 1,048,588 bytes at a time, producers a few less: such a message is neither lost nor in the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_can_not_be_read_is_put_aside_however_large_it_is() {
    for (bytes, kept) in [(1_020_000, 1_020_000), (1_048_480, 65_536)] {
        let options = options().await;
        let bus = connect(&options).await;
        send_unreadable(&options, bytes);
        put_aside(&bus, 1).await;
        let (_, payload, reason) = first_message(&options, &options.dead_letter_topic);
        assert_eq!(payload.len(), kept, "of {bytes} bytes");
        assert!(reason.is_some_and(|reason| reason.contains("not a detection event")));
    }
}

/// Where dead letters can't be written, what can't be read stays where it is, and what can be read is still delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_passed_over_only_when_it_was_put_aside() {
    let mut options = options().await;
    options.timeout = Duration::from_secs(5);
    let bus = connect(&options).await;
    let mut config = ClientConfig::new();
    let admin: AdminClient<DefaultClientContext> =
        config.set("bootstrap.servers", options.brokers.join(",")).create().unwrap();
    let (dead, limits) = (options.dead_letter_topic.as_str(), AdminOptions::new());
    admin.delete_topics(&[dead], &limits).await.unwrap()[0].as_ref().unwrap();

    send_unreadable(&options, 10);
    let mut missing: BTreeSet<u32> = (0..40).collect();
    for bucket in &missing {
        bus.publish(detection(*bucket));
    }
    bus.flush(PATIENCE).await.unwrap();
    let (env, mut failed) = (Env::system(), false);
    // Those in the same partition may have to wait.
    while !failed || missing.len() > 30 {
        match env.timeout(PATIENCE, bus.receive()).await.expect("it says something") {
            Ok(delivery) => {
                missing.remove(&delivery.detection.time_bucket);
                acknowledge(&bus, &delivery).await;
            }
            Err(error) => failed |= error.reason.contains("can't be put aside"),
        }
    }
    assert_eq!(bus.stats().dead_letters, 0);
    assert!(lag(&bus).await > 0, "it was passed over");

    let new = NewTopic::new(dead, 1, TopicReplication::Fixed(1));
    let made = admin.create_topics(&[new], &limits).await.unwrap();
    assert!(made[0].is_ok(), "{made:?}");
    receive_all(&bus, missing).await;
    put_aside(&bus, 1).await;
    assert_eq!(first_message(&options, dead).1, b"xxxxxxxxxx");
}

/// A store that is away for a while, and then isn't.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again_and_counts_as_open_until_it_is_acknowledged() {
    let options = options().await;
    let bus = connect(&options).await;
    for bucket in 0..20 {
        bus.publish(detection(bucket));
    }
    bus.flush(PATIENCE).await.unwrap();
    for _ in 0..60 {
        let delivery = next(&bus).await;
        bus.give_back(delivery);
    }
    assert_eq!(lag(&bus).await, 20);
    assert!(bus.stats().received <= 20 + 1, "its partitions are stopped: {:?}", bus.stats());
    receive_all(&bus, (0..20).collect()).await;
    while lag(&bus).await > 0 {
        let delivery = next(&bus).await;
        acknowledge(&bus, &delivery).await;
    }
}

/// A store that was away for a moment, while detections keep coming.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again_also_where_new_detections_never_end() {
    let options = options().await;
    let bus = connect(&options).await;
    bus.publish(detection(0));
    let held = next(&bus).await;
    bus.give_back(held);
    for bucket in 1..3000 {
        bus.publish(detection(bucket));
    }
    bus.flush(PATIENCE).await.unwrap();
    for bucket in 3000..30_000 {
        let delivery = next(&bus).await;
        acknowledge(&bus, &delivery).await;
        if delivery.detection.time_bucket == 0 {
            return;
        }
        bus.publish(detection(bucket));
    }
    panic!("all others came before it");
}

/// Brokers make topics that are written to, with one partition, unless they are told not to.
#[tokio::test(flavor = "multi_thread")]
async fn topics_that_are_not_there_are_made_as_the_options_say_and_not_by_the_broker() {
    let options = options().await;
    let bus = KafkaBus::open(options.clone(), Env::system()).unwrap();
    bus.publish(detection(1));
    assert!(bus.flush(Duration::from_secs(3)).await.is_err(), "nobody has made a topic");
    patiently("making topics", async || bus.waiting().await).await;
    bus.flush(PATIENCE).await.unwrap();
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", options.brokers.join(",")).create().unwrap();
    let metadata = consumer.fetch_metadata(Some(&options.topic), PATIENCE).unwrap();
    assert_eq!(metadata.topics()[0].partitions().len(), 4);
}

/// One that was held up for longer than the group waits gets back in by receiving, and what it held doesn't hang.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_place_in_the_group_works_on() {
    let mut options = options().await;
    options.partitions = 1;
    options.settings.insert("max.poll.interval.ms".to_owned(), "6000".to_owned());
    let (slow, other) = (connect(&options).await, connect(&options).await);
    slow.publish(detection(1));
    let held = next(&slow).await;
    // It comes to the other one only once the first is out.
    let taken = next(&other).await;
    assert_eq!(taken.detection, held.detection);
    drop(other);
    let given = match slow.acknowledge(&held).await {
        Ok(()) => None,
        Err(_) => {
            slow.give_back(held);
            Some(1)
        }
    };
    slow.publish(detection(2));
    receive_all(&slow, given.into_iter().chain([2]).collect()).await;
    while lag(&slow).await > 0 {
        let delivery = next(&slow).await;
        acknowledge(&slow, &delivery).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_are_there_are_used_as_they_are() {
    let mut options = options().await;
    let first = connect(&options).await;
    options.partitions = 9;
    options.replication = 7; // can't be made so
    let second = connect(&options).await;
    second.publish(detection(1));
    assert_eq!(next(&first).await.detection, detection(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_can_never_work_are_told_without_a_broker() {
    let refused = |name: &str, value: &str| {
        let mut options = KafkaOptions::new(["127.0.0.1:1"]);
        options.settings.insert(name.to_owned(), value.to_owned());
        KafkaBus::open(options, Env::system()).err().expect("it is refused").to_string()
    };
    assert!(refused("sesion.timeout.ms", "1").contains("sesion.timeout.ms"));
    assert!(refused("session.timeout.ms", "soon").contains("session.timeout.ms"));
    assert!(refused("security.protocol", "SASL_PLAINTEXT").contains("GSSAPI"));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_a_group_share_and_take_over_from_one_that_ends() {
    let options = options().await;
    let (publisher, one, other) = (connect(&options).await, connect(&options).await, connect(&options).await);
    let env = Env::system();
    for bucket in 0..40 {
        publisher.publish(detection(bucket));
    }
    // Both are in the group; one ends with everything that it received still open.
    next(&one).await;
    let left = env.timeout(Duration::from_secs(5), other.receive()).await;
    drop(one);
    let mut missing: BTreeSet<u32> = (0..40).collect();
    if let Ok(Ok(delivery)) = left {
        missing.remove(&delivery.detection.time_bucket);
    }
    // All the rest, and so also what the first one had taken and never acknowledged.
    receive_all(&other, missing).await;
}

/// A broker that is away delays detections and never whoever publishes them.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_delays_detection_and_nobody_else() {
    let env = Env::system();
    let started = env.blocking(Kafka::start).await.expect("no panic");
    let mut broker = started.unwrap_or_else(|error| panic!("{error}"));
    let mut options = options_at(&broker.address().to_string());
    options.capacity = 100;
    let bus = connect(&options).await;
    bus.publish(detection(0));
    bus.flush(PATIENCE).await.unwrap();
    broker.process().kill().unwrap();

    let begun = env.monotonic();
    let outcomes: Vec<Published> = (1..=200).map(|bucket| bus.publish(detection(bucket))).collect();
    assert!(env.monotonic() - begun < Duration::from_secs(1), "publishing waited");
    let accepted = outcomes.iter().filter(|outcome| **outcome == Published::Accepted).count();
    assert_eq!(accepted, 100, "as many as there is room for");
    assert!(outcomes[100..].iter().all(|outcome| *outcome == Published::Dropped));
    assert_eq!(bus.publish(Detection { bytes_seen: Some(9), ..detection(1) }), Published::Merged);
    assert_eq!(bus.losses().dropped, 100, "it is told also while nobody answers");

    let restart = move || {
        broker.restart().unwrap_or_else(|error| panic!("{error}"));
        broker
    };
    let _broker = env.blocking(restart).await.expect("the broker comes back");
    receive_all(&bus, (0..=100).collect()).await;
}

/// Names and passwords go to the broker as the settings say; without them, or with wrong ones, nothing goes through.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_wants_a_password_gets_it_from_the_settings() {
    let env = Env::system();
    let started = env.blocking(|| Kafka::start_with_user("anabranch", "water")).await.expect("no panic");
    let broker = started.unwrap_or_else(|error| panic!("{error}"));
    let mut options = options_at(&broker.address().to_string());
    options.timeout = Duration::from_secs(5);
    let nobody = KafkaBus::connect(options.clone(), env.clone()).await;
    assert!(nobody.is_err(), "nobody is let in without a name");
    let login = |password: &str| {
        let login = [
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "anabranch"),
            ("sasl.password", password),
        ];
        login.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    options.settings = login("fire");
    let stranger = KafkaBus::connect(options.clone(), env.clone()).await;
    assert!(stranger.is_err(), "nobody is let in with a wrong password");
    options.settings = login("water");
    options.timeout = Duration::from_secs(30);
    let bus = connect(&options).await;
    bus.publish(detection(1));
    assert_eq!(next(&bus).await.detection, detection(1));
}

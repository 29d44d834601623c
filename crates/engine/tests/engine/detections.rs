//! Detections from the bus become records, whatever fails on the way; the bus is never left waiting for long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_bus::{Bus, BusError, Delivery, Detection, LocalBus, Published};
use anabranch_engine::{Engine, EngineOptions, SplitSelection};
use anabranch_model::{NamespaceName, Timestamp};
use anabranch_runtime::run_simulated;
use anabranch_store::{MemoryStore, MetaKey, Store};
use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    fixture::{START, World},
    slow_store::Slow,
    splits::config,
};

const WHILE: Duration = Duration::from_secs(20);

/// A bus that counts how often it is asked, and doesn't take the first acknowledgements.
struct Counted {
    inner: LocalBus,
    asked: AtomicU64,
    refusals: AtomicU64,
}

#[async_trait]
impl Bus for Counted {
    fn publish(&self, detection: Detection) -> Published {
        self.inner.publish(detection)
    }

    async fn receive(&self) -> Result<Delivery, BusError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.inner.receive().await
    }

    async fn acknowledge(&self, delivery: &Delivery) -> Result<(), BusError> {
        let fewer = |left: u64| left.checked_sub(1);
        if self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok() {
            return Err(BusError { reason: "on purpose".to_owned() });
        }
        self.inner.acknowledge(delivery).await
    }

    fn give_back(&self, delivery: Delivery) {
        self.inner.give_back(delivery);
    }
}

impl Counted {
    fn new() -> Arc<Self> {
        let (asked, refusals) = (AtomicU64::default(), AtomicU64::default());
        Arc::new(Counted { inner: LocalBus::new(10), asked, refusals })
    }
}

/// Runs a test on an engine with a namespace, and the table of a slice of it.
fn run<F: Future<Output = ()>>(test: impl FnOnce(World, Arc<Slow>, Arc<Counted>, String) -> F) {
    run_simulated(7, Timestamp::from_seconds(START), |env| async move {
        let store = Arc::new(MemoryStore::new(env.clone()));
        let (slow, bus) = (Slow::new(store.clone(), env.clone()), Counted::new());
        let engine = Engine::start_on(slow.clone(), bus.clone(), env.node(0), EngineOptions::default()).await.unwrap();
        let world = World { env, store, engine };
        world.namespace(config()).await;
        let table = slice_of(&world.store).await;
        test(world, slow, bus, table).await;
    });
}

/// The table of a slice.
async fn slice_of(store: &MemoryStore) -> String {
    let tables = store.tables().await.unwrap();
    tables.into_iter().map(|table| table.table).find(|name| name.starts_with("data_")).unwrap()
}

fn detection(table: &str, series: &str) -> Detection {
    let text = format!(
        r#"{{"namespace":"plays","time_slice":"{table}","time_series_id":"{series}","time_bucket":0,"event_bucket":0,"immutable":true,"version":"0"}}"#
    );
    Detection::from_json(text.as_bytes()).unwrap()
}

/// A bus whose receiver holds on to a detection takes it for dead, and gives its place to another.
#[test]
fn the_bus_is_asked_on_while_the_store_is_away_and_nothing_is_lost() {
    run(|world, slow, bus, table| async move {
        slow.records_are_away.store(true, Ordering::Relaxed);
        for series in ["a", "b"] {
            bus.publish(detection(&table, series));
        }
        let before = bus.asked.load(Ordering::Relaxed);
        world.env.sleep(WHILE).await;
        assert!(bus.asked.load(Ordering::Relaxed) >= before + 5);
        assert_eq!(bus.inner.len(), 2, "neither is acknowledged");
        slow.records_are_away.store(false, Ordering::Relaxed);
        world.env.sleep(WHILE).await;
        assert!(bus.inner.is_empty());
        assert_eq!(world.splits().await.len(), 2);
    });
}

/// A namespace that a server doesn't know isn't gone when the server has lost touch: another may have made it meanwhile.
#[test]
fn a_detection_of_a_namespace_that_this_server_has_not_heard_of_is_not_lost() {
    run_simulated(7, Timestamp::from_seconds(START), |env| async move {
        let store = Arc::new(MemoryStore::new(env.clone()));
        let (slow, bus) = (Slow::shared(store.clone(), env.clone()), Counted::new());
        let _engine = Engine::start_on(slow.clone(), bus.clone(), env.node(0), EngineOptions::default()).await.unwrap();
        let other = Engine::start(store.clone(), env.node(0), EngineOptions::default()).await.unwrap();
        slow.list_millis.store(3_600_000, Ordering::Relaxed);
        env.sleep(WHILE).await;
        other.create_namespace(NamespaceName::new("plays").unwrap(), config()).await.unwrap();
        bus.publish(detection(&slice_of(&store).await, "a"));
        env.sleep(WHILE).await;
        assert_eq!(bus.inner.len(), 1, "it is not acknowledged");
        slow.list_millis.store(0, Ordering::Relaxed);
        env.sleep(3 * WHILE).await;
        assert!(bus.inner.is_empty());
        assert_eq!(other.split_records("plays", &SplitSelection::default()).await.unwrap().len(), 1);
    });
}

#[test]
fn a_detection_that_can_not_be_acknowledged_comes_again() {
    run(|world, _, bus, table| async move {
        bus.refusals.store(3, Ordering::Relaxed);
        let before = bus.asked.load(Ordering::Relaxed);
        bus.publish(detection(&table, "a"));
        world.env.sleep(WHILE).await;
        assert!(bus.inner.is_empty());
        assert!(bus.asked.load(Ordering::Relaxed) >= before + 4);
        assert_eq!(world.splits().await.len(), 1);
    });
}

#[test]
fn a_record_that_can_not_be_read_does_not_hold_up_other_detections() {
    run(|world, _, bus, table| async move {
        bus.publish(detection(&table, "a"));
        world.env.sleep(WHILE).await;
        let mut damaged = 0;
        for shard in 0..=255 {
            let scope = format!("wide_row/plays/{table}/{shard:02x}");
            for (name, found) in world.store.list(&scope, None, 10).await.unwrap() {
                let (key, garbage) = (MetaKey::new(&scope, name), Bytes::from_static(b"?"));
                world.store.compare_and_set(&key, Some(found.version), Some(garbage)).await.unwrap();
                damaged += 1;
            }
        }
        assert_eq!(damaged, 1);
        let failures = world.counted("anabranch_task_failures_total", "bus");
        for series in ["a", "b"] {
            assert_eq!(bus.publish(detection(&table, series)), Published::Accepted);
        }
        world.env.sleep(WHILE).await;
        assert!(bus.inner.is_empty());
        assert!(world.counted("anabranch_task_failures_total", "bus") > failures, "it is told");
    });
}

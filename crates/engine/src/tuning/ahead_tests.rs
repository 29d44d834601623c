//! T1, with writes that go on at the edge of what is accepted while settings change all the time.

use std::{sync::Arc, time::Duration};

use anabranch_model::{NamespaceConfig, NamespaceName, Slice, Slo, Timestamp};
use anabranch_runtime::{Env, run_simulated};
use anabranch_store::{MemoryStore, Store};
use bytes::Bytes;

use crate::{Engine, EngineOptions, EventInput, ItemInput, ReadRequest, TimeInput, TuningOptions, WriteRequest};

const START: i64 = 1_774_692_000;

/// A write that was acknowledged, and the slice that it reached.
struct Reached {
    series: String,
    time: Timestamp,
    slice: Slice,
}

struct World {
    env: Env,
    engines: Vec<Arc<Engine>>,
    drift: Duration,
}

fn name() -> NamespaceName {
    NamespaceName::new("plays").unwrap()
}

fn config(env: &Env) -> NamespaceConfig {
    let max = Duration::from_millis(500 + env.random_below(1500));
    NamespaceConfig {
        seconds_per_slice: 60,
        seconds_per_bucket: 10,
        accept_limit: Duration::from_secs(5),
        drift_limit: Duration::from_secs([0, 3, 25][env.random_below(3) as usize]),
        seal_margin: Duration::from_secs(5),
        slices_ahead: 1 + env.random_below(4) as u32,
        write_slo: Slo { target: max / 2, max },
        ..NamespaceConfig::default()
    }
}

impl World {
    async fn new(env: Env) -> World {
        let latency = Duration::from_millis(env.random_below(300));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.node(0)).with_sync_latency(latency));
        let options = EngineOptions {
            refresh_interval: Duration::from_millis(300 + env.random_below(700)),
            meta_timeout: Duration::from_millis(1000),
            lifecycle_interval: Duration::from_secs(1),
            tuning: TuningOptions::off(),
            ..EngineOptions::default()
        };
        let mut engines = Vec::new();
        for skew in [-200_000_000, 200_000_000] {
            engines.push(Engine::start(store.clone(), env.node(skew), options.clone()).await.unwrap());
        }
        let config = config(&env);
        let drift = config.drift_limit;
        engines[0].create_namespace(name(), config).await.unwrap();
        env.sleep(Duration::from_secs(5)).await;
        World { env, engines, drift }
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.engines[self.env.random_below(self.engines.len() as u64) as usize]
    }

    /// Other settings, and slices ahead that get them.
    async fn retune(&self) -> usize {
        let engine = self.engine();
        let (length, bucket) = (60 * (1 + self.env.random_below(3)) as u32, 5 + self.env.random_below(50) as u32);
        let event_buckets = 1 + self.env.random_below(3) as u32;
        let edit = move |config: &mut NamespaceConfig| {
            config.seconds_per_slice = length;
            config.seconds_per_bucket = bucket;
            config.event_buckets = event_buckets;
        };
        // Losing a race is fine: another one changes it next time.
        let _ = engine.update_namespace("plays", edit).await;
        self.env.sleep(Duration::from_millis(self.env.random_below(4000))).await;
        self.engine().replace_slices_ahead(&name()).await.unwrap_or(0)
    }

    /// Writes as far ahead as is accepted.
    async fn write(&self, number: usize) -> Option<Reached> {
        let engine = self.engine();
        let time = engine.now().saturating_add(self.drift);
        let series = format!("s{}", number % 5);
        let item = ItemInput { key: "k".to_owned(), value: Bytes::from_static(b"v"), metadata: None };
        let event = EventInput {
            series: series.clone(),
            time: Some(TimeInput::Nanos(time.nanos())),
            id: format!("e{number}"),
            items: vec![item],
        };
        let request = WriteRequest { namespace: "plays".to_owned(), events: vec![event], timeout: None };
        engine.write_sync(request).await.ok()?;
        let slice = engine.namespace("plays").unwrap().slices.at(time).cloned().unwrap();
        Some(Reached { series, time, slice })
    }
}

/// T1: a slice that a write has reached keeps its span and its settings, and every event stays where reads look for it.
#[test]
fn the_tuner_never_touches_a_slice_that_a_write_may_reach_t1() {
    let mut replaced_by_all = 0;
    for seed in 0..12 {
        replaced_by_all += run_simulated(seed, Timestamp::from_seconds(START), |env| async move {
            let world = Arc::new(World::new(env.clone()).await);
            let tuner = world.clone();
            let tuning = env.spawn(async move {
                let mut replaced = 0;
                for _ in 0..150 {
                    replaced += tuner.retune().await;
                }
                replaced
            });
            let mut reached = Vec::new();
            for number in 0..1500 {
                reached.extend(world.write(number).await);
                env.sleep(Duration::from_millis(env.random_below(400))).await;
            }
            let replaced = tuning.await.unwrap();
            env.sleep(Duration::from_secs(10)).await;
            assert!(reached.len() > 500, "seed {seed}: only {} writes", reached.len());
            for engine in &world.engines {
                let record = engine.namespace("plays").unwrap();
                for known in &reached {
                    assert_eq!(record.slices.at(known.time), Some(&known.slice), "seed {seed}");
                }
                let mut found = 0;
                for at in 0..5 {
                    let series = format!("s{at}");
                    let request = ReadRequest {
                        namespace: "plays".to_owned(),
                        series: series.clone(),
                        page_size: 10_000,
                        ..ReadRequest::default()
                    };
                    let page = engine.read(request).await.unwrap();
                    let times: Vec<Timestamp> = page.records.iter().map(|record| record.position.time).collect();
                    let of_series = reached.iter().filter(|known| known.series == series);
                    assert!(of_series.clone().all(|known| times.contains(&known.time)), "seed {seed}: lost");
                    found += of_series.count();
                }
                assert_eq!(found, reached.len(), "seed {seed}");
            }
            replaced
        });
    }
    assert!(replaced_by_all > 100, "{replaced_by_all} slices were replaced: too few to show anything");
}

//! The in-memory store behind a slow wire, with few cores, or out of reach.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_engine::{Engine, EngineOptions};
use anabranch_model::{EventBucket, NamespaceConfig, Slo, TableName, TimeBucket, TimeSeriesId, Timestamp};
use anabranch_runtime::{Env, run_simulated};
use anabranch_store::{
    Capabilities, CasOutcome, Direction, MemoryStore, MetaKey, PartitionBatch, Sample, Scan, ScanPage, Store,
    StoreError, Version, Versioned,
};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::fixture::{START, World};

/// The in-memory store, slowly.
pub(crate) struct Slow {
    inner: Arc<MemoryStore>,
    env: Env,
    pub(crate) scan_millis: AtomicU64,
    pub(crate) write_millis: AtomicU64,
    /// For this long nothing runs after a write: the machine sleeps.
    pub(crate) suspend_millis: AtomicU64,
    /// A scan takes a core, and this long for each row that it reads; no cores: it takes no time of its own.
    pub(crate) row_micros: AtomicU64,
    /// Records of splits can't be reached.
    pub(crate) records_are_away: AtomicBool,
    /// The list of namespaces is as old when it arrives.
    pub(crate) list_millis: AtomicU64,
    /// A change of a namespace takes so long.
    pub(crate) change_millis: AtomicU64,
    /// A heartbeat takes so long.
    pub(crate) beat_millis: AtomicU64,
    /// So many of the next heartbeats, and of the next lists of namespaces, never come back.
    pub(crate) lost_beats: AtomicU64,
    pub(crate) lost_lists: AtomicU64,
    /// A table is gone so long after it was asked for, and then nobody is told.
    pub(crate) drop_millis: AtomicU64,
    /// Drops that were asked for.
    pub(crate) drops: AtomicU64,
    cores: Semaphore,
    shared: bool,
}

const NAMESPACES: &str = "namespaces";
const HEARTBEATS: &str = "servers";

impl Slow {
    /// As quick as the one inside, until somebody says otherwise.
    pub(crate) fn new(inner: Arc<MemoryStore>, env: Env) -> Arc<Self> {
        Arc::new(Slow::made(inner, env, false))
    }

    /// As one of several servers has it.
    pub(crate) fn shared(inner: Arc<MemoryStore>, env: Env) -> Arc<Self> {
        Arc::new(Slow::made(inner, env, true))
    }

    fn made(inner: Arc<MemoryStore>, env: Env, shared: bool) -> Self {
        let zero = AtomicU64::default;
        Slow {
            inner,
            env,
            scan_millis: zero(),
            write_millis: zero(),
            suspend_millis: zero(),
            row_micros: zero(),
            records_are_away: AtomicBool::default(),
            list_millis: zero(),
            change_millis: zero(),
            beat_millis: zero(),
            lost_beats: zero(),
            lost_lists: zero(),
            drop_millis: zero(),
            drops: zero(),
            cores: Semaphore::new(2),
            shared,
        }
    }

    fn reach(&self, key: &MetaKey) -> Result<(), StoreError> {
        let is_away = self.records_are_away.load(Ordering::Relaxed) && key.scope.starts_with("wide_row/");
        if is_away { Err(StoreError::Unavailable { reason: "on purpose".to_owned() }) } else { Ok(()) }
    }

    async fn wait(&self, millis: &AtomicU64) {
        self.env.sleep(Duration::from_millis(millis.load(Ordering::Relaxed))).await;
    }
}

#[async_trait]
impl Store for Slow {
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: self.shared, ..self.inner.capabilities() }
    }

    fn everywhere(self: Arc<Self>) -> Arc<dyn Store> {
        self
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.inner.create_table(table).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.drops.fetch_add(1, Ordering::Relaxed);
        if self.drop_millis.load(Ordering::Relaxed) == 0 {
            return self.inner.drop_table(table).await;
        }
        self.wait(&self.drop_millis).await;
        self.inner.drop_table(table).await?;
        Err(StoreError::Unknown { reason: "the answer was lost".to_owned() })
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        self.inner.tables().await
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        let results = self.inner.write(batches, timeout).await;
        self.wait(&self.write_millis).await;
        tokio::time::advance(Duration::from_millis(self.suspend_millis.load(Ordering::Relaxed))).await;
        results
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.wait(&self.scan_millis).await;
        let per_row = Duration::from_micros(self.row_micros.load(Ordering::Relaxed));
        if per_row.is_zero() {
            return self.inner.scan(scan).await;
        }
        let _core = self.cores.acquire().await.unwrap();
        let page = self.inner.scan(scan).await?;
        self.env.sleep(per_row * (page.rows.len() as u32 + 1)).await;
        Ok(page)
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        self.inner.occupied(table, series, buckets, direction, limit).await
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        self.inner.sample(table, from, limit).await
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        self.reach(key)?;
        self.inner.load(key).await
    }

    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        let listed = self.inner.list(scope, after, limit).await;
        if scope == NAMESPACES {
            if is_lost(&self.lost_lists) {
                return std::future::pending().await;
            }
            self.wait(&self.list_millis).await;
        }
        listed
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        self.reach(key)?;
        if key.scope == NAMESPACES {
            self.wait(&self.change_millis).await;
        }
        let take = |lost: u64| lost.checked_sub(1);
        if key.scope == HEARTBEATS {
            self.wait(&self.beat_millis).await;
        }
        if key.scope == HEARTBEATS && self.lost_beats.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return std::future::pending().await;
        }
        self.inner.compare_and_set(key, expected, value).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

/// Whether this is one of those that are lost.
fn is_lost(lost: &AtomicU64) -> bool {
    lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lost| lost.checked_sub(1)).is_ok()
}

/// A namespace whose pages may take a second, on a slow store.
pub(crate) fn run_slow<F: Future<Output = ()>>(test: impl FnOnce(World, Arc<Slow>) -> F) {
    run_slow_with(EngineOptions::default(), test);
}

pub(crate) fn run_slow_with<F: Future<Output = ()>>(options: EngineOptions, test: impl FnOnce(World, Arc<Slow>) -> F) {
    run_slow_on(options, false, test);
}

/// As one of several servers.
pub(crate) fn run_slow_shared<F: Future<Output = ()>>(test: impl FnOnce(World, Arc<Slow>) -> F) {
    run_slow_on(EngineOptions::default(), true, test);
}

fn run_slow_on<F: Future<Output = ()>>(options: EngineOptions, shared: bool, test: impl FnOnce(World, Arc<Slow>) -> F) {
    run_simulated(7, Timestamp::from_seconds(START), |env| async move {
        let inner = Arc::new(MemoryStore::new(env.clone()));
        let slow = Arc::new(Slow::made(inner.clone(), env.clone(), shared));
        let engine = Engine::start(slow.clone(), env.node(0), options).await.unwrap();
        let slo = Slo { target: Duration::from_millis(100), max: Duration::from_secs(1) };
        let mut config = NamespaceConfig { read_slo: slo, write_slo: slo, ..NamespaceConfig::default() };
        config.seconds_per_bucket = 60;
        let world = World { env, store: inner, engine };
        world.namespace(config).await;
        test(world, slow).await;
    });
}

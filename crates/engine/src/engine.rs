//! The engine: everything that a server calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_bus::{Bus, LocalBus};
use anabranch_model::{
    Interval, NamespaceConfig, NamespaceName, Timestamp, TokenKey, config::MAX_SLICES, time::describe,
};
use anabranch_runtime::Env;
use anabranch_store::{CasOutcome, MetaKey, PermitOptions, ReadClass, Store, StoreError};
use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};

use crate::{
    Backfill, BackfillState, EngineError, NamespaceRecord, Page, ReadRequest, Violation, WriteReceipt, WriteRequest,
    admission::Admission,
    error::{ErrorKind, no_such_namespace},
    heartbeat::Heartbeat,
    impatience::Impatience,
    lease::Lease,
    lifecycle::Lifecycle,
    metrics::Metrics,
    read::{Caller, Shapes},
    registry::{Namespace, Registry},
    splits::{SplitOptions, Splits, waiting::told},
    tasks::{INTERVAL, TaskStatus, Tasks},
    traffic::Traffic,
    tuning::{Tuning, TuningOptions},
    write::queue::Queue,
};

/// The longest that a backfill window may stay open.
pub const MAX_BACKFILL: Duration = Duration::from_secs(30 * 86_400);
/// Characters of a window's id.
const MAX_BACKFILL_ID: usize = 64;

/// The longest description of a workload that is kept.
const MAX_WORKLOAD_BYTES: usize = 16 << 10;

/// How the engine behaves; the same for all namespaces.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Within this time a server knows what others changed.
    pub refresh_interval: Duration,
    /// How far clocks of servers may differ.
    pub max_clock_skew: Duration,
    /// How long a worker may hold a lease.
    pub lease: Duration,
    /// How often slices are looked after.
    pub lifecycle_interval: Duration,
    /// How long a call for metadata may take.
    pub meta_timeout: Duration,
    /// How long making or dropping a table may take.
    pub table_timeout: Duration,
    /// Bytes of synchronous writes in flight.
    pub max_write_bytes_in_flight: usize,
    /// Events that may wait in the queue.
    pub queue_events: usize,
    /// Bytes that may wait in the queue.
    pub queue_bytes: usize,
    /// How long shutting down waits for the queue to drain.
    pub drain_timeout: Duration,
    /// Pages being read at once.
    pub max_reads_in_flight: usize,
    /// Pages that may wait to be read; one more is refused.
    pub max_reads_waiting: usize,
    /// How many reads the store has at once.
    pub permits: PermitOptions,
    /// Partitions of one read that are fetched at once, at most.
    pub max_fan_out: usize,
    /// How splits are made and used.
    pub splits: SplitOptions,
    /// Detections that may be on their way within the process.
    pub bus_capacity: usize,
    /// How long a table without a slice is left alone before it is dropped; zero drops none.
    pub orphans_after: Duration,
    /// How long a deleted namespace can be restored, where the request doesn't say.
    pub delete_grace: Duration,
    /// How slices are measured and tuned.
    pub tuning: TuningOptions,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            refresh_interval: Duration::from_secs(1),
            max_clock_skew: Duration::from_millis(500),
            lease: Duration::from_secs(30),
            lifecycle_interval: Duration::from_secs(10),
            meta_timeout: Duration::from_secs(5),
            table_timeout: Duration::from_secs(60),
            max_write_bytes_in_flight: 64 << 20,
            queue_events: 100_000,
            queue_bytes: 64 << 20,
            drain_timeout: Duration::from_secs(30),
            max_reads_in_flight: 256,
            max_reads_waiting: 256,
            permits: PermitOptions::default(),
            max_fan_out: 64,
            splits: SplitOptions::default(),
            bus_capacity: 10_000,
            orphans_after: Duration::from_secs(900),
            delete_grace: Duration::from_secs(86_400),
            tuning: TuningOptions::default(),
        }
    }
}

/// The way of a write and the way of a read over one store.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) env: Env,
    pub(crate) options: EngineOptions,
    pub(crate) registry: Arc<Registry>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) token_key: TokenKey,
    pub(crate) queue: Queue,
    /// One permit per KiB.
    pub(crate) write_room: Semaphore,
    pub(crate) admission: Admission,
    pub(crate) shapes: Shapes,
    pub(crate) splits: Splits,
    pub(crate) tasks: Tasks,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) traffic: Traffic,
    pub(crate) tuning: Tuning,
    pub(crate) orphans: Lease,
    stopping: AtomicBool,
    /// Whether it has stopped storing what was queued, too.
    drained: AtomicBool,
    pub(crate) wake_lifecycle: Notify,
    /// The right to look after the slices.
    pub(crate) slices: Lease,
    pub(crate) wake_sweep: Notify,
}

impl Engine {
    /// Loads what is stored and starts the background tasks, with a bus within the process.
    pub async fn start(store: Arc<dyn Store>, env: Env, options: EngineOptions) -> Result<Arc<Engine>, EngineError> {
        let bus = Arc::new(LocalBus::new(options.bus_capacity));
        Engine::start_on(store, bus, env, options).await
    }

    /// Loads what is stored and starts the background tasks; detections go over `bus`.
    pub async fn start_on(
        store: Arc<dyn Store>,
        bus: Arc<dyn Bus>,
        env: Env,
        options: EngineOptions,
    ) -> Result<Arc<Engine>, EngineError> {
        let metrics = Arc::new(Metrics::new());
        let registry = Arc::new(Registry::new(store.clone(), env.clone(), &options));
        registry.refresh().await?;
        let lifecycle = Lifecycle {
            store: store.clone(),
            registry: registry.clone(),
            records: anabranch_split::Records::new(store.clone(), env.clone(), options.meta_timeout),
            metrics: metrics.clone(),
            env: env.clone(),
            timeout: options.table_timeout,
            max_clock_skew: options.max_clock_skew,
        };
        let (skew, refresh, longest) = (options.max_clock_skew, registry.refresh_interval(), options.meta_timeout);
        let heartbeat = Heartbeat::new(store.clone(), env.clone(), skew, refresh, longest);
        let admission = Admission::new(&store, &env, &options);
        metrics.watch_permits(&admission.permits, &store);
        let engine = Arc::new(Engine {
            orphans: Lease::new(store.clone(), env.clone(), "orphans", heartbeat.id(), options.lease),
            slices: Lease::new(store.clone(), env.clone(), "slices", heartbeat.id(), options.lease),
            tuning: Tuning::new(&store, &env, heartbeat.id(), options.lease, options.tuning),
            token_key: load_token_key(store.as_ref(), &env).await?,
            queue: Queue::new(options.queue_events, options.queue_bytes),
            write_room: Semaphore::new(options.max_write_bytes_in_flight / 1024),
            shapes: Shapes::default(),
            splits: Splits::new(admission.store(ReadClass::Background), bus, &env, options.splits),
            admission,
            tasks: Tasks::default(),
            traffic: Traffic::default(),
            heartbeat,
            wake_sweep: Notify::new(),
            stopping: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            wake_lifecycle: Notify::new(),
            store,
            env,
            options,
            registry,
            lifecycle,
            metrics,
        });
        engine.heartbeat.begin().await;
        engine.registry.refresh().await?; // comparing clocks may have taken a while
        engine.start_tasks();
        Ok(engine)
    }

    fn start_tasks(self: &Arc<Self>) {
        let engine = self.clone();
        self.env.spawn(async move { engine.drain_queue().await });
        let engine = self.clone();
        self.env.spawn(async move { engine.run_lifecycle().await });
        let engine = self.clone();
        self.env.spawn_in_background(async move { engine.run_sweep().await });
        let engine = self.clone();
        self.env.spawn_in_background(async move { engine.run_doubts().await });
        if self.options.splits.concurrent > 0 || !self.splits.bus.reaches_others() {
            let engine = self.clone();
            self.env.spawn(async move { engine.run_bus().await });
        }
        for at in 0..self.options.splits.concurrent {
            let engine = self.clone();
            self.env.spawn_in_background(async move { engine.run_worker(at).await });
        }
        if !self.options.orphans_after.is_zero() {
            let engine = self.clone();
            self.env.spawn_in_background(async move { engine.run_orphans().await });
        }
        if !self.options.tuning.measure_interval.is_zero() {
            let engine = self.clone();
            self.env.spawn_in_background(async move { engine.run_measure().await });
        }
        if !self.options.tuning.tune_interval.is_zero() {
            let engine = self.clone();
            self.env.spawn_in_background(async move { engine.run_tuner().await });
        }
        if !self.registry.refresh_interval().is_zero() {
            let engine = self.clone();
            self.env.spawn(async move { engine.run_refresh().await });
            let engine = self.clone();
            self.env.spawn(async move { engine.run_heartbeat().await });
        }
    }

    /// Until the queue is drained: nothing is stored by a server that has lost touch with what others changed.
    async fn run_refresh(&self) {
        let mut failing = false;
        // Twice in the interval, so that it is also kept when a look takes its time, or is made in vain.
        let usual = self.registry.refresh_interval() / 2;
        let looks = Impatience::new(usual, self.options.meta_timeout);
        loop {
            self.pause("refresh", INTERVAL, if failing { usual / 4 } else { usual }).await;
            if self.is_drained() {
                return;
            }
            match looks.call(&self.env, self.registry.refresh()).await {
                Ok(()) => {
                    self.tasks.ended("refresh", "read the configuration", self.env.now());
                    if std::mem::take(&mut failing) {
                        tracing::info!("the configuration is refreshed again");
                    }
                }
                Err(error) => {
                    self.task_failed("refresh", &error);
                    // Once: it fails again and again while the store is away.
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "the configuration can't be refreshed");
                    }
                }
            }
        }
    }

    /// Until the queue is drained: nothing is stored by a clock that nobody compares any more.
    async fn run_heartbeat(&self) {
        while !self.is_drained() {
            let begun = self.env.monotonic();
            let beat = self.heartbeat.beat().await;
            let took = self.env.monotonic().saturating_sub(begun);
            // From one to the next, however long they take: whoever is silent for two refreshes stops.
            let usual = self.heartbeat.pause();
            let mut wait = usual.saturating_sub(took).max(usual / 4);
            match beat {
                Ok(()) => self.tasks.ended("heartbeat", "compared clocks with the other servers", self.env.now()),
                Err(error) => {
                    wait = usual / 4;
                    self.task_failed("heartbeat", &error);
                }
            }
            self.pause("heartbeat", INTERVAL, wait).await;
        }
    }

    /// Stops taking writes into the queue, writes what is in it, and makes everything durable. Fails with
    /// [`EngineError::Undrained`] when something of the queue had to be given up.
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        self.stopping.store(true, Ordering::Release);
        self.wake_lifecycle.notify_one();
        self.wake_sweep.notify_one();
        self.queue.close();
        let waited = self.options.drain_timeout;
        let drained = self.env.timeout(waited, self.queue.drained()).await;
        self.drained.store(true, Ordering::Release);
        let events = if drained.is_err() { self.queue.discard() } else { 0 };
        if events > 0 {
            self.metrics.events_dropped.with_label_values(&["all", "shutdown"]).inc_by(events as u64);
            tracing::error!(events, "the queue could not be written in time; its events are lost");
        }
        // Where that fails nothing is lost but time: that of a server which starts alone, and waits for this one.
        let _ = self.env.timeout(self.options.meta_timeout, self.heartbeat.leave()).await;
        self.store.close().await.map_err(EngineError::Store)?;
        if events > 0 { Err(EngineError::Undrained { events, waited }) } else { Ok(()) }
    }

    /// Whether it was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether it has also stored what was queued, or given that up.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    pub(crate) fn task_failed(&self, task: &'static str, error: &dyn std::fmt::Display) {
        self.metrics.task_failures.with_label_values(&[task]).inc();
        self.tasks.failed(task, error, self.env.now());
    }

    /// A task has come to an end and waits for so long at most.
    pub(crate) fn task_waits(&self, task: &'static str, waits_for: &str, at_most: Duration) {
        self.tasks.waits(task, waits_for, Some(self.env.now().saturating_add(at_most)));
    }

    /// Lets a task wait, and says so as long as it does.
    pub(crate) async fn pause(&self, task: &'static str, waits_for: &str, interval: Duration) {
        self.task_waits(task, waits_for, interval);
        self.env.sleep(interval).await;
        self.tasks.begins(task);
    }

    /// The background tasks and how they fare.
    pub fn tasks(&self) -> Vec<TaskStatus> {
        let mut tasks = self.tasks.all();
        // Several workers are one task: what it waits for is seen from outside.
        if let Some(splits) = tasks.iter_mut().find(|task| task.name == "splits") {
            let waiting = self.splits.waiting.get();
            splits.waits_for = told(&waiting, self.splits.due.size(), self.splits.pace.is_slowed());
            splits.next_run = waiting.next_attempt.filter(|_| !splits.waits_for.is_empty());
        }
        tasks
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Whether anything can be changed now, or why not. Reads may go on all the same.
    pub fn check_ready(&self) -> Result<(), EngineError> {
        if self.is_stopping() {
            return Err(EngineError::NotServing { reason: "this server is shutting down".to_owned() });
        }
        if let Some(why) = self.store.takes_no_writes() {
            return Err(EngineError::NotServing { reason: format!("the store takes no writes: {why}") });
        }
        self.heartbeat.check_clock()?;
        self.registry.check_fresh()
    }

    /// Makes a namespace, with its current slice and those ahead.
    pub async fn create_namespace(
        &self,
        name: NamespaceName,
        config: NamespaceConfig,
    ) -> Result<NamespaceRecord, EngineError> {
        self.create_planned_namespace(name, config, String::new()).await
    }

    /// Makes a namespace, and keeps beside its settings the description of the workload that they were planned for.
    pub async fn create_planned_namespace(
        &self,
        name: NamespaceName,
        config: NamespaceConfig,
        workload: String,
    ) -> Result<NamespaceRecord, EngineError> {
        self.check_ready()?;
        if workload.len() > MAX_WORKLOAD_BYTES {
            let reason = format!("{} bytes; at most {MAX_WORKLOAD_BYTES} are kept", workload.len());
            return Err(EngineError::invalid("workload", reason));
        }
        let config = self.checked(config)?;
        self.lifecycle.check_room()?;
        let now = self.env.now();
        let mut record = NamespaceRecord::new(self.env.random_u64(), now, config);
        record.workload = workload;
        self.registry.create(&name, record).await?;
        self.lifecycle.make_ahead(&name, now).await?;
        self.namespace(name.as_str())
    }

    /// What is stored of a namespace.
    pub fn namespace(&self, name: &str) -> Result<NamespaceRecord, EngineError> {
        Ok(self.registry.get(name)?.record.clone())
    }

    /// Namespaces that were deleted and can still be restored, by name.
    pub fn deleted_namespaces(&self) -> Vec<(NamespaceName, NamespaceRecord)> {
        let latest = self.env.now().saturating_add(self.options.max_clock_skew);
        let snapshot = self.registry.snapshot();
        let restorable = snapshot.values().filter(|namespace| namespace.record.can_be_restored(latest));
        restorable.map(|namespace| (namespace.name.clone(), namespace.record.clone())).collect()
    }

    /// All namespaces, by name.
    pub fn namespaces(&self) -> Vec<(NamespaceName, NamespaceRecord)> {
        let snapshot = self.registry.snapshot();
        let alive = snapshot.values().filter(|namespace| !namespace.record.deleting);
        alive.map(|namespace| (namespace.name.clone(), namespace.record.clone())).collect()
    }

    /// Opens a window in which events older than the accept limit are taken.
    pub async fn open_backfill(
        &self,
        name: &str,
        interval: Interval,
        expire_after: Duration,
        reason: &str,
    ) -> Result<Backfill, EngineError> {
        let id = format!("bf-{:08x}", self.env.random_u64() as u32);
        self.open_backfill_as(&id, name, interval, expire_after, reason).await
    }

    /// As [`Engine::open_backfill`], with an id of the caller's: doing it again opens no second window.
    pub async fn open_backfill_as(
        &self,
        id: &str,
        name: &str,
        interval: Interval,
        expire_after: Duration,
        reason: &str,
    ) -> Result<Backfill, EngineError> {
        self.check_ready()?;
        check_backfill_id(id)?;
        let namespace = self.registry.get(name)?;
        let now = self.env.now();
        check_backfill(&namespace, interval, expire_after, now)?;
        let notice = self.registry.notice();
        let effective = now.saturating_add(notice);
        let open = |record: &mut NamespaceRecord| {
            if let Some(there) = record.backfills.iter().find(|backfill| backfill.id == id) {
                let other =
                    || EngineError::invalid("id", format!("`{id}` is the window of {} already", there.interval));
                return if there.interval == interval { Ok(there.clone()) } else { Err(other()) };
            }
            record.forget_old_backfills(now, notice);
            let seconds_per_slice = record.config_at(now).seconds_per_slice;
            let backfill = Backfill {
                id: id.to_owned(),
                interval,
                created: now,
                effective,
                expires: effective.saturating_add(expire_after),
                slice_doublings: window_doublings(interval, seconds_per_slice, record.slices.len()),
                reason: reason.to_owned(),
            };
            record.reopen(backfill.clone());
            Ok(backfill)
        };
        self.registry.change(&namespace.name, open).await
    }

    /// Ends a backfill window now. Closing one that is over changes nothing.
    pub async fn close_backfill(&self, name: &str, id: &str) -> Result<Backfill, EngineError> {
        // W1: by a clock that is behind it would have been over for long, while others still take events into it.
        self.check_ready()?;
        let namespace = self.registry.get(name)?;
        let now = self.env.now();
        let close = |record: &mut NamespaceRecord| {
            let found = record.backfills.iter_mut().find(|backfill| backfill.id == id);
            let Some(backfill) = found else {
                return Err(EngineError::NoSuchBackfill { namespace: namespace.name.clone(), id: id.to_owned() });
            };
            if backfill.state(now) != BackfillState::Closed {
                backfill.expires = now;
            }
            Ok(backfill.clone())
        };
        self.registry.change(&namespace.name, close).await
    }

    /// Writes events; they are durable when this answers.
    pub async fn write_sync(&self, request: WriteRequest) -> Result<WriteReceipt, EngineError> {
        crate::write::write_sync(self, request).await
    }

    /// Queues events to be written soon; answers how many.
    pub async fn write_queued(&self, request: WriteRequest) -> Result<usize, EngineError> {
        crate::write::write_queued(self, request).await
    }

    /// Reads one page of a history.
    pub async fn read(&self, request: ReadRequest) -> Result<Page, EngineError> {
        // Large, and held by everything that waits for it.
        Box::pin(crate::read::read(self, request, Caller::Client)).await
    }

    /// The moment it is, for what is shown beside stored times.
    pub fn now(&self) -> Timestamp {
        self.env.now()
    }
}

fn check_backfill_id(id: &str) -> Result<(), EngineError> {
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain && (1..=MAX_BACKFILL_ID).contains(&id.len()) {
        return Ok(());
    }
    let reason =
        format!("is not one to {MAX_BACKFILL_ID} letters, digits, `-`, `_` and `.`; leave it out and one is chosen");
    Err(EngineError::invalid("id", reason))
}

fn check_backfill(
    namespace: &Namespace,
    interval: Interval,
    expire_after: Duration,
    now: Timestamp,
) -> Result<(), EngineError> {
    let mut violations = Vec::new();
    let mut refuse = |field: &str, reason: String| {
        violations.push(Violation { field: field.to_owned(), reason, kind: ErrorKind::InvalidArgument });
    };
    if interval.is_empty() {
        refuse("interval", format!("{interval} is empty: the start must be before the end"));
    }
    let latest = namespace.record.accepts(now).end;
    if interval.end > latest {
        refuse(
            "interval.end",
            format!("{} is in the future; a window may end at {latest} at the latest", interval.end),
        );
    }
    if interval.start < namespace.record.closed_until {
        let closed = namespace.record.closed_until;
        refuse("interval.start", format!("everything before {closed} has left the retention and takes no writes"));
    }
    if expire_after.is_zero() || expire_after > MAX_BACKFILL {
        refuse("expire_after", format!("{} is not between 1ns and {}", describe(expire_after), describe(MAX_BACKFILL)));
    }
    if violations.is_empty() { Ok(()) } else { Err(EngineError::Refused(violations)) }
}

/// How often slices for a window must be doubled so that it takes at most half of the room that is left.
fn window_doublings(interval: Interval, seconds_per_slice: u32, slices: usize) -> u32 {
    let room = ((MAX_SLICES * 3 / 4).saturating_sub(slices) / 2).max(1) as u64;
    let needed = interval.length().as_secs() / u64::from(seconds_per_slice) + 1;
    needed.div_ceil(room).next_power_of_two().trailing_zeros()
}

/// The key that seals page tokens: made by the first server, shared by all.
async fn load_token_key(store: &dyn Store, env: &Env) -> Result<TokenKey, EngineError> {
    let key = MetaKey::new("cluster", "page_token_key");
    for _ in 0..8 {
        if let Some(document) = store.load(&key).await? {
            let bytes: [u8; 32] = document.value.as_ref().try_into().map_err(|_| StoreError::Corrupt {
                reason: "the stored page token key is not 32 bytes long".to_owned(),
            })?;
            return Ok(TokenKey::new(bytes));
        }
        let fresh: [u8; 32] = env.random_bytes();
        match store.compare_and_set(&key, None, Some(Bytes::copy_from_slice(&fresh))).await {
            Ok(CasOutcome::Applied(_) | CasOutcome::Conflict(_)) | Err(StoreError::Unknown { .. }) => {} // the load tells
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Unavailable { reason: "the page token key can't be stored".to_owned() }.into())
}

impl Engine {
    /// The backfill windows of a namespace, newest first.
    pub fn backfills(&self, name: &str) -> Result<Vec<Backfill>, EngineError> {
        if name.is_empty() {
            return Err(no_such_namespace(name));
        }
        let mut backfills = self.registry.get(name)?.record.backfills.clone();
        backfills.reverse();
        Ok(backfills)
    }
}

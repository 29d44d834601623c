//! What every state of a split works with: the store, the records, limits and pace.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_model::{Interval, Order, Timestamp};
use anabranch_runtime::Env;
use anabranch_store::{After, PartitionReader, ReadLimits, Store, StoreError};

use crate::{
    Records, SplitError,
    form::Form,
    pace::Pace,
    record::{Lease, State, Strategy, WideRow},
    records::Loaded,
};

/// How a worker works.
#[derive(Clone, Copy, Debug)]
pub struct WorkOptions {
    /// Bytes of the source between two checkpoints: after a crash not more is read again.
    pub checkpoint_bytes: u64,
    /// How long a lease lasts; every checkpoint renews it.
    pub lease: Duration,
    /// Bytes fetched from the store at once.
    pub fetch_bytes: usize,
    /// Bytes written to the store at once.
    pub batch_bytes: usize,
    /// How long one call of the store may take.
    pub call_timeout: Duration,
    /// After so many attempts a split is left for an operator.
    pub max_attempts: u32,
    /// How long to wait after the first failure; doubles with each.
    pub first_retry: Duration,
    /// The longest wait between two attempts.
    pub longest_retry: Duration,
}

impl Default for WorkOptions {
    fn default() -> Self {
        WorkOptions {
            checkpoint_bytes: 64 << 20,
            lease: Duration::from_secs(30),
            fetch_bytes: 1 << 20,
            batch_bytes: 1 << 20,
            call_timeout: Duration::from_secs(10),
            max_attempts: 5,
            first_retry: Duration::from_secs(5),
            longest_retry: Duration::from_secs(600),
        }
    }
}

/// What is known of a partition's surroundings when work on it begins.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    /// What the partition covers: its time bucket.
    pub bucket: Interval,
    /// Everything before this takes no write any more (S3): stored before this was handed out.
    pub sealed_until: Timestamp,
    /// From how many bytes on a partition is wide.
    pub threshold_bytes: u64,
    /// How big pieces should be.
    pub target_piece_bytes: u64,
    /// How often sealed time of the namespace had been opened again when this was handed out.
    pub as_of: u64,
    /// Over how many partitions the events of the time bucket are spread.
    pub event_buckets: u32,
    /// How rows are divided among pieces.
    pub strategy: Strategy,
    /// How rows lie in pieces.
    pub form: Form,
}

/// One worker's hands.
pub struct Work {
    /// For what ordinary reads see.
    pub(crate) store: Arc<dyn Store>,
    /// For what every other reader relies on: the source as it is planned and copied, pieces as they are written and proven.
    pub(crate) everywhere: Arc<dyn Store>,
    pub(crate) records: Records,
    pub(crate) env: Env,
    pub(crate) options: WorkOptions,
    pub(crate) worker: String,
    pub(crate) pace: Arc<Pace>,
    /// Pieces that didn't hold what was planned, since they were last taken note of.
    pub(crate) mismatches: AtomicU64,
}

impl Work {
    /// A worker of this name; names must differ between workers. Workers of one process share their pace.
    pub fn new(store: Arc<dyn Store>, env: Env, options: WorkOptions, worker: String, pace: Arc<Pace>) -> Self {
        let records = Records::new(store.clone(), env.clone(), options.call_timeout);
        let everywhere = store.clone().everywhere();
        Work { store, everywhere, records, env, options, worker, pace, mismatches: AtomicU64::new(0) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.worker
    }

    /// How many pieces that were read back didn't hold what was planned, since this was last asked.
    pub fn take_mismatches(&self) -> u64 {
        self.mismatches.swap(0, Ordering::Relaxed)
    }

    /// The records that it works on.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The next state of a record, with the lease renewed.
    pub(crate) async fn step(&self, loaded: &Loaded, state: State) -> Result<Loaded, SplitError> {
        self.step_with(loaded, |row| row.state = state).await
    }

    /// The next step of a record, with the lease renewed.
    pub(crate) async fn step_with(
        &self,
        loaded: &Loaded,
        change: impl FnOnce(&mut WideRow),
    ) -> Result<Loaded, SplitError> {
        let mut row = loaded.row.clone();
        // Whoever only takes up again what failed has got no further yet.
        if !matches!(row.state, State::Failed(_)) {
            row.waits = 0;
        }
        change(&mut row);
        row.lease = Some(self.lease());
        self.records.step(loaded, row).await
    }

    fn lease(&self) -> Lease {
        Lease { worker: self.worker.clone(), until: self.env.now().saturating_add(self.options.lease) }
    }

    /// The rows of the original in a span, newest first, after `after`.
    pub(crate) fn source(&self, row: &WideRow, span: Interval, after: Option<After>) -> PartitionReader {
        let (table, key) = (row.partition.table(), row.partition.key());
        PartitionReader::new(self.everywhere.clone(), table, key, span, Order::LatestFirst, after)
    }

    /// Fetches the next rows of a reader, within the time that a call may take and the pace that is set.
    pub(crate) async fn fetch(&self, reader: &mut PartitionReader) -> Result<(), SplitError> {
        let before = reader.bytes_read();
        let timeout = self.options.call_timeout;
        let limits = ReadLimits { rows: usize::MAX, bytes: self.options.fetch_bytes, timeout };
        timed(&self.env, timeout, reader.fetch(limits)).await?;
        self.pace(reader.bytes_read() - before).await;
        Ok(())
    }

    /// Waits until this many bytes more may be read or written.
    pub(crate) async fn pace(&self, bytes: u64) {
        self.pace.take(&self.env, bytes).await;
    }
}

/// The time for which a worker holds a record while it works on one step. However slow the pace, the lease must not run out before
/// the next checkpoint, or workers take the record from each other for ever (S5).
pub(crate) struct Tenure<'a> {
    pub(crate) work: &'a Work,
    /// The record as this worker last wrote it.
    pub(crate) loaded: Loaded,
    begun: Duration,
    renewed: Duration,
}

impl<'a> Tenure<'a> {
    /// Of a record whose lease was just taken or renewed.
    pub(crate) fn of(work: &'a Work, loaded: &Loaded) -> Self {
        let begun = work.env.monotonic();
        Tenure { work, loaded: loaded.clone(), begun, renewed: begun }
    }

    /// Whether the step should end at its next checkpoint, however few bytes it has done.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.work.env.monotonic().saturating_sub(self.begun) >= self.work.options.lease / 3
    }

    /// Renews the lease where no checkpoint came for long: in the midst of a large event, or of a large piece.
    pub(crate) async fn keep(&mut self) -> Result<(), SplitError> {
        let now = self.work.env.monotonic();
        if now.saturating_sub(self.renewed) <= self.work.options.lease / 2 {
            return Ok(());
        }
        let row = WideRow { lease: Some(self.work.lease()), ..self.loaded.row.clone() };
        self.loaded = self.work.records.renew(&self.loaded, row).await?;
        self.renewed = now;
        Ok(())
    }
}

/// Work between two breaths: a fraction of a millisecond.
const BREATH_BYTES: usize = 32 << 10;

/// Lets others have the thread now and then. To pack, unpack or add up all of a fetch takes many milliseconds, and somebody may wait
/// for a page behind it.
#[derive(Default)]
pub(crate) struct Breath {
    bytes: usize,
}

impl Breath {
    /// So many bytes more were worked on.
    pub(crate) async fn after(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= BREATH_BYTES {
            self.bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Lets a read of the store take no longer than this.
pub(crate) async fn timed<T>(
    env: &Env,
    timeout: Duration,
    read: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match env.timeout(timeout, read).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unavailable { reason: "a scan timed out".to_owned() }),
    }
}

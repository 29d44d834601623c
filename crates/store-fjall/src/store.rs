//! [`FjallStore`]: the contract, by way of the committer for changes and of a blocking thread for reads.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use anabranch_model::{EventBucket, TableName, TimeBucket, TimeSeriesId};
use anabranch_runtime::Env;
use anabranch_store::{
    Capabilities, CasOutcome, Direction, MetaKey, PartitionBatch, Sample, Scan, ScanPage, Store, StoreError, Version,
    Versioned,
};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{
    FjallOptions, OpenError, Stats,
    committer::Committer,
    database::{Database, locked},
    directory::Directory,
    documents, error,
    layout::{EncodedBatch, document_key},
    partitions, parts,
    queue::{Claim, DocumentOrder, Order, Queue, TableOrder, WriteOrder},
    scan, stats, tables,
};

/// How long closing waits for what is queued, and then for reads that are still under way.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
/// No value of a document may be longer.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// The embedded store: a directory that this process alone uses.
pub struct FjallStore {
    env: Env,
    options: FjallOptions,
    database: RwLock<Option<Arc<Database>>>,
    queue: Arc<Queue>,
    committer: Arc<Mutex<Ending>>,
    closed: Mutex<Option<oneshot::Receiver<()>>>,
    fail_sync: Arc<AtomicBool>,
}

impl FjallStore {
    /// Opens a directory, or makes a new store in one that is empty or not there. Waits for the disk.
    pub fn open(dir: impl AsRef<Path>, options: FjallOptions, env: Env) -> Result<Self, OpenError> {
        options.check()?;
        let directory = Directory::open(dir.as_ref())?;
        parts::check(&directory)?;
        directory.forget_unfinished()?;
        let fjall = open_fjall(&directory, &options)?;
        let recovered = tables::recover(&fjall, &options, directory.path())?;
        parts::note(&directory, [recovered.internals.registry.path(), recovered.internals.documents.path()])?;
        let (open, closed) = oneshot::channel();
        let database =
            Arc::new(Database::new(options.clone(), directory, fjall, recovered.internals, recovered.tables, open));
        let queue = Arc::new(Queue::new(&options));
        let fail_sync = Arc::new(AtomicBool::new(false));
        let committer =
            Committer::new(database.clone(), queue.clone(), recovered.registry, env.clone(), fail_sync.clone());
        let (ended, ending) = mpsc::channel();
        let thread = env.thread("anabranch-commit", move || {
            let _ = ended.send(committer.run());
        });
        thread.map_err(|source| OpenError::Io { dir: dir.as_ref().to_owned(), action: "start a thread", source })?;
        Ok(FjallStore {
            env,
            options,
            database: RwLock::new(Some(database)),
            queue,
            committer: Arc::new(Mutex::new(Ending::Awaited(ending))),
            closed: Mutex::new(Some(closed)),
            fail_sync,
        })
    }

    /// Sizes and counts. Waits for no write.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        Ok(stats::stats(&*self.database()?))
    }

    /// What the store takes on disk.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.stats()?.disk_bytes)
    }

    /// Runs something on the committer's thread, between two groups: for tests that must hold it up.
    #[doc(hidden)]
    pub fn run_on_committer(&self, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        self.queue.push(Order::Run(Box::new(work)))
    }

    /// Makes the next sync fail: for tests of what comes then.
    #[doc(hidden)]
    pub fn fail_next_sync(&self) {
        self.fail_sync.store(true, Ordering::Relaxed);
    }

    /// Orders that wait for the committer: for tests that must know.
    #[doc(hidden)]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    fn database(&self) -> Result<Arc<Database>, StoreError> {
        self.database.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(error::closed)
    }

    /// Runs a read where it may wait for the disk.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let database = self.database()?;
        self.env.blocking(move || work(&database)).await.ok_or_else(error::panicked)?
    }

    /// Orders a change, waits for its answer.
    async fn order<T>(
        &self,
        bytes: usize,
        order: impl FnOnce(oneshot::Sender<Result<T, StoreError>>, crate::queue::Room) -> Order,
    ) -> Result<T, StoreError> {
        let room = self.queue.room(1, bytes).await?;
        let (sender, answer) = oneshot::channel();
        self.queue.push(order(sender, room))?;
        answer.await.map_err(|_| abandoned())?
    }

    /// Sends batches to the committer; the answers of those in `encoded`, in their order.
    async fn commit(&self, encoded: Vec<EncodedBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        let count = encoded.len();
        let claim = Claim::default();
        let bytes = encoded.iter().map(|batch| batch.bytes).sum();
        let order_claim = claim.clone();
        let committed = async {
            let room = self.queue.room(count, bytes).await?;
            let (sender, answer) = oneshot::channel();
            self.queue.push(Order::Write(WriteOrder { batches: encoded, claim: order_claim, answer: sender, room }))?;
            answer.await.map_err(|_| abandoned())
        };
        let failure = match self.env.timeout(timeout, committed).await {
            Ok(Ok(answers)) => return answers,
            Ok(Err(error)) => error,
            Err(_) if claim.withdraw() => error::unavailable(format!("writes had to wait for more than {timeout:?}")),
            Err(_) => error::unknown(format!("the disk took longer than {timeout:?}")),
        };
        vec![Err(failure); count]
    }
}

/// How the committer ends.
enum Ending {
    /// It hasn't yet, or nobody has asked.
    Awaited(mpsc::Receiver<Result<(), StoreError>>),
    /// So.
    Known(Result<(), StoreError>),
}

impl Ending {
    /// Waits for the committer to do what is queued, but not for ever: with a full disk, fjall may never let go of it.
    fn wait(&mut self) -> Result<(), StoreError> {
        if let Ending::Awaited(ending) = self {
            let outcome = match ending.recv_timeout(CLOSE_PATIENCE) {
                Ok(outcome) => outcome,
                Err(mpsc::RecvTimeoutError::Timeout) => Err(error::unknown("the disk doesn't take what is queued")),
                Err(mpsc::RecvTimeoutError::Disconnected) => Err(error::unknown("the committer panicked")),
            };
            *self = Ending::Known(outcome);
        }
        match self {
            Ending::Known(outcome) => outcome.clone(),
            Ending::Awaited(_) => Ok(()),
        }
    }
}

fn abandoned() -> StoreError {
    error::unknown("the committer ended before it answered")
}

fn open_fjall(directory: &Directory, options: &FjallOptions) -> Result<fjall::Database, OpenError> {
    let builder = fjall::Database::builder(directory.fjall())
        .cache_size(options.cache_bytes)
        .worker_threads(options.workers)
        .max_journaling_size(options.journal_bytes)
        .max_cached_files(Some(options.files()));
    let dir = directory.path().to_owned();
    // fjall asserts what it finds in damaged files; nothing of it is shared yet.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.open())) {
        Ok(Ok(fjall)) => Ok(fjall),
        Ok(Err(fjall::Error::Locked)) => Err(OpenError::Locked { dir, pid: None }),
        Ok(Err(fjall::Error::Io(source))) => Err(OpenError::Io { dir, action: "open fjall's files", source }),
        Ok(Err(error)) => Err(OpenError::Damaged { dir, reason: error.to_string() }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Err(OpenError::Damaged { dir, reason: text.unwrap_or("fjall panicked").to_owned() })
        }
    }
}

#[async_trait]
impl Store for FjallStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "fjall", shared: false, ordered_partitions: true, max_tables: self.options.max_tables }
    }

    fn everywhere(self: Arc<Self>) -> Arc<dyn Store> {
        self
    }

    /// What is left on the file system of its directory.
    fn free_bytes(&self) -> Option<u64> {
        stats::free_bytes(self.database().ok()?.directory.path()).ok()
    }

    fn takes_no_writes(&self) -> Option<String> {
        self.database().ok()?.poisoned.load(Ordering::Relaxed).then(|| error::POISONED.to_owned())
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        let table = table.clone();
        self.order(0, |answer, room| Order::Create(TableOrder { table, answer, room })).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        let table = table.clone();
        self.order(0, |answer, room| Order::Drop(TableOrder { table, answer, room })).await
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        Ok(self.database()?.tables().into_iter().map(|(name, _)| name).collect())
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        let database = match self.database() {
            Ok(database) => database,
            Err(error) => return vec![Err(error); batches.len()],
        };
        // Encoded here and not by the committer: there is one of it, and many of us.
        let mut refusals = BTreeMap::new();
        let mut encoded = Vec::with_capacity(batches.len());
        let count = batches.len();
        for (index, batch) in batches.into_iter().enumerate() {
            match database.table(&batch.table).and_then(|_| EncodedBatch::new(batch)) {
                Ok(batch) => encoded.push(batch),
                Err(error) => {
                    refusals.insert(index, error);
                }
            }
        }
        drop(database);
        let answers = if encoded.is_empty() { Vec::new() } else { self.commit(encoded, timeout).await };
        if refusals.is_empty() {
            return answers;
        }
        let mut answers = answers.into_iter();
        (0..count)
            .map(|index| match refusals.remove(&index) {
                Some(error) => Err(error),
                None => answers.next().unwrap_or_else(|| Err(abandoned())),
            })
            .collect()
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        if scan.max_rows == 0 {
            return Err(error::refused("a scan of no rows"));
        }
        let deadline = self.env.monotonic().saturating_add(scan.timeout);
        let (scan, env) = (scan.clone(), self.env.clone());
        self.read(move |database| scan::page(database, &scan, &env, deadline)).await
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        let (table, series) = (table.clone(), series.clone());
        self.read(move |database| partitions::occupied(database, &table, &series, buckets, direction, limit)).await
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        let table = table.clone();
        self.read(move |database| partitions::sample(database, &table, from, limit)).await
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        let key = key.clone();
        self.read(move |database| documents::load(database, &key)).await
    }

    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        let (scope, after) = (scope.to_owned(), after.map(str::to_owned));
        self.read(move |database| documents::list(database, &scope, after.as_deref(), limit)).await
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        let key = document_key(key)?;
        let bytes = key.len() + value.as_ref().map_or(0, Bytes::len);
        if bytes > MAX_DOCUMENT_BYTES {
            return Err(error::refused(format!("a document of {bytes} bytes is too large")));
        }
        self.order(bytes, |answer, room| Order::Document(DocumentOrder { key, expected, value, answer, room })).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        let database = self.database.write().unwrap_or_else(PoisonError::into_inner).take();
        let committer = self.committer.clone();
        let ended = self.env.blocking(move || {
            let ended = locked(&committer).wait();
            drop(database); // closes fjall, unless a read still goes on
            ended
        });
        ended.await.ok_or_else(error::panicked)??;
        let closed = locked(&self.closed).take();
        if let Some(closed) = closed {
            // Answers with an error: its sender is dropped, never used.
            let gone = self.env.timeout(CLOSE_PATIENCE, closed).await;
            gone.map_err(|_| error::unavailable("reads that are still under way keep the directory open"))?.ok();
        }
        Ok(())
    }
}

impl Drop for FjallStore {
    fn drop(&mut self) {
        self.queue.close();
        if let Err(error) = locked(&self.committer).wait() {
            tracing::error!(%error, "the store could not be closed cleanly");
        }
    }
}

//! The store as one server sees it: slow, failing, losing answers, cutting pages short, and now and then the place
//! where the server dies. Underneath lies the store that all servers share.

use std::{
    future::pending,
    ops::RangeInclusive,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_model::{EventBucket, TableName, TimeBucket, TimeSeriesId};
use anabranch_runtime::Env;
use anabranch_store::{
    After, Capabilities, CasOutcome, Direction, MemoryStore, MetaKey, PartitionBatch, Sample, Scan, ScanPage, ScanSpan,
    Store, StoreError, Version, Versioned,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::{
    dice::Dice,
    lagging::Lagging,
    metadata::CompareAndSet,
    piece_plants::PieceBugs,
    plan::Weather,
    plant::Plant,
    reached::Tally,
    replicas::Replicas,
    trace::Trace,
    witness::{Life, Witness},
};

/// A change that comes late comes within this time.
pub(crate) const LATEST_CHANGE: Duration = Duration::from_secs(10);
/// Changes of which only some replicas hear, of a hundred thousand, where replicas differ.
const TORN: u64 = 1500;
/// Calls without a deadline of their own hang this long at most.
const LONGEST_HANG: Duration = Duration::from_secs(8);

/// What all servers share of the weather: it can turn, and the store can be down.
pub(crate) struct Sky {
    weather: Mutex<Weather>,
    store_down: AtomicBool,
}

impl Sky {
    pub(crate) fn new(weather: Weather) -> Self {
        Sky { weather: Mutex::new(weather), store_down: AtomicBool::new(false) }
    }

    pub(crate) fn weather(&self) -> Weather {
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clear_up(&self) {
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner) = Weather::CALM;
        self.set_store_down(false);
    }

    pub(crate) fn set_store_down(&self, down: bool) {
        self.store_down.store(down, Ordering::Release);
    }

    fn is_store_down(&self) -> bool {
        self.store_down.load(Ordering::Acquire)
    }
}

/// The shared store with the faults that one server meets.
#[derive(Clone)]
pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<MemoryStore>,
    /// For what goes on when the server is dead.
    pub(crate) world: Env,
    pub(crate) server: Env,
    pub(crate) crashed: Arc<Notify>,
    pub(crate) sky: Arc<Sky>,
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
    pub(crate) name: String,
    pub(crate) plant: Option<Plant>,
    pub(crate) life: Life,
    pub(crate) witness: Arc<Witness>,
    pub(crate) piece_bugs: PieceBugs,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) lagging: Lagging,
    pub(crate) tally: Arc<Tally>,
    /// Whether scans see what any replica holds.
    pub(crate) sees_all: bool,
}

/// What becomes of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Unavailable,
    /// Not made, and nobody is told.
    Lost,
    /// Made, and nobody is told.
    LostAnswer,
    /// Made, but not synced, and nobody is told.
    Unsynced,
    /// Made after everybody has given up on it.
    Late(Duration),
    /// Only some replicas have it until it is repaired after this time; of anything but rows nobody gets anything.
    Torn(Duration),
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { reason: "simulated".to_owned() }
}

fn unknown() -> StoreError {
    StoreError::Unknown { reason: "simulated".to_owned() }
}

impl FaultyStore {
    /// The way of every call to the store: it takes its time, and may end here.
    async fn arrive(&self, call: &'static str, timeout: Duration) -> Result<(), StoreError> {
        let weather = self.sky.weather();
        self.trace.mark(call.len() as u64);
        self.crash_perhaps(&weather, call).await;
        self.pause_perhaps(&weather, call).await;
        self.delay(&weather).await;
        if self.sky.is_store_down() || self.dice.chance(weather.unavailable) {
            return Err(unavailable());
        }
        if self.dice.chance(weather.hangs) {
            self.trace.log(&self.name, format_args!("{call} hangs"));
            self.server.sleep(timeout.min(LONGEST_HANG)).await;
            return Err(unknown());
        }
        Ok(())
    }

    async fn delay(&self, weather: &Weather) {
        let most = u64::try_from(weather.latency.as_millis()).unwrap_or(u64::MAX);
        let mut latency = Duration::from_millis(self.dice.below(most + 1));
        if self.dice.chance(weather.slow) {
            latency += weather.slow_latency.mul_f64(self.dice.below(1000) as f64 / 1000.0);
        }
        if self.plant.is_some() {
            latency = latency.max(Duration::from_millis(1)); // a bug must not loop without time going on
        }
        if !latency.is_zero() {
            self.server.sleep(latency).await;
        }
    }

    async fn crash_perhaps(&self, weather: &Weather, at: &'static str) {
        if self.dice.chance(weather.server_crash) {
            self.trace.log(&self.name, format_args!("crashes at {at}"));
            self.server.kill();
            self.witness.server_crashed();
            self.crashed.notify_one();
            pending::<()>().await;
        }
    }

    /// Now and then the whole server stands still for a while: before its call arrives, or before the answer is taken.
    async fn pause_perhaps(&self, weather: &Weather, at: &'static str) {
        // Writes are where it could do most harm.
        let longest = weather.longest_pause.as_millis() as u64;
        let (chance, shortest) = if at == "write" { (weather.pauses * 30, longest / 2) } else { (weather.pauses, 100) };
        if self.dice.chance(chance) {
            let pause = self.dice.millis(shortest, longest);
            self.trace.log(&self.name, format_args!("stands still at {at} for {pause:?}"));
            self.server.pause(pause);
            self.server.sleep(Duration::from_millis(1)).await;
        }
    }

    /// The way back with an answer, or without one.
    async fn answer<T>(&self, call: &'static str, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let weather = self.sky.weather();
        self.crash_perhaps(&weather, call).await;
        self.pause_perhaps(&weather, call).await;
        if self.dice.chance(weather.lost) { Err(unknown()) } else { result }
    }

    fn fate(&self) -> Fate {
        let weather = self.sky.weather();
        if self.sky.is_store_down() {
            return Fate::Unavailable;
        }
        if self.dice.chance(weather.unavailable / 2) {
            return Fate::Unavailable;
        }
        let late = || Duration::from_millis(self.dice.below(LATEST_CHANGE.as_millis() as u64));
        if weather.replicas && self.dice.chance(TORN) {
            return Fate::Torn(late());
        }
        if !self.dice.chance(weather.lost) {
            return Fate::Done;
        }
        self.dice.pick(&[Fate::Lost, Fate::LostAnswer, Fate::Unsynced, Fate::Late(late())])
    }

    /// Makes a change as its fate has it.
    async fn change<T: Send>(&self, call: &'static str, make: impl AsyncChange<T>) -> Result<T, StoreError> {
        self.arrive(call, LONGEST_HANG).await?;
        let most = self.sky.weather().change_latency.as_millis() as u64;
        self.server.sleep(self.dice.millis(0, most)).await;
        let fate = self.fate();
        if fate != Fate::Done {
            self.trace.log(&self.name, format_args!("{call}: {fate:?}"));
        }
        let result = match fate {
            Fate::Done => make.run(self.inner.clone()).await,
            Fate::Unavailable => Err(unavailable()),
            Fate::Lost | Fate::Torn(_) => Err(unknown()),
            Fate::LostAnswer => make.run(self.inner.clone()).await.and(Err(unknown())),
            Fate::Unsynced => {
                let _ = make.run(self.inner.clone()).now_or_never();
                Err(unknown())
            }
            Fate::Late(delay) => {
                let (world, inner, trace, name) =
                    (self.world.clone(), self.inner.clone(), self.trace.clone(), self.name.clone());
                self.world.spawn(async move {
                    world.sleep(delay).await;
                    let done = make.run(inner).await.is_ok();
                    trace.log(&name, format_args!("late {call} comes through: {done}"));
                });
                Err(unknown())
            }
        };
        self.crash_perhaps(&self.sky.weather(), call).await;
        result
    }

    async fn write_batches(&self, mut batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        let asked = batches.len();
        if let Some(plant) = self.plant {
            batches.iter_mut().for_each(|batch| plant.alter_batch(batch, &self.dice));
            batches = self.piece_bugs.alter(plant, batches, &self.dice);
        }

        let fates: Vec<Fate> = batches.iter().map(|_| self.fate()).collect();
        let mut now = Vec::new();
        for (batch, fate) in batches.into_iter().zip(&fates) {
            match fate {
                Fate::Done if self.plant == Some(Plant::LosesWrite) && self.dice.percent(3) => {}
                Fate::Done | Fate::LostAnswer if batch.rows.is_empty() => {} // held back on purpose
                Fate::Done | Fate::LostAnswer => {
                    self.lagging.note(self.plant, &batch, &self.world, &self.dice);
                    self.witness.writes(&batch);
                    now.push(batch);
                }
                Fate::Unavailable | Fate::Lost => {}
                Fate::Unsynced => {
                    self.witness.writes(&batch);
                    let _ = self.inner.write(vec![batch], timeout).now_or_never();
                }
                Fate::Late(delay) => self.write_later(batch, *delay),
                Fate::Torn(delay) if !batch.rows.is_empty() => self.tear(batch, *delay),
                Fate::Torn(_) => {}
            }
        }
        let mut answers = if now.is_empty() {
            Vec::new()
        } else if self.plant == Some(Plant::AcksBeforeSync) {
            let count = now.len();
            let _ = self.inner.write(now, timeout).now_or_never();
            vec![Ok(()); count]
        } else {
            self.inner.write(now, timeout).await
        }
        .into_iter();
        let answer = |fate: &Fate| match fate {
            Fate::Done => answers.next().unwrap_or(Ok(())), // short only where a write was lost on purpose
            Fate::LostAnswer => answers.next().and(None).unwrap_or(Err(unknown())),
            Fate::Unavailable => Err(unavailable()),
            Fate::Lost | Fate::Unsynced | Fate::Late(_) | Fate::Torn(_) => Err(unknown()),
        };
        let mut answers: Vec<_> = fates.iter().map(answer).collect();
        answers.truncate(asked);
        answers
    }

    fn write_later(&self, batch: PartitionBatch, delay: Duration) {
        let (world, inner, trace, name) =
            (self.world.clone(), self.inner.clone(), self.trace.clone(), self.name.clone());
        let witness = self.witness.clone();
        self.world.spawn(async move {
            world.sleep(delay).await;
            witness.writes(&batch);
            let done = inner.write(vec![batch], Duration::from_secs(10)).await;
            trace.log(&name, format_args!("late write comes through: {}", done.iter().all(Result::is_ok)));
        });
    }

    /// Only some replicas get the batch; the others when it is repaired.
    fn tear(&self, batch: PartitionBatch, delay: Duration) {
        self.tally.count(|reached| reached.torn_batches += 1);
        let number = self.replicas.tear(batch);
        let (world, inner, replicas, witness) =
            (self.world.clone(), self.inner.clone(), self.replicas.clone(), self.witness.clone());
        self.world.spawn(async move {
            world.sleep(delay).await;
            mend(&inner, &replicas, &witness, number).await;
        });
    }

    /// Nobody knows whether a conditional write was made until somebody looks, or long after.
    fn leave_undecided(&self, set: CompareAndSet) {
        self.tally.count(|reached| reached.undecided_sets += 1);
        self.trace.log(&self.name, format_args!("compare_and_set of {}: undecided", set.key.name));
        let key = set.key.clone();
        self.replicas.leave_undecided(set);
        let (world, inner, replicas, tally) =
            (self.world.clone(), self.inner.clone(), self.replicas.clone(), self.tally.clone());
        let (dice, delay) = (Dice::new(&self.world), self.dice.millis(0, LATEST_CHANGE.as_millis() as u64));
        self.world.spawn(async move {
            world.sleep(delay).await;
            replicas.decide(&inner, &key, &dice, &tally).await;
        });
    }

    /// Stores may answer fewer rows than asked for, and needn't know that nothing follows.
    fn cut_short(&self, page: &mut ScanPage) {
        let weather = self.sky.weather();
        if page.rows.len() > 1 && self.dice.chance(weather.short_pages) {
            page.rows.truncate(self.dice.between(1, page.rows.len() as u64 - 1) as usize);
            page.more = true;
        } else if !page.rows.is_empty() && self.dice.chance(weather.vain_more) {
            page.more = true;
        }
    }
}

/// Repairs a torn batch. Says whether that was still to be done.
async fn mend(inner: &MemoryStore, replicas: &Replicas, witness: &Witness, number: u64) -> bool {
    let Some(batch) = replicas.take(number) else { return false };
    witness.writes(&batch);
    inner.write(vec![batch], LONGEST_HANG).await;
    true
}

/// A change of the shared store that can be made now or later.
pub(crate) trait AsyncChange<T>: Send + 'static {
    fn run(self, store: Arc<MemoryStore>) -> impl Future<Output = Result<T, StoreError>> + Send;
}

struct CreateTable(TableName);
struct DropTable(TableName);

impl AsyncChange<()> for CreateTable {
    async fn run(self, store: Arc<MemoryStore>) -> Result<(), StoreError> {
        store.create_table(&self.0).await
    }
}

impl AsyncChange<()> for DropTable {
    async fn run(self, store: Arc<MemoryStore>) -> Result<(), StoreError> {
        store.drop_table(&self.0).await
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn everywhere(self: Arc<Self>) -> Arc<dyn Store> {
        Arc::new(FaultyStore { sees_all: true, ..(*self).clone() })
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.change("create_table", CreateTable(table.clone())).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.change("drop_table", DropTable(table.clone())).await
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        self.arrive("tables", LONGEST_HANG).await?;
        self.answer("tables", self.inner.tables().await).await
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        if let Err(error) = self.arrive("write", timeout).await {
            return vec![Err(error); batches.len()];
        }
        let weather = self.sky.weather();
        self.pause_perhaps(&weather, "write").await;
        let answers = self.write_batches(batches, timeout).await;
        self.crash_perhaps(&weather, "write").await;
        self.pause_perhaps(&weather, "write").await;
        answers
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.arrive("scan", scan.timeout).await?;
        let mut altered = scan.clone();
        if let Some(plant) = self.plant {
            plant.alter_scan(&mut altered, &self.dice);
        }
        let asks_one =
            self.sees_all && self.plant == Some(Plant::PlansFromOneReplica) && scan.table.pieces_of().is_none();
        if self.sees_all && !asks_one {
            for number in self.replicas.of(scan) {
                if mend(&self.inner, &self.replicas, &self.witness, number).await {
                    self.tally.count(|reached| reached.torn_mended += 1);
                }
            }
        }
        let seen = self.replicas.seen_by(scan, &self.dice, &self.tally);
        let mut page = match self.piece_bugs.recall(self.plant, scan) {
            Some(page) => page,
            None if asks_one => self.lagging.scan_one(&self.inner, &altered, &self.world, &self.dice).await?,
            None if seen.is_empty() => self.inner.scan(&altered).await?,
            None => self.inner.scan_as_if(&altered, seen)?,
        };
        if let Some(plant) = self.plant {
            plant.alter_page(&mut page, &self.dice);
            if plant == Plant::RepeatsRow {
                repeat_row(&self.inner, scan, &mut page).await?;
            }
        }
        self.cut_short(&mut page);
        self.answer("scan", Ok(page)).await
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        self.arrive("occupied", LONGEST_HANG).await?;
        let mut found = self.inner.occupied(table, series, buckets, direction, limit).await?;
        if self.plant == Some(Plant::MissesOccupied) && !found.is_empty() && self.dice.percent(5) {
            found.remove(self.dice.below(found.len() as u64) as usize);
        }
        self.answer("occupied", Ok(found)).await
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        self.arrive("sample", LONGEST_HANG).await?;
        self.answer("sample", self.inner.sample(table, from, limit).await).await
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        self.arrive("load", LONGEST_HANG).await?;
        self.replicas.decide(&self.inner, key, &self.dice, &self.tally).await;
        self.answer("load", self.inner.load(key).await).await
    }

    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        self.arrive("list", LONGEST_HANG).await?;
        self.replicas.list(&self.inner, scope, &self.dice, &self.tally).await?;
        self.answer("list", self.inner.list(scope, after, limit).await).await
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        let change = CompareAndSet {
            compares: self.plant.is_none_or(|plant| plant.compares(key, value.as_ref())),
            key: key.clone(),
            expected,
            value,
            witness: self.witness.clone(),
            life: self.life,
        };
        if self.sky.weather().replicas && self.dice.chance(self.sky.weather().lost / 4) {
            self.arrive("compare_and_set", LONGEST_HANG).await?;
            self.replicas.decide(&self.inner, key, &self.dice, &self.tally).await;
            self.leave_undecided(change);
            return Err(unknown());
        }
        self.replicas.decide(&self.inner, key, &self.dice, &self.tally).await;
        let changed = self.change("compare_and_set", change).await;
        if self.plant == Some(Plant::ChecksBeforeRows) && changed.is_ok() {
            let (held, inner, server) = (self.piece_bugs.take_held(), self.inner.clone(), self.server.clone());
            let delay = self.dice.millis(0, 500);
            self.server.spawn(async move {
                server.sleep(delay).await;
                inner.write(held, LONGEST_HANG).await;
            });
        }
        changed
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

/// Puts the row that a scan should go on behind in front of its page once more.
async fn repeat_row(inner: &MemoryStore, scan: &Scan, page: &mut ScanPage) -> Result<(), StoreError> {
    let ScanSpan::Interval { after: Some(After::Row(row)), .. } = &scan.span else { return Ok(()) };
    let from = std::ops::Bound::Included(row.item_key.clone());
    let span = ScanSpan::Event { position: row.position.clone(), from };
    let once_more = Scan { span, direction: Direction::Forward, max_rows: 1, ..scan.clone() };
    let again = inner.scan(&once_more).await?;
    page.rows.splice(0..0, again.rows);
    Ok(())
}

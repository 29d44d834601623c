//! Lease, nonce and completion, checked exhaustively: two workers run the real code of a split, and every order in which their calls
//! can reach the record is tried, with every way in which an answer can get lost (S2, S4, S5, S7).
//!
//! A state can't be copied in the middle of real code, so it is reached again from the beginning by the same choices. States are the
//! same when the record, what is still on its way to it, and everything that each worker was ever answered are the same: then nothing
//! that follows can differ.
#![allow(clippy::unwrap_used)] // a test that can't go on has failed

use std::{
    collections::{BTreeSet, VecDeque},
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_model::{
    EventBucket, EventId, EventItemKey, Interval, Item, NamespaceName, PartitionKey, Position, Row, TableName,
    TimeBucket, TimeSeriesId, Timestamp,
};
use anabranch_runtime::{Env, run_simulated};
use anabranch_split::{
    Form, Ground, Pace, Records, State, Strategy, WidePartition, WideRow, Work, WorkOptions,
    plant::{Bug, plant},
};
use anabranch_store::{
    Capabilities, CasOutcome, Direction, MemoryStore, MetaKey, PartitionBatch, Sample, Scan, ScanPage, Store,
    StoreError, Version, Versioned,
};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::oneshot;

const WORKERS: usize = 2;
/// How often each worker takes the record up.
const ROUNDS: usize = 1;
/// Answers that may get lost in one history. More of either is a matter of patience: all of it is tried again from the beginning.
const FAULTS: usize = 1;
const DAY: i64 = 86_400;

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// A worker's call is made and answered.
    Make(usize),
    /// A worker's call isn't made, and nobody is told.
    Lose(usize),
    /// A worker's call is made, and nobody is told.
    LoseAnswer(usize),
    /// A worker's call isn't made yet, and nobody is told.
    Delay(usize),
    /// A call that was delayed is made.
    MakeDelayed(usize),
}

#[derive(Clone)]
enum Call {
    Load,
    Set { expected: Option<Version>, value: Option<Bytes> },
}

/// What a worker is answered.
#[derive(Clone, Debug)]
enum Answer {
    Loaded(Option<Versioned>),
    Set(CasOutcome),
    Lost,
}

struct Waiting {
    call: Call,
    answer: oneshot::Sender<Answer>,
}

#[derive(Default)]
struct Desk {
    waiting: [Option<Waiting>; WORKERS],
    delayed: Vec<(usize, Call)>,
    /// Everything that each worker was answered, as text.
    known: [String; WORKERS],
    finished: [bool; WORKERS],
    faults: usize,
    broken: Option<String>,
}

/// One run of both workers, as far as the choices go.
struct World {
    store: Arc<MemoryStore>,
    key: Mutex<Option<MetaKey>>,
    desk: Mutex<Desk>,
}

/// The store as one worker sees it: calls for the record wait until they are chosen.
struct Gate {
    world: Arc<World>,
    worker: usize,
}

impl World {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self) -> MetaKey {
        self.key.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("the record was made first")
    }

    async fn record(&self) -> Versioned {
        self.store.load(&self.key()).await.unwrap().expect("nobody removes it")
    }

    /// Makes a call, and looks at what it changes.
    async fn make(&self, worker: usize, call: Call) -> Answer {
        match call {
            Call::Load => Answer::Loaded(self.store.load(&self.key()).await.unwrap()),
            Call::Set { expected, value } => {
                let before = parse(&self.record().await.value);
                let outcome = self.store.compare_and_set(&self.key(), expected, value).await.unwrap();
                if let CasOutcome::Applied(_) = outcome {
                    let after = parse(&self.record().await.value);
                    if let Err(broken) = judge(worker, &before, &after) {
                        self.desk().broken.get_or_insert(broken);
                    }
                }
                Answer::Set(outcome)
            }
        }
    }

    fn answer(&self, worker: usize, answer: Answer) {
        let mut desk = self.desk();
        desk.known[worker].push_str(&format!("{answer:?};"));
        if let Some(waiting) = desk.waiting[worker].take() {
            let _ = waiting.answer.send(answer);
        }
    }

    async fn choose(&self, choice: Choice) {
        let call = |worker: usize| self.desk().waiting[worker].as_ref().map(|waiting| waiting.call.clone());
        match choice {
            Choice::Make(worker) => {
                let Some(call) = call(worker) else { return };
                let answer = self.make(worker, call).await;
                self.answer(worker, answer);
            }
            Choice::Lose(worker) => self.answer(worker, Answer::Lost),
            Choice::LoseAnswer(worker) => {
                let Some(call) = call(worker) else { return };
                self.make(worker, call).await;
                self.answer(worker, Answer::Lost);
            }
            Choice::Delay(worker) => {
                let Some(call) = call(worker) else { return };
                self.desk().delayed.push((worker, call));
                self.answer(worker, Answer::Lost);
            }
            Choice::MakeDelayed(at) => {
                let (worker, call) = self.desk().delayed.remove(at);
                self.make(worker, call).await;
            }
        }
        let faulty = matches!(choice, Choice::Lose(_) | Choice::LoseAnswer(_) | Choice::Delay(_));
        self.desk().faults += usize::from(faulty);
    }

    /// Everything that can happen next.
    fn choices(&self) -> Vec<Choice> {
        let desk = self.desk();
        let mut choices = Vec::new();
        for worker in 0..WORKERS {
            let Some(waiting) = &desk.waiting[worker] else { continue };
            choices.push(Choice::Make(worker));
            if desk.faults < FAULTS && matches!(waiting.call, Call::Set { .. }) {
                choices.extend([Choice::Lose(worker), Choice::LoseAnswer(worker), Choice::Delay(worker)]);
            }
        }
        choices.extend((0..desk.delayed.len()).map(Choice::MakeDelayed));
        choices
    }

    /// Lets workers run until each waits for a choice, or is done.
    async fn settle(&self) {
        let settled = || {
            let desk = self.desk();
            (0..WORKERS).all(|worker| desk.finished[worker] || desk.waiting[worker].is_some())
        };
        while !settled() {
            tokio::task::yield_now().await;
        }
    }

    /// Two states with the same name have the same future.
    async fn name(&self) -> String {
        let record = self.record().await;
        let desk = self.desk();
        let delayed: Vec<String> = desk
            .delayed
            .iter()
            .map(|(worker, call)| match call {
                Call::Set { expected, value } => format!("{worker} {expected:?} {value:?}"),
                Call::Load => String::new(),
            })
            .collect();
        format!("{record:?} {delayed:?} {:?} {:?} {}", desk.known, desk.finished, desk.faults)
    }
}

/// What only tells others to look decides nothing: it is not part of the model.
fn is_record(key: &MetaKey) -> bool {
    key.scope.starts_with("wide_row/")
}

fn parse(value: &Bytes) -> WideRow {
    serde_json::from_slice(value).unwrap()
}

/// Whether a change that this worker made, now or long ago, keeps what must always hold.
fn judge(worker: usize, before: &WideRow, after: &WideRow) -> Result<(), String> {
    let name = name(worker);
    if after.epoch < before.epoch {
        return Err(format!("S4: {name} takes the epoch back"));
    }
    let owner = before.lease.as_ref().map(|lease| lease.worker.as_str());
    if after.epoch == before.epoch && owner != Some(name.as_str()) {
        return Err(format!(
            "S4: {name} changes the record from {} to {} without the lease",
            before.state.name(),
            after.state.name()
        ));
    }
    if after.served.len() < before.served.len() || after.served[..before.served.len()] != before.served[..] {
        return Err("S5: a served segment is lost".to_owned());
    }
    if after.served.len() > before.served.len() && !matches!(before.state, State::Verifying(_)) {
        return Err(format!("S2: {name} serves what was not verified"));
    }
    if after.served.len() > 1 {
        return Err("S7: the same time is served twice".to_owned());
    }
    Ok(())
}

fn name(worker: usize) -> String {
    format!("worker {worker}")
}

#[async_trait]
impl Store for Gate {
    fn capabilities(&self) -> Capabilities {
        self.world.store.capabilities()
    }

    fn everywhere(self: Arc<Self>) -> Arc<dyn Store> {
        self
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.world.store.create_table(table).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.world.store.drop_table(table).await
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        self.world.store.tables().await
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        self.world.store.write(batches, timeout).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.world.store.scan(scan).await
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        self.world.store.occupied(table, series, buckets, direction, limit).await
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        self.world.store.sample(table, from, limit).await
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        if !is_record(key) {
            return self.world.store.load(key).await;
        }
        match self.ask(Call::Load).await {
            Answer::Loaded(document) => Ok(document),
            _ => Err(StoreError::Unavailable { reason: "lost".to_owned() }),
        }
    }

    async fn list(&self, _: &str, _: Option<&str>, _: usize) -> Result<Vec<(String, Versioned)>, StoreError> {
        Ok(Vec::new())
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        if !is_record(key) {
            return self.world.store.compare_and_set(key, expected, value).await;
        }
        match self.ask(Call::Set { expected, value }).await {
            Answer::Set(outcome) => Ok(outcome),
            _ => Err(StoreError::Unknown { reason: "lost".to_owned() }),
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Gate {
    async fn ask(&self, call: Call) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.world.desk().waiting[self.worker] = Some(Waiting { call, answer });
        answered.await.unwrap_or(Answer::Lost)
    }
}

fn partition() -> WidePartition {
    let key = PartitionKey {
        series: TimeSeriesId::new("s").unwrap(),
        time_bucket: TimeBucket(0),
        event_bucket: EventBucket(0),
    };
    WidePartition::new(NamespaceName::new("n").unwrap(), "data_20260328".to_owned(), key)
}

fn ground() -> Ground {
    Ground {
        bucket: Interval::new(Timestamp::from_seconds(0), Timestamp::from_seconds(DAY)),
        sealed_until: Timestamp::from_seconds(DAY),
        threshold_bytes: 1,
        target_piece_bytes: 1,
        as_of: 0,
        event_buckets: 1,
        strategy: Strategy::TimeRange,
        form: Form::Rows,
    }
}

/// Leases are over as soon as they are taken: they serve liveness only, and nothing may depend on them.
fn work(world: &Arc<World>, env: &Env, worker: usize) -> Work {
    let options = WorkOptions { lease: Duration::ZERO, max_attempts: 1000, ..WorkOptions::default() };
    let gate = Gate { world: world.clone(), worker };
    Work::new(Arc::new(gate), env.node(0), options, name(worker), Arc::new(Pace::new(1 << 30)))
}

/// Two events of one row each, and a record of their detection.
async fn begin(env: &Env) -> Arc<World> {
    let store = Arc::new(MemoryStore::new(env.node(0)));
    let partition = partition();
    store.create_table(&partition.table()).await.unwrap();
    let row = |at: i64| Row {
        position: Position { time: Timestamp::from_seconds(at), id: EventId::new("e").unwrap() },
        item: Item { key: EventItemKey::new("k").unwrap(), value: Bytes::from_static(b"v"), metadata: None },
    };
    let batch = PartitionBatch {
        table: partition.table(),
        partition: partition.key(),
        rows: vec![row(1), row(2)],
        write_time_micros: 1,
    };
    store.write(vec![batch], Duration::from_secs(1)).await.remove(0).unwrap();
    let records = Records::new(store.clone(), env.node(0), Duration::from_secs(1));
    records.detect(&partition, None).await.unwrap();
    let mut key = None;
    for shard in 0..anabranch_split::records::SHARDS {
        let scope = format!("wide_row/{}/{}/{shard:02x}", partition.namespace, partition.time_slice);
        let found = store.list(&scope, None, 1).await.unwrap();
        key = key.or(found.first().map(|(name, _)| MetaKey::new(scope, name.clone())));
    }
    Arc::new(World { store, key: Mutex::new(key), desk: Mutex::default() })
}

/// What is reached by these choices: its name, what can happen next, and what is broken.
fn reach(path: &[Choice]) -> (String, Vec<Choice>, Option<String>) {
    run_simulated(1, Timestamp::from_seconds(2 * DAY), |env| async move {
        let world = begin(&env).await;
        for worker in 0..WORKERS {
            let (world, work) = (world.clone(), work(&world, &env, worker));
            env.spawn(async move {
                for _ in 0..ROUNDS {
                    if let Ok(Some(loaded)) = work.records().load(&partition()).await {
                        let _ = work.advance(&loaded, &ground()).await;
                    }
                }
                world.desk().finished[worker] = true;
            });
        }
        world.settle().await;
        for choice in path {
            world.choose(*choice).await;
            world.settle().await;
        }
        let choices = world.choices();
        if choices.is_empty() {
            conclude(&world, &env).await;
        }
        let broken = world.desk().broken.clone();
        (world.name().await, choices, broken)
    })
}

/// S5: when both workers are done, a third can always finish, and what is served are the rows of the original.
async fn conclude(world: &Arc<World>, env: &Env) {
    let records = Records::new(world.store.clone(), env.node(0), Duration::from_secs(1));
    let options = WorkOptions { lease: Duration::ZERO, max_attempts: 1000, ..WorkOptions::default() };
    let pace = Arc::new(Pace::new(1 << 30));
    let third = Work::new(world.store.clone(), env.node(0), options, "third".to_owned(), pace);
    let loaded = records.load(&partition()).await.unwrap().unwrap();
    let _ = third.advance(&loaded, &ground()).await;
    let row = records.load(&partition()).await.unwrap().unwrap().row;
    let rows: u64 = row.served.iter().flat_map(|segment| &segment.pieces).map(|piece| piece.content.rows).sum();
    if !matches!(row.state, State::Completed { .. }) || rows != 2 {
        let broken = format!("S5: it ends {} with {rows} rows served", row.state.name());
        world.desk().broken.get_or_insert(broken);
    }
}

/// Looks at every state, those with fewer choices first. Answers how many there are, or the first that is broken and how to get there.
fn explore() -> Result<usize, (Vec<Choice>, String)> {
    let mut seen = BTreeSet::new();
    let mut ahead = VecDeque::from([Vec::new()]);
    while let Some(path) = ahead.pop_front() {
        let (name, choices, broken) = reach(&path);
        if let Some(broken) = broken {
            return Err((path, broken));
        }
        if !seen.insert(xxhash_rust::xxh3::xxh3_128(name.as_bytes())) {
            continue;
        }
        for choice in choices {
            let mut next = path.clone();
            next.push(choice);
            ahead.push_back(next);
        }
    }
    Ok(seen.len())
}

#[test]
fn two_workers_never_harm_each_other_whatever_is_lost_s4_s5() {
    let states = explore().unwrap_or_else(|(path, broken)| panic!("{broken}\nafter {path:?}"));
    println!("{states} states");
    assert!(states > 100, "only {states} states");
}

/// A completion, or any step, that is taken for done without a look at the nonce.
#[test]
fn a_step_believed_without_its_nonce_is_found_by_the_model_s4() {
    plant(Some(Bug::BelievesAnyNonce));
    let found = explore();
    plant(None);
    let (path, broken) = found.expect_err("the planted bug breaks something");
    println!("{broken} after {path:?}");
    assert!(broken.starts_with("S4") || broken.starts_with("S2") || broken.starts_with("S7"), "{broken}");
}

//! Clients that write and read all the time, and what they know to be stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anabranch_api::wkt;
use anabranch_client::{Client, ClientError, ClientOptions, v1};
use anabranch_runtime::Env;
use futures_util::StreamExt;
use tokio::{runtime::Runtime, task::JoinHandle};

use super::{Story, processes::Anabranch};

const WRITERS: usize = 3;
/// Readers who ask whichever server their client asks.
const READERS: usize = 2;
/// Series that take writes all the time.
const LIVE: usize = 4;
const BATCH: usize = 5;
/// Between two requests of a client: three nodes on one small machine are to be tried, not drowned.
const PAUSE: Duration = Duration::from_millis(150);
/// How long the load may make no progress, as when a node that was asked is gone.
const STALL: Duration = Duration::from_secs(120);
/// How long a page may be asked for in vain, as when two nodes of three are away, and how often it is asked for.
const UNSERVED: Duration = Duration::from_secs(240);
const AGAIN: Duration = Duration::from_millis(200);

/// A place in a history.
type Position = (i64, String);

/// What was written: by series, what was tried, and what of it was acknowledged.
#[derive(Clone, Default)]
pub(crate) struct Oracle(Arc<Mutex<BTreeMap<String, History>>>);

#[derive(Clone, Default)]
struct History {
    tried: BTreeSet<Position>,
    acknowledged: BTreeSet<Position>,
}

/// The value that belongs to an event's id.
pub(crate) fn value_of(id: &str) -> String {
    let hash = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (0..12).map(|part| format!("{:016x}", hash.rotate_left(part * 5).wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect()
}

impl Oracle {
    fn with<T>(&self, series: &str, work: impl FnOnce(&mut History) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(all.entry(series.to_owned()).or_default())
    }

    pub(crate) fn begin(&self, series: &str, events: &[Position]) {
        self.with(series, |history| history.tried.extend(events.iter().cloned()));
    }

    pub(crate) fn acknowledge(&self, series: &str, events: &[Position]) {
        self.with(series, |history| history.acknowledged.extend(events.iter().cloned()));
    }

    fn series(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// R1: what a scan found is in order, holds all that was acknowledged before it began, and nothing that nobody wrote.
    fn check(&self, series: &str, before: &BTreeSet<Position>, found: &[Position]) {
        assert!(found.windows(2).all(|pair| pair[0] > pair[1]), "{series}: out of order, or twice");
        let found: BTreeSet<&Position> = found.iter().collect();
        let missing: Vec<&Position> = before.iter().filter(|position| !found.contains(position)).collect();
        assert!(missing.is_empty(), "{series}: {} of {} are missing: {missing:?}", missing.len(), before.len());
        let tried = self.with(series, |history| history.tried.clone());
        let invented: Vec<&&Position> = found.iter().filter(|position| !tried.contains(**position)).collect();
        assert!(invented.is_empty(), "{series}: nobody wrote {invented:?}");
    }

    /// Reads every history from one server and checks it.
    pub(crate) fn check_everything(&self, server: &Anabranch) {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let from = Asked::Each(vec![client(&server.grpc.to_string())]);
            for series in self.series() {
                let before = self.with(&series, |history| history.acknowledged.clone());
                let found = scan(&from, &series, 7, &Counts::default()).await;
                self.check(&series, &before, &found);
            }
        });
    }
}

/// What was done so far.
#[derive(Default)]
struct Counts {
    acknowledged: AtomicU64,
    scans: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    /// A request that should have been served failed, though it was tried again.
    fn failed(&self, error: &ClientError) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        println!("a request failed for good: {error:?}");
    }
}

/// Writers and readers at work: tasks that share one client, and so its connections.
pub(crate) struct Load {
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    runtime: Runtime,
}

/// What a load has done.
pub(crate) struct Figures {
    acknowledged: u64,
    scans: u64,
    failed: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { acknowledged, scans, failed } = self;
        write!(f, "{acknowledged} events acknowledged, {scans} whole histories read, {failed} requests failed for good")
    }
}

impl Load {
    pub(crate) fn start(oracle: &Oracle, servers: &[Anabranch]) -> Load {
        let (counts, stop) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let runtime = Runtime::new().unwrap();
        let addresses: Vec<String> = servers.iter().map(|server| server.grpc.to_string()).collect();
        // Connections belong to the runtime in which they are made.
        let inside = runtime.enter();
        let shared = client(&addresses.join(","));
        let each: Vec<Client> = addresses.iter().map(|address| client(address)).collect();
        drop(inside);
        let mut tasks = Vec::new();
        for writer in 0..WRITERS {
            let (oracle, counts, stop, client) = (oracle.clone(), counts.clone(), stop.clone(), shared.clone());
            tasks.push(runtime.spawn(async move { write(&oracle, &counts, &stop, &client, writer).await }));
        }
        let readers = (0..READERS).map(|_| Asked::Any(shared.clone())).chain([Asked::Each(each)]);
        for (reader, from) in readers.enumerate() {
            let (oracle, counts, stop) = (oracle.clone(), counts.clone(), stop.clone());
            tasks.push(runtime.spawn(async move { read(&oracle, &counts, &stop, &from, reader).await }));
        }
        Load { counts, stop, tasks: Mutex::new(tasks), runtime }
    }

    /// Waits until so many more events are acknowledged and every reader has had its turn.
    pub(crate) fn goes_on(&self, story: &Story, batches: u64) {
        let (acknowledged, scans) = (&self.counts.acknowledged, &self.counts.scans);
        let events = acknowledged.load(Ordering::Relaxed) + batches * BATCH as u64;
        let histories = scans.load(Ordering::Relaxed) + 2;
        let begun = Instant::now();
        while acknowledged.load(Ordering::Relaxed) < events || scans.load(Ordering::Relaxed) < histories {
            self.is_well();
            assert!(begun.elapsed() < STALL, "writes or reads make no progress");
            std::thread::sleep(Duration::from_millis(20));
        }
        story.tell("  reads and writes go on");
    }

    /// No client has found anything wrong so far.
    pub(crate) fn is_well(&self) {
        let broken = self.tasks().iter().any(JoinHandle::is_finished);
        assert!(!broken, "a client has found something wrong; it is printed above");
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that failed though they were tried again.
    pub(crate) fn failed_requests(&self) -> u64 {
        self.counts.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) -> Figures {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks().drain(..) {
            assert!(self.runtime.block_on(task).is_ok(), "a client has found something wrong; it is printed above");
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { acknowledged, scans, failed } = &*self.counts;
        Figures { acknowledged: count(acknowledged), scans: count(scans), failed: count(failed) }
    }
}

fn client(addresses: &str) -> Client {
    let options = ClientOptions { request_timeout: Duration::from_secs(30), ..ClientOptions::default() };
    Client::connect_lazily(addresses, options).unwrap()
}

async fn write(oracle: &Oracle, counts: &Counts, stop: &AtomicBool, client: &Client, writer: usize) {
    let env = Env::system();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let series = format!("live-{}", number % LIVE);
        let positions: Vec<Position> =
            (0..BATCH).map(|at| (env.now().nanos() + at as i64, format!("{writer}-{number}-{at}"))).collect();
        number += 1;
        oracle.begin(&series, &positions);
        let events = positions.iter().map(|(time, id)| event(&series, *time, id)).collect();
        let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
        match client.write_sync(request).await {
            Ok(_) => {
                oracle.acknowledge(&series, &positions);
                counts.acknowledged.fetch_add(BATCH as u64, Ordering::Relaxed);
            }
            // It may be stored or not: both are right from now on.
            Err(error) => counts.failed(&error),
        }
        env.sleep(PAUSE).await;
    }
}

fn event(series: &str, nanos: i64, id: &str) -> v1::Event {
    let time =
        wkt::Timestamp { seconds: nanos.div_euclid(1_000_000_000), nanos: nanos.rem_euclid(1_000_000_000) as i32 };
    let item = v1::EventItem {
        event_item_key: "note".to_owned(),
        event_item_value: value_of(id).into(),
        value_metadata: None,
    };
    v1::Event {
        time_series_id: series.to_owned(),
        event_time: Some(time),
        event_id: id.to_owned(),
        event_items: vec![item],
    }
}

/// From where a history is read.
enum Asked {
    /// From any server, by a client of all: as one stream, and page after page.
    Any(Client),
    /// Each page from the next server, by clients of one each: those fail when it is away, as they should.
    Each(Vec<Client>),
}

async fn read(oracle: &Oracle, counts: &Counts, stop: &AtomicBool, from: &Asked, reader: usize) {
    let env = Env::system();
    let mut turn = reader;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let all = oracle.series();
        let Some(series) = (!all.is_empty()).then(|| all[turn % all.len()].clone()) else {
            env.sleep(PAUSE).await;
            continue;
        };
        let before = oracle.with(&series, |history| history.acknowledged.clone());
        let found = scan(from, &series, turn, counts).await;
        oracle.check(&series, &before, &found);
        counts.scans.fetch_add(1, Ordering::Relaxed);
        env.sleep(PAUSE).await;
    }
}

/// A whole history.
async fn scan(from: &Asked, series: &str, turn: usize, counts: &Counts) -> Vec<Position> {
    let mut request = v1::ReadEventRecordsRequest {
        namespace: "plays".to_owned(),
        time_series_id: series.to_owned(),
        page_size: [50, 300, 1000][turn % 3],
        ..v1::ReadEventRecordsRequest::default()
    };
    let (env, mut begun, mut found) = (Env::system(), Instant::now(), Vec::new());
    for attempt in turn.. {
        let mut pages = match from {
            Asked::Any(client) if turn.is_multiple_of(2) => client.stream(request.clone()),
            Asked::Any(client) => client.pages(request.clone()),
            Asked::Each(clients) => clients[attempt % clients.len()].pages(request.clone()).take(1).boxed(),
        };
        while let Some(page) = pages.next().await {
            match page {
                Ok(page) => {
                    request.page_token.clone_from(&page.next_page_token);
                    found.extend(positions(series, page));
                    begun = Instant::now();
                    if request.page_token.is_empty() {
                        return found;
                    }
                }
                Err(error) => {
                    assert!(begun.elapsed() < UNSERVED, "no server answers: {error:?}");
                    if matches!(from, Asked::Any(_)) {
                        counts.failed(&error);
                    }
                    env.sleep(AGAIN).await;
                }
            }
        }
    }
    unreachable!("attempts have no end")
}

/// What a page holds, each event with the value that belongs to it.
fn positions(series: &str, page: v1::ReadEventRecordsResponse) -> Vec<Position> {
    let position = |record: v1::EventRecord| {
        let [item] = &record.event_items[..] else { panic!("{series}: {record:?} has other items") };
        assert_eq!(item.event_item_value, value_of(&record.event_id).as_bytes(), "{series}: {}", record.event_id);
        let time = record.event_time.unwrap();
        (time.seconds * 1_000_000_000 + i64::from(time.nanos), record.event_id)
    };
    page.records.into_iter().map(position).collect()
}

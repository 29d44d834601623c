//! Small reads beside 16 whole-history scans, over gRPC on the embedded store: what small reads take alone and beside the scans,
//! how fast the scans are alone and beside small reads, and that each of them moves.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use prost::Message;

use super::{
    Bench, PAGE_SIZE,
    crowd::{self, Kind},
};
use crate::{
    events::Random,
    latency::Latencies,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, Connection, PageOutline},
};

const SCANS: usize = 16;
/// Two scans of each long history.
const WIDE: u64 = 8;
const SMALL: Kind = Kind { name: "small", series: 256, bytes: 60_000, json: false };
/// Records of a small read.
const SMALL_PAGE: u32 = 20;
/// Small reads don't follow each other at once: they are what is measured, not a load.
const THINK: Duration = Duration::from_micros(500);

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let wide = Kind { name: "wide", series: WIDE, bytes: bench.sizes.large_bytes / 4 / WIDE, json: false };
    let directory = crowd::make(bench.path("pressure"), &[wide, SMALL]).await?;
    let server = bench.launcher.start(&directory, &[])?;
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let small = Small::new(server.grpc, u64::from(run));
        // Warm, then alone.
        let small = small.run(bench.sizes.phase / 5)?.0;
        let (small, alone) = small.run(bench.sizes.phase)?;
        let scans = Scans::start(server.grpc, wide)?;
        std::thread::sleep(bench.sizes.phase / 5);
        let before = scans.look();
        std::thread::sleep(bench.sizes.phase);
        let fast = before.until(&scans.look());
        // The number of scans in flight finds its place first.
        let small = small.run(bench.sizes.phase / 5)?.0;
        let before = scans.look();
        let (_, beside) = small.run(2 * bench.sizes.phase)?;
        let slowed = before.until(&scans.look());
        scans.stop()?;

        let ratio = |share| beside.millis(share) / alone.millis(share);
        let speed = slowed.speed() / fast.speed();
        sheet.bounded("p99 of small reads beside scans, times alone", Unit::Ratio, Bound::AtMost(2.0), ratio(0.99));
        sheet.bounded("scans beside small reads, times alone", Unit::Ratio, Bound::AtLeast(0.6), speed);
        let least = slowed.pages.iter().min().copied().unwrap_or(0) as f64;
        sheet.bounded("  pages of the slowest scan meanwhile", Unit::Count, Bound::AtLeast(1.0), least);
        sheet.note("  small reads alone, p50", Unit::Milliseconds, alone.millis(0.5));
        sheet.note("  small reads alone, p99", Unit::Milliseconds, alone.millis(0.99));
        sheet.note("  small reads beside scans, p50", Unit::Milliseconds, beside.millis(0.5));
        sheet.note("  small reads beside scans, p99", Unit::Milliseconds, beside.millis(0.99));
        sheet.note("  scans alone, events", Unit::PerSecond, fast.speed() * f64::from(PAGE_SIZE));
        sheet.note("  scans beside small reads, events", Unit::PerSecond, slowed.speed() * f64::from(PAGE_SIZE));
    }
    server.stop()?;
    crowd::remove(&directory)?;
    Ok(sheet.measures())
}

/// One client that reads small pages, one after the other, on a thread of its own.
struct Small {
    address: SocketAddr,
    random: Random,
}

impl Small {
    fn new(address: SocketAddr, seed: u64) -> Small {
        Small { address, random: Random::new(seed) }
    }

    fn run(self, length: Duration) -> Result<(Small, Latencies)> {
        let thread = std::thread::spawn(move || on_one_thread(self.read(length)));
        thread.join().map_err(|_| anyhow!("the reader of small pages panicked"))?
    }

    async fn read(mut self, length: Duration) -> Result<(Small, Latencies)> {
        let mut connection = Connection::open(self.address).await?;
        let mut latencies = Latencies::new()?;
        while latencies.lasts(length) {
            let request = crowd::page(SMALL.series(self.random.below(SMALL.series)), SMALL_PAGE);
            let sent = Instant::now();
            let answer = connection.call(wire::READ, request).await?;
            latencies.record(sent.elapsed());
            let records = PageOutline::decode(answer.message()?)?.records.len();
            ensure!(records == SMALL_PAGE as usize, "a small page held {records} records");
            tokio::time::sleep(THINK).await;
        }
        Ok((self, latencies))
    }
}

/// Clients that read whole histories again and again, on a thread of their own.
struct Scans {
    pages: Arc<[AtomicU64; SCANS]>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

/// How far the scans have come at one moment, or within a span.
struct Progress {
    at: Instant,
    took: Duration,
    pages: Vec<u64>,
}

impl Scans {
    fn start(address: SocketAddr, wide: Kind) -> Result<Scans> {
        let pages: Arc<[AtomicU64; SCANS]> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let (counted, stopping) = (pages.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            on_one_thread(async move {
                let scans = (0..SCANS).map(|at| scan(address, wide, at, &counted[at], &stopping));
                futures_util::future::try_join_all(scans).await.map(|_| ())
            })
        });
        Ok(Scans { pages, stop, thread })
    }

    fn look(&self) -> Progress {
        let pages = self.pages.iter().map(|pages| pages.load(Ordering::Relaxed)).collect();
        Progress { at: Instant::now(), took: Duration::ZERO, pages }
    }

    fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the scans panicked"))?
    }
}

impl Progress {
    fn until(&self, later: &Progress) -> Progress {
        let pages = self.pages.iter().zip(&later.pages).map(|(before, after)| after - before).collect();
        Progress { at: later.at, took: later.at - self.at, pages }
    }

    /// Pages of all scans together, per second.
    fn speed(&self) -> f64 {
        self.pages.iter().sum::<u64>() as f64 / self.took.as_secs_f64()
    }
}

async fn scan(address: SocketAddr, wide: Kind, at: usize, pages: &AtomicU64, stop: &AtomicBool) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    while !stop.load(Ordering::Relaxed) {
        let request = crowd::page(wide.series(at as u64 % wide.series), PAGE_SIZE);
        let mut found = connection.stream(wire::STREAM, request).await?;
        while let Some(answer) = found.next().await? {
            ensure!(!answer.is_empty(), "an empty page");
            pages.fetch_add(1, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(())
}

/// Runs a client on this thread alone.
pub(crate) fn on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("a runtime for a client")?.block_on(work)
}

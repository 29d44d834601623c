//! The harm that one wide history does to others: pages of an ordinary id, which nothing splits, alone and while 16 clients
//! read the whole wide history again and again; by the server from a split, and by the driver alone from the original.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{Site, client::Side, wide::Wide};
use crate::{
    events::Random,
    figures::{Bench, on_one_thread},
    latency::Latencies,
    report::{Bound, Measure, Sheet, Unit},
};

const SCANS: usize = 16;
const FEW: u32 = 10;
/// Pages don't follow each other at once: they are what is measured, not a load.
const THINK: Duration = Duration::from_micros(500);

/// What the other id's pages took, and how many events a second the scans found.
struct Harm {
    idle: Latencies,
    beside: Latencies,
    scans_alone: f64,
    scans_beside: f64,
}

pub(super) async fn measure(bench: &Bench, site: &mut Site) -> Result<Vec<Measure>> {
    let [_, wide] = site.histories(bench).await?;
    let other = site.ordinary().await?;
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let server = harm(site.by_server(), &other, &wide, bench.sizes.phase).await?;
        let bare = harm(site.by_driver(), &other, &wide, bench.sizes.phase).await?;
        let times = |harm: &Harm| harm.beside.millis(0.99) / harm.idle.millis(0.99);
        let speed = |harm: &Harm| harm.scans_beside / harm.scans_alone;
        sheet.bounded("p99 of another id beside scans, times idle", Unit::Ratio, Bound::AtMost(3.0), times(&server));
        sheet.bounded("scans beside another id, of alone", Unit::Ratio, Bound::AtLeast(0.4), speed(&server));
        sheet.note("  bare driver, p99 times idle", Unit::Ratio, times(&bare));
        sheet.note("  bare driver, scans of alone", Unit::Ratio, speed(&bare));
        for (what, latencies) in [
            ("  idle, p99", &server.idle),
            ("  beside scans, p99", &server.beside),
            ("  bare driver, idle, p99", &bare.idle),
            ("  bare driver, beside scans, p99", &bare.beside),
        ] {
            sheet.note(what, Unit::Milliseconds, latencies.millis(0.99));
        }
        sheet.note("  scans beside another id, events", Unit::PerSecond, server.scans_beside);
        sheet.note("  bare driver, the same", Unit::PerSecond, bare.scans_beside);
    }
    Ok(sheet.measures())
}

async fn harm(side: Side, other: &Wide, wide: &Wide, phase: Duration) -> Result<Harm> {
    read(&side, other, phase / 5).await?;
    let idle = read(&side, other, phase).await?;
    let scans = Scans::start(&side, wide).await;
    tokio::time::sleep(phase / 5).await;
    let wait = async {
        tokio::time::sleep(phase).await;
        Ok(())
    };
    let ((), scans_alone) = scans.speed(wait).await?;
    // The number of scans in flight finds its place first.
    read(&side, other, phase / 5).await?;
    let (beside, scans_beside) = scans.speed(read(&side, other, 2 * phase)).await?;
    scans.stop().await?;
    ensure!(scans_alone > 0.0, "nothing was scanned");
    Ok(Harm { idle, beside, scans_alone, scans_beside })
}

/// Reads pages of a history for so long, one after the other, on a thread of its own: what other clients do is no part of
/// what it waits for.
async fn read(side: &Side, history: &Wide, length: Duration) -> Result<Latencies> {
    let (side, history) = (side.clone(), history.clone());
    let pages = async move {
        let mut client = side.open(&history).await?;
        let (mut latencies, mut random) = (Latencies::new()?, Random::new(1));
        while latencies.lasts(length) {
            let place = history.random_place(FEW, &mut random);
            latencies.record(client.page(&history, place, FEW).await?);
            tokio::time::sleep(THINK).await;
        }
        Ok(latencies)
    };
    tokio::task::spawn_blocking(|| on_one_thread(pages)).await?
}

/// Clients that read a whole history again and again, on a thread of their own, until this is dropped.
struct Scans {
    events: Arc<AtomicU64>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Scans {
    /// Starts them and waits until all are connected.
    async fn start(side: &Side, history: &Wide) -> Scans {
        let events = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = oneshot::channel();
        let (connecting, mut connected) = mpsc::channel(1);
        let scan = |_| scan(side.clone(), history.clone(), events.clone(), connecting.clone());
        let scans: Vec<_> = (0..SCANS).map(scan).collect();
        drop(connecting);
        let until_stopped = async move {
            tokio::select! {
                failed = try_join_all(scans) => failed.map(|_| ()),
                _ = stopped => Ok(()),
            }
        };
        let thread = tokio::task::spawn_blocking(|| on_one_thread(until_stopped));
        // Nobody sends anything: it ends when the last one is connected, or has failed.
        connected.recv().await;
        Scans { events, stop, thread }
    }

    /// Events in a second while something else happens.
    async fn speed<T>(&self, meanwhile: impl Future<Output = Result<T>>) -> Result<(T, f64)> {
        let (before, began) = (self.events.load(Ordering::Relaxed), Instant::now());
        let result = meanwhile.await?;
        let events = self.events.load(Ordering::Relaxed) - before;
        Ok((result, events as f64 / began.elapsed().as_secs_f64()))
    }

    /// Says whether one has failed.
    async fn stop(self) -> Result<()> {
        drop(self.stop);
        self.thread.await?
    }
}

async fn scan(side: Side, history: Wide, events: Arc<AtomicU64>, connecting: mpsc::Sender<()>) -> Result<()> {
    let mut client = side.open(&history).await?;
    drop(connecting);
    loop {
        client.whole(&history, |page| _ = events.fetch_add(page, Ordering::Relaxed)).await?;
    }
}

//! A page of 1,000 events over gRPC, one after the other on one connection, against [`Store::scan`] of the same rows in
//! this process. Both sides read at the same random places, on equal copies of the small history.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anabranch_api::v1;
use anabranch_engine::{Engine, EngineOptions};
use anabranch_model::{Interval, Slice, Timestamp};
use anabranch_runtime::Env;
use anabranch_store::{Direction, Scan, ScanSpan, Store};
use anabranch_store_fjall::{FjallOptions, FjallStore};
use anyhow::{Context, Result, ensure};
use prost::Message;

use super::{Bench, PAGE_SIZE, PAGES_PER_TURN};
use crate::{
    events::Random,
    history::{History, NAMESPACE, SERIES},
    latency::Latencies,
    process::Process,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, Connection},
};

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let history = bench.small().await?;
    let copy = bench.path("small-copy");
    copy_directory(&history.directory, &copy)?;
    let slice = slice_of(&history, &copy).await?;
    let store = FjallStore::open(&copy, FjallOptions::default(), Env::system())?;
    let server = bench.launcher.start(&history.directory, &[])?;
    let mut sides = Sides { history: &history, slice, store: &store, connection: server.connect().await? };
    let mut random = Random::new(1);
    sides.check_equal(&mut random).await?;
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let before = server.process().cpu()?;
        let pages = sides.run(bench.sizes.pages, &mut random, &mut sheet).await?;
        let cpu = server.process().cpu()? - before;
        sheet.note("  server, CPU per page", Unit::Milliseconds, cpu.as_secs_f64() * 1e3 / f64::from(pages));
    }
    store.close().await?;
    server.stop()?;
    std::fs::remove_dir_all(copy)?;
    Ok(sheet.measures())
}

struct Sides<'a> {
    history: &'a History,
    slice: Slice,
    store: &'a FjallStore,
    connection: Connection,
}

impl Sides<'_> {
    /// Lets both sides read, taking turns; answers how many pages each has read.
    async fn run(&mut self, pages: u32, random: &mut Random, sheet: &mut Sheet) -> Result<u32> {
        let (mut direct, mut raw, mut decoded) = (Latencies::new()?, Latencies::new()?, Latencies::new()?);
        let mut direct_cpu = Duration::ZERO;
        let mut turns = 0;
        while raw.wants(pages, turns, pages.div_ceil(PAGES_PER_TURN)) {
            turns += 1;
            let place = |_| self.history.random_place(u64::from(PAGE_SIZE), random);
            let places: Vec<u64> = (0..PAGES_PER_TURN).map(place).collect();
            let before = Process::own_cpu();
            for place in &places {
                direct.record(self.scan(*place).await?.0);
            }
            direct_cpu += Process::own_cpu() - before;
            for place in &places {
                let (arrived, ready) = self.page(*place).await?;
                raw.record(arrived);
                decoded.record(ready);
            }
        }
        for (share, what, most) in [(0.5, "p50, times a direct scan", 2.5), (0.99, "p99, times a direct scan", 3.0)] {
            sheet.bounded(what, Unit::Ratio, Bound::AtMost(most), raw.millis(share) / direct.millis(share));
        }
        for (side, p50, p99) in [
            (&direct, "  direct scan, p50", "  direct scan, p99"),
            (&raw, "  over gRPC, p50", "  over gRPC, p99"),
            (&decoded, "  over gRPC and decoded, p50", "  over gRPC and decoded, p99"),
        ] {
            sheet.note(p50, Unit::Milliseconds, side.millis(0.5));
            sheet.note(p99, Unit::Milliseconds, side.millis(0.99));
        }
        let pages = turns * PAGES_PER_TURN;
        let direct_cpu = direct_cpu.as_secs_f64() * 1e3 / f64::from(pages);
        sheet.note("  direct scan, CPU per page", Unit::Milliseconds, direct_cpu);
        Ok(pages)
    }

    /// Reads rows from the store: how long it took, and the ids.
    async fn scan(&self, place: u64) -> Result<(Duration, Vec<String>)> {
        let scan = self.scan_before(place)?;
        let began = Instant::now();
        let page = self.store.scan(&scan).await?;
        let took = began.elapsed();
        ensure!(page.rows.len() == PAGE_SIZE as usize, "a scan found {} rows", page.rows.len());
        Ok((took, page.rows.into_iter().map(|row| row.position.id.into_string()).collect()))
    }

    fn scan_before(&self, place: u64) -> Result<Scan> {
        let series = anabranch_model::TimeSeriesId::new(SERIES)?;
        let end = self.history.time(place);
        let namespace = anabranch_model::NamespaceName::new(NAMESPACE)?;
        let id = anabranch_model::EventId::new("any")?;
        let position = anabranch_model::Position { time: end, id };
        Ok(Scan {
            table: self.slice.table(&namespace),
            partition: self.slice.partition(&series, &position),
            span: ScanSpan::Interval { interval: Interval::new(Timestamp::EARLIEST, end), after: None },
            direction: Direction::Forward,
            max_rows: PAGE_SIZE as usize,
            max_bytes: usize::MAX,
            timeout: Duration::from_secs(5),
        })
    }

    /// Reads a page over gRPC: when all of it had arrived, and when it was decoded.
    async fn page(&mut self, place: u64) -> Result<(Duration, Duration)> {
        let request = self.history.page_before(place, PAGE_SIZE);
        let began = Instant::now();
        let answer = self.connection.call(wire::READ, request).await?;
        let arrived = began.elapsed();
        let page = v1::ReadEventRecordsResponse::decode(answer.message()?)?;
        let ready = began.elapsed();
        ensure!(page.records.len() == PAGE_SIZE as usize, "a page held {} records", page.records.len());
        Ok((arrived, ready))
    }

    /// Warms both sides, and makes sure that they answer the same.
    async fn check_equal(&mut self, random: &mut Random) -> Result<()> {
        for _ in 0..PAGES_PER_TURN {
            let place = self.history.random_place(u64::from(PAGE_SIZE), random);
            let (_, expected) = self.scan(place).await?;
            let request = self.history.page_before(place, PAGE_SIZE);
            let answer = self.connection.call(wire::READ, request).await?;
            let page = v1::ReadEventRecordsResponse::decode(answer.message()?)?;
            let ids: Vec<String> = page.records.into_iter().map(|record| record.event_id).collect();
            ensure!(ids == expected, "a page over gRPC isn't what a scan finds");
        }
        Ok(())
    }
}

/// The slice that holds the whole small history: it is shorter than a day and ends at midnight.
async fn slice_of(history: &History, directory: &Path) -> Result<Slice> {
    let env = Env::system();
    let store = std::sync::Arc::new(FjallStore::open(directory, FjallOptions::default(), env.clone())?);
    let engine = Engine::start(store, env, EngineOptions::default()).await?;
    let record = engine.namespace(NAMESPACE)?;
    engine.shutdown().await?;
    record.slices.at(history.time(0)).cloned().context("the history has a slice")
}

pub(super) fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

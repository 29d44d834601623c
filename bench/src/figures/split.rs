//! What splitting costs and brings: the router's answer for partitions that aren't split; splitting a history against one scan, one
//! write and one scan of it; pages and whole histories from pieces against the same from the original.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anabranch_engine::{Engine, EngineOptions, SplitSelection};
use anabranch_model::{
    EventBucket, Interval, NamespaceConfig, NamespaceName, PartitionKey, ReadMode, TableName, TimeBucket, TimeSeriesId,
    Timestamp,
};
use anabranch_runtime::Env;
use anabranch_split::{SliceFilter, State};
use anabranch_store::{After, Direction, PartitionBatch, Scan, ScanSpan, Store};
use anabranch_store_fjall::{FjallOptions, FjallStore};
use anyhow::{Context, Result, ensure};
use prost::Message;

use super::{
    Bench, PAGE_SIZE, PAGES_PER_TURN,
    crowd::{self, Kind},
    page::copy_directory,
};
use crate::{
    events::Random,
    history::{History, NAMESPACE, SERIES},
    latency::Latencies,
    process::Process,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, Connection, PageOutline},
};

const SPLIT_PARTITIONS: usize = 1_000_000;
const ROUTER_CHECKS: usize = 1_000_000;
const FEW: u32 = 10;
const CACHE_BYTES: u64 = 16 << 20;
const MOST_PARTITIONS: usize = 10_000;
const CHUNK: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let mut sheet = Sheet::default();
    router(&mut sheet)?;
    let wide = Kind { name: "wide", series: 1, bytes: bench.sizes.wide_bytes, json: true };
    let directory = crowd::make(bench.path("wide"), &[wide]).await?;
    crowd::seal(&directory).await?;
    let copy = bench.path("split-copy");
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        copy_directory(&directory, &copy)?;
        let whole = Whole { namespace: crowd::NAMESPACE, series: &wide.series(0), piece_bytes: None };
        splitting(&copy, &whole).await?.write(&mut sheet);
        std::fs::remove_dir_all(&copy)?;
    }
    crowd::remove(&directory)?;
    let history = bench.small().await?;
    copy_directory(&history.directory, &copy)?;
    splitting(&copy, &Whole { namespace: NAMESPACE, series: SERIES, piece_bytes: Some(1 << 20) }).await?;
    reading(bench, &history, &copy, &mut sheet).await?;
    std::fs::remove_dir_all(copy)?;
    Ok(sheet.measures())
}

/// A history that is split whole.
struct Whole<'a> {
    namespace: &'a str,
    series: &'a str,
    /// Of how many bytes a partition is wide, and a piece full; `None` leaves it as it is by default.
    piece_bytes: Option<u64>,
}

/// What splitting took, and what can't be done without: a scan, a write, a scan.
struct Cost {
    took: Duration,
    by_hand: Duration,
    before: u64,
    after: u64,
    /// Memory beyond the most that was seen while it was done by hand.
    memory: u64,
}

impl Cost {
    fn write(&self, sheet: &mut Sheet) {
        let Cost { took, by_hand, before, after, memory } = self;
        let ratio = took.as_secs_f64() / by_hand.as_secs_f64();
        sheet.bounded("splitting, times scan + write + scan", Unit::Ratio, Bound::AtMost(3.0), ratio);
        let bytes = *after as f64 / *before as f64;
        sheet.bounded("pieces of JSON-like values, bytes to the original's", Unit::Ratio, Bound::AtMost(0.8), bytes);
        let mib = *memory as f64 / (1u64 << 20) as f64;
        sheet.bounded("memory, beyond that of scan + write + scan", Unit::MiB, Bound::AtMost(64.0), mib);
        sheet.note("  splitting", Unit::Milliseconds, took.as_secs_f64() * 1e3);
    }
}

/// The check that every read of a partition makes.
fn router(sheet: &mut Sheet) -> Result<()> {
    let key = |series: String| -> Result<PartitionKey> {
        Ok(PartitionKey {
            series: TimeSeriesId::new(series)?,
            time_bucket: TimeBucket(3),
            event_bucket: EventBucket(0),
        })
    };
    let split = (0..SPLIT_PARTITIONS).map(|at| key(format!("profile:{at}"))).collect::<Result<Vec<_>>>()?;
    let filter = SliceFilter::build(split.iter(), Timestamp::EARLIEST);
    let others = (0..ROUTER_CHECKS).map(|at| key(format!("device:{at}"))).collect::<Result<Vec<_>>>()?;
    let mut latencies = hdrhistogram::Histogram::<u64>::new(3)?;
    let mut yes = 0u64;
    for partition in &others {
        let began = Instant::now();
        let may = std::hint::black_box(filter.may_hold(std::hint::black_box(partition)));
        latencies.record(began.elapsed().as_nanos() as u64)?;
        yes += u64::from(may);
    }
    let bits = filter.bits() as f64 / filter.elements() as f64;
    sheet.bounded(
        "router check, p50",
        Unit::Microseconds,
        Bound::AtMost(0.15),
        latencies.value_at_quantile(0.5) as f64 / 1e3,
    );
    sheet.bounded(
        "router check, p99",
        Unit::Microseconds,
        Bound::AtMost(1.0),
        latencies.value_at_quantile(0.99) as f64 / 1e3,
    );
    sheet.bounded("filter, bits per split partition", Unit::Ratio, Bound::AtMost(16.0), bits);
    sheet.bounded(
        "filter, false positives per 1,000",
        Unit::Ratio,
        Bound::AtMost(1.0),
        yes as f64 * 1e3 / ROUTER_CHECKS as f64,
    );
    Ok(())
}

/// Copies a history by hand, then splits it. Leaves it split.
async fn splitting(directory: &Path, whole: &Whole<'_>) -> Result<Cost> {
    let env = Env::system();
    // A cache that holds everything would hide what reading costs, and count as memory.
    let options = FjallOptions { cache_bytes: CACHE_BYTES, ..FjallOptions::default() };
    let store = Arc::new(FjallStore::open(directory, options, env.clone())?);
    let engine = Engine::start(store.clone(), env, EngineOptions::default()).await?;
    let sealed = |config: &mut NamespaceConfig| {
        config.accept_limit = Duration::from_secs(1); // sealed already, or soon
        config.split.must_pay = false;
        if let Some(bytes) = whole.piece_bytes {
            config.split.threshold_bytes = bytes;
            config.split.target_piece_bytes = bytes;
        }
    };
    engine.update_namespace(whole.namespace, sealed).await?;
    let (by_hand, usual) = by_hand(&engine, &store, whole).await?;
    let series = SplitSelection { time_series_id: Some(whole.series.to_owned()), ..SplitSelection::default() };
    let patience = Instant::now();
    let mut began = Instant::now();
    let mut requested = engine.request_splits(whole.namespace, &series).await?;
    let mut peak = 0;
    let rows = loop {
        peak = peak.max(Process::own().resident_bytes()?);
        let rows = engine.split_records(whole.namespace, &series).await?;
        if !rows.is_empty() && rows.iter().all(|row| !row.served.is_empty()) {
            break rows;
        }
        ensure!(
            patience.elapsed() < PATIENCE,
            "the history isn't split: {:?}",
            rows.first().map(|row| row.state.name())
        );
        if rows.iter().any(|row| matches!(row.state, State::NotWide { .. })) {
            // Nothing is sealed until writes that were accepted under the old limit must have ended.
            tokio::time::sleep(Duration::from_secs(1)).await;
            began = Instant::now();
            requested = engine.request_splits(whole.namespace, &series).await?;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let took = began.elapsed();
    ensure!(rows.len() == requested.rows.len(), "not all of it was split");
    let segments = || rows.iter().flat_map(|row| &row.served);
    let before = segments().map(|segment| segment.pre_split_data.bytes).sum();
    let after = segments().map(|segment| segment.post_split_data.bytes).sum();
    engine.set_read_mode(whole.namespace, ReadMode::On, "bench", "").await?;
    engine.shutdown().await?;
    Ok(Cost { took, by_hand, before, after, memory: peak.saturating_sub(usual) })
}

/// What a scan, a write and a scan of a history take, and the most memory that was resident meanwhile.
async fn by_hand(engine: &Engine, store: &FjallStore, whole: &Whole<'_>) -> Result<(Duration, u64)> {
    let series = TimeSeriesId::new(whole.series)?;
    let namespace = NamespaceName::new(whole.namespace)?;
    let target = TableName { namespace: namespace.clone(), table: "bare".to_owned() };
    store.create_table(&target).await?;
    let (mut took, mut peak) = (Duration::ZERO, 0);
    for slice in engine.namespace(whole.namespace)?.slices.iter() {
        let table = slice.table(&namespace);
        let all = TimeBucket(0)..=TimeBucket(u32::MAX);
        for (time_bucket, event_bucket) in
            store.occupied(&table, &series, all, Direction::Forward, MOST_PARTITIONS).await?
        {
            let key = PartitionKey { series: series.clone(), time_bucket, event_bucket };
            took += each_page(store, &table, &key, None, &mut peak).await?.0;
            took += each_page(store, &table, &key, Some(&target), &mut peak).await?.1;
            took += each_page(store, &target, &key, None, &mut peak).await?.0;
        }
    }
    store.drop_table(&target).await?;
    Ok((took, peak))
}

/// Reads a partition, page after page, and writes it elsewhere if asked to. Answers the time of scans and of writes, and notes the
/// most memory that was resident after any of them.
async fn each_page(
    store: &FjallStore,
    table: &TableName,
    partition: &PartitionKey,
    copy_to: Option<&TableName>,
    peak: &mut u64,
) -> Result<(Duration, Duration)> {
    let (mut scans, mut writes) = (Duration::ZERO, Duration::ZERO);
    let mut after = None;
    loop {
        let scan = Scan {
            table: table.clone(),
            partition: partition.clone(),
            span: ScanSpan::Interval { interval: Interval::ALL, after },
            direction: Direction::Forward,
            max_rows: usize::MAX,
            max_bytes: CHUNK,
            timeout: TIMEOUT,
        };
        let began = Instant::now();
        let page = store.scan(&scan).await?;
        scans += began.elapsed();
        after = page.rows.last().map(|row| After::Row(row.key()));
        if let Some(target) = copy_to.filter(|_| !page.rows.is_empty()) {
            let (table, partition) = (target.clone(), partition.clone());
            let batch = PartitionBatch { table, partition, rows: page.rows, write_time_micros: 1 };
            let began = Instant::now();
            store.write(vec![batch], TIMEOUT).await.into_iter().collect::<Result<(), _>>()?;
            writes += began.elapsed();
        }
        *peak = (*peak).max(Process::own().resident_bytes()?);
        if !page.more {
            return Ok((scans, writes));
        }
    }
}

/// Two servers, one on the original and one on the split copy, taking turns.
async fn reading(bench: &Bench, history: &History, copy: &Path, sheet: &mut Sheet) -> Result<()> {
    let original = bench.launcher.start(&history.directory, &[])?;
    let split = bench.launcher.start(copy, &[])?;
    let mut sides = [original.connect().await?, split.connect().await?];
    for side in &mut sides {
        whole(side, history).await?;
    }
    let mut random = Random::new(4);
    for _ in 0..bench.sizes.runs {
        for (page_size, what, most, notes) in [
            (
                PAGE_SIZE,
                "page of 1,000 from a split, times unsplit, p50",
                0.9,
                ["  1,000 from the original, p50", "  1,000 from a split, p50"],
            ),
            (
                FEW,
                "page of 10 from a split, times unsplit, p50",
                1.2,
                ["  10 from the original, p50", "  10 from a split, p50"],
            ),
        ] {
            let mut latencies = [Latencies::new()?, Latencies::new()?];
            for _ in 0..bench.sizes.pages.div_ceil(2 * PAGES_PER_TURN) {
                let places: Vec<u64> =
                    (0..PAGES_PER_TURN).map(|_| history.random_place(u64::from(page_size), &mut random)).collect();
                for (side, latencies) in sides.iter_mut().zip(&mut latencies) {
                    for place in &places {
                        let request = history.page_before(*place, page_size);
                        let began = Instant::now();
                        let answer = side.call(wire::READ, request).await?;
                        latencies.record(began.elapsed());
                        let records = PageOutline::decode(answer.message()?)?.records.len();
                        ensure!(records == page_size as usize, "a page held {records} records");
                    }
                }
            }
            let [original, split] = latencies.map(|latencies| latencies.millis(0.5));
            sheet.bounded(what, Unit::Ratio, Bound::AtMost(most), split / original);
            sheet.note(notes[0], Unit::Milliseconds, original);
            sheet.note(notes[1], Unit::Milliseconds, split);
        }
        let paged = pages(&mut sides[0], history).await?;
        let streamed = whole(&mut sides[1], history).await?;
        let ratio = streamed.as_secs_f64() / paged.as_secs_f64();
        sheet.bounded("whole history from a split, times page after page", Unit::Ratio, Bound::AtMost(0.6), ratio);
        let unsplit = whole(&mut sides[0], history).await?;
        sheet.note(
            "  as a stream from the original, times page after page",
            Unit::Ratio,
            unsplit.as_secs_f64() / paged.as_secs_f64(),
        );
    }
    original.stop()?;
    split.stop()
}

/// The whole history as one stream.
async fn whole(side: &mut Connection, history: &History) -> Result<Duration> {
    let began = Instant::now();
    let mut pages = side.stream(wire::STREAM, history.page_from(PAGE_SIZE, String::new())).await?;
    let mut records = 0;
    while let Some(page) = pages.next().await? {
        records += PageOutline::decode(page)?.records.len() as u64;
    }
    ensure!(records == history.events, "a stream held {records} of {} records", history.events);
    Ok(began.elapsed())
}

/// The whole history, one request a page.
async fn pages(side: &mut Connection, history: &History) -> Result<Duration> {
    let began = Instant::now();
    let (mut token, mut records) = (String::new(), 0);
    loop {
        let answer = side.call(wire::READ, history.page_from(PAGE_SIZE, token)).await?;
        let page = PageOutline::decode(answer.message()?).context("a page")?;
        records += page.records.len() as u64;
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    ensure!(records == history.events, "pages held {records} of {} records", history.events);
    Ok(began.elapsed())
}

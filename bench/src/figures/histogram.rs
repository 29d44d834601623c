//! What measuring the partitions of slices costs while it goes on: CPU time of the server, and what it does to pages. One server
//! measures without an end, the other never; both on the same data, one after the other.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use prost::Message;

use super::{
    Bench,
    crowd::{self, Kind},
};
use crate::{
    events::Random,
    latency::Latencies,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, PageOutline},
};

/// What a partition holds.
const PARTITION_BYTES: u64 = 200_000;
const PAGE: u32 = 100;
/// A slice is measured again a second after it has been.
const ALWAYS: [(&str, &str); 1] = [("ANABRANCH_TUNING_MEASURE_INTERVAL", "1s")];
const NEVER: [(&str, &str); 1] = [("ANABRANCH_TUNING_MEASURE_INTERVAL", "0s")];

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let series = bench.sizes.large_bytes / PARTITION_BYTES;
    let kind = Kind { name: "device", series, bytes: PARTITION_BYTES, json: false };
    let directory = crowd::make(bench.path("histogram"), &[kind]).await?;
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let mut sides = Vec::new();
        for settings in [&NEVER, &ALWAYS] {
            let server = bench.launcher.start(&directory, settings)?;
            let mut connection = server.connect().await?;
            let mut random = Random::new(u64::from(run));
            // Idle first: what is left is measuring.
            tokio::time::sleep(bench.sizes.phase / 5).await;
            let (before, began) = (server.process().cpu()?, Instant::now());
            tokio::time::sleep(2 * bench.sizes.phase).await;
            let cpu = (server.process().cpu()? - before).as_secs_f64() / began.elapsed().as_secs_f64();
            let mut latencies = Latencies::new()?;
            while latencies.lasts(2 * bench.sizes.phase) {
                let request = crowd::page(kind.series(random.below(kind.series)), PAGE);
                let sent = Instant::now();
                let answer = connection.call(wire::READ, request).await?;
                latencies.record(sent.elapsed());
                let records = PageOutline::decode(answer.message()?)?.records.len();
                ensure!(records == PAGE as usize, "a page held {records} records");
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
            server.stop()?;
            sides.push((cpu, latencies));
        }
        let [(idle, without), (busy, meanwhile)] = &sides[..] else { unreachable!("two sides") };
        let percent = (busy - idle).max(0.0) * 100.0;
        sheet.bounded("CPU that measuring takes", Unit::PercentOfACore, Bound::AtMost(2.0), percent);
        let ratio = meanwhile.millis(0.99) / without.millis(0.99);
        sheet.bounded("p99 of pages meanwhile, times without", Unit::Ratio, Bound::AtMost(1.1), ratio);
        sheet.note("  pages without, p99", Unit::Milliseconds, without.millis(0.99));
        sheet.note("  pages meanwhile, p99", Unit::Milliseconds, meanwhile.millis(0.99));
        sheet.note("  CPU without", Unit::PercentOfACore, idle * 100.0);
    }
    crowd::remove(&directory)?;
    Ok(sheet.measures())
}

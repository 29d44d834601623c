//! Pages while four splits copy: what they take beside the copying, against without, and how fast it goes.

use std::time::{Duration, Instant};

use anabranch_api::v1::{self, split::State};
use anyhow::{Result, ensure};
use prost::Message;

use super::{
    Bench, PAGE_SIZE,
    crowd::{self, Kind},
    page::copy_directory,
};
use crate::{
    events::Random,
    latency::Latencies,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, Connection, PageOutline},
};

const SPLITS: u64 = 4;
const SMALL: Kind = Kind { name: "small", series: 32, bytes: 400_000, json: false };
const SETTINGS: [(&str, &str); 2] = [("ANABRANCH_SPLITS_WORKERS", "4"), ("ANABRANCH_SPLITS_BYTES_PER_SECOND", "56MiB")];
const PATIENCE: Duration = Duration::from_secs(300);
/// Pages don't follow each other at once: they are what is measured, not a load.
const THINK: Duration = Duration::from_micros(500);
/// Pages between two looks at the splits.
const PAGES_PER_LOOK: u32 = 20;

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let wide = Kind { name: "wide", series: SPLITS, bytes: bench.sizes.wide_bytes / SPLITS, json: true };
    let directory = crowd::make(bench.path("copying"), &[wide, SMALL]).await?;
    crowd::seal(&directory).await?;
    let copy = bench.path("copying-copy");
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        copy_directory(&directory, &copy)?;
        let server = bench.launcher.start(&copy, &SETTINGS)?;
        let mut client = Client { connection: server.connect().await?, random: Random::new(u64::from(run)) };
        let (mut warm, mut without, mut meanwhile) = (Latencies::new()?, Latencies::new()?, Latencies::new()?);
        for (latencies, length) in [(&mut warm, bench.sizes.phase / 5), (&mut without, bench.sizes.phase)] {
            while latencies.lasts(length) {
                client.pages(latencies).await?;
            }
        }
        let began = Instant::now();
        for at in 0..SPLITS {
            client.request_split(wide.series(at)).await?;
        }
        while !client.all_split().await? {
            ensure!(began.elapsed() < PATIENCE, "the splits don't end");
            client.pages(&mut meanwhile).await?;
        }
        let rate = (wide.bytes * SPLITS) as f64 / 1e6 / began.elapsed().as_secs_f64();
        server.stop()?;
        std::fs::remove_dir_all(&copy)?;
        let ratio = meanwhile.millis(0.99) / without.millis(0.99);
        sheet.bounded("p99 of pages while four splits copy, times without", Unit::Ratio, Bound::AtMost(1.5), ratio);
        sheet.bounded("four splits together", Unit::MegabytesPerSecond, Bound::AtLeast(20.0), rate);
        for (what, share, side) in [
            ("  pages without, p50", 0.5, &without),
            ("  pages without, p99", 0.99, &without),
            ("  pages while splits copy, p50", 0.5, &meanwhile),
            ("  pages while splits copy, p99", 0.99, &meanwhile),
        ] {
            sheet.note(what, Unit::Milliseconds, side.millis(share));
        }
    }
    crowd::remove(&directory)?;
    Ok(sheet.measures())
}

struct Client {
    connection: Connection,
    random: Random,
}

impl Client {
    async fn pages(&mut self, latencies: &mut Latencies) -> Result<()> {
        for _ in 0..PAGES_PER_LOOK {
            let request = crowd::page(SMALL.series(self.random.below(SMALL.series)), PAGE_SIZE);
            let sent = Instant::now();
            let answer = self.connection.call(wire::READ, request).await?;
            latencies.record(sent.elapsed());
            let records = PageOutline::decode(answer.message()?)?.records.len();
            ensure!(records == PAGE_SIZE as usize, "a page held {records} records");
            tokio::time::sleep(THINK).await;
        }
        Ok(())
    }

    async fn request_split(&mut self, time_series_id: String) -> Result<()> {
        let namespace = crowd::NAMESPACE.to_owned();
        let request = v1::RequestSplitRequest { namespace, time_series_id, ..v1::RequestSplitRequest::default() };
        self.connection.call(wire::REQUEST_SPLIT, wire::encoded(&request)).await.map(|_| ())
    }

    async fn all_split(&mut self) -> Result<bool> {
        let namespace = crowd::NAMESPACE.to_owned();
        let request = v1::ListSplitsRequest { namespace, ..v1::ListSplitsRequest::default() };
        let answer = self.connection.call(wire::LIST_SPLITS, wire::encoded(&request)).await?;
        let splits = v1::ListSplitsResponse::decode(answer.message()?)?.splits;
        let failed =
            splits.iter().find(|split| matches!(split.state(), State::Failed | State::Parked | State::NotWide));
        ensure!(failed.is_none(), "a split failed: {failed:?}");
        Ok(splits.iter().filter(|split| !split.segments.is_empty()).count() as u64 >= SPLITS)
    }
}

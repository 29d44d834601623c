//! The same page at a random place of the large history and of the small one: each behind a server of its own, taking
//! turns. The large one doesn't fit the server's cache, which is full of it; the small one does.

use std::time::Instant;

use anyhow::{Result, ensure};
use prost::Message;

use super::{Bench, PAGE_SIZE, PAGES_PER_TURN};
use crate::{
    events::Random,
    history::History,
    latency::Latencies,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, Connection, PageOutline},
};

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let (large, small) = (bench.large().await?, bench.small().await?);
    let large_server = bench.launcher.start(&large.directory, &[])?;
    let small_server = bench.launcher.start(&small.directory, &[])?;
    let mut large = Side { history: large, connection: large_server.connect().await? };
    let mut small = Side { history: small, connection: small_server.connect().await? };
    // Once through each: from here on the caches are as full as they get.
    large.read_all().await?;
    small.read_all().await?;
    large_server.process().settled_cpu().await?;
    let mut random = Random::new(2);
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let (mut in_large, mut in_small) = (Latencies::new()?, Latencies::new()?);
        let turns = bench.sizes.pages.div_ceil(2 * PAGES_PER_TURN);
        let (mut from_large, mut from_small) = (0, 0);
        for _ in 0..turns {
            from_large += large.turn(&mut random, &mut in_large).await?;
            from_small += small.turn(&mut random, &mut in_small).await?;
        }
        let kib_per_page = |bytes: u64| bytes as f64 / 1024.0 / f64::from(turns * PAGES_PER_TURN);
        let ratio = in_large.millis(0.5) / in_small.millis(0.5);
        sheet.bounded("p50, large history to small", Unit::Ratio, Bound::AtMost(1.3), ratio);
        sheet.note("  large, read from the store per page", Unit::KiB, kib_per_page(from_large));
        sheet.note("  small, read from the store per page", Unit::KiB, kib_per_page(from_small));
        sheet.note("  large, p50", Unit::Milliseconds, in_large.millis(0.5));
        sheet.note("  large, p99", Unit::Milliseconds, in_large.millis(0.99));
        sheet.note("  small, p50", Unit::Milliseconds, in_small.millis(0.5));
        sheet.note("  small, p99", Unit::Milliseconds, in_small.millis(0.99));
    }
    large_server.stop()?;
    small_server.stop()?;
    Ok(sheet.measures())
}

struct Side {
    history: History,
    connection: Connection,
}

impl Side {
    async fn read_all(&mut self) -> Result<()> {
        let mut pages = self.connection.stream(wire::STREAM, self.history.page_from(PAGE_SIZE, String::new())).await?;
        while pages.next().await?.is_some() {}
        Ok(())
    }

    /// Reads some pages; answers how many bytes the server took from its store for them.
    async fn turn(&mut self, random: &mut Random, latencies: &mut Latencies) -> Result<u64> {
        let mut bytes_read = 0;
        for _ in 0..PAGES_PER_TURN {
            let place = self.history.random_place(u64::from(PAGE_SIZE), random);
            let request = self.history.page_before(place, PAGE_SIZE);
            let began = Instant::now();
            let answer = self.connection.call(wire::READ, request).await?;
            latencies.record(began.elapsed());
            let page = PageOutline::decode(answer.message()?)?;
            ensure!(page.records.len() == PAGE_SIZE as usize, "a page held {} records", page.records.len());
            bytes_read += page.bytes_read();
        }
        Ok(bytes_read)
    }
}

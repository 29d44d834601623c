//! How much the server's resident memory grows while eight clients scan the large history end to end, with a cache of
//! 16 MiB: four page after page, four as one stream each.

use std::{sync::Arc, time::Duration, time::Instant};

use anyhow::{Result, anyhow, ensure};
use prost::Message;
use tokio::task::JoinSet;

use super::{Bench, PAGE_SIZE};
use crate::{
    history::History,
    process::Process,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, Connection, PageOutline},
};

const CLIENTS: usize = 8;
const SETTINGS: [(&str, &str); 1] = [("ANABRANCH_STORE_CACHE", "16 MiB")];
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
const MIB: f64 = (1u64 << 20) as f64;

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let history = Arc::new(bench.large().await?);
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let server = bench.launcher.start(&history.directory, &SETTINGS)?;
        let mut connection = server.connect().await?;
        connection.call(wire::READ, history.page_from(PAGE_SIZE, String::new())).await?;
        server.process().settled_cpu().await?;
        let baseline = server.process().resident_bytes()?;
        let mut scans = JoinSet::new();
        for client in 0..CLIENTS {
            let (connection, history) = (server.connect().await?, history.clone());
            scans.spawn(async move { scan(client, connection, &history).await });
        }
        let began = Instant::now();
        let peak = watch(server.process(), &mut scans, history.events).await?;
        let seconds = began.elapsed().as_secs_f64();
        let growth = peak.saturating_sub(baseline) as f64 / MIB;
        sheet.bounded("growth of resident memory", Unit::MiB, Bound::AtMost(200.0), growth);
        sheet.note("  before the scans", Unit::MiB, baseline as f64 / MIB);
        sheet.note("  at the peak", Unit::MiB, peak as f64 / MIB);
        sheet.note("  events read, all clients", Unit::PerSecond, (CLIENTS as u64 * history.events) as f64 / seconds);
        server.stop()?;
    }
    Ok(sheet.measures())
}

/// Samples the server's memory until every scan has ended; answers the most that was seen.
async fn watch(server: Process, scans: &mut JoinSet<Result<u64>>, events: u64) -> Result<u64> {
    let mut peak = server.resident_bytes()?;
    let mut ticks = tokio::time::interval(SAMPLE_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => peak = peak.max(server.resident_bytes()?),
            ended = scans.join_next() => match ended {
                None => return Ok(peak),
                Some(ended) => {
                    let found = ended??;
                    ensure!(found == events, "a scan found {found} of {events} events");
                }
            },
        }
    }
}

/// Reads everything; answers how many records it found.
async fn scan(client: usize, connection: Connection, history: &History) -> Result<u64> {
    let records =
        if client.is_multiple_of(2) { pages(connection, history).await } else { stream(connection, history).await };
    records.map_err(|error| anyhow!("a scan failed: {error:#}"))
}

async fn pages(mut connection: Connection, history: &History) -> Result<u64> {
    let mut records = 0;
    let mut token = String::new();
    loop {
        let answer = connection.call(wire::READ, history.page_from(PAGE_SIZE, token)).await?;
        let page = PageOutline::decode(answer.message()?)?;
        records += page.records.len() as u64;
        token = page.next_page_token;
        if token.is_empty() {
            return Ok(records);
        }
    }
}

async fn stream(mut connection: Connection, history: &History) -> Result<u64> {
    let mut records = 0;
    let mut pages = connection.stream(wire::STREAM, history.page_from(PAGE_SIZE, String::new())).await?;
    while let Some(answer) = pages.next().await? {
        records += PageOutline::decode(answer)?.records.len() as u64;
    }
    Ok(records)
}

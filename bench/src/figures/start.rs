//! From the start of the process to the first answered read: with the large history against the small one.

use anyhow::{Result, ensure};
use prost::Message;

use super::{Bench, PAGE_SIZE};
use crate::{
    history::History,
    report::{Bound, Measure, Sheet, Unit},
    server::Launcher,
    wire::{self, PageOutline},
};

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let (large, small) = (bench.large().await?, bench.small().await?);
    // Once each beforehand: the binary and the journals are in the page cache from here on, for both.
    first_read(&bench.launcher, &small).await?;
    first_read(&bench.launcher, &large).await?;
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let with_small = first_read(&bench.launcher, &small).await?;
        let with_large = first_read(&bench.launcher, &large).await?;
        sheet.bounded("large history to small", Unit::Ratio, Bound::AtMost(2.0), with_large / with_small);
        sheet.note("  large", Unit::Milliseconds, with_large);
        sheet.note("  small", Unit::Milliseconds, with_small);
    }
    Ok(sheet.measures())
}

/// Milliseconds until a page was answered.
async fn first_read(launcher: &Launcher, history: &History) -> Result<f64> {
    let server = launcher.start(&history.directory, &[])?;
    let mut connection = server.connect().await?;
    let answer = connection.call(wire::READ, history.page_from(PAGE_SIZE, String::new())).await?;
    let took = server.started.elapsed();
    let records = PageOutline::decode(answer.message()?)?.records.len();
    ensure!(records == PAGE_SIZE as usize, "a page held {records} records");
    // Elsewhere, so that the connection can answer when the server says that it goes.
    tokio::task::spawn_blocking(move || server.stop()).await??;
    Ok(took.as_secs_f64() * 1e3)
}

//! How long the wide history takes from being noticed to being served from pieces, against what can't be done without: one
//! scan of it and one write of it, both by the driver alone, one page or batch after the other.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Site, bare::BareWriter, wide::Wide};
use crate::{
    figures::Bench,
    report::{Bound, Measure, Sheet, Unit},
};

pub(super) async fn measure(bench: &Bench, site: &mut Site) -> Result<Vec<Measure>> {
    let [_, wide] = site.histories(bench).await?;
    let bare = site.bare_writer("bare_split").await?;
    let mut reader = site.by_driver().open(&wide).await?;
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        site.settle().await?;
        let splitting = site.split_again(&wide).await?;
        site.settle().await?;
        let scan = reader.whole(&wide, |_| {}).await?;
        let write = write(&bare, &wide).await?;
        bare.clear().await?;
        let ratio = splitting.as_secs_f64() / (scan + write).as_secs_f64();
        sheet.bounded("splitting, times scan + write", Unit::Ratio, Bound::AtMost(4.0), ratio);
        for (what, took) in
            [("  splitting", splitting), ("  scan by the bare driver", scan), ("  write by the bare driver", write)]
        {
            sheet.note(what, Unit::Milliseconds, took.as_secs_f64() * 1e3);
        }
    }
    // Pieces were written last, and wait in memory.
    site.flush(&wide.namespace).await?;
    site.settle().await?;
    Ok(sheet.measures())
}

/// Making the events takes no part of the time.
async fn write(bare: &BareWriter, history: &Wide) -> Result<Duration> {
    let mut took = Duration::ZERO;
    for events in history.batches() {
        let began = Instant::now();
        bare.write(&history.series, &events).await?;
        took += began.elapsed();
    }
    Ok(took)
}

//! A page at a random place of the wide history: from the original and from a split over gRPC, each taking turns with
//! the driver alone on the original.

use anabranch_api::v1::ReadMode;
use anyhow::Result;

use super::{Site, wide::Wide};
use crate::{
    events::Random,
    figures::{Bench, PAGE_SIZE, PAGES_PER_TURN},
    latency::Latencies,
    report::{Bound, Measure, Sheet, Unit},
};

const FEW: u32 = 10;

pub(super) async fn measure(bench: &Bench, site: &mut Site) -> Result<Vec<Measure>> {
    let [_, wide] = site.histories(bench).await?;
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        site.set_mode(&wide, ReadMode::Off).await?;
        let original = turns(bench, site, &wide, PAGE_SIZE, run).await?;
        site.set_mode(&wide, ReadMode::On).await?;
        let split = turns(bench, site, &wide, PAGE_SIZE, run).await?;
        let few = turns(bench, site, &wide, FEW, run).await?;
        for (what, turns, share, most) in [
            ("1,000 from the original, times bare, p50", &original, 0.5, 1.3),
            ("1,000 from the original, times bare, p99", &original, 0.99, 1.5),
            ("1,000 from a split, times bare, p50", &split, 0.5, 0.6),
            ("10 from a split, times bare, p50", &few, 0.5, 1.2),
        ] {
            let ratio = turns.server.millis(share) / turns.bare.millis(share);
            sheet.bounded(what, Unit::Ratio, Bound::AtMost(most), ratio);
        }
        for (what, side, share) in [
            ("  1,000 by the bare driver, p50", &original.bare, 0.5),
            ("  1,000 by the bare driver, p99", &original.bare, 0.99),
            ("  1,000 from the original, p50", &original.server, 0.5),
            ("  1,000 from the original, p99", &original.server, 0.99),
            ("  1,000 from a split, p50", &split.server, 0.5),
            ("  1,000 from a split, p99", &split.server, 0.99),
            ("  10 by the bare driver, p50", &few.bare, 0.5),
            ("  10 from a split, p50", &few.server, 0.5),
        ] {
            sheet.note(what, Unit::Milliseconds, side.millis(share));
        }
    }
    Ok(sheet.measures())
}

/// What pages took, at the same places.
struct Turns {
    bare: Latencies,
    server: Latencies,
}

async fn turns(bench: &Bench, site: &Site, history: &Wide, size: u32, run: u32) -> Result<Turns> {
    let (mut bare, mut server) = (site.by_driver().open(history).await?, site.by_server().open(history).await?);
    let mut random = Random::new(u64::from(run));
    let mut turns = Turns { bare: Latencies::new()?, server: Latencies::new()? };
    for turn in 0..=bench.sizes.pages.div_ceil(PAGES_PER_TURN) {
        let places: Vec<u64> = (0..PAGES_PER_TURN).map(|_| history.random_place(size, &mut random)).collect();
        for (client, latencies) in [(&mut bare, &mut turns.bare), (&mut server, &mut turns.server)] {
            for place in &places {
                let took = client.page(history, *place, size).await?;
                // The first turn is for caches and prepared statements.
                if turn > 0 {
                    latencies.record(took);
                }
            }
        }
    }
    Ok(turns)
}

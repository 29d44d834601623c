//! A page at a random place of the wide history: from the original and from a split over gRPC, each taking turns with
//! the driver alone on the original. From a split also by a server that remembers none of its blocks.

use std::time::Duration;

use anabranch_api::v1::ReadMode;
use anyhow::Result;

use super::{Site, client::Side, wide::Wide};
use crate::{
    events::Random,
    figures::{Bench, PAGE_SIZE, PAGES_PER_TURN},
    latency::Latencies,
    process::Process,
    report::{Bound, Measure, Sheet, Unit},
};

const FEW: u32 = 10;

pub(super) async fn measure(bench: &Bench, site: &mut Site) -> Result<Vec<Measure>> {
    let [_, wide] = site.histories(bench).await?;
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        site.set_mode(&wide, ReadMode::Off).await?;
        let (sides, node) = ([site.by_driver(), site.by_server()], site.store());
        let original = turns(bench, &sides, node, &wide, PAGE_SIZE, run).await?;
        site.set_mode(&wide, ReadMode::On).await?;
        let split = turns(bench, &sides, node, &wide, PAGE_SIZE, run).await?;
        let few = turns(bench, &sides, node, &wide, FEW, run).await?;
        let forgetful = site.serve_from_the_node(std::slice::from_ref(&wide)).await?;
        let sides = [site.by_driver(), Side::Server(forgetful.grpc)];
        let split_on_the_node = turns(bench, &sides, node, &wide, PAGE_SIZE, run).await?;
        let few_on_the_node = turns(bench, &sides, node, &wide, FEW, run).await?;
        forgetful.stop()?;
        for (what, turns, share, most) in [
            ("1,000 from the original, times bare, p50", &original, 0.5, 1.3),
            ("1,000 from the original, times bare, p99", &original, 0.99, 1.5),
            ("1,000 from a split, times bare, p50", &split, 0.5, 0.6),
            ("10 from a split, times bare, p50", &few, 0.5, 1.2),
        ] {
            let ratio = turns.server.latencies.millis(share) / turns.bare.latencies.millis(share);
            sheet.bounded(what, Unit::Ratio, Bound::AtMost(most), ratio);
        }
        for (what, turns) in [
            ("  1,000 from a split that only the node holds", &split_on_the_node),
            ("  10 from a split that only the node holds", &few_on_the_node),
        ] {
            let ratio = turns.server.latencies.millis(0.5) / turns.bare.latencies.millis(0.5);
            sheet.note(what, Unit::Ratio, ratio);
        }
        let cpu = original.server.node_cpu.as_secs_f64() / original.bare.node_cpu.as_secs_f64();
        sheet.note("  the node's CPU for 1,000 from the original, times bare", Unit::Ratio, cpu);
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
            sheet.note(what, Unit::Milliseconds, side.latencies.millis(share));
        }
    }
    Ok(sheet.measures())
}

/// What pages took, at the same places.
struct Turns {
    bare: Taken,
    server: Taken,
}

/// What they took from one side.
struct Taken {
    latencies: Latencies,
    node_cpu: Duration,
}

impl Taken {
    fn nothing() -> Result<Taken> {
        Ok(Taken { latencies: Latencies::new()?, node_cpu: Duration::ZERO })
    }
}

async fn turns(bench: &Bench, sides: &[Side; 2], node: Process, history: &Wide, size: u32, run: u32) -> Result<Turns> {
    let (mut bare, mut server) = (sides[0].open(history).await?, sides[1].open(history).await?);
    let mut random = Random::new(u64::from(run));
    let mut turns = Turns { bare: Taken::nothing()?, server: Taken::nothing()? };
    let least = 1 + bench.sizes.pages.div_ceil(PAGES_PER_TURN);
    let mut turn = 0;
    while turns.server.latencies.wants(bench.sizes.pages, turn, least) {
        let places: Vec<u64> = (0..PAGES_PER_TURN).map(|_| history.random_place(size, &mut random)).collect();
        for (client, taken) in [(&mut bare, &mut turns.bare), (&mut server, &mut turns.server)] {
            let before = node.cpu()?;
            for place in &places {
                let took = client.page(history, *place, size).await?;
                // The first turn is for caches and prepared statements.
                if turn > 0 {
                    taken.latencies.record(took);
                }
            }
            if turn > 0 {
                taken.node_cpu += node.cpu()? - before;
            }
        }
        turn += 1;
    }
    Ok(turns)
}

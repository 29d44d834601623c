//! Nothing grows with the size of a history: a page of histories of three sizes, from splits. A server keeps blocks that it read, and
//! of a small history soon all of them; so sizes are compared where nothing is kept, and where everything that is asked for is.

use anyhow::Result;

use super::{
    Site,
    client::{Client, Side},
    wide::Wide,
};
use crate::{
    events::Random,
    figures::{Bench, PAGE_SIZE, PAGES_PER_TURN},
    latency::Latencies,
    report::{Bound, Measure, Sheet, Unit},
};

pub(super) async fn measure(bench: &Bench, site: &mut Site) -> Result<Vec<Measure>> {
    let [small, wide] = site.histories(bench).await?;
    let [wider] = site.make("wider", [("id:wider", bench.sizes.wider_bytes)]).await?;
    let histories = [small, wide, wider];
    let forgetful = site.serve_from_the_node(&histories).await?;
    let mut from_the_node = Side::Server(forgetful.grpc).open(&histories[0]).await?;
    let mut kept = site.by_server().open(&histories[0]).await?;
    let mut random = Random::new(3);
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let turns = 1 + bench.sizes.pages.div_ceil(PAGES_PER_TURN);
        let anywhere = |history: &Wide| places(history, turns * PAGES_PER_TURN, &mut random);
        let node = medians(&mut from_the_node, &histories, histories.each_ref().map(anywhere)).await?;
        // The same places turn after turn: from the second on, they are kept.
        let again = |history: &Wide| places(history, PAGES_PER_TURN, &mut random).repeat(turns as usize);
        let kept = medians(&mut kept, &histories, histories.each_ref().map(again)).await?;
        for (what, medians) in [
            ("page p50 from the node, slowest to quickest", node),
            ("page p50 of what is kept, slowest to quickest", kept),
        ] {
            sheet.bounded(what, Unit::Ratio, Bound::AtMost(1.3), spread(medians));
        }
        for (what, median) in [
            "  from the node, of the small history",
            "  from the node, of the wide history",
            "  from the node, of the wider history",
            "  kept, of the small history",
            "  kept, of the wide history",
            "  kept, of the wider history",
        ]
        .into_iter()
        .zip(node.into_iter().chain(kept))
        {
            sheet.note(what, Unit::Milliseconds, median);
        }
    }
    forgetful.stop()?;
    Ok(sheet.measures())
}

fn places(history: &Wide, count: u32, random: &mut Random) -> Vec<u64> {
    (0..count).map(|_| history.random_place(PAGE_SIZE, random)).collect()
}

/// What pages at these places took, in milliseconds, histories taking turns. The first turn doesn't count.
async fn medians(client: &mut Client, histories: &[Wide; 3], places: [Vec<u64>; 3]) -> Result<[f64; 3]> {
    let mut latencies = [Latencies::new()?, Latencies::new()?, Latencies::new()?];
    let mut turns = places.each_ref().map(|places| places.chunks(PAGES_PER_TURN as usize));
    for turn in 0..turns[0].len() {
        for ((history, turns), latencies) in histories.iter().zip(&mut turns).zip(&mut latencies) {
            for place in turns.next().into_iter().flatten() {
                let took = client.page(history, *place, PAGE_SIZE).await?;
                if turn > 0 {
                    latencies.record(took);
                }
            }
        }
    }
    Ok(latencies.map(|latencies| latencies.millis(0.5)))
}

fn spread(medians: [f64; 3]) -> f64 {
    let least = medians.into_iter().fold(f64::MAX, f64::min);
    medians.into_iter().fold(0.0, f64::max) / least
}

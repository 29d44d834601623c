//! Nothing grows with the size of a history: a page at a random place of histories of three sizes, from splits.

use anyhow::Result;

use super::Site;
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
    let mut client = site.by_server().open(&histories[0]).await?;
    let mut random = Random::new(3);
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let mut latencies = [Latencies::new()?, Latencies::new()?, Latencies::new()?];
        for turn in 0..=bench.sizes.pages.div_ceil(PAGES_PER_TURN) {
            for (history, latencies) in histories.iter().zip(&mut latencies) {
                for _ in 0..PAGES_PER_TURN {
                    let place = history.random_place(PAGE_SIZE, &mut random);
                    let took = client.page(history, place, PAGE_SIZE).await?;
                    if turn > 0 {
                        latencies.record(took);
                    }
                }
            }
        }
        let medians = latencies.map(|latencies| latencies.millis(0.5));
        let (least, most) = (medians.iter().copied().fold(f64::MAX, f64::min), medians.into_iter().fold(0.0, f64::max));
        sheet.bounded("page p50, slowest size to quickest", Unit::Ratio, Bound::AtMost(1.3), most / least);
        for (what, median) in
            ["  of the small history", "  of the wide history", "  of the wider history"].into_iter().zip(medians)
        {
            sheet.note(what, Unit::Milliseconds, median);
        }
    }
    Ok(sheet.measures())
}

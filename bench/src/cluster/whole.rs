//! A whole history, delivered in order: from a split over gRPC as one stream, against page after page by the driver
//! alone. Time and the node's CPU; then the same with a network before the node that takes 5 ms each way.

use std::time::Duration;

use anyhow::Result;

use super::{
    Site,
    client::{Client, Side},
    proxy::Proxy,
    wide::Wide,
};
use crate::{
    figures::Bench,
    process::Process,
    report::{Bound, Measure, Sheet, Unit},
};

const DELAY: Duration = Duration::from_millis(5);

/// What one side needed.
struct Cost {
    took: Duration,
    /// Of the node.
    cpu: Duration,
}

pub(super) async fn measure(bench: &Bench, site: &mut Site) -> Result<Vec<Measure>> {
    let [_, wide] = site.histories(bench).await?;
    let proxy = Proxy::start(site.node, DELAY)?;
    let far_server = site.serve_by_way_of(proxy.address)?;
    let store = site.store();
    let mut near = [site.by_driver().open(&wide).await?, site.by_server().open(&wide).await?];
    let far = [Side::Bare(proxy.address), Side::Server(far_server.grpc)];
    let mut far = [far[0].open(&wide).await?, far[1].open(&wide).await?];
    for clients in [&mut near, &mut far] {
        cost(&mut clients[1], &wide, store).await?;
    }
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let [bare, split] = costs(&mut near, &wide, store).await?;
        let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
        let what = "whole from a split, times as fast as bare";
        sheet.bounded(what, Unit::Ratio, Bound::AtLeast(3.0), ratio(bare.took, split.took));
        let what = "the node's CPU for it, times bare";
        sheet.bounded(what, Unit::Ratio, Bound::AtMost(0.5), ratio(split.cpu, bare.cpu));
        let [far_bare, far_split] = costs(&mut far, &wide, store).await?;
        let what = "5 ms away, times as fast as bare";
        sheet.bounded(what, Unit::Ratio, Bound::AtLeast(6.0), ratio(far_bare.took, far_split.took));
        for (what, took) in [
            ("  bare driver", bare.took),
            ("  split over gRPC", split.took),
            ("  bare driver, the node's CPU", bare.cpu),
            ("  split over gRPC, the node's CPU", split.cpu),
            ("  bare driver, 5 ms away", far_bare.took),
            ("  split over gRPC, 5 ms away", far_split.took),
        ] {
            sheet.note(what, Unit::Milliseconds, took.as_secs_f64() * 1e3);
        }
    }
    far_server.stop()?;
    Ok(sheet.measures())
}

async fn costs([bare, split]: &mut [Client; 2], history: &Wide, store: Process) -> Result<[Cost; 2]> {
    Ok([cost(bare, history, store).await?, cost(split, history, store).await?])
}

async fn cost(client: &mut Client, history: &Wide, store: Process) -> Result<Cost> {
    let before = store.cpu()?;
    let took = client.whole(history, |_| {}).await?;
    Ok(Cost { took, cpu: store.cpu()? - before })
}

//! Figures on a real Cassandra node that the run starts: Anabranch against the bare driver, on the same rows.
//!
//! | module | what it holds |
//! |---|---|
//! | `site` | the node, the server on it, and what is asked of both between measurements |
//! | `wide` | long histories, each one partition, written through the server |
//! | `client` | whoever reads a history: through the server, or by the driver alone |
//! | `bare` | the driver alone |
//! | `proxy` | a network that takes its time |
//! | `ingest`, `split`, `page`, `whole`, `others`, `sizes` | one figure each |

mod bare;
mod client;
mod ingest;
mod others;
mod page;
mod proxy;
mod site;
mod sizes;
mod split;
mod whole;
mod wide;

use anyhow::{Result, bail};

use crate::{
    figures::{Bench, Figure},
    report::Measure,
};
pub(crate) use site::Site;

/// All figures, in the order in which they are measured.
pub(crate) const FIGURES: [Figure; 6] = [
    Figure { name: "ingest", about: "durable writes over gRPC, against the same batches by the bare driver" },
    Figure { name: "split", about: "from detection to served, against one scan and one write by the bare driver" },
    Figure { name: "page", about: "pages of 1,000 and 10 events over gRPC, against the bare driver on the original" },
    Figure { name: "whole", about: "a whole history from a split, against page after page by the bare driver" },
    Figure { name: "others", about: "another id while 16 clients read a whole wide history" },
    Figure { name: "sizes", about: "a page of histories of three sizes" },
];

pub(crate) async fn measure(name: &str, bench: &mut Bench) -> Result<Vec<Measure>> {
    // Taken out, so that figures can have it beside the rest.
    let mut site = match bench.site.take() {
        Some(site) => site,
        None => Site::start(&bench.launcher).await?,
    };
    let measures = match name {
        "ingest" => ingest::measure(bench, &mut site).await?,
        "split" => split::measure(bench, &mut site).await?,
        "page" => page::measure(bench, &mut site).await?,
        "whole" => whole::measure(bench, &mut site).await?,
        "others" => others::measure(bench, &mut site).await?,
        "sizes" => sizes::measure(bench, &mut site).await?,
        _ => bail!("there is no figure `{name}`"),
    };
    bench.site = Some(site);
    Ok(measures)
}

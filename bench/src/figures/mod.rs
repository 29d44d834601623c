//! What is measured: one file a figure, and what they share: data sets, sizes, how to start a server.

mod copying;
mod crowd;
mod histogram;
mod ingest;
mod memory;
mod namespaces;
mod page;
mod place;
mod pressure;
mod split;
mod start;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

pub(crate) use pressure::on_one_thread;

use crate::{
    args::{Args, Sizes},
    cluster::{self, Site},
    history::History,
    machine,
    report::Measure,
    server::Launcher,
};

/// Records of the pages that are measured.
pub(crate) const PAGE_SIZE: u32 = 1000;
/// Pages that one side reads before it is the other's turn.
pub(crate) const PAGES_PER_TURN: u32 = 50;

/// A figure, by name.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
}

/// All figures, in the order in which they are measured.
pub(crate) const FIGURES: [Figure; 10] = [
    Figure { name: "ingest", about: "durable writes over gRPC, against fjall alone" },
    Figure { name: "page", about: "a page of 1,000 events over gRPC, against a scan of the same rows" },
    Figure { name: "place", about: "a page at a random place of a large history, against a small one" },
    Figure { name: "memory", about: "memory that grows while eight clients scan a large history" },
    Figure { name: "start", about: "from start to the first answered read, large against small" },
    Figure { name: "split", about: "what splitting costs, and what pages and whole histories cost from pieces" },
    Figure { name: "copying", about: "pages while four splits copy, against without" },
    Figure { name: "pressure", about: "small reads beside 16 whole-history scans, and the scans beside small reads" },
    Figure { name: "histogram", about: "what measuring partitions takes of a core and of pages meanwhile" },
    Figure { name: "namespaces", about: "many namespaces on one store: start, memory, idle CPU" },
];

/// The figures that were asked for.
pub(crate) fn chosen(args: &Args) -> Result<Vec<&'static Figure>> {
    let (figures, only) = (all(args), &args.only);
    if let Some(unknown) = only.iter().find(|name| figures.iter().all(|figure| figure.name != **name)) {
        bail!("there is no figure `{unknown}`; --list shows all");
    }
    Ok(figures.iter().filter(|figure| only.is_empty() || only.iter().any(|name| name == figure.name)).collect())
}

/// Those of the embedded store, or of a cluster.
pub(crate) fn all(args: &Args) -> &'static [Figure] {
    if args.cluster { &cluster::FIGURES } else { &FIGURES }
}

pub(crate) async fn measure(name: &str, bench: &mut Bench) -> Result<Vec<Measure>> {
    if bench.cluster {
        return cluster::measure(name, bench).await;
    }
    match name {
        "ingest" => ingest::measure(bench).await,
        "page" => page::measure(bench).await,
        "place" => place::measure(bench).await,
        "memory" => memory::measure(bench).await,
        "start" => start::measure(bench).await,
        "split" => split::measure(bench).await,
        "copying" => copying::measure(bench).await,
        "pressure" => pressure::measure(bench).await,
        "histogram" => histogram::measure(bench).await,
        "namespaces" => namespaces::measure(bench).await,
        _ => bail!("there is no figure `{name}`"),
    }
}

/// What figures share. Its directory goes with it.
pub(crate) struct Bench {
    pub(crate) launcher: Launcher,
    pub(crate) sizes: Sizes,
    pub(crate) quick: bool,
    pub(crate) scratch: TempDir,
    /// On the disk that stores use.
    pub(crate) data: PathBuf,
    pub(crate) cluster: bool,
    /// The node and what is on it, once a figure needed it.
    pub(crate) site: Option<Site>,
    large: Option<History>,
    small: Option<History>,
}

impl Bench {
    pub(crate) fn prepare(args: &Args) -> Result<Bench> {
        let binary = args.server_bin.as_ref().context("--server-bin PATH is needed: the server to measure")?;
        let binary = binary.canonicalize().with_context(|| format!("there is no server at {}", binary.display()))?;
        std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {}", args.dir.display()))?;
        let directory = args.dir.canonicalize()?;
        let sizes = Sizes::new(args);
        let (data, chosen_by) = match args.cluster {
            true => (anabranch_testbed::cache::directory()?, "ANABRANCH_CACHE"),
            false => (directory.clone(), "--dir"),
        };
        machine::check_room(&data, sizes.disk_bytes, chosen_by)?;
        let scratch = tempfile::Builder::new().prefix("run-").tempdir_in(&directory)?;
        let launcher = Launcher { binary, directory: scratch.path().to_owned() };
        Ok(Bench {
            launcher,
            sizes,
            quick: args.quick,
            scratch,
            data,
            cluster: args.cluster,
            site: None,
            large: None,
            small: None,
        })
    }

    /// The large history; made when it is first needed.
    pub(crate) async fn large(&mut self) -> Result<History> {
        let (path, bytes) = (self.path("large"), self.sizes.large_bytes);
        known_or_made(&mut self.large, path, bytes).await
    }

    /// The small history; made when it is first needed.
    pub(crate) async fn small(&mut self) -> Result<History> {
        let (path, bytes) = (self.path("small"), self.sizes.small_bytes);
        known_or_made(&mut self.small, path, bytes).await
    }

    /// A place in the directory of this run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Says on standard error what is going on.
    pub(crate) fn progress(&self, run: u32) {
        eprintln!("  run {} of {}", run + 1, self.sizes.runs);
    }
}

async fn known_or_made(known: &mut Option<History>, path: PathBuf, bytes: u64) -> Result<History> {
    if let Some(history) = known {
        return Ok(history.clone());
    }
    eprintln!("  making a history of {} MB", bytes / 1_000_000);
    Ok(known.insert(History::make(&path, bytes).await?).clone())
}

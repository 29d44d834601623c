//! The command line, and how big everything is.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Measure a release build of the server
///
/// Every bound is a ratio of two sides that are measured in the same run, taking turns; what is shown is the median of
/// all runs. A bound that isn't met changes the exit code only with --strict.
#[derive(Debug, Parser)]
#[command(name = "anabranch-bench", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// The server to measure: the binary `anabranch`, built in release
    #[arg(long, value_name = "PATH")]
    pub(crate) server_bin: Option<PathBuf>,
    /// Measure this figure only; can be given more than once
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// How often each figure is measured [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: Option<u32>,
    /// Write everything that was measured as JSON; `-` means standard output, and the table goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<String>,
    /// Measure on a Cassandra node against the bare driver; the node is started, and ended with its data
    #[arg(long)]
    pub(crate) cluster: bool,
    /// Small sizes, to try it; the bounds mean little then
    #[arg(long)]
    pub(crate) quick: bool,
    /// List the figures
    #[arg(long)]
    pub(crate) list: bool,
    /// Fail when a bound isn't met
    #[arg(long)]
    pub(crate) strict: bool,
    /// Where data is kept while measuring; a real disk, not memory
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) dir: PathBuf,
    /// Series that the events of one ingest request belong to, one after the other
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) series: u32,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One side of the figure `ingest`: fjall alone
    #[command(hide = true)]
    BareFjall(BareArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BareArgs {
    #[arg(long)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) load: IngestLoad,
}

/// What the figure `ingest` sends, the same to both sides.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct IngestLoad {
    /// Writers, each with one request under way.
    #[arg(long)]
    pub(crate) writers: u32,
    /// Requests of each writer that are timed.
    #[arg(long)]
    pub(crate) requests: u32,
    /// Requests of each writer before those.
    #[arg(long)]
    pub(crate) warm_up: u32,
    /// Events of a request.
    #[arg(long)]
    pub(crate) events: u32,
    /// Series that the events of a request belong to, one after the other; each writer has its own.
    #[arg(long)]
    pub(crate) series: u32,
}

impl IngestLoad {
    /// Events that are timed.
    pub(crate) fn timed_events(&self) -> u64 {
        u64::from(self.writers) * u64::from(self.requests) * u64::from(self.events)
    }

    pub(crate) fn as_flags(&self) -> Vec<String> {
        let flags = [
            ("--writers", self.writers),
            ("--requests", self.requests),
            ("--warm-up", self.warm_up),
            ("--events", self.events),
            ("--series", self.series),
        ];
        flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_string()]).collect()
    }
}

/// How big everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) runs: u32,
    pub(crate) ingest: IngestLoad,
    pub(crate) large_bytes: u64,
    pub(crate) small_bytes: u64,
    /// One wide partition.
    pub(crate) wide_bytes: u64,
    /// A wider one, on a cluster.
    pub(crate) wider_bytes: u64,
    /// Pages that each side reads in a run.
    pub(crate) pages: u32,
    pub(crate) namespaces: u32,
    pub(crate) idle: Duration,
    pub(crate) disk_bytes: u64,
    /// How long each part of a figure under load takes.
    pub(crate) phase: Duration,
}

impl Sizes {
    pub(crate) fn new(args: &Args) -> Sizes {
        let ingest = IngestLoad { writers: 8, requests: 150, warm_up: 10, events: 500, series: args.series };
        let full = Sizes {
            runs: args.runs.unwrap_or(5),
            ingest,
            large_bytes: 1_000_000_000,
            small_bytes: 10_000_000,
            wide_bytes: 500_000_000,
            wider_bytes: 2_000_000_000,
            pages: 2000,
            namespaces: 1000,
            idle: Duration::from_secs(10),
            disk_bytes: if args.cluster { 16_000_000_000 } else { 4_000_000_000 },
            phase: Duration::from_secs(10),
        };
        if !args.quick {
            return full;
        }
        Sizes {
            runs: args.runs.unwrap_or(3),
            ingest: IngestLoad { requests: 40, warm_up: 5, ..ingest },
            large_bytes: 100_000_000,
            small_bytes: 5_000_000,
            wide_bytes: if args.cluster { 20_000_000 } else { 80_000_000 },
            wider_bytes: 40_000_000,
            pages: 400,
            namespaces: 100,
            idle: Duration::from_secs(5),
            disk_bytes: if args.cluster { 2_000_000_000 } else { 1_500_000_000 },
            phase: Duration::from_secs(3),
        }
    }
}

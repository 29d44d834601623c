//! `anabranch overview`, `anabranch top`, `anabranch series` and `anabranch heatmap`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::times::{self, Moment};

const OVERVIEW_EXAMPLES: &str = "\
Examples:
  anabranch overview
  anabranch overview plays --window 10m
  anabranch overview --output json | jq .warnings

What needs a person comes first. Rates and latencies are those of the one server that is asked.";

const TOP_EXAMPLES: &str = "\
Examples:
  anabranch top
  anabranch top --interval 500ms --window 10s
  anabranch top --once                     # one frame, for scripts

What needs a person comes first, then namespaces, splits on their way and background tasks, the busiest first. They are those \
of the one server that is asked. `q` or Ctrl-C ends it; a server that is gone is asked again until it is back. For programs there are `anabranch overview` and `anabranch tasks`.";

const SERIES_EXAMPLES: &str = "\
Examples:
  anabranch series plays profile:123
  anabranch series plays profile:123 --from -30d
  anabranch series plays profile:123 --output json

Sizes are counted by reading, within limits: `>` marks those that are bigger than what was counted.";

const HEATMAP_EXAMPLES: &str = "\
Examples:
  anabranch heatmap plays
  anabranch heatmap plays --by reads
  anabranch heatmap plays --output json

A line for each busy range of hashed ids, the last half hour from left to right, and its busiest series. They are those of \
the one server that is asked.";

/// How the namespaces fare.
#[derive(Clone, Debug, Args)]
#[command(after_help = OVERVIEW_EXAMPLES)]
pub(crate) struct OverviewArgs {
    /// Only this namespace
    pub(crate) namespace: Option<String>,
    /// Over how long rates and latencies are taken, from 10s to 10m
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = times::parse_duration)]
    pub(crate) window: Duration,
}

/// What a server does, live.
#[derive(Clone, Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    /// Print one frame and end
    #[arg(long)]
    pub(crate) once: bool,
    /// How often it looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = times::parse_duration, conflicts_with = "once")]
    pub(crate) interval: Duration,
    /// Over how long rates and latencies are taken, from 10s to 10m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = times::parse_duration)]
    pub(crate) window: Duration,
}

/// The partitions of a series.
#[derive(Clone, Debug, Args)]
#[command(after_help = SERIES_EXAMPLES)]
pub(crate) struct SeriesArgs {
    /// Where the series belongs
    pub(crate) namespace: String,
    /// Whose history
    pub(crate) series: String,
    /// Only partitions that hold time from here on
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<Moment>,
    /// Only partitions that hold time before this
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<Moment>,
    /// Most partitions
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
}

/// Where ids are busy.
#[derive(Clone, Debug, Args)]
#[command(after_help = HEATMAP_EXAMPLES)]
pub(crate) struct HeatMapArgs {
    /// Which namespace
    pub(crate) namespace: String,
    /// What makes a range busy: `bytes`, `reads` or `writes`
    #[arg(long, value_name = "WHAT", default_value = "bytes", hide_possible_values = true)]
    pub(crate) by: Measure,
}

/// What makes a range busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    Bytes,
    Reads,
    Writes,
}

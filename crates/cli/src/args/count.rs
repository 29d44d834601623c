//! `anabranch count`.

use std::time::Duration;

use clap::Args;

use crate::{
    args::read::Filter,
    times::{Moment, parse_duration},
};

const EXAMPLES: &str = "\
Examples:
  anabranch count plays profile:123
  anabranch count plays profile:123 --from -7d --every 1d
  anabranch count plays profile:123 profile:456 --by-series --by device
  anabranch count plays profile:123 --filter status=done --output json

The server reads the histories and answers numbers only. Steps of --every begin at midnight UTC of 1970-01-01. A span is half-open: it \
holds --from, and ends right before --to.";

/// Count what histories hold, by time, series or the value of an item
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CountArgs {
    /// Where the series belong
    pub(crate) namespace: String,
    /// Whose histories
    #[arg(required = true)]
    pub(crate) series: Vec<String>,
    /// The first instant that counts
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<Moment>,
    /// The first instant that doesn't count any more
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<Moment>,
    /// Only records with this item, or this item of this value (may be repeated; all must match)
    #[arg(long, value_name = "KEY[=VALUE]")]
    pub(crate) filter: Vec<Filter>,
    /// A line for each step of this length, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) every: Option<Duration>,
    /// A line for each value of this item
    #[arg(long, value_name = "KEY")]
    pub(crate) by: Option<String>,
    /// A line for each series
    #[arg(long)]
    pub(crate) by_series: bool,
}

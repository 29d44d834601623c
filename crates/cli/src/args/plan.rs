//! `anabranch plan`: one flag for every number of a workload's description.

use std::path::PathBuf;

use anabranch_provision::{
    DEFAULT_SEED, Estimate,
    quantity::{Bytes, Count, Exponent, Seconds, Share},
};
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  anabranch plan                                # asks, on a terminal
  anabranch plan --writes-per-second 1000 --event-bytes 500 --ids 1M --retention 30d
  anabranch plan --writes-per-second 500..1000..4000@0.8 --event-bytes 500 --ids 1M --top-one-percent 40%
  anabranch plan plays.toml --retention 90d     # a file, and what is to differ from it
  anabranch plan plays.toml --output toml > plan.toml
  anabranch namespace create plays --plan plan.toml

A file is a description in TOML, named as the flags are, or an earlier plan:
  writes_per_second = { low = 500, mid = 1000, high = 4000, confidence = 0.8 }
  event_bytes = \"1KiB\"
  ids = 1_000_000
  skew = { top_one_percent = \"40%\" }           # or { zipf = 0.9 }
  retention = \"30d\"

Every number is one value, or LOW..MID..HIGH@CONFIDENCE: with that confidence the truth lies between low and high, and \
it is as likely above mid as below. Nothing is sent to a server.";

/// Work out the settings of a namespace from what is known of its workload
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// A description (TOML), or an earlier plan (TOML, JSON)
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// The seed of the thousand draws: the same gives the same plan
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub(crate) seed: u64,
}

/// Numbers of a workload. What isn't given is taken from the file, or asked for, or is as usual.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArgs {
    /// Events written in a second, on average
    #[arg(long, value_name = "NUMBER", visible_alias = "writes")]
    writes_per_second: Option<Estimate<Count>>,
    /// Values and metadata of an event, all items together
    #[arg(long, value_name = "SIZE")]
    event_bytes: Option<Estimate<Bytes>>,
    /// Series that are written to
    #[arg(long, value_name = "NUMBER")]
    ids: Option<Estimate<Count>>,
    /// Items of an event [default: 1]
    #[arg(long, value_name = "NUMBER", visible_alias = "items")]
    items_per_event: Option<Estimate<Count>>,
    /// Skew: the series of rank r gets events in proportion to 1 / r^EXPONENT [default: 0.6..0.8..1@0.8]
    #[arg(long, value_name = "EXPONENT", conflicts_with = "top_one_percent")]
    zipf: Option<Estimate<Exponent>>,
    /// Skew: the share of the events that the busiest hundredth of the series gets
    #[arg(long, value_name = "SHARE")]
    top_one_percent: Option<Estimate<Share>>,
    /// How long events are kept at least [default: for ever]
    #[arg(long, value_name = "TIME")]
    retention: Option<Estimate<Seconds>>,
    /// Reads in a second [default: about a tenth of the writes]
    #[arg(long, value_name = "NUMBER", visible_alias = "reads")]
    reads_per_second: Option<Estimate<Count>>,
    /// How much time a usual read covers [default: 1d]
    #[arg(long, value_name = "TIME")]
    typical_interval: Option<Estimate<Seconds>>,
    /// How much time the longest reads cover [default: all that is kept, up to 1y]
    #[arg(long, value_name = "TIME")]
    longest_interval: Option<Estimate<Seconds>>,
    /// How old an event may be when it is written [default: 36h, or a quarter of the retention]
    #[arg(long, value_name = "TIME")]
    accept_limit: Option<Estimate<Seconds>>,
    /// What reads should take [default: 500ms]
    #[arg(long, value_name = "TIME")]
    read_target: Option<Estimate<Seconds>>,
    /// What reads may take [default: 5s]
    #[arg(long, value_name = "TIME")]
    read_max: Option<Estimate<Seconds>>,
    /// What writes should take [default: 100ms]
    #[arg(long, value_name = "TIME")]
    write_target: Option<Estimate<Seconds>>,
    /// What writes may take [default: 5s]
    #[arg(long, value_name = "TIME")]
    write_max: Option<Estimate<Seconds>>,
}

impl WorkloadArgs {
    /// The flags that were given, by their name in files. A skew has the name of its kind.
    pub(crate) fn given(&self) -> Vec<(&'static str, String)> {
        let fields = [
            ("writes_per_second", self.writes_per_second.map(|it| it.to_string())),
            ("event_bytes", self.event_bytes.map(|it| it.to_string())),
            ("ids", self.ids.map(|it| it.to_string())),
            ("items_per_event", self.items_per_event.map(|it| it.to_string())),
            ("zipf", self.zipf.map(|it| it.to_string())),
            ("top_one_percent", self.top_one_percent.map(|it| it.to_string())),
            ("retention", self.retention.map(|it| it.to_string())),
            ("reads_per_second", self.reads_per_second.map(|it| it.to_string())),
            ("typical_interval", self.typical_interval.map(|it| it.to_string())),
            ("longest_interval", self.longest_interval.map(|it| it.to_string())),
            ("accept_limit", self.accept_limit.map(|it| it.to_string())),
            ("read_target", self.read_target.map(|it| it.to_string())),
            ("read_max", self.read_max.map(|it| it.to_string())),
            ("write_target", self.write_target.map(|it| it.to_string())),
            ("write_max", self.write_max.map(|it| it.to_string())),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

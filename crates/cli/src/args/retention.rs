//! `anabranch retention`.

use std::time::Duration;

use clap::Args;

use crate::times::parse_duration;

const EXAMPLES: &str = "\
Examples:
  anabranch retention plays                          # what is kept, and what goes next
  anabranch retention plays --delete-after 30d --dry-run
  anabranch retention plays --delete-after 30d
  anabranch retention plays --forever

Says beforehand which slices would be closed and dropped at once. A slice is closed (not read any more) and later dropped \
as a whole, counted from its end; what was closed or dropped doesn't come back when the retention is made longer.";

/// Show or change how long events are kept, and say beforehand what that does
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RetentionArgs {
    /// Of which namespace
    pub(crate) namespace: String,
    /// How long after its end a slice is dropped
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) delete_after: Option<Duration>,
    /// How long after its end a slice stops being read [default: shortly before it is dropped]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) close_after: Option<Duration>,
    /// Keep events for ever
    #[arg(long, conflicts_with_all = ["delete_after", "close_after"])]
    pub(crate) forever: bool,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Don't ask where slices would go at once: needed where there is no terminal to ask on
    #[arg(long)]
    pub(crate) yes: bool,
}

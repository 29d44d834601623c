//! `anabranch backfill`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::times::{Moment, parse_duration};

const EXAMPLES: &str = "\
Examples:
  anabranch backfill open plays --from 2026-01-01 --to 2026-02-01 --reason \"lost by the exporter\"
  anabranch backfill list plays
  anabranch backfill close plays bf-1f2e3d4c

While a window is open, events of its span are accepted however old they are. `anabranch import` opens and closes one \
by itself.";

/// Open, close and list windows for old events
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) enum BackfillCommand {
    /// Open a window for old events
    Open(OpenArgs),
    /// Close a window before it expires
    Close {
        /// In which namespace
        namespace: String,
        /// Which window
        id: String,
    },
    /// List the windows of a namespace
    #[command(visible_alias = "ls")]
    List {
        /// Which one
        namespace: String,
    },
}

/// Open a window for old events
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpenArgs {
    /// In which namespace
    pub(crate) namespace: String,
    /// The first instant that is accepted
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Moment,
    /// The first instant that isn't accepted any more
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Moment,
    /// How long the window stays open
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub(crate) expires: Duration,
    /// Why, for those who look later
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// Answer at once, not only when events are accepted
    #[arg(long)]
    pub(crate) no_wait: bool,
}

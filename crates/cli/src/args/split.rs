//! `anabranch split`.

use std::time::Duration;

use anabranch_api::v1::split::State;
use anabranch_model::ReadMode;
use clap::{Args, Subcommand};

use crate::times::parse_duration;

const EXAMPLES: &str = "\
Examples:
  anabranch split list plays
  anabranch split list plays --watch                     # until nothing is on its way any more
  anabranch split show plays profile:123
  anabranch split request plays profile:123              # without waiting for a read to notice
  anabranch split verify plays
  anabranch split mode plays ON --reason \"a week without a difference\"

A partition past the namespace's threshold is noticed while it is read, copied into pieces, verified, and served from them \
as far as the read mode says. Originals are never changed.";

const LIST_EXAMPLES: &str = "\
Examples:
  anabranch split list plays
  anabranch split list plays profile:123 --slice data_20260328
  anabranch split list plays --state failed,parked --output json
  anabranch split list plays --watch

With --watch: bytes, rate and time left of every split that is on its way, until none is any more. `--output json` has \
everything but the pieces; `anabranch split show` has those.";

const SHOW_EXAMPLES: &str = "\
Examples:
  anabranch split show plays profile:123
  anabranch split show plays profile:123 --slice data_20260328 --time-bucket 3 --pieces
  anabranch split show plays profile:123 --output json";

const REQUEST_EXAMPLES: &str = "\
Examples:
  anabranch split request plays profile:123
  anabranch split request plays profile:123 --slice data_20260328 --time-bucket 3
  anabranch split request plays --slice data_20260328    # every partition of it past the threshold

What turns out to be too small is left as it is: NOT_WIDE.";

const RETRY_EXAMPLES: &str = "\
Examples:
  anabranch split retry plays profile:123
  anabranch split retry plays --all

Splits that FAILED, are PARKED, were NOT_WIDE or are set aside begin again at once; others stay as they are.";

const ABANDON_EXAMPLES: &str = "\
Examples:
  anabranch split abandon plays profile:123 --reason \"moves elsewhere\"
  anabranch split abandon plays --slice data_20260328

Nothing of them is used any more, and nothing is tried again until `anabranch split retry` or `request`. The originals stay \
as they are.";

const DIFF_EXAMPLES: &str = "\
Examples:
  anabranch split diff plays
  anabranch split diff plays profile:123 --output json   # with both sides, in base64

The server keeps the latest 100 of a namespace.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  anabranch split verify plays
  anabranch split verify plays profile:123
  anabranch split verify --all                           # every split of every namespace

Reads pieces and originals whole and compares them row by row; each split may take up to ten minutes, or --timeout where \
that is more. What lies in a piece outside of its bounds differs, too, though no read would meet it.

Ends with 1 when something differs; that split isn't used any more then. Ends with 6 when nothing differs but something \
couldn't be compared: a backfill window may still bring events, a server or the store failed, or it changed meanwhile. What \
isn't served any more, because it was given up or its slice is closed, is left out, and is no failure.";

const MODE_EXAMPLES: &str = "\
Examples:
  anabranch split mode plays
  anabranch split mode plays EXEC --reason \"compared for a week\"

Modes:
  OFF         originals are served, and nothing else is read
  SHADOW      originals are served; splits are read beside them, and both costs kept
  COMPARISON  originals are served; splits are read beside them and compared
  EXEC        splits are served; originals are read beside them and compared
  ON          splits are served";

/// Show, request, retry, give up and verify splits; set how far reads trust them
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) enum SplitCommand {
    /// List splits, or watch those on their way
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show one split: state, segments, pieces
    Show(ShowArgs),
    /// Ask that partitions be looked at, without waiting for a read
    #[command(after_help = REQUEST_EXAMPLES)]
    Request {
        #[command(flatten)]
        which: WhichArgs,
    },
    /// Let splits begin again at once
    #[command(after_help = RETRY_EXAMPLES)]
    Retry {
        #[command(flatten)]
        which: WhichArgs,
        /// Every split of the namespace
        #[arg(long, conflicts_with_all = ["series", "slice"])]
        all: bool,
    },
    /// Give splits up, and read the originals
    #[command(after_help = ABANDON_EXAMPLES)]
    Abandon {
        #[command(flatten)]
        which: WhichArgs,
        /// Every split of the namespace
        #[arg(long, conflicts_with_all = ["series", "slice"])]
        all: bool,
        /// Why, for those who look later
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Show differences between splits and originals
    #[command(after_help = DIFF_EXAMPLES)]
    Diff {
        /// Of which namespace
        namespace: String,
        /// Only of this series
        series: Option<String>,
        /// Only of this slice: `data_20260328`
        #[arg(long, value_name = "SLICE")]
        slice: Option<String>,
    },
    /// Compare splits with their originals now
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Show or set how far reads trust splits
    Mode(ModeArgs),
}

/// Compare splits with their originals now
#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Of which namespace
    #[arg(required_unless_present = "all")]
    pub(crate) namespace: Option<String>,
    /// Only of this series
    pub(crate) series: Option<String>,
    /// Only of this slice: `data_20260328`
    #[arg(long, value_name = "SLICE")]
    pub(crate) slice: Option<String>,
    /// Only of this time bucket of the slice
    #[arg(long, value_name = "N")]
    pub(crate) time_bucket: Option<u32>,
    /// Only of this event bucket
    #[arg(long, value_name = "N")]
    pub(crate) event_bucket: Option<u32>,
    /// Every split of every namespace
    #[arg(long, conflicts_with_all = ["namespace", "series", "slice", "time_bucket", "event_bucket"])]
    pub(crate) all: bool,
}

/// Which splits are meant.
#[derive(Clone, Debug, Args)]
pub(crate) struct WhichArgs {
    /// Of which namespace
    pub(crate) namespace: String,
    /// Only of this series
    pub(crate) series: Option<String>,
    /// Only of this slice: `data_20260328`
    #[arg(long, value_name = "SLICE")]
    pub(crate) slice: Option<String>,
    /// Only of this time bucket of the slice
    #[arg(long, value_name = "N")]
    pub(crate) time_bucket: Option<u32>,
    /// Only of this event bucket
    #[arg(long, value_name = "N")]
    pub(crate) event_bucket: Option<u32>,
}

/// List splits, or watch those on their way
#[derive(Clone, Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// Only in these states: `completed`, `failed`, … (may be repeated)
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = parse_state, conflicts_with = "watch")]
    pub(crate) state: Vec<State>,
    /// Most splits that are shown
    #[arg(long, short = 'n', value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Watch the splits that are on their way until none is any more
    #[arg(long)]
    pub(crate) watch: bool,
    /// How often --watch looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration, requires = "watch")]
    pub(crate) interval: Duration,
}

/// Show one split: state, segments, pieces
#[derive(Clone, Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArgs {
    /// Of which namespace
    pub(crate) namespace: String,
    /// Of which series
    pub(crate) series: String,
    /// Of which slice: `data_20260328`; needed where the series has several splits
    #[arg(long, value_name = "SLICE")]
    pub(crate) slice: Option<String>,
    /// Of which time bucket of the slice
    #[arg(long, value_name = "N")]
    pub(crate) time_bucket: Option<u32>,
    /// Of which event bucket
    #[arg(long, value_name = "N")]
    pub(crate) event_bucket: Option<u32>,
    /// List every piece, not only their number (table)
    #[arg(long)]
    pub(crate) pieces: bool,
}

/// Show or set how far reads trust splits
#[derive(Clone, Debug, Args)]
#[command(after_help = MODE_EXAMPLES)]
pub(crate) struct ModeArgs {
    /// Of which namespace
    pub(crate) namespace: String,
    /// The mode to set: OFF, SHADOW, COMPARISON, EXEC or ON [default: show the mode and its history]
    pub(crate) mode: Option<ReadMode>,
    /// Why, for those who look later
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, requires = "mode")]
    pub(crate) reason: String,
    /// Who wants it [default: your name on this machine]
    #[arg(long, value_name = "NAME", requires = "mode")]
    pub(crate) by: Option<String>,
}

/// For clap: the state of a split, in either case.
fn parse_state(text: &str) -> Result<State, String> {
    let name = text.trim().to_ascii_uppercase().replace('-', "_");
    let known = || (1..).map_while(|number| State::try_from(number).ok());
    known().find(|state| state.as_str_name() == name).ok_or_else(|| {
        let known: Vec<&str> = known().map(|state| state.as_str_name()).collect();
        format!("`{text}` is no state; known are {}", known.join(", "))
    })
}

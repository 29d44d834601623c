//! `anabranch read`.

use std::str::FromStr;

use clap::Args;

use crate::times::Moment;

const EXAMPLES: &str = "\
Examples:
  anabranch read plays profile:123
  anabranch read plays profile:123 --from -7d --filter status=done
  anabranch read plays profile:123 --from 2026-03-01 --to 2026-04-01 --oldest-first --all
  anabranch read plays profile:123 --output jsonl | jq .eventTime

A span is half-open: it holds --from, and ends right before --to. Times are RFC 3339, a date (midnight UTC), `now`, \
or a time ago such as `-2h`. With `--output jsonl` each line is a record as in the API, values in base64.";

/// Read a history, latest first
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReadArgs {
    /// Where the series belongs
    pub(crate) namespace: String,
    /// Whose history
    pub(crate) series: String,
    /// The first instant that is read
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<Moment>,
    /// The first instant that isn't read any more
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<Moment>,
    /// Oldest events first
    #[arg(long)]
    pub(crate) oldest_first: bool,
    /// Only records with this item, or this item of this value (may be repeated; all must match)
    #[arg(long, value_name = "KEY[=VALUE]")]
    pub(crate) filter: Vec<Filter>,
    /// Most records in a request [default: the namespace's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) page_size: Option<u32>,
    /// Most records in all [default: 100 in a table, else all]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// All records
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Long values in full, not only their beginning (table)
    #[arg(long)]
    pub(crate) full: bool,
}

/// What records must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (text, None),
        };
        if key.is_empty() {
            return Err("needs the form KEY or KEY=VALUE".to_owned());
        }
        Ok(Filter { key: key.to_owned(), value })
    }
}

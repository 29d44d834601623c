//! `anabranch import`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::write::BatchArgs;
use crate::{
    import::{mapping::MapEntry, time_format::TimeFormat},
    times::parse_duration,
};

const EXAMPLES: &str = "\
Examples:
  anabranch import plays --file history.csv
  anabranch import plays --file history.csv --map time=played_at,series=profile,item:title=name
  anabranch import sensors --file room.csv --series room:7 --time-format unix-ms
  anabranch import plays --file history.jsonl --resume history.state
  zcat history.csv.gz | anabranch import plays --file - --format csv

The whole file is checked before anything is written. For events older than the namespace accepts, a backfill window \
is opened, and closed at the end.

Columns, where --map doesn't say: the time is `time`, `timestamp` or `event_time`; the series is `time_series_id`, \
`series` or `id`; the event id is `event_id`, or `id` beside a column for the series. All other columns become items. \
A row without an event id gets one made of its content, so that importing it again changes nothing.

Time formats: auto (RFC 3339, or a date with or without a time in UTC), rfc3339, unix, unix-ms, unix-us, unix-ns, or a \
pattern such as '%d.%m.%Y %H:%M:%S' (UTC unless it has %z).";

/// Import a history from CSV or JSON lines, however old
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// Where the events belong
    pub(crate) namespace: String,
    /// What to import; `-` is stdin
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// `csv` or `jsonl` [default: by the file's name]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) format: Option<FileFormat>,
    /// Which columns (of JSON: fields) hold what: time=, series=, event_id=, item:NAME= (may be repeated)
    #[arg(long, value_name = "WHAT=COLUMN,…", value_delimiter = ',')]
    pub(crate) map: Vec<MapEntry>,
    /// Only the items that --map names, not all other columns
    #[arg(long)]
    pub(crate) only_mapped: bool,
    /// How times are written
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub(crate) time_format: TimeFormat,
    /// All rows belong to this series
    #[arg(long, value_name = "SERIES")]
    pub(crate) series: Option<String>,
    /// Put before every series: `profile:`
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) series_prefix: String,
    /// Empty fields become empty items; else they are left out
    #[arg(long)]
    pub(crate) keep_empty: bool,
    /// What separates columns [default: a comma; a tab in .tsv files]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// The first row holds no names; columns are called 1, 2, 3, …
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// How long the backfill window may stay open if this command can't close it
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = parse_duration)]
    pub(crate) expires: Duration,
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
}

/// How a file is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    Csv,
    Jsonl,
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" | b"tab" => Ok(b'\t'),
        [byte] if !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("must be one ASCII character, or `tab`".to_owned()),
    }
}

//! `anabranch advise`.

use std::{path::PathBuf, time::Duration};

use anabranch_advise::Limits;
use clap::Args;

use crate::times::{parse_bytes, parse_duration};

const EXAMPLES: &str = "\
Examples:
  anabranch advise --store cassandra://10.0.0.1 --keyspace plays --table by_profile
  anabranch advise --keyspace plays --table by_profile --max-bytes 8GiB --max-time 10m --bytes-per-second 64MiB
  anabranch advise --keyspace plays --table by_profile --output json

Nothing is written: a role that may only SELECT from the table is enough. Rows are read at LOCAL_ONE, evenly over the \
table's tokens, until the table or a limit ends. The table needs a clustering column that is a time: a timestamp, \
timeuuid or date, or a bigint of seconds, milliseconds, microseconds or nanoseconds since 1970. Credentials and TLS come \
from the configuration, as for `anabranch serve`.";

/// Look at a table of Cassandra that is already there, and say what splitting would make of it
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AdviseArgs {
    /// The cluster: `cassandra://HOST:PORT,HOST:PORT` [default: that of the configuration]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Settings (TOML) [default: ./anabranch.toml if it is there]
    #[arg(long, value_name = "FILE", env = "ANABRANCH_CONFIG", hide_env = true)]
    pub(crate) config: Option<PathBuf>,
    /// The keyspace of the table, exactly as it is spelt
    #[arg(long, value_name = "NAME")]
    pub(crate) keyspace: String,
    /// The table, exactly as it is spelt
    #[arg(long, value_name = "NAME")]
    pub(crate) table: String,
    /// The clustering column that says when rows happened [default: the first that is a time]
    #[arg(long, value_name = "NAME")]
    pub(crate) time_column: Option<String>,
    /// Bytes of rows that are read at most
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    max_bytes: u64,
    /// Rows that are read at most
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_rows: u64,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    max_time: Duration,
    /// Bytes of rows that are read in a second at most
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_bytes)]
    bytes_per_second: u64,
    /// Wide partitions that are shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    widest: u64,
}

impl AdviseArgs {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            bytes: self.max_bytes,
            rows: self.max_rows,
            time: self.max_time,
            bytes_per_second: self.bytes_per_second,
            widest: self.widest as usize,
        }
    }
}

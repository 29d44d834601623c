//! `anabranch load`.

use std::time::Duration;

use clap::Args;

use crate::times::{parse_bytes, parse_duration};

const EXAMPLES: &str = "\
Examples:
  anabranch load plays
  anabranch load plays --writes-per-second 2000 --ids 100000 --zipf 1.2 --value-bytes 1KiB --duration 5m
  anabranch load plays --writes-per-second 0 --reads-per-second 200 --page-size 20,100,1000
  anabranch load plays --seed 7 --output json

Series are drawn by Zipf's law: that of rank r in proportion to 1 / r^exponent, named `profile:r`. The same seed sends the same \
series, ids, values and page sizes in the same order; only times are those of now. Requests that would be sent while \
--concurrency of them are under way wait, and their wait counts. Ends with 1 when requests failed.";

/// Send made-up traffic to a server, and measure it
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoadArgs {
    /// Where to write and read
    pub(crate) namespace: String,
    /// How many series there are
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) ids: u32,
    /// How skewed they are: 0 is not at all
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.1, value_parser = parse_exponent)]
    pub(crate) zipf: f64,
    /// Events that are written per second; 0 writes nothing
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) writes_per_second: u32,
    /// Events in a write request
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: u32,
    /// Bytes of a value: the mean; they lie between half and one and a half of it
    #[arg(long, value_name = "SIZE", default_value = "300", value_parser = parse_value_bytes)]
    pub(crate) value_bytes: u64,
    /// Pages that are read per second; 0 reads nothing
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) reads_per_second: u32,
    /// Records in a page; of several, each is drawn as often
    #[arg(long, value_name = "N,N", default_value = "100", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) page_size: Vec<u32>,
    /// How long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// Most requests under way at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// Another seed sends other traffic
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// For clap: an exponent that makes sense.
fn parse_exponent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(exponent) if (0.0..=10.0).contains(&exponent) => Ok(exponent),
        _ => Err(format!("`{text}` is not a number from 0 to 10")),
    }
}

/// For clap: a size that fits into a request.
fn parse_value_bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes @ 1..=1_048_576 => Ok(bytes),
        _ => Err(format!("`{text}` is not between 1 byte and 1MiB")),
    }
}

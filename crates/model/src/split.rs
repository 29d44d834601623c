//! How wide partitions are split, and how far reads trust splits.

use std::{fmt, str::FromStr, time::Duration};

use jiff::fmt::serde::unsigned_duration::friendly::compact;
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

/// How wide partitions are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitSettings {
    /// A partition is wide from this many bytes on.
    pub threshold_bytes: u64,
    /// The size that pieces should have.
    pub target_piece_bytes: u64,
    /// Whether reads look for wide partitions.
    pub detect: bool,
    /// How rows are divided among pieces.
    pub strategy: SplitStrategy,
    /// How rows lie in pieces.
    pub packing: Packing,
    /// How big a block should be before compression.
    pub block_bytes: u32,
    /// Of how many in a hundred split partitions reads are compared with the original.
    pub compare_percent: u32,
    /// Whether a namespace goes from COMPARISON to EXEC by itself.
    pub promote: bool,
    /// After so many comparisons without a difference.
    pub promote_comparisons: u32,
    /// Over at least this time.
    #[serde(with = "compact::required")]
    pub promote_over: Duration,
    /// Whether splits that turn out slower than the original are set aside.
    pub must_pay: bool,
}

impl Default for SplitSettings {
    fn default() -> Self {
        SplitSettings {
            threshold_bytes: 10 * MIB,
            target_piece_bytes: 4 * MIB,
            detect: true,
            strategy: SplitStrategy::TimeRange,
            packing: Packing::Lz4,
            block_bytes: 16 << 10,
            compare_percent: 100,
            promote: true,
            promote_comparisons: 200,
            promote_over: Duration::from_secs(600),
            must_pay: true,
        }
    }
}

/// Words that stand for the values of a setting.
macro_rules! words {
    ($type:ident, $what:literal: $($value:ident = $word:literal),+) => {
        impl $type {
            /// As it is written in settings and shown to people.
            pub fn name(self) -> &'static str {
                match self { $($type::$value => $word),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let known = [$($type::$value),+];
                let found = known.into_iter().find(|value| value.name().eq_ignore_ascii_case(text));
                found.ok_or_else(|| format!("`{text}` is no {}; known are {}", $what, [$($word),+].join(", ")))
            }
        }
    };
}

pub(crate) use words;

/// How rows are divided among pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitStrategy {
    /// Contiguous pieces, cut between events.
    TimeRange,
    /// Spread by hash, as rows; needs the whole partition sealed.
    EventBucket,
}

words!(SplitStrategy, "strategy": TimeRange = "time_range", EventBucket = "event_bucket");

/// How rows lie in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// One by one, as in the original.
    Rows,
    /// In blocks, not compressed.
    Plain,
    /// In blocks, quickly compressed.
    Lz4,
    /// In blocks, well compressed.
    Zstd,
}

words!(Packing, "packing": Rows = "rows", Plain = "plain", Lz4 = "lz4", Zstd = "zstd");

/// How far reads trust splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReadMode {
    /// Originals are served, and nothing else is read.
    Off,
    /// Originals are served; splits are read beside them, and both costs kept.
    Shadow,
    /// Originals are served; splits are read beside them and compared.
    Comparison,
    /// Splits are served; originals are read beside them and compared.
    Exec,
    /// Splits are served.
    On,
}

words!(ReadMode, "read mode": Off = "OFF", Shadow = "SHADOW", Comparison = "COMPARISON", Exec = "EXEC", On = "ON");

impl ReadMode {
    /// Whether reads are served from splits.
    pub fn serves_splits(self) -> bool {
        matches!(self, ReadMode::Exec | ReadMode::On)
    }

    /// Whether the bytes of both sides are compared.
    pub fn compares(self) -> bool {
        matches!(self, ReadMode::Comparison | ReadMode::Exec)
    }
}

//! What was observed of slices and of reads, and which slices count.

use anabranch_model::PartitionSettings;
use serde::{Deserialize, Serialize};

use super::{Current, Rules};

/// What was observed of one slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceEvidence {
    /// Its name.
    pub slice: String,
    /// How long it is.
    pub seconds_per_slice: u32,
    /// How it is divided.
    pub settings: PartitionSettings,
    /// Partitions that hold anything.
    pub partitions: u64,
    /// The size that 99 of 100 of them don't exceed.
    pub p99_bytes: u64,
    /// Whether its time is over. It need not be sealed: what comes late is too little to matter here.
    pub ended: bool,
    /// Whether a backfill wrote to it.
    pub backfilled: bool,
}

/// What was observed of reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadEvidence {
    /// How many reads.
    pub reads: u64,
    /// The length of interval that half of them don't exceed.
    pub typical_seconds: f64,
    /// The length of interval that 99 of 100 don't exceed.
    pub longest_seconds: f64,
}

/// Towards bigger or smaller partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Fewer, bigger partitions.
    Bigger,
    /// More, smaller partitions.
    Smaller,
}

/// Why a slice doesn't count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Uncounted {
    /// Its time isn't over.
    Unfinished,
    /// A backfill wrote to it, so that its sizes aren't those of the traffic.
    Backfilled,
    /// It has other settings or another length than new slices have.
    OtherSettings,
    /// It has too few partitions.
    TooFewPartitions,
}

impl SliceEvidence {
    /// Why it doesn't count, if it doesn't.
    pub fn uncounted(&self, current: &Current, rules: &Rules) -> Option<Uncounted> {
        if !self.ended {
            Some(Uncounted::Unfinished)
        } else if self.backfilled {
            Some(Uncounted::Backfilled)
        } else if self.settings != current.settings || self.seconds_per_slice != current.seconds_per_slice {
            Some(Uncounted::OtherSettings)
        } else if self.partitions < rules.least_partitions {
            Some(Uncounted::TooFewPartitions)
        } else {
            None
        }
    }
}

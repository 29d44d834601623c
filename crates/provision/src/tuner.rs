//! The slice tuner's arithmetic: from the partition sizes of recent slices, and from how they are read, to a proposal
//! for slices to come. It proposes; whether and when that is applied is for the engine to say (T1).
//!
//! | module | what it holds |
//! |---|---|
//! | [`evidence`] | what was observed of slices and reads, and which slices count |
//! | [`decision`] | whether to change something, and what |
//! | [`proposal`] | the change, and the sentence that explains it |

pub mod decision;
pub mod evidence;
#[cfg(test)]
mod loop_tests;
pub mod proposal;

pub use decision::{Current, Decision, Verdict, decide};
pub use evidence::{Direction, ReadEvidence, SliceEvidence, Uncounted};
pub use proposal::Proposal;

use serde::{Deserialize, Serialize};

use crate::candidate::{DENSITY_HIGH_BYTES, DENSITY_LOW_BYTES};

/// How careful the tuner is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// The least that the 99th percentile of partition sizes should be.
    pub low_bytes: u64,
    /// The most that it should be.
    pub high_bytes: u64,
    /// Slices that must agree.
    pub least_slices: usize,
    /// Slices that must agree when the evidence is overwhelming, or goes on where the latest change went.
    pub least_slices_when_clear: usize,
    /// Partitions that a slice must have to count.
    pub least_partitions: u64,
    /// Reads that must have been seen for their intervals to count.
    pub least_reads: u64,
    /// How many times outside of the target a percentile must be before anything is changed.
    pub hysteresis: f64,
    /// The same before the latest change is turned back.
    pub hysteresis_of_reversal: f64,
    /// The most that partitions are made bigger or smaller in one change, times.
    pub most_step: f64,
    /// How many times outside of the target evidence is overwhelming, so that a change may be of any size.
    pub overwhelming: f64,
    /// Changes in one direction after which the tuner stops, so that a mistake of its own can't run away.
    pub most_changes_in_a_row: u32,
    /// Partitions that a usual read may ask for after a change.
    pub most_fan_out: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            low_bytes: DENSITY_LOW_BYTES,
            high_bytes: DENSITY_HIGH_BYTES,
            least_slices: 3,
            least_slices_when_clear: 2,
            least_partitions: 100,
            least_reads: 100,
            hysteresis: 1.25,
            hysteresis_of_reversal: 4.0,
            most_step: 16.0,
            overwhelming: 32.0,
            most_changes_in_a_row: 3,
            most_fan_out: 64.0,
        }
    }
}

//! The settings that a plan chooses between.

use anabranch_model::{PartitionSettings, config::MAX_SLICES};

use crate::world::World;

/// Lengths of slices to start from.
pub const SLICE_STEPS: [u32; 4] = [4 * 3600, 86_400, 14 * 86_400, 180 * 86_400];
/// Lengths of time buckets.
pub const BUCKET_STEPS: [u32; 13] = [
    60,
    300,
    900,
    3600,
    4 * 3600,
    12 * 3600,
    86_400,
    3 * 86_400,
    7 * 86_400,
    14 * 86_400,
    30 * 86_400,
    90 * 86_400,
    180 * 86_400,
];
/// Numbers of event buckets.
pub const EVENT_BUCKET_STEPS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The size that most partitions should have at least: smaller ones cost a lookup each and hold little.
pub const DENSITY_LOW_BYTES: u64 = 2 << 20;
/// The size that partitions should have at most: bigger ones are wide.
pub const DENSITY_HIGH_BYTES: u64 = 10 << 20;

/// Settings that might be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Length of slices.
    pub seconds_per_slice: u32,
    /// How a slice is divided.
    pub partitions: PartitionSettings,
}

impl Candidate {
    pub(crate) fn slice(&self) -> f64 {
        f64::from(self.seconds_per_slice)
    }

    pub(crate) fn bucket(&self) -> f64 {
        f64::from(self.partitions.seconds_per_bucket)
    }

    pub(crate) fn event_buckets(&self) -> f64 {
        f64::from(self.partitions.event_buckets)
    }

    /// Tables that a world needs with it.
    pub(crate) fn tables(&self, world: &World) -> f64 {
        (world.kept + world.accept) / self.slice() + 3.0
    }

    /// Partitions that a read of this much time asks for at most.
    pub(crate) fn fan_out(&self, interval: f64) -> f64 {
        (interval / self.bucket() + 1.0) * self.event_buckets()
    }
}

/// Every candidate that `world` could have: no bucket longer than its slice, no more tables than a namespace may have.
pub(crate) fn candidates(world: &World) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let longest = SLICE_STEPS[SLICE_STEPS.len() - 1];
    for seconds_per_slice in SLICE_STEPS {
        for seconds_per_bucket in BUCKET_STEPS.into_iter().filter(|bucket| *bucket <= seconds_per_slice) {
            for event_buckets in EVENT_BUCKET_STEPS {
                let partitions = PartitionSettings { seconds_per_bucket, event_buckets };
                let candidate = Candidate { seconds_per_slice, partitions };
                if candidate.tables(world) <= most_tables() || seconds_per_slice == longest {
                    candidates.push(candidate);
                }
            }
        }
    }
    candidates
}

/// As many as the rules of configurations allow, less a reserve for backfills.
fn most_tables() -> f64 {
    (MAX_SLICES / 2) as f64
}

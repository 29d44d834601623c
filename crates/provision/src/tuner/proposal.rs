//! A change of settings, and the sentence that explains it.

use std::fmt;

use anabranch_model::PartitionSettings;
use serde::{Deserialize, Serialize};

use super::Direction;
use crate::quantity::{show_bytes, show_seconds};

/// Other settings for slices to come, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Whether partitions get bigger or smaller.
    pub direction: Direction,
    /// The end of the density target that sentences name.
    pub target_bytes: u64,
    /// The 99th percentile of partition sizes that was observed.
    pub observed_p99_bytes: u64,
    /// The 99th percentile that is expected, at most when partitions get bigger, at least when they get smaller.
    pub expected_p99_bytes: u64,
    /// Length of slices now.
    pub old_seconds_per_slice: u32,
    /// Length of slices proposed.
    pub new_seconds_per_slice: u32,
    /// How slices are divided now.
    pub old_settings: PartitionSettings,
    /// How they should be divided.
    pub new_settings: PartitionSettings,
    /// How long events are kept at least, where there is an end.
    pub retention_seconds: Option<u64>,
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.direction {
            Direction::Bigger => "below",
            Direction::Smaller => "above",
        };
        let target = show_bytes(self.target_bytes as f64);
        write!(f, "Observed: slices have p99 partitions {side} the target of {target}. Proposed: ")?;
        f.write_str(&self.changes())?;
        let Some(consequence) = self.consequence_for_retention() else { return Ok(()) };
        write!(f, ". {consequence}")
    }
}

impl Proposal {
    fn changes(&self) -> String {
        let mut changes = Vec::new();
        let (old, new) = (&self.old_settings, &self.new_settings);
        let slice_changes = self.old_seconds_per_slice != self.new_seconds_per_slice;
        if slice_changes {
            let [old, new] = [self.old_seconds_per_slice, self.new_seconds_per_slice].map(|it| show_seconds(it.into()));
            changes.push(format!("slice {old} -> {new}"));
        }
        if old.seconds_per_bucket != new.seconds_per_bucket {
            let name = if slice_changes { "time_bucket" } else { "time_bucket interval" };
            changes.push(format!("{name} {}s -> {}s", old.seconds_per_bucket, new.seconds_per_bucket));
        }
        if old.event_buckets != new.event_buckets {
            changes.push(format!("event_buckets {} -> {}", old.event_buckets, new.event_buckets));
        }
        changes.join(", ")
    }

    /// What longer slices do to retention.
    fn consequence_for_retention(&self) -> Option<String> {
        if self.old_seconds_per_slice == self.new_seconds_per_slice {
            return None;
        }
        let [old, new] = [self.old_seconds_per_slice, self.new_seconds_per_slice].map(|it| show_seconds(it.into()));
        Some(match self.retention_seconds {
            Some(kept) => format!(
                "Slices are dropped whole: events kept for {} would stay up to {new} longer, instead of {old}",
                show_seconds(kept as f64)
            ),
            None => format!(
                "Nothing is dropped now; with a retention, events would stay up to {new} longer, instead of {old}"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal() -> Proposal {
        Proposal {
            direction: Direction::Bigger,
            target_bytes: 10 << 20,
            observed_p99_bytes: 700,
            expected_p99_bytes: 7_056_000,
            old_seconds_per_slice: 14 * 86_400,
            new_seconds_per_slice: 14 * 86_400,
            old_settings: PartitionSettings { seconds_per_bucket: 60, event_buckets: 1 },
            new_settings: PartitionSettings { seconds_per_bucket: 604_800, event_buckets: 1 },
            retention_seconds: Some(30 * 86_400),
        }
    }

    #[test]
    fn a_proposal_says_what_was_observed_and_what_to_change() {
        assert_eq!(
            proposal().to_string(),
            "Observed: slices have p99 partitions below the target of 10 MiB. \
             Proposed: time_bucket interval 60s -> 604800s"
        );
    }

    #[test]
    fn a_longer_slice_is_named_with_what_it_does_to_retention() {
        assert_eq!(
            Proposal { old_seconds_per_slice: 86_400, ..proposal() }.to_string(),
            "Observed: slices have p99 partitions below the target of 10 MiB. \
             Proposed: slice 1d -> 14d, time_bucket 60s -> 604800s. \
             Slices are dropped whole: events kept for 30d would stay up to 14d longer, instead of 1d"
        );
    }

    #[test]
    fn event_buckets_are_named_where_they_change() {
        let mut proposal = proposal();
        proposal.direction = Direction::Smaller;
        proposal.new_settings = PartitionSettings { seconds_per_bucket: 60, event_buckets: 4 };
        assert!(
            proposal.to_string().ends_with("partitions above the target of 10 MiB. Proposed: event_buckets 1 -> 4")
        );
    }
}

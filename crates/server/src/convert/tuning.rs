//! Measured slices and decisions of the tuner, as they are answered.

use std::{collections::BTreeMap, time::Duration};

use anabranch_api::v1;
use anabranch_engine::{DecisionOutcome, SliceSizes, TuningDecision, tuning::tuner::describe};
use anabranch_model::Slice;
use anabranch_provision::{
    SizeHistogram,
    tuner::{self, Uncounted},
};
use anabranch_store::TableEstimate;

use super::{duration, namespaces::slice_message, timestamp};

pub(crate) fn measured_slice_message(
    slice: &Slice,
    sizes: Option<&SliceSizes>,
    (low_bytes, high_bytes): (u64, u64),
) -> v1::MeasuredSlice {
    v1::MeasuredSlice {
        slice: Some(slice_message(slice)),
        measurement: sizes.map(measurement_message),
        density_target: Some(v1::DensityTarget { low_bytes, high_bytes }),
        nodes_estimate: None,
    }
}

pub(crate) fn nodes_estimate_message(estimate: TableEstimate) -> v1::NodesEstimate {
    let TableEstimate { partitions, bytes } = estimate;
    v1::NodesEstimate { partitions, mean_partition_bytes: bytes / partitions.max(1) }
}

fn measurement_message(sizes: &SliceSizes) -> v1::SliceMeasurement {
    let counted = &sizes.counted;
    let heavy = |heavy: &anabranch_engine::HeavyPartition| v1::HeavyPartition {
        time_series_id: heavy.time_series_id.clone(),
        time_bucket: heavy.time_bucket,
        event_bucket: heavy.event_bucket,
        bytes: heavy.bytes,
        rows: heavy.rows,
    };
    v1::SliceMeasurement {
        measure_time: timestamp(sizes.measured),
        share: counted.share,
        settled: sizes.settled,
        backfilled: sizes.backfilled,
        partitions: counted.partitions(),
        bytes: counted.total_bytes(),
        partition_bytes: Some(percentiles(&counted.bytes)),
        partition_rows: Some(percentiles(&counted.rows)),
        classes: doublings(&counted.bytes),
        heaviest: counted.heaviest.iter().map(heavy).collect(),
    }
}

fn percentiles(sizes: &SizeHistogram) -> v1::Percentiles {
    let at = |share| sizes.percentile(share).unwrap_or(0);
    v1::Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: sizes.largest() }
}

/// The classes of a histogram are too fine to be looked at: one for each doubling is enough.
fn doublings(sizes: &SizeHistogram) -> Vec<v1::SizeClass> {
    let mut classes = BTreeMap::<u64, u64>::new();
    for (up_to, count) in sizes.classes() {
        *classes.entry(up_to.checked_next_power_of_two().unwrap_or(u64::MAX)).or_default() += count;
    }
    classes.into_iter().map(|(up_to_bytes, partitions)| v1::SizeClass { up_to_bytes, partitions }).collect()
}

pub(crate) fn decision_message(kept: &TuningDecision) -> v1::TuningDecision {
    use v1::tuning_decision::Outcome;
    let (outcome, at, by, reject_reason) = match &kept.outcome {
        DecisionOutcome::Kept => (Outcome::Kept, None, "", ""),
        DecisionOutcome::Proposed => (Outcome::Proposed, None, "", ""),
        DecisionOutcome::Applied { at, by } => (Outcome::Applied, Some(*at), by.as_str(), ""),
        DecisionOutcome::Rejected { at, by, reason } => (Outcome::Rejected, Some(*at), by.as_str(), reason.as_str()),
        DecisionOutcome::Superseded { at } => (Outcome::Superseded, Some(*at), "", ""),
    };
    let decision = &kept.decision;
    let proposal = kept.proposal();
    let settings = |seconds_per_slice, settings: &anabranch_model::PartitionSettings| v1::TunedSettings {
        seconds_per_slice,
        seconds_per_bucket: settings.seconds_per_bucket,
        event_buckets: settings.event_buckets,
    };
    let counted = |slice: &tuner::SliceEvidence| v1::SliceEvidence {
        time_slice: slice.slice.clone(),
        settings: Some(settings(slice.seconds_per_slice, &slice.settings)),
        partitions: slice.partitions,
        p99_bytes: slice.p99_bytes,
    };
    let uncounted = |(slice, why): &(String, Uncounted)| v1::UncountedSlice {
        time_slice: slice.clone(),
        reason: why_uncounted(*why).to_owned(),
    };
    let seconds = |seconds: f64| duration(Duration::from_secs_f64(seconds.max(0.0)));
    v1::TuningDecision {
        number: kept.number,
        time: timestamp(kept.at),
        outcome: outcome.into(),
        reason: describe(decision),
        old_settings: proposal.map(|it| settings(it.old_seconds_per_slice, &it.old_settings)),
        new_settings: proposal.map(|it| settings(it.new_seconds_per_slice, &it.new_settings)),
        expected_p99_bytes: proposal.map_or(0, |it| it.expected_p99_bytes),
        outcome_time: at.and_then(timestamp),
        by: by.to_owned(),
        reject_reason: reject_reason.to_owned(),
        counted: decision.counted.iter().map(counted).collect(),
        uncounted: decision.uncounted.iter().map(uncounted).collect(),
        reads: decision.reads.map(|reads| v1::ReadEvidence {
            reads: reads.reads,
            typical_interval: seconds(reads.typical_seconds),
            longest_interval: seconds(reads.longest_seconds),
        }),
    }
}

fn why_uncounted(why: Uncounted) -> &'static str {
    match why {
        Uncounted::Unfinished => "its time isn't over",
        Uncounted::Backfilled => "a backfill wrote to it",
        Uncounted::OtherSettings => "it has other settings",
        Uncounted::TooFewPartitions => "it has too few partitions",
    }
}

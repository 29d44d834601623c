//! The tuner in its loop: slices that a workload fills, settings that change from the next slice on.

use anabranch_model::PartitionSettings;
use proptest::prelude::*;

use super::*;
use crate::{
    Estimate, Skew, Workload,
    sizes::PartitionSizes,
    world::{self, World},
};

const DAY: u32 = 86_400;

fn current(slice: u32, bucket: u32, event_buckets: u32) -> Current {
    Current {
        seconds_per_slice: slice,
        settings: PartitionSettings { seconds_per_bucket: bucket, event_buckets },
        retention_seconds: Some(30 * u64::from(DAY)),
        latest_change: None,
        changes_in_a_row: 0,
    }
}

fn evidence(current: &Current, p99_bytes: u64) -> SliceEvidence {
    SliceEvidence {
        slice: "data_20260328".to_owned(),
        seconds_per_slice: current.seconds_per_slice,
        settings: current.settings,
        partitions: 10_000,
        p99_bytes,
        ended: true,
        backfilled: false,
    }
}

fn proposed(decision: &Decision) -> &Proposal {
    match &decision.verdict {
        Verdict::Propose(proposal) => proposal,
        Verdict::Keep { reason } => panic!("keeps: {reason}"),
    }
}

fn kept(decision: &Decision) -> &str {
    match &decision.verdict {
        Verdict::Keep { reason } => reason,
        Verdict::Propose(proposal) => panic!("proposes: {proposal}"),
    }
}

fn decide_on(current: &Current, sizes: &[u64], reads: Option<ReadEvidence>) -> Decision {
    let slices: Vec<_> = sizes.iter().map(|size| evidence(current, *size)).collect();
    decide(current, &slices, reads, &Rules::default())
}

fn reads(typical: f64, longest: f64) -> Option<ReadEvidence> {
    Some(ReadEvidence { reads: 1000, typical_seconds: typical, longest_seconds: longest })
}

#[test]
fn overwhelming_evidence_changes_everything_at_once() {
    let decision = decide_on(&current(14 * DAY, 60, 1), &[700, 720, 690], None);
    assert_eq!(
        proposed(&decision).to_string(),
        "Observed: slices have p99 partitions below the target of 10 MiB. Proposed: time_bucket interval 60s -> 604800s"
    );
    let week = &current(14 * DAY, 7 * DAY, 1);
    let shrink = decide_on(week, &[4 << 30, 5 << 30], None);
    assert_eq!(proposed(&shrink).new_settings.seconds_per_bucket, 900);
}

#[test]
fn ordinary_evidence_moves_by_bounded_steps() {
    let decision = decide_on(&current(14 * DAY, 3600, 1), &[200 << 10, 210 << 10, 190 << 10], None);
    let proposal = proposed(&decision);
    assert_eq!(proposal.new_settings.seconds_per_bucket, 12 * 3600, "at most sixteen times");
    let decision = decide_on(&current(14 * DAY, DAY, 1), &[200 << 20; 3], None);
    assert_eq!(proposed(&decision).new_settings.seconds_per_bucket, 4 * 3600, "not below a sixteenth");
}

#[test]
fn slices_must_agree_and_be_enough() {
    let current = current(14 * DAY, 3600, 1);
    assert!(kept(&decide_on(&current, &[200 << 10; 2], None)).contains("2 of 3 slices"));
    assert!(kept(&decide_on(&current, &[700], None)).contains("1 of 2 slices"));
    assert!(kept(&decide_on(&current, &[], None)).contains("can be counted"));
    kept(&decide_on(&current, &[200 << 10, 5 << 20, 200 << 10], None));
    kept(&decide_on(&current, &[200 << 10, 90 << 20, 200 << 10], None));
    proposed(&decide_on(&current, &[5 << 20, 200 << 10, 200 << 10, 200 << 10], None));
}

#[test]
fn slices_that_say_nothing_do_not_count() {
    let current = current(14 * DAY, 3600, 1);
    let good = evidence(&current, 700);
    let slices = [
        SliceEvidence { backfilled: true, ..good.clone() },
        SliceEvidence { ended: false, ..good.clone() },
        SliceEvidence { partitions: 99, ..good.clone() },
        SliceEvidence { seconds_per_slice: DAY, ..good.clone() },
        good.clone(),
    ];
    let decision = decide(&current, &slices, None, &Rules::default());
    kept(&decision);
    assert_eq!(decision.counted, [good]);
    let why: Vec<_> = decision.uncounted.iter().map(|(_, why)| *why).collect();
    let expected =
        [Uncounted::Backfilled, Uncounted::Unfinished, Uncounted::TooFewPartitions, Uncounted::OtherSettings];
    assert_eq!(why, expected);
}

#[test]
fn a_change_is_not_turned_back_by_a_little() {
    let mut current = current(14 * DAY, 3600, 1);
    assert!(kept(&decide_on(&current, &[12 << 20; 3], None)).contains("near enough"));
    proposed(&decide_on(&current, &[20 << 20; 3], None));
    current.latest_change = Some(Direction::Bigger);
    kept(&decide_on(&current, &[20 << 20; 3], None));
    proposed(&decide_on(&current, &[50 << 20; 3], None));
}

#[test]
fn a_bucket_longer_than_its_slice_takes_the_slice_along() {
    let decision = decide_on(&current(DAY, 60, 1), &[700, 720], None);
    let text = proposed(&decision).to_string();
    assert!(text.contains("Proposed: slice 1d -> 14d, time_bucket 60s -> 604800s."), "{text}");
    assert!(text.ends_with("events kept for 30d would stay up to 14d longer, instead of 1d"), "{text}");
    let short = Current { retention_seconds: Some(7 * u64::from(DAY)), ..current(DAY, 60, 1) };
    let decision = decide_on(&short, &[700, 720], None);
    let proposal = proposed(&decision);
    assert_eq!((proposal.new_seconds_per_slice, proposal.new_settings.seconds_per_bucket), (DAY, DAY));
    let full = Current { settings: proposal.new_settings, ..short };
    assert!(kept(&decide_on(&full, &[700, 720], None)).contains("as long as the retention lets slices be"));
}

#[test]
fn reads_count_beside_sizes() {
    let sparse = current(14 * DAY, 3600, 1);
    assert!(kept(&decide_on(&sparse, &[700; 3], reads(60.0, 3600.0))).contains("no more than two"));
    let up_to_a_day = decide_on(&sparse, &[700; 3], reads(3600.0, 80_000.0));
    assert_eq!(proposed(&up_to_a_day).new_settings.seconds_per_bucket, DAY, "no longer than reads are");
    let dense = current(180 * DAY, DAY, 1);
    let wide_reads = decide_on(&dense, &[2 << 30; 3], reads(20.0 * f64::from(DAY), 60.0 * f64::from(DAY)));
    assert_eq!(proposed(&wide_reads).new_settings.seconds_per_bucket, 12 * 3600, "no more than 64 partitions a read");
    let wider_reads = decide_on(&dense, &[2 << 30; 3], reads(60.0 * f64::from(DAY), 60.0 * f64::from(DAY)));
    assert!(kept(&wider_reads).contains("split instead"));
    let few = ReadEvidence { reads: 99, typical_seconds: 60.0, longest_seconds: 60.0 };
    proposed(&decide_on(&sparse, &[700; 3], Some(few)));
}

#[test]
fn event_buckets_go_first_and_come_last() {
    let decision = decide_on(&current(14 * DAY, 3600, 16), &[100 << 10, 100 << 10, 100 << 10], None);
    let settings = proposed(&decision).new_settings;
    assert_eq!((settings.seconds_per_bucket, settings.event_buckets), (3600, 1));
    let decision = decide_on(&current(14 * DAY, 60, 1), &[60 << 20; 3], None);
    let settings = proposed(&decision).new_settings;
    assert_eq!((settings.seconds_per_bucket, settings.event_buckets), (60, 8));
    kept(&decide_on(&current(14 * DAY, 60, 64), &[60 << 20; 3], None));
}

#[test]
fn a_run_of_changes_ends() {
    let mut current = current(14 * DAY, 3600, 1);
    current.latest_change = Some(Direction::Bigger);
    current.changes_in_a_row = 2;
    proposed(&decide_on(&current, &[200 << 10; 3], None));
    current.changes_in_a_row = 3;
    assert!(kept(&decide_on(&current, &[200 << 10; 3], None)).contains("after 3 changes in a row"));
    proposed(&decide_on(&current, &[200 << 20; 3], None));
}

/// Fills slices, one after the other, and lets the tuner look after each. A change holds from the slice after the next
/// on. Returns the settings of every slice.
fn run_loop(world: &World, start: Current, slices: usize, noise: &[f64]) -> Vec<Current> {
    let (mut current, mut seen, mut history) = (start.clone(), Vec::new(), Vec::new());
    let mut settings_of_slices = vec![start.clone(), start];
    for index in 0..slices {
        let of_slice = settings_of_slices[index].clone();
        let bucket = f64::from(of_slice.settings.seconds_per_bucket);
        let event_buckets = f64::from(of_slice.settings.event_buckets);
        let sizes = PartitionSizes::new(world, &world.zipf.groups(), bucket, event_buckets);
        let p99 = sizes.percentile(0.99) * noise[index % noise.len()];
        let buckets = f64::from(of_slice.seconds_per_slice) / bucket;
        let mut slice = evidence(&of_slice, p99 as u64);
        slice.partitions = (sizes.partitions() * event_buckets * buckets) as u64;
        seen.push(slice);
        if let Verdict::Propose(proposal) = decide(&current, &seen, None, &Rules::default()).verdict {
            current.seconds_per_slice = proposal.new_seconds_per_slice;
            current.settings = proposal.new_settings;
            let goes_on = current.latest_change == Some(proposal.direction);
            current.changes_in_a_row = if goes_on { current.changes_in_a_row + 1 } else { 1 };
            current.latest_change = Some(proposal.direction);
        }
        settings_of_slices.push(current.clone());
        history.push(of_slice);
    }
    history
}

fn world(writes: f64, ids: f64, exponent: f64) -> World {
    let mut workload = Workload::new(Estimate::one(writes), Estimate::one(468.0), Estimate::one(ids));
    workload.skew = Skew::Zipf(Estimate::one(exponent));
    world::middle(&workload)
}

/// The settings that were in force, one after the other.
fn changes(history: &[Current]) -> Vec<f64> {
    let mut sizes: Vec<f64> = history
        .iter()
        .map(|it| f64::from(it.settings.seconds_per_bucket) / f64::from(it.settings.event_buckets))
        .collect();
    sizes.dedup();
    sizes
}

#[test]
fn both_wrong_starts_converge_within_ten_slices() {
    let sparse = run_loop(&world(50.0, 1e5, 0.8), current(14 * DAY, 60, 1), 30, &[1.0]);
    assert_eq!(sparse[10..], vec![sparse[10].clone(); 20], "settled");
    assert!(sparse[10].settings.seconds_per_bucket >= 7 * DAY, "{:?}", sparse[10]);
    let dense = run_loop(&world(1e5, 1e3, 0.5), current(180 * DAY, 30 * DAY, 1), 30, &[1.0]);
    assert_eq!(dense[10..], vec![dense[10].clone(); 20], "settled");
    assert!(dense[10].settings.seconds_per_bucket <= 3600, "{:?}", dense[10]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_steady_workload_settles_in_three_changes_none_turned_back(
        writes in -1.0_f64..6.0, ids in 1.0_f64..8.0, exponent in 0.0_f64..1.5,
        slice in prop::sample::select(crate::candidate::SLICE_STEPS.to_vec()), bucket in 1.0_f64..7.2,
        event_buckets in prop::sample::select(vec![1_u32, 1, 1, 4, 16]),
        retention in prop::option::of(1.0_f64..1000.0),
        noise in prop::collection::vec(0.9_f64..1.1, 7),
    ) {
        let bucket = (10_f64.powf(bucket) as u32).min(slice);
        let mut start = current(slice, bucket, event_buckets);
        start.retention_seconds = retention.map(|days| (days * f64::from(DAY)) as u64);
        let world = world(10_f64.powf(writes), 10_f64.powf(ids), exponent);
        let steady = run_loop(&world, start.clone(), 24, &[1.0]);
        prop_assert!(steady[10..].windows(2).all(|pair| pair[0] == pair[1]), "{:?}", changes(&steady));
        // Slices that differ a little may delay a change, but not add one or turn one back.
        let history = run_loop(&world, start, 60, &noise);
        let sizes = changes(&history);
        prop_assert!(sizes.len() <= 4, "{sizes:?}");
        let grows = sizes.windows(2).all(|pair| pair[0] < pair[1]);
        let shrinks = sizes.windows(2).all(|pair| pair[0] > pair[1]);
        prop_assert!(grows || shrinks, "{sizes:?}");
        for it in &history {
            prop_assert!(it.settings.seconds_per_bucket <= it.seconds_per_slice);
        }
    }

    #[test]
    fn no_evidence_leads_outside_of_what_a_configuration_allows(
        sizes in prop::collection::vec(0_u64..1 << 44, 0..5), bucket in 1_u32..20_000_000,
        slice in 1_u32..400_000, event_buckets in 1_u32..100,
        typical in 0.001_f64..1e9, retention in prop::option::of(1_u64..1 << 30),
    ) {
        let slice = slice * 60;
        let mut start = current(slice, bucket.min(slice), event_buckets);
        start.retention_seconds = retention;
        let decision = decide_on(&start, &sizes, reads(typical, typical * 10.0));
        if let Verdict::Propose(proposal) = &decision.verdict {
            prop_assert!(proposal.new_settings.seconds_per_bucket <= proposal.new_seconds_per_slice);
            prop_assert!(proposal.new_settings.seconds_per_bucket >= 1);
            prop_assert!((1..=1024).contains(&proposal.new_settings.event_buckets));
            prop_assert!(proposal.new_seconds_per_slice >= slice);
            let changes = proposal.new_settings != start.settings;
            prop_assert!(changes, "{}", proposal);
            let longer = proposal.new_seconds_per_slice > slice;
            prop_assert!(!longer || retention.is_none_or(|kept| u64::from(proposal.new_seconds_per_slice) <= kept / 2));
        }
        let json = serde_json::to_string(&decision).unwrap();
        prop_assert_eq!(serde_json::from_str::<Decision>(&json).unwrap().verdict, decision.verdict);
    }
}

//! What plans must come out as: the known points, the movement with every input, the same answer for the same seed.
#![allow(clippy::unwrap_used)] // also in what tests share

use std::time::Duration;

use anabranch_model::config::Surroundings;
use anabranch_provision::{
    DEFAULT_SEED, Estimate, Plan, Settings, Skew, Workload, candidate::BUCKET_STEPS, capacity::Capacity, plan,
};
use proptest::prelude::*;

const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const MIB: f64 = 1_048_576.0;
const AROUND: Surroundings =
    Surroundings { max_clock_skew: Duration::from_millis(500), lease: Duration::from_secs(30) };

fn workload(writes: f64, bytes: f64, ids: f64, retention: f64) -> Workload {
    let mut workload = Workload::new(Estimate::one(writes), Estimate::one(bytes), Estimate::one(ids));
    workload.retention = Some(Estimate::one(retention));
    workload
}

fn planned(workload: &Workload) -> Plan {
    plan(workload, DEFAULT_SEED, 2).unwrap()
}

#[test]
fn slices_come_out_at_the_known_steps_for_workloads_of_every_size() {
    for (retention, expected) in
        [(DAY, 4.0 * HOUR), (7.0 * DAY, DAY), (30.0 * DAY, 14.0 * DAY), (365.0 * DAY, 180.0 * DAY)]
    {
        for writes in [1.0, 1e5] {
            for ids in [1e3, 1e8] {
                let plan = planned(&workload(writes, 500.0, ids, retention));
                let slice = f64::from(plan.settings.seconds_per_slice);
                assert_eq!(slice, expected, "{writes} writes, {ids} ids, kept for {} days", retention / DAY);
            }
        }
    }
}

#[test]
fn between_the_known_points_slices_never_get_shorter_with_longer_retention() {
    let mut before = 0;
    for hours in [6, 24, 48, 168, 480, 720, 1440, 8760, 26_280] {
        let plan = planned(&workload(1e3, 500.0, 1e6, f64::from(hours) * HOUR));
        let slice = plan.settings.seconds_per_slice;
        assert!(slice >= before, "{hours} h");
        before = slice;
    }
}

#[test]
fn partitions_come_out_in_the_density_target_where_ids_are_busy_enough() {
    for writes_per_id in [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0] {
        let mut workload = workload(writes_per_id * 1e4, 1e3, 1e4, 30.0 * DAY);
        workload.skew = Skew::Zipf(Estimate::one(0.6));
        let plan = planned(&workload);
        let p99 = plan.predicted.partition_bytes.p99.mid;
        assert!((2.0 * MIB..=10.0 * MIB).contains(&p99), "{writes_per_id}: {} MiB, {:#?}", p99 / MIB, plan.settings);
    }
}

/// What an input may move: settings and machines, not only what is predicted.
fn answer(workload: &Workload) -> (Settings, Capacity) {
    let plan = planned(workload);
    (plan.settings, plan.capacity)
}

#[test]
fn the_answer_moves_with_every_input() {
    let base = workload(2e4, 500.0, 1e5, 30.0 * DAY);
    let before = answer(&base);
    let moved = |name: &str, change: &dyn Fn(&mut Workload)| {
        let mut changed = base.clone();
        change(&mut changed);
        assert_ne!(answer(&changed), before, "{name}");
    };
    moved("writes_per_second", &|it| it.writes_per_second = Estimate::one(2e3));
    moved("event_bytes", &|it| it.event_bytes = Estimate::one(5e3));
    moved("ids", &|it| it.ids = Estimate::one(1e7));
    moved("items_per_event", &|it| it.items_per_event = Estimate::one(8.0));
    moved("skew.zipf", &|it| it.skew = Skew::Zipf(Estimate::one(1.4)));
    moved("skew.top_one_percent", &|it| it.skew = Skew::TopOnePercent(Estimate::one(0.9)));
    moved("retention", &|it| it.retention = Some(Estimate::one(7.0 * DAY)));
    moved("reads_per_second", &|it| it.reads_per_second = Some(Estimate::one(2e5)));
    moved("typical_interval", &|it| it.typical_interval = Some(Estimate::one(30.0 * DAY)));
    moved("longest_interval", &|it| {
        it.longest_interval = Some(Estimate::one(HOUR));
        it.typical_interval = Some(Estimate::one(60.0));
    });
    moved("accept_limit", &|it| it.accept_limit = Some(Estimate::one(20.0 * DAY)));
    moved("read_target", &|it| it.read_target = Estimate::one(0.01));
    moved("read_max", &|it| it.read_max = Estimate::one(0.6));
    moved("write_target", &|it| it.write_target = Estimate::one(0.02));
    moved("write_max", &|it| it.write_max = Estimate::one(20.0));
}

/// The partitioning alone: slice, bucket, event buckets.
fn partitioning(workload: &Workload) -> (u32, u32, u32) {
    let settings = planned(workload).settings;
    (settings.seconds_per_slice, settings.seconds_per_bucket, settings.event_buckets)
}

#[test]
fn partitioning_follows_density_heat_and_reads() {
    let base = workload(2e4, 500.0, 1e5, 30.0 * DAY);
    let (_, bucket, event_buckets) = partitioning(&base);
    let mut busier = base.clone();
    busier.writes_per_second = Estimate::one(2e6);
    assert!(partitioning(&busier).1 < bucket, "busier ids get shorter buckets");
    let mut bigger = base.clone();
    bigger.event_bytes = Estimate::one(5e4);
    assert!(partitioning(&bigger).1 < bucket, "bigger events get shorter buckets");
    let mut quieter = base.clone();
    quieter.ids = Estimate::one(1e7);
    assert!(partitioning(&quieter).1 > bucket, "quieter ids get longer buckets");
    let mut hot = base.clone();
    hot.writes_per_second = Estimate::one(2e5);
    hot.skew = Skew::Zipf(Estimate::one(1.5));
    assert!(partitioning(&hot).2 > event_buckets, "an id that is too hot for one partition gets event buckets");
    let reading = |interval: f64| {
        let mut workload = base.clone();
        workload.ids = Estimate::one(3e5);
        workload.typical_interval = Some(Estimate::one(interval));
        workload.reads_per_second = Some(Estimate::one(5e4));
        partitioning(&workload).1
    };
    assert!(reading(30.0 * DAY) > reading(60.0), "reads over longer intervals get longer buckets");
}

#[test]
fn the_same_seed_gives_the_same_answer_on_any_number_of_threads() {
    let mut workload = workload(1e3, 500.0, 1e6, 30.0 * DAY);
    workload.writes_per_second = Estimate::range(500.0, 1000.0, 2000.0, 0.8);
    workload.ids = Estimate::range(1e5, 1e6, 2e6, 0.9);
    let first = plan(&workload, 7, 1).unwrap();
    assert_eq!(first, plan(&workload, 7, 1).unwrap());
    assert_eq!(first, plan(&workload, 7, 3).unwrap());
    let other = plan(&workload, 8, 1).unwrap();
    assert_ne!(first.predicted, other.predicted);
    let (one, other) = (first.settings, other.settings);
    assert_eq!((one.seconds_per_slice, one.event_buckets), (other.seconds_per_slice, other.event_buckets));
    let step = |bucket| BUCKET_STEPS.iter().position(|step| *step == bucket).unwrap();
    let apart = step(one.seconds_per_bucket).abs_diff(step(other.seconds_per_bucket));
    assert!(apart <= 1, "a seed decides between neighbours that are as good as each other, if at all");
}

#[test]
fn doubt_is_answered_with_room() {
    let certain = workload(2e4, 500.0, 1e6, 30.0 * DAY);
    let mut doubtful = certain.clone();
    doubtful.writes_per_second = Estimate::range(1e4, 2e4, 1e5, 0.8);
    let (certain, doubtful) = (planned(&certain), planned(&doubtful));
    let cores = |plan: &Plan| plan.capacity.cluster.nodes * plan.capacity.cluster.node.cores;
    assert!(cores(&doubtful) > cores(&certain), "{:?} {:?}", doubtful.capacity, certain.capacity);
    let p99 = doubtful.predicted.partition_bytes.p99;
    assert!(p99.low < p99.mid && p99.mid < p99.high);
}

#[test]
fn every_contradiction_is_refused_at_once() {
    let mut workload = workload(1e3, 500.0, 1e6, DAY);
    workload.accept_limit = Some(Estimate::one(2.0 * DAY));
    workload.read_target = Estimate::one(10.0);
    let fields: Vec<_> = plan(&workload, 1, 1).unwrap_err().into_iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["accept_limit", "read_target"]);
}

#[test]
fn a_plan_survives_files() {
    let mut workload = workload(1e3, 500.0, 1e6, 30.0 * DAY);
    workload.ids = Estimate::range(1e5, 1e6, 2e6, 0.9);
    let plan = planned(&workload);
    let toml = toml::to_string(&plan).unwrap();
    assert_eq!(toml::from_str::<Plan>(&toml).unwrap().settings, plan.settings, "{toml}");
    assert_eq!(toml::from_str::<Plan>(&toml).unwrap().workload, plan.workload, "{toml}");
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap().settings, plan.settings);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn whatever_is_planned_is_a_configuration_that_may_be_used(
        writes in -3.0_f64..7.0, bytes in 0.0_f64..5.0, ids in 0.0_f64..11.0, retention in 2.0_f64..9.4,
        exponent in 0.0_f64..2.5, reads in 0.0_f64..6.0, accept in 0.0_f64..1.0, write_max in 0.2_f64..300.0,
        read_max in 0.6_f64..300.0, keeps in any::<bool>(),
    ) {
        let mut workload =
            workload(10_f64.powf(writes), 10_f64.powf(bytes), 10_f64.powf(ids), 10_f64.powf(retention).ceil());
        workload.skew = Skew::Zipf(Estimate::one(exponent));
        workload.reads_per_second = Some(Estimate::one(10_f64.powf(reads)));
        workload.write_max = Estimate::one(write_max);
        workload.read_max = Estimate::one(read_max);
        workload.accept_limit = Some(Estimate::one((10_f64.powf(retention) * accept).min(3e8).floor()));
        if !keeps {
            workload.retention = None;
        }
        let plan = plan(&workload, 1, 2).unwrap();
        prop_assert_eq!(plan.settings.to_config().problems(&AROUND), vec![]);
        prop_assert!(plan.capacity.cluster.nodes >= 3);
        prop_assert!(!plan.reasons.is_empty());
        let total: f64 = plan.predicted.sizes.iter().map(|class| class.share).sum();
        prop_assert!((0.95..1.001).contains(&total), "{total}");
    }
}

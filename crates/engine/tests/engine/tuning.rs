//! The slice tuner on a live namespace: wrong settings converge, what was rejected stays rejected, and `off` means off.

use std::{sync::Arc, time::Duration};

use anabranch_engine::{DecisionOutcome, EngineOptions, ErrorKind, SplitOptions, TuningDecision, TuningOptions};
use anabranch_model::{NamespaceConfig, Timestamp, TunerMode};
use anabranch_provision::tuner::Rules;
use anabranch_runtime::run_simulated;
use anabranch_store::{MemoryStore, Store};

use crate::fixture::{START, World, event, history};

const DAY: u64 = 86_400;

/// All sizes a thousand times smaller, so that a test can write them.
fn options() -> EngineOptions {
    let rules = Rules { low_bytes: 2 << 10, high_bytes: 10 << 10, ..Rules::default() };
    EngineOptions {
        refresh_interval: Duration::from_secs(20),
        lifecycle_interval: Duration::from_secs(60),
        splits: SplitOptions { sweep_interval: Duration::from_secs(3600), concurrent: 0, ..SplitOptions::default() },
        tuning: TuningOptions { measure_interval: Duration::from_secs(6 * 3600), rules, ..TuningOptions::default() },
        ..EngineOptions::default()
    }
}

fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    run_simulated(7, Timestamp::from_seconds(START), |env| async move {
        let store = Arc::new(MemoryStore::new(env.clone()));
        test(World::with(env, store, options()).await).await;
    });
}

fn daily(bucket: u32, tuner: TunerMode) -> NamespaceConfig {
    NamespaceConfig {
        seconds_per_slice: DAY as u32,
        seconds_per_bucket: bucket,
        accept_limit: Duration::from_secs(600),
        tuner,
        ..NamespaceConfig::default()
    }
}

/// Traffic of 120 series, each with an event of so many bytes every so often.
async fn traffic(world: &World, days: u64, every: u64, bytes: usize) {
    let value = "v".repeat(bytes);
    // Until every server knows the first slice.
    world.env.sleep(Duration::from_secs(60)).await;
    for at in 0..days * DAY / every {
        let events =
            (0..120).map(|series| event(&format!("s{series}"), world.now(), &format!("e{at}"), &[("k", &value)]));
        world.write(events.collect()).await.unwrap();
        world.env.sleep(Duration::from_secs(every)).await;
    }
}

/// The lengths of buckets that slices had, oldest first.
fn buckets(world: &World) -> Vec<u32> {
    world.engine.namespace("plays").unwrap().slices.iter().map(|slice| slice.settings.seconds_per_bucket).collect()
}

fn changes(buckets: &[u32]) -> Vec<u32> {
    let mut changes = buckets.to_vec();
    changes.dedup();
    changes
}

fn is_applied(decision: &TuningDecision) -> bool {
    matches!(decision.outcome, DecisionOutcome::Applied { .. })
}

#[test]
fn short_buckets_of_sparse_series_converge_without_turning_back() {
    run(|world| async move {
        world.namespace(daily(60, TunerMode::Apply)).await;
        traffic(&world, 13, 600, 30).await;
        let buckets = buckets(&world);
        let changes = changes(&buckets);
        assert!((2..=4).contains(&changes.len()), "{buckets:?}");
        assert!(changes.windows(2).all(|pair| pair[0] < pair[1]), "{buckets:?}");
        assert!(buckets[10..].iter().all(|bucket| *bucket == buckets[10]), "{buckets:?}");
        assert!(buckets[10] >= 12 * 3600, "{buckets:?}");
        let decisions = world.engine.tuning_decisions("plays").await.unwrap();
        assert_eq!(decisions.iter().filter(|it| is_applied(it)).count(), changes.len() - 1);
        assert!(decisions.iter().filter(|it| is_applied(it)).all(|it| it.decision.counted.len() >= 2));
        // Whatever the settings were when it was written, everything is still found (W1).
        let (records, _) = world.scan(history("s7")).await;
        assert_eq!(records.len() as u64, 13 * DAY / 600);
    });
}

#[test]
fn long_buckets_of_dense_series_converge_without_turning_back() {
    run(|world| async move {
        world.namespace(daily(DAY as u32, TunerMode::Apply)).await;
        traffic(&world, 12, 3600, 2000).await;
        let buckets = buckets(&world);
        let changes = changes(&buckets);
        assert!((2..=4).contains(&changes.len()), "{buckets:?}");
        assert!(changes.windows(2).all(|pair| pair[0] > pair[1]), "{buckets:?}");
        assert!(buckets[10..].iter().all(|bucket| *bucket == buckets[10]), "{buckets:?}");
        assert!(buckets[10] <= 4 * 3600, "{buckets:?}");
    });
}

#[test]
fn a_proposal_waits_for_an_operator_and_changes_only_slices_to_come() {
    run(|world| async move {
        world.namespace(daily(60, TunerMode::Propose)).await;
        traffic(&world, 4, 600, 20).await;
        assert_eq!(changes(&buckets(&world)), [60]);
        let waiting = world.engine.tuning_decisions("plays").await.unwrap().remove(0);
        assert_eq!(waiting.outcome, DecisionOutcome::Proposed);
        let said = waiting.proposal().unwrap().to_string();
        assert!(
            said.starts_with("Observed: slices have p99 partitions below the target of 10 KiB. Proposed: "),
            "{said}"
        );
        let now = world.env.now();
        let reached = world.engine.namespace("plays").unwrap().slices.at(now).cloned().unwrap();
        let applied = world.engine.apply_tuning("plays", Some(waiting.number), "me").await.unwrap();
        assert!(matches!(&applied.outcome, DecisionOutcome::Applied { by, .. } if by == "me"));
        world.env.sleep(Duration::from_secs(900)).await;
        let slices = world.engine.namespace("plays").unwrap().slices;
        assert_eq!(slices.at(now), Some(&reached), "T1");
        let ahead = slices.iter().find(|slice| slice.interval.start > now).unwrap();
        assert_eq!(ahead.settings.seconds_per_bucket, waiting.proposal().unwrap().new_settings.seconds_per_bucket);
        assert_eq!(world.store.tables().await.unwrap().len(), slices.len(), "no table is left over");
        let again = world.engine.apply_tuning("plays", None, "me").await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::FailedPrecondition);
    });
}

#[test]
fn what_was_rejected_is_not_proposed_again() {
    run(|world| async move {
        world.namespace(daily(60, TunerMode::Propose)).await;
        traffic(&world, 4, 600, 20).await;
        world.engine.reject_tuning("plays", None, "me", "reads are short").await.unwrap();
        traffic(&world, 2, 600, 20).await;
        let decisions = world.engine.tuning_decisions("plays").await.unwrap();
        assert!(decisions.iter().all(|it| it.outcome != DecisionOutcome::Proposed), "{decisions:#?}");
        assert!(
            decisions.iter().any(
                |it| matches!(&it.outcome, DecisionOutcome::Rejected { reason, .. } if reason == "reads are short")
            )
        );
        assert_eq!(world.engine.propose_tuning("plays").await.unwrap().outcome, DecisionOutcome::Kept);
    });
}

#[test]
fn a_tuner_that_is_off_decides_nothing_by_itself() {
    run(|world| async move {
        world.namespace(daily(60, TunerMode::Off)).await;
        traffic(&world, 3, 600, 20).await;
        assert_eq!(world.engine.tuning_decisions("plays").await.unwrap(), []);
        let asked = world.engine.propose_tuning("plays").await.unwrap();
        assert_eq!(asked.outcome, DecisionOutcome::Proposed);
    });
}

#[test]
fn reads_that_stay_within_a_bucket_keep_it() {
    run(|world| async move {
        world.namespace(daily(3600, TunerMode::Apply)).await;
        for _ in 0..4 {
            traffic(&world, 1, 3600, 20).await;
            for _ in 0..120 {
                let end = world.env.now();
                let mut request = history("s3");
                request.start = Some(end.saturating_sub(Duration::from_secs(600)));
                request.end = Some(end);
                world.read(request).await.unwrap();
            }
        }
        assert_eq!(changes(&buckets(&world)), [3600]);
        let latest = world.engine.tuning_decisions("plays").await.unwrap().remove(0);
        assert!(format!("{:?}", latest.decision.verdict).contains("no more than two"), "{latest:#?}");
        assert!(latest.decision.reads.is_some_and(|reads| reads.reads >= 100 && reads.longest_seconds <= 640.0));
    });
}

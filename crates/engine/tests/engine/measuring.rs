//! Partitions of slices are measured: now and then while they take events, once more when they are sealed, and never again.

use std::time::Duration;

use anabranch_engine::{SliceSizes, TaskStatus};
use anabranch_model::{Interval, NamespaceConfig};
use anabranch_store::Store;

use crate::fixture::{World, event, history, run};

fn hourly() -> NamespaceConfig {
    NamespaceConfig {
        seconds_per_slice: 3600,
        seconds_per_bucket: 600,
        accept_limit: Duration::from_secs(600),
        ..NamespaceConfig::default()
    }
}

async fn sizes(world: &World, slice: usize) -> Option<SliceSizes> {
    world.engine.slice_sizes("plays", None).await.unwrap()[slice].1.clone()
}

fn task(world: &World) -> TaskStatus {
    world.engine.tasks().into_iter().find(|task| task.name == "measure").unwrap()
}

#[test]
fn a_slice_is_measured_until_it_is_sealed_and_then_kept() {
    run(|world| async move {
        world.namespace(hourly()).await;
        for at in 0..50 {
            let value = "v".repeat(at * 10);
            world.write(vec![event(&format!("s{at}"), world.now(), "e", &[("k", &value)])]).await.unwrap();
        }
        world.env.sleep(Duration::from_secs(700)).await;
        let first = sizes(&world, 0).await.expect("it was measured");
        assert_eq!((first.counted.partitions(), first.settled, first.backfilled), (50, false, false));
        assert_eq!(first.counted.heaviest[0].time_series_id, "s49");
        assert_eq!(task(&world).failures, 0);
        world.write(vec![event("late", world.now(), "e", &[("k", "v")])]).await.unwrap();
        world.env.sleep(Duration::from_secs(5400)).await;
        let last = sizes(&world, 0).await.unwrap();
        assert_eq!((last.counted.partitions(), last.settled), (51, true));
        world.env.sleep(Duration::from_secs(86_400)).await;
        assert_eq!(sizes(&world, 0).await.unwrap(), last, "it is kept");
        let other = World::on(world.env.clone(), world.store.clone()).await;
        assert_eq!(sizes(&other, 0).await.unwrap(), last, "other servers have it");
    });
}

#[test]
fn a_backfilled_slice_is_measured_again_and_says_so() {
    run(|world| async move {
        world.namespace(hourly()).await;
        let begun = world.env.now();
        world.write(vec![event("a", begun.nanos(), "e", &[("k", "v")])]).await.unwrap();
        world.env.sleep(Duration::from_secs(7200)).await;
        assert!(sizes(&world, 0).await.unwrap().settled);
        let interval = Interval::new(begun, begun.saturating_add(Duration::from_secs(60)));
        world.engine.open_backfill("plays", interval, Duration::from_secs(300), "old").await.unwrap();
        world.env.sleep(Duration::from_secs(3)).await;
        world.write(vec![event("b", begun.nanos(), "e", &[("k", "v")])]).await.unwrap();
        world.env.sleep(Duration::from_secs(1200)).await;
        let sizes = sizes(&world, 0).await.unwrap();
        assert_eq!((sizes.counted.partitions(), sizes.settled, sizes.backfilled), (2, true, true));
    });
}

#[test]
fn one_server_of_two_measures() {
    run(|world| async move {
        let other = World::on(world.env.clone(), world.store.clone()).await;
        world.namespace(hourly()).await;
        world.write(vec![event("a", world.now(), "e", &[("k", "v")])]).await.unwrap();
        world.env.sleep(Duration::from_secs(1000)).await;
        let did = [task(&world).did, task(&other).did];
        assert!(did.iter().any(|did| did.contains("measured")), "{did:?}");
        assert!(sizes(&world, 0).await.is_some());
        assert_eq!(world.scan(history("a")).await.0.len(), 1);
    });
}

/// L1
#[test]
fn a_dropped_slice_and_a_deleted_namespace_take_their_measurements_along() {
    run(|world| async move {
        let mut config = hourly();
        config.close_after = Some(Duration::from_secs(7200));
        config.delete_after = Some(Duration::from_secs(10_800));
        world.namespace(config).await;
        world.env.sleep(Duration::from_secs(30 * 3600)).await;
        let documents = || async { world.store.list("slice_sizes/plays", None, 1000).await.unwrap() };
        let slices = world.engine.slice_sizes("plays", None).await.unwrap();
        let kept = documents().await;
        assert!(!kept.is_empty() && kept.len() <= slices.len(), "{} of {}", kept.len(), slices.len());
        let names: Vec<String> = slices.iter().map(|(slice, _)| slice.name()).collect();
        assert!(kept.iter().all(|(name, _)| names.contains(name)));
        world.engine.delete_namespace("plays", "plays", Some(Duration::ZERO)).await.unwrap();
        assert_eq!(documents().await, []);
    });
}

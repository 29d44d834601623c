//! Leases: one worker at a time, no step without the lease, work goes on from the checkpoint of whoever was killed.

use std::{sync::Arc, time::Duration};

use anabranch_model::{EventItemKey, Item, Row};
use anabranch_split::{Effort, Form, Ground, Pace, SplitError, State, Work, WorkOptions};
use anabranch_store::{PartitionBatch, Store};
use bytes::Bytes;

use crate::fixture::{ground, options, rows, run};

/// S4
#[test]
fn a_worker_without_the_lease_cannot_change_a_record() {
    run(|world| async move {
        world.fill(0, 500).await;
        let (first, second) = (world.worker("first"), world.worker("second"));
        let detected = world.detect(&first).await;
        let lease = options().lease;
        let held = first.records().take(&detected, "first", lease).await.unwrap().unwrap();
        // While it is held nobody else gets it.
        assert!(second.records().take(&held, "second", lease).await.unwrap().is_none());
        world.env.sleep(lease * 2).await;
        let stolen = second.records().take(&held, "second", lease).await.unwrap().unwrap();
        assert!(stolen.row.epoch > held.row.epoch);
        let late = first.records().step(&held, held.row.clone()).await;
        assert_eq!(late.unwrap_err(), SplitError::LeaseLost);
        let effort = second.advance(&stolen, &ground()).await.unwrap();
        assert!(matches!(effort, Effort::Rests(_)));
        assert_eq!(world.served(&second).await, world.original().await);
    });
}

/// S5: killed at any moment, the work is finished by another; nothing is lost, stuck or done to the original.
#[test]
fn a_killed_workers_split_is_finished_by_another() {
    for killed_after in 0..60 {
        run(|world| async move {
            world.fill(0, 500).await;
            let before = world.original().await;
            let store = world.store.clone();
            let env = world.env.node(0);
            let doomed = world.worker_on(store.clone(), env.clone(), "doomed");
            let detected = world.detect(&doomed).await;
            let task = env.spawn(async move { doomed.advance(&detected, &ground()).await.is_ok() });
            world.env.sleep(Duration::from_millis(killed_after)).await;
            env.kill();
            store.crash();
            let _ = task.await;

            let heir = world.worker("heir");
            for _ in 0..5 {
                world.env.sleep(options().lease * 2).await;
                let loaded = world.detect(&heir).await;
                if matches!(loaded.row.state, State::Completed { .. }) {
                    break;
                }
                heir.advance(&loaded, &ground()).await.unwrap();
                if matches!(world.state(&heir).await, State::Completed { .. }) {
                    break;
                }
            }
            assert!(matches!(world.state(&heir).await, State::Completed { .. }), "killed after {killed_after} ms");
            assert_eq!(world.served(&heir).await, before, "killed after {killed_after} ms");
            assert_eq!(world.original().await, before);
        });
    }
}

/// S5: whoever is killed has not failed. A healthy split is finished however often that happens, with all its attempts left.
#[test]
fn a_killed_worker_uses_up_no_attempt() {
    run(|world| async move {
        world.fill(0, 500).await;
        let heir = world.worker("heir");
        let mut loaded = world.detect(&heir).await;
        for life in 0..15 {
            let doomed = world.worker(&format!("life {life}"));
            loaded = doomed.records().take(&loaded, doomed.name(), options().lease).await.unwrap().unwrap();
            world.env.sleep(options().lease * 2).await; // it was killed
        }
        assert!(options().max_attempts < 15);
        assert_eq!((loaded.row.attempts, loaded.row.abandoned), (1, 14));
        let Effort::Rests(done) = heir.advance(&loaded, &ground()).await.unwrap() else { panic!() };
        assert!(matches!(done.row.state, State::Completed { .. }), "{:?}", done.row.state);
        assert_eq!(world.served(&heir).await, world.original().await);
        assert_eq!(done.row.abandoned, 0, "it got further");
    });
}

/// S5: a split that ends everybody who takes it up doesn't go on doing so for ever, and says why it is parked.
#[test]
fn a_split_that_kills_every_worker_is_parked_with_a_reason() {
    run(|world| async move {
        world.fill(0, 500).await;
        let heir = world.worker("heir");
        let mut loaded = world.detect(&heir).await;
        for life in 0..30 {
            let doomed = world.worker(&format!("life {life}"));
            if loaded.row.abandoned > 20 {
                break;
            }
            loaded = doomed.records().take(&loaded, doomed.name(), options().lease).await.unwrap().unwrap();
            world.env.sleep(options().lease * 2).await; // it took its worker along
        }
        let Effort::Rests(parked) = heir.advance(&loaded, &ground()).await.unwrap() else { panic!() };
        let State::Parked { reason, given_up: false } = &parked.row.state else { panic!("{:?}", parked.row.state) };
        assert!(reason.contains("workers in a row") && reason.contains("DETECTED"), "{reason}");
        assert!(parked.row.served.is_empty() && parked.row.lease.is_none());
        assert_eq!(world.store.tables().await.unwrap().len(), 1, "nothing was made");
    });
}

/// S5: every fetch brings a single row, an event is larger than what a lease lasts for, and so is a piece: whoever works on it, however
/// slowly, keeps its lease and gets further.
#[test]
fn a_slow_worker_keeps_its_lease_however_little_a_fetch_brings_s5() {
    let blocks = ground().form;
    for form in [Form::Rows, blocks] {
        run(|world| async move {
            world.fill(0, 500).await;
            let item = |at: i64| Item {
                key: EventItemKey::new(format!("k{at:03}")).unwrap(),
                value: Bytes::from(vec![7; 100]),
                metadata: None,
            };
            let position = rows(250)[0].position.clone();
            let large: Vec<Row> = (0..400).map(|at| Row { position: position.clone(), item: item(at) }).collect();
            let (table, partition) = (world.partition.table(), world.partition.key());
            let batch = PartitionBatch { table, partition, rows: large, write_time_micros: 1 };
            world.store.write(vec![batch], Duration::from_secs(1)).await.remove(0).unwrap();

            // A row takes a quarter of a second or more, a piece and the large event more than a minute and a half.
            let (options, pace) = (WorkOptions { fetch_bytes: 1, ..options() }, Arc::new(Pace::new(400)));
            let slow = Work::new(world.store.clone(), world.env.node(0), options, "slow".to_owned(), pace);
            let other = world.worker("other");
            let detected = world.detect(&slow).await;
            let ground = Ground { form, target_piece_bytes: 40_000, ..ground() };
            let task = world.env.spawn(async move { slow.advance(&detected, &ground).await });
            let mut steps = std::collections::BTreeSet::new();
            loop {
                world.env.sleep(Duration::from_secs(2)).await;
                let found = other.records().load(&world.partition).await.unwrap().unwrap();
                if other.rests(&found.row) {
                    break;
                }
                steps.insert(serde_json::to_string(&found.row.state).unwrap());
                let taken = other.records().take(&found, "other", options.lease).await.unwrap();
                assert!(taken.is_none(), "the lease ran out in {}", found.row.state.name());
            }
            let Ok(Effort::Rests(done)) = task.await.unwrap() else { panic!() };
            assert!(matches!(done.row.state, State::Completed { .. }), "{:?}", done.row.state);
            assert_eq!((done.row.epoch.0, done.row.abandoned), (1, 0));
            assert!(steps.len() > 20, "only {} checkpoints", steps.len());
            assert_eq!(world.served(&other).await, world.original().await);
        });
    }
}

/// S5: progress counts what is in pieces, once, however often work is taken up again.
#[test]
fn bytes_copied_are_counted_once_whatever_is_done_again() {
    let mut seen = 0;
    for killed_after in 20..90 {
        let found = std::cell::Cell::new(0);
        run(|world| {
            let found = &found;
            async move {
                world.fill(0, 500).await;
                let original = world.original().await;
                for life in 0..6 {
                    let env = world.env.node(0);
                    let doomed = world.worker_on(world.store.clone(), env.clone(), &format!("life {life}"));
                    let loaded = world.detect(&doomed).await;
                    let task = env.spawn(async move { doomed.advance(&loaded, &ground()).await.is_ok() });
                    world.env.sleep(Duration::from_millis(killed_after)).await;
                    env.kill();
                    let _ = task.await;
                    let State::Splitting(copying) = world.state(&world.worker("eye")).await else { continue };
                    let Some(copied) = &copying.copied else { continue };
                    let rows = original.iter().filter(|row| row.position >= *copied);
                    assert_eq!(copying.bytes, rows.map(|row| row.bytes() as u64).sum::<u64>(), "life {life}");
                    found.set(found.get() + 1);
                    world.env.sleep(options().lease * 2).await;
                }
            }
        });
        seen += found.get();
    }
    assert!(seen > 20, "only {seen} checkpoints were looked at");
}

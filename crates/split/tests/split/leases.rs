//! Leases: one worker at a time, no step without the lease, work goes on from the checkpoint of whoever was killed.

use std::time::Duration;

use anabranch_split::{Effort, SplitError, State};

use crate::fixture::{ground, options, run};

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

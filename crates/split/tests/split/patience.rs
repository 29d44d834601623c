//! A store that is away, or has too much to do, uses up no attempt: a split waits for it, and then has all of them left.

use std::time::Duration;

use anabranch_split::{Effort, Generation, State};
use anabranch_store::{PartitionBatch, Store, StoreError};

use crate::{
    away::Away,
    fixture::{ground, options, rows, run},
};

/// S5
#[test]
fn a_split_waits_for_the_store_with_all_its_attempts_left_s5() {
    run(|world| async move {
        world.fill(0, 500).await;
        // Something that nobody planned lies in the first generation's pieces.
        let table = Generation::FIRST.table(&world.partition.namespace, &world.partition.time_slice);
        world.store.create_table(&table).await.unwrap();
        let mut extra = rows(499);
        extra[0].position.id = anabranch_model::EventId::new("extra").unwrap();
        let batch =
            PartitionBatch { table, partition: world.partition.piece(0), rows: extra, write_time_micros: i64::MAX };
        world.store.write(vec![batch], Duration::from_secs(1)).await.remove(0).unwrap();

        let store = Away::new(world.store.clone());
        let work = world.worker_on(store.clone(), world.env.node(0), "w");
        let mut loaded = world.detect(&work).await;
        let reason = || "everybody comes at once".to_owned();
        let because = [
            StoreError::Overloaded { reason: reason() },
            StoreError::Unavailable { reason: reason() },
            StoreError::Unknown { reason: reason() },
        ];
        let mut waited = Vec::new();
        for at in 0..12 {
            *store.because.lock().unwrap() = Some(because[at % 3].clone());
            let Effort::Rests(rests) = work.advance(&loaded, &ground()).await.unwrap() else { panic!() };
            let State::Failed(failure) = &rests.row.state else { panic!("{:?}", rests.row.state) };
            assert_eq!((rests.row.attempts, rests.row.waits), (0, at as u32 + 1));
            waited.push(failure.retry_after.since(world.env.now()));
            world.env.sleep(options().longest_retry).await;
            loaded = *rests;
        }
        assert!(waited[0] <= options().first_retry, "{waited:?}");
        assert!(waited[11] >= options().longest_retry / 2, "it asks less and less often: {waited:?}");

        *store.because.lock().unwrap() = None;
        let Effort::Rests(failed) = work.advance(&loaded, &ground()).await.unwrap() else { panic!() };
        let State::Failed(failure) = &failed.row.state else { panic!("{:?}", failed.row.state) };
        assert!(failure.reason.contains("piece 0"), "{}", failure.reason);
        assert_eq!((failed.row.attempts, failed.row.waits), (1, 0), "the first attempt that counts");
        world.env.sleep(options().longest_retry).await;
        let Effort::Rests(done) = work.advance(&failed, &ground()).await.unwrap() else { panic!() };
        assert!(matches!(done.row.state, State::Completed { .. }), "{:?}", done.row.state);
        assert_eq!(world.served(&work).await, world.original().await);
    });
}

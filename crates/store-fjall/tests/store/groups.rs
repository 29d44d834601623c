//! Trap 4: there is no group commit in fjall. One sync for many batches, a queue with bounds, and honest answers when
//! something goes wrong.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use anabranch_runtime::{Env, Task};
use anabranch_store::{
    ErrorKind, PartitionBatch, Store, StoreError,
    suite::fixture::{TIMEOUT, batch, contents, make_table, partition, row, table, try_write, write},
};
use anabranch_store_fjall::{FjallOptions, FjallStore};

use crate::{fresh, open, small};

/// Keeps the committer from taking anything; until it is dropped.
struct Held {
    _release: mpsc::Sender<()>,
}

fn hold(store: &FjallStore) -> Held {
    let (entered, inside) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    store
        .run_on_committer(move || {
            entered.send(()).unwrap();
            held.recv().unwrap_err();
        })
        .unwrap();
    inside.recv().unwrap();
    Held { _release: release }
}

fn spawn_write(store: &Arc<FjallStore>, batch: PartitionBatch, timeout: Duration) -> Task<Vec<Result<(), StoreError>>> {
    let store = store.clone();
    Env::system().spawn(async move { store.write(vec![batch], timeout).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_wait_together_share_a_sync() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    let before = store.stats().unwrap();
    let held = hold(&store);
    let tasks: Vec<_> = (0..100)
        .map(|at| spawn_write(&store, batch(&table, &partition("s", at, 0), &[row(1, "e", "k", "v")]), TIMEOUT))
        .collect();
    // Room is given out before an order is queued: all have it once only the rest is left.
    while store.queued() < 100 {
        tokio::task::yield_now().await;
    }
    drop(held);
    for task in tasks {
        assert_eq!(task.await.unwrap(), [Ok(())]);
    }
    let after = store.stats().unwrap();
    assert_eq!(after.batches - before.batches, 100);
    assert_eq!(after.groups - before.groups, 2, "64 and 36");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_times_out_in_the_queue_is_withdrawn() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let held = hold(&store);
    let late = batch(&table, &partition, &[row(1, "e", "k", "v")]);
    let answer = store.write(vec![late], Duration::from_millis(20)).await;
    assert_eq!(answer.into_iter().map(|answer| answer.unwrap_err().kind()).collect::<Vec<_>>(), [ErrorKind::Retry]);
    drop(held);
    write(&shared, &table, &partition, &[row(2, "e", "k", "v")]).await;
    assert_eq!(
        contents(&shared, &table, &partition).await,
        [row(2, "e", "k", "v")],
        "what was withdrawn isn't written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_makes_writers_wait_and_then_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let options = FjallOptions { commit_queue_bytes: 64 << 10, ..small() };
    let store = Arc::new(FjallStore::open(dir.path(), options, Env::system()).unwrap());
    let shared: Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let large = |at| batch(&table, &partition, &[row(at, "e", "k", &"v".repeat(60 << 10))]);
    let held = hold(&store);
    let first = spawn_write(&store, large(1), TIMEOUT);
    while store.queued() < 1 {
        tokio::task::yield_now().await;
    }
    let answer = store.write(vec![large(2)], Duration::from_millis(20)).await.remove(0);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(store.queued(), 1, "there was no room for the second");
    let third = spawn_write(&store, large(3), TIMEOUT);
    drop(held);
    assert_eq!(first.await.unwrap(), [Ok(())]);
    assert_eq!(third.await.unwrap(), [Ok(())]);
    // More than the whole queue takes the whole queue.
    try_write(&shared, batch(&table, &partition, &[row(4, "e", "k", &"v".repeat(200 << 10))])).await.unwrap();
    assert_eq!(contents(&shared, &table, &partition).await.len(), 3);
}

/// W1: what may not be on disk is neither acknowledged nor shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_leaves_every_batch_of_the_group_unknown() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    let held = hold(&store);
    let missing = spawn_write(&store, batch(&table, &partition("s", 9, 0), &[row(1, "e", "k", "v")]), TIMEOUT);
    let tasks: Vec<_> = (0..3)
        .map(|at| spawn_write(&store, batch(&table, &partition("s", at, 0), &[row(1, "e", "k", "v")]), TIMEOUT))
        .collect();
    while store.queued() < 4 {
        tokio::task::yield_now().await;
    }
    store.fail_next_sync();
    drop(held);
    for task in tasks.into_iter().chain([missing]) {
        assert_eq!(task.await.unwrap().remove(0).unwrap_err().kind(), ErrorKind::Unknown);
    }
    assert_eq!(contents(&shared, &table, &partition("s", 0, 0)).await, []);
    // Writing the same again settles it.
    write(&shared, &table, &partition("s", 0, 0), &[row(1, "e", "k", "v")]).await;
    assert_eq!(contents(&shared, &table, &partition("s", 0, 0)).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn close_drains_the_queue_and_so_does_drop() {
    for close in [true, false] {
        let (store, dir) = fresh();
        let shared: Arc<dyn Store> = store.clone();
        let table = make_table(&shared, "data_20260328").await;
        let held = hold(&store);
        let tasks: Vec<_> = (0..10)
            .map(|at| spawn_write(&store, batch(&table, &partition("s", 0, 0), &[row(at, "e", "k", "v")]), TIMEOUT))
            .collect();
        while store.queued() < 10 {
            tokio::task::yield_now().await;
        }
        if close {
            let closing = {
                let store = store.clone();
                Env::system().spawn(async move { store.close().await })
            };
            drop(held);
            closing.await.unwrap().unwrap();
        } else {
            tasks.iter().for_each(Task::abort);
            drop(held);
        }
        if close {
            for task in tasks {
                assert_eq!(task.await.unwrap(), [Ok(())]);
            }
        } else {
            for task in tasks {
                task.await;
            }
        }
        drop((shared, store));
        let store: Arc<dyn Store> = Arc::new(open(dir.path()));
        assert_eq!(contents(&store, &table, &partition("s", 0, 0)).await.len(), 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memtables_are_bounded_in_sum() {
    let dir = tempfile::tempdir().unwrap();
    let options = FjallOptions { memtable_bytes: 16 << 20, memtable_total_bytes: 16 << 20, ..small() };
    let store = Arc::new(FjallStore::open(dir.path(), options, Env::system()).unwrap());
    let tables: Vec<_> = (0..8).map(|at| table(&format!("data_2026032{at}"))).collect();
    for table in &tables {
        store.create_table(table).await.unwrap();
    }
    let rows: Vec<_> = (0..100).map(|at| row(at, "e", "k", &"v".repeat(10 << 10))).collect();
    for round in 0..8 {
        for table in &tables {
            let batch = batch(table, &partition("s", round, 0), &rows);
            store.write(vec![batch], TIMEOUT).await.remove(0).unwrap();
            // The sum is looked at every 8 MiB.
            let memory = store.stats().unwrap().memtable_bytes;
            assert!(memory <= (16 + 8 + 2) << 20, "{memory} bytes in memtables");
        }
    }
}

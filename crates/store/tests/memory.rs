//! The store in memory passes the contract suite, with and without ordered partitions, and loses in a crash exactly
//! what it may.
#![allow(clippy::unwrap_used)]

use std::{pin::pin, sync::Arc, time::Duration};

use anabranch_model::{Row, Timestamp};
use anabranch_runtime::{Env, run_simulated};
use anabranch_store::{
    CasOutcome, ErrorKind, MemoryStore, MetaKey, Store, StoreError,
    suite::{
        self,
        fixture::{TIMEOUT, batch, contents, make_table, partition, row, table, try_write, write},
    },
};
use bytes::Bytes;
use futures_util::poll;

mod ordered {
    use super::*;
    anabranch_store::contract_suite!(async || (Arc::new(MemoryStore::new(Env::system())) as Arc<dyn Store>, ()));
}

mod unordered {
    use super::*;
    anabranch_store::contract_suite!(async || {
        (Arc::new(MemoryStore::new(Env::system()).without_ordered_partitions()) as Arc<dyn Store>, ())
    });
}

/// To reopen a store in memory is to crash it: only what was synced is there.
mod crashed {
    use super::*;
    anabranch_store::durable_suite!(
        || Arc::new(MemoryStore::new(Env::system()).with_sync_latency(Duration::from_micros(100))),
        async |store: &Arc<MemoryStore>| {
            store.crash();
            store.clone() as Arc<dyn Store>
        }
    );
}

fn simulate<F: Future>(seed: u64, work: impl FnOnce(Env, Arc<MemoryStore>) -> F) -> F::Output {
    run_simulated(seed, Timestamp::from_seconds(1_774_692_000), |env| {
        let store = MemoryStore::new(env.clone()).with_sync_latency(Duration::from_millis(10));
        work(env, Arc::new(store))
    })
}

#[test]
fn the_suite_holds_in_the_simulation_while_syncs_take_time() {
    run_simulated(1, Timestamp::from_seconds(1_774_692_000), |env| async move {
        suite::run_all(async || {
            let store = MemoryStore::new(env.clone()).with_sync_latency(Duration::from_millis(10));
            (Arc::new(store) as Arc<dyn Store>, ())
        })
        .await;
    });
}

fn rows_of(writer: u32, at: i64) -> Vec<Row> {
    ["a", "b", "c", "d"].map(|key| row(at, &format!("w{writer}"), key, "v")).to_vec()
}

/// W1: an acknowledged batch survives a crash at any moment; of the others each is there as a whole or not at all.
#[test]
fn a_crash_takes_no_acknowledged_batch_and_no_part_of_any() {
    let mut lost_somewhere = false;
    for seed in 0..200 {
        lost_somewhere |= simulate(seed, |env, memory| async move {
            let store: Arc<dyn Store> = memory.clone();
            let table = make_table(&store, "data_20260328").await;
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let (store, table) = (store.clone(), table.clone());
                    env.spawn(async move {
                        for at in 0..1000 {
                            let batch = batch(&table, &partition("s", writer, 0), &rows_of(writer, at));
                            if try_write(&store, batch).await.is_err() {
                                return at;
                            }
                        }
                        panic!("the crash went unnoticed")
                    })
                })
                .collect();
            env.sleep(Duration::from_micros(env.random_below(40_000))).await;
            memory.crash();
            let mut lost = false;
            for (writer, task) in (0..).zip(writers) {
                let acknowledged = task.await.expect("no writer panics");
                let mut expected: Vec<Row> = (0..acknowledged).rev().flat_map(|at| rows_of(writer, at)).collect();
                let found = contents(&store, &table, &partition("s", writer, 0)).await;
                if found.len() > expected.len() {
                    expected.splice(0..0, rows_of(writer, acknowledged));
                } else {
                    lost = true;
                }
                assert_eq!(found, expected, "seed {seed}, writer {writer}, {acknowledged} acknowledged");
            }
            lost
        });
    }
    assert!(lost_somewhere, "no crash ever lost anything: the test shows nothing");
}

/// W1: a batch that replaces another goes back to it as a whole.
#[test]
fn a_crash_takes_an_overwrite_back_as_a_whole() {
    simulate(1, |_, memory| async move {
        let store: Arc<dyn Store> = memory.clone();
        let table = make_table(&store, "data_20260328").await;
        let partition = partition("s", 0, 0);
        let old = [row(2, "e", "k", "old"), row(1, "e", "k", "old")];
        let new = [row(3, "e", "k", "new"), row(2, "e", "k", "new"), row(1, "e", "k", "new")];
        write(&store, &table, &partition, &old).await;
        let mut batch = batch(&table, &partition, &new);
        batch.write_time_micros = 2;
        let mut writing = pin!(try_write(&store, batch));
        assert!(poll!(&mut writing).is_pending());
        assert_eq!(contents(&store, &table, &partition).await, new, "applied, and visible");
        memory.crash();
        assert_eq!(contents(&store, &table, &partition).await, old);
        assert_eq!(writing.await.map_err(|error| error.kind()), Err(ErrorKind::Unknown));
        assert_eq!(contents(&store, &table, &partition).await, old);
    });
}

#[test]
fn a_crash_takes_back_tables_made_and_dropped() {
    simulate(1, |_, memory| async move {
        let store: Arc<dyn Store> = memory.clone();
        let (kept, made) = (make_table(&store, "data_20260328").await, table("data_20260329"));
        let (partition, rows) = (partition("s", 0, 0), [row(1, "e", "k", "v")]);
        write(&store, &kept, &partition, &rows).await;
        {
            let mut making = store.create_table(&made);
            let mut writing = pin!(try_write(&store, batch(&made, &partition, &rows)));
            let mut dropping = store.drop_table(&kept);
            assert!(poll!(&mut making).is_pending() && poll!(&mut writing).is_pending());
            assert!(poll!(&mut dropping).is_pending());
            memory.crash();
            assert_eq!(making.await.map_err(|error| error.kind()), Err(ErrorKind::Unknown));
            assert_eq!(writing.await.map_err(|error| error.kind()), Err(ErrorKind::Unknown));
            assert_eq!(dropping.await.map_err(|error| error.kind()), Err(ErrorKind::Unknown));
        }
        assert_eq!(store.tables().await, Ok(vec![kept.clone()]));
        assert_eq!(contents(&store, &kept, &partition).await, rows);
    });
}

/// A second call that finds the work done waits for the sync like the first, or its `Ok` could be lost.
#[test]
fn a_change_that_finds_nothing_to_do_is_still_durable() {
    simulate(1, |_, memory| async move {
        let store: Arc<dyn Store> = memory.clone();
        let table = table("data_20260328");
        let mut first = store.create_table(&table);
        assert!(poll!(&mut first).is_pending());
        drop(first);
        store.create_table(&table).await.unwrap();
        memory.crash();
        assert_eq!(store.tables().await, Ok(vec![table.clone()]));

        let (partition, rows) = (partition("s", 0, 0), [row(1, "e", "k", "v")]);
        {
            let mut first = pin!(try_write(&store, batch(&table, &partition, &rows)));
            assert!(poll!(&mut first).is_pending());
        }
        write(&store, &table, &partition, &rows).await;
        memory.crash();
        assert_eq!(contents(&store, &table, &partition).await, rows);
    });
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Counts up until the first unknown outcome; answers how far it was acknowledged.
async fn count_up(store: &Arc<dyn Store>, key: &MetaKey) -> u64 {
    let mut acknowledged = 0;
    loop {
        let current = store.load(key).await.unwrap();
        let next = current.as_ref().map_or(0, |document| number(&document.value)) + 1;
        let expected = current.map(|document| document.version);
        match store.compare_and_set(key, expected, Some(Bytes::copy_from_slice(&next.to_be_bytes()))).await {
            Ok(CasOutcome::Applied(_)) => acknowledged += 1,
            Ok(CasOutcome::Conflict(_)) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unknown);
                return acknowledged;
            }
        }
    }
}

/// W1 for metadata: every acknowledged increment is there after a crash, and at most one more of each counter.
#[test]
fn a_crash_takes_no_acknowledged_change_of_a_document() {
    for seed in 0..100 {
        simulate(seed, |env, memory| async move {
            let store: Arc<dyn Store> = memory.clone();
            let key = MetaKey::new("counter", "c");
            let counters: Vec<_> = (0..3)
                .map(|_| {
                    let (store, key) = (store.clone(), key.clone());
                    env.spawn(async move { count_up(&store, &key).await })
                })
                .collect();
            env.sleep(Duration::from_micros(50_000 + env.random_below(40_000))).await;
            memory.crash();
            let mut acknowledged = 0;
            for counter in counters {
                acknowledged += counter.await.expect("no counter panics");
            }
            let found = number(&store.load(&key).await.unwrap().unwrap().value);
            assert!(acknowledged > 0, "seed {seed}");
            assert!((acknowledged..=acknowledged + 3).contains(&found), "seed {seed}: {found} of {acknowledged}");
        });
    }
}

/// After an unknown outcome only a load tells, so what it tells must not be lost later; else a version would be given
/// out twice.
#[test]
fn a_document_that_was_loaded_is_not_lost() {
    simulate(1, |_, memory| async move {
        let key = MetaKey::new("lease", "sweeper");
        let mut change = memory.compare_and_set(&key, None, Some(Bytes::from_static(b"one")));
        assert!(poll!(&mut change).is_pending());
        let seen = memory.load(&key).await.unwrap();
        assert!(seen.is_some());
        memory.crash();
        assert_eq!(change.await.map_err(|error| error.kind()), Err(ErrorKind::Unknown));
        assert_eq!(memory.load(&key).await, Ok(seen.clone()));

        let version = seen.map(|document| document.version);
        let mut deletion = memory.compare_and_set(&key, version, None);
        assert!(poll!(&mut deletion).is_pending());
        memory.crash();
        assert!(deletion.await.is_err());
        assert!(memory.load(&key).await.unwrap().is_some(), "nobody saw the deletion");
    });
}

#[test]
fn a_sync_that_takes_too_long_has_an_unknown_outcome_and_a_retry_settles_it() {
    simulate(1, |env, memory| async move {
        let store: Arc<dyn Store> = memory.clone();
        let table = make_table(&store, "data_20260328").await;
        let (partition, rows) = (partition("s", 0, 0), [row(1, "e", "k", "v")]);
        let begun = env.monotonic();
        let answers = store.write(vec![batch(&table, &partition, &rows)], Duration::from_nanos(1)).await;
        assert!(matches!(answers[..], [Err(StoreError::Unknown { .. })]), "{answers:?}");
        assert!(env.monotonic() - begun <= Duration::from_millis(1), "it answered when its time was over");
        let answers = store.write(vec![batch(&table, &partition, &rows)], TIMEOUT).await;
        assert_eq!(answers, [Ok(())]);
        memory.crash();
        assert_eq!(contents(&store, &table, &partition).await, rows);
    });
}

/// W2: the row with the later write time stays, of two at the same time the one with the greater value, in whatever
/// order they come.
#[test]
fn the_later_write_stays() {
    run_simulated(1, Timestamp::from_seconds(1_774_692_000), |env| async move {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env));
        let table = make_table(&store, "data_20260328").await;
        let writes = [(5, "a"), (7, "a"), (7, "b"), (6, "z")];
        for first in 0..writes.len() {
            let partition = partition("s", first as u32, 0);
            for (write_time_micros, value) in writes.iter().cycle().skip(first).take(writes.len()) {
                let mut batch = batch(&table, &partition, &[row(1, "e", "k", value)]);
                batch.write_time_micros = *write_time_micros;
                try_write(&store, batch).await.unwrap();
            }
            assert_eq!(contents(&store, &table, &partition).await, [row(1, "e", "k", "b")]);
        }
    });
}

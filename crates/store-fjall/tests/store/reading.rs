//! Traps of reading: half batches, waiting behind writes, hot keys, and looking for what isn't there.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use anabranch_model::TimeBucket;
use anabranch_runtime::Env;
use anabranch_store::{
    CasOutcome, Direction, MetaKey, Store,
    suite::fixture::{EVER, TIMEOUT, batch, contents, make_table, partition, row, scan, series, within, write},
};
use anabranch_store_fjall::{FjallOptions, FjallStore};
use bytes::Bytes;

use crate::{fresh, small};

/// Trap 1. A range read of fjall's can see half of a batch, and so can a fresh snapshot while a flush ends: here
/// memtables are tiny, so that flushes end all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_sees_half_a_batch_while_tables_are_flushed() {
    const ROWS: i64 = 4000;
    let dir = tempfile::tempdir().unwrap();
    let options = FjallOptions { memtable_bytes: 64 << 10, memtable_total_bytes: 64 << 10, ..small() };
    let store: Arc<dyn Store> = Arc::new(FjallStore::open(dir.path(), options, Env::system()).unwrap());
    let tables = [make_table(&store, "data_20260328").await, make_table(&store, "data_20260329").await];
    let partition = partition("s", 0, 0);
    let env = Env::system();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, table, partition, done) = (store.clone(), tables[0].clone(), partition.clone(), done.clone());
            env.spawn(async move {
                let mut pages = 0;
                while !done.load(Ordering::Relaxed) {
                    let rows = contents(&store, &table, &partition).await;
                    let batches: BTreeSet<_> = rows.iter().map(|row| row.item.value.clone()).collect();
                    assert!(batches.len() <= 1, "rows of the batches {batches:?}");
                    assert!(rows.is_empty() || rows.len() == ROWS as usize, "{} of {ROWS} rows", rows.len());
                    pages += 1;
                }
                pages
            })
        })
        .collect();
    for round in 0..100 {
        // Each batch replaces all rows of the one before.
        let rows: Vec<_> = (0..ROWS).map(|at| row(at, "e", "k", &format!("{round}"))).collect();
        let batches = vec![batch(&tables[0], &partition, &rows), batch(&tables[1], &partition, &rows)];
        for answer in store.write(batches, TIMEOUT).await {
            answer.unwrap();
        }
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.expect("the reader has seen whole batches only") > 10);
    }
}

/// Trap 5. A read must not wait behind a write, and a commit of fjall's may stall for half a second.
#[tokio::test(flavor = "multi_thread")]
async fn reads_go_on_while_the_committer_is_held_up() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    let (partition, rows) = (partition("s", 0, 0), [row(1, "e", "k", "v")]);
    write(&shared, &table, &partition, &rows).await;
    let key = MetaKey::new("scope", "name");
    store.compare_and_set(&key, None, Some(Bytes::from_static(b"v"))).await.unwrap();

    let (entered, inside) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    store
        .run_on_committer(move || {
            entered.send(()).unwrap();
            held.recv().unwrap();
        })
        .unwrap();
    inside.recv().unwrap();
    let env = Env::system();
    let waiting = {
        let (store, batch) = (shared.clone(), batch(&table, &partition, &[row(2, "e", "k", "v")]));
        env.spawn(async move { store.write(vec![batch], TIMEOUT).await })
    };
    assert_eq!(contents(&shared, &table, &partition).await, rows);
    assert_eq!(shared.tables().await.unwrap(), std::slice::from_ref(&table));
    assert_eq!(shared.sample(&table, 0, 9).await.unwrap().partitions.len(), 1);
    assert_eq!(shared.load(&key).await.unwrap().unwrap().value, "v");
    assert_eq!(shared.list("scope", None, 9).await.unwrap().len(), 1);
    assert!(store.stats().is_ok());
    release.send(()).unwrap();
    assert_eq!(waiting.await.unwrap(), [Ok(())]);
}

/// Trap 6. Nothing in the store is a counter or a queue, but a document may be rewritten all day, by a lease say: the
/// versions that a list steps over stay bounded.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_document_that_is_rewritten_thousands_of_times_leaves_few_versions() {
    let (store, _dir) = fresh();
    let key = MetaKey::new("lease", "sweeper");
    let mut version = None;
    for round in 0..5000u64 {
        let value = Bytes::copy_from_slice(&round.to_be_bytes());
        match store.compare_and_set(&key, version, Some(value)).await.unwrap() {
            CasOutcome::Applied(applied) => version = Some(applied),
            CasOutcome::Conflict(there) => panic!("nobody else changes it: {there:?}"),
        }
    }
    assert_eq!(store.list("lease", None, 10).await.unwrap().len(), 1);
    let versions = store.stats().unwrap().document_versions_in_memory;
    assert!(versions <= 1001, "{versions} versions of one document");
}

/// Trap 7. To look for an absent partition costs tens of microseconds: ten thousand empty buckets must not cost as
/// many.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_empty_buckets_cost_one_look() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    for bucket in [3, 20_000] {
        write(&shared, &table, &partition("s", bucket, 1), &[row(1, "e", "k", "v")]).await;
    }
    let looks = async |buckets: std::ops::RangeInclusive<u32>, direction| {
        let before = store.stats().unwrap().seeks;
        let buckets = TimeBucket(*buckets.start())..=TimeBucket(*buckets.end());
        let found = store.occupied(&table, &series("s"), buckets, direction, 100).await.unwrap();
        (found.iter().map(|(bucket, _)| bucket.0).collect::<Vec<_>>(), store.stats().unwrap().seeks - before)
    };
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(looks(4..=10_003, direction).await, (vec![], 1));
    }
    assert_eq!(looks(0..=30_000, Direction::Forward).await, (vec![3, 20_000], 1));
    assert_eq!(looks(0..=30_000, Direction::Backward).await, (vec![20_000, 3], 1));
}

/// A wide partition is passed over by one look, not row by row.
#[tokio::test(flavor = "multi_thread")]
async fn wide_partitions_are_passed_over() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    let rows: Vec<_> = (0..5000).map(|at| row(at, "e", "k", "v")).collect();
    for bucket in 0..4 {
        write(&shared, &table, &partition("s", bucket, 0), &rows).await;
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let before = store.stats().unwrap().seeks;
        let all = TimeBucket(0)..=TimeBucket(u32::MAX);
        let found = store.occupied(&table, &series("s"), all, direction, 100).await.unwrap();
        assert_eq!(found.len(), 4);
        assert_eq!(store.stats().unwrap().seeks - before, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_out_of_time_answers_what_it_has() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let rows: Vec<_> = (0..1000).rev().map(|at| row(at, "e", "k", "v")).collect();
    write(&shared, &table, &partition, &rows).await;
    let mut scan = scan(&table, &partition, within(EVER), Direction::Forward);
    scan.timeout = Duration::ZERO;
    let page = store.scan(&scan).await.unwrap();
    assert!(page.more && !page.rows.is_empty() && page.rows.len() < 1000, "{} rows", page.rows.len());
    assert_eq!(page.rows, rows[..page.rows.len()]);
}

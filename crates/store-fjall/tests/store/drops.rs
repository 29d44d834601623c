//! Traps of dropping tables: writes that are lost with an Ok, iterators that fail, keyspaces that vanish or come back.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anabranch_model::Row;
use anabranch_runtime::Env;
use anabranch_store::{
    Direction, Store, StoreError,
    suite::fixture::{EVER, batch, contents, make_table, partition, row, scan, table, try_write, within, write},
};

use crate::{fresh, open};

/// Trap 2. A batch committed into a deleted keyspace returns Ok: here it is refused, or was durable before the drop.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_beside_a_drop_is_refused_or_came_before_it() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let env = Env::system();
    let partition = partition("s", 0, 0);
    for round in 0..20 {
        let table = make_table(&shared, "data_20260328").await;
        assert_eq!(contents(&shared, &table, &partition).await, [], "a table made again is empty");
        let dropped = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (store, table, partition, dropped) =
                    (shared.clone(), table.clone(), partition.clone(), dropped.clone());
                env.spawn(async move {
                    for at in 0.. {
                        let began_after_the_drop = dropped.load(Ordering::SeqCst);
                        let rows = [row(at, &format!("w{writer}"), "k", "v")];
                        match try_write(&store, batch(&table, &partition, &rows)).await {
                            Ok(()) => assert!(!began_after_the_drop, "Ok for a table that was gone"),
                            Err(error) => return error,
                        }
                    }
                    unreachable!()
                })
            })
            .collect();
        for at in 0..round {
            write(&shared, &table, &partition, &[row(at, "main", "k", "v")]).await;
        }
        store.drop_table(&table).await.unwrap();
        dropped.store(true, Ordering::SeqCst);
        for writer in writers {
            assert_eq!(writer.await, Some(StoreError::NoSuchTable { table: table.clone() }));
        }
    }
}

/// Trap 3. An open iterator fails once the last handle of its keyspace is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_scan_beside_a_drop_finishes_or_finds_no_table() {
    let (store, _dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let env = Env::system();
    let partition = partition("s", 0, 0);
    let value = "v".repeat(300);
    let rows: Vec<Row> = (0..8000).rev().map(|at| row(at, "e", "k", &value)).collect();
    for _ in 0..5 {
        let table = make_table(&shared, "data_20260328").await;
        write(&shared, &table, &partition, &rows).await; // several memtables: part of it comes from files
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let (store, table, partition, rows) = (shared.clone(), table.clone(), partition.clone(), rows.clone());
                env.spawn(async move {
                    loop {
                        let scan = scan(&table, &partition, within(EVER), Direction::Forward);
                        match store.scan(&scan).await {
                            Ok(page) => assert!(page.rows == rows, "{} of {} rows", page.rows.len(), rows.len()),
                            Err(error) => return error,
                        }
                    }
                })
            })
            .collect();
        contents(&shared, &table, &partition).await;
        store.drop_table(&table).await.unwrap();
        for reader in readers {
            assert_eq!(reader.await, Some(StoreError::NoSuchTable { table: table.clone() }));
        }
    }
}

/// fjall numbers its list of keyspaces by sequence numbers that it takes up again too low after a restart: a keyspace
/// made after one was dropped could vanish with all its rows at the second restart.
#[tokio::test(flavor = "multi_thread")]
async fn tables_made_after_a_drop_and_a_restart_keep_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (partition, rows) = (partition("s", 0, 0), [row(1, "e", "k", "v")]);
    let names: Vec<String> = (1..6).map(|day| format!("data_2026030{day}")).collect();
    let late: Vec<String> = (1..6).map(|day| format!("data_2026040{day}")).collect();
    {
        let store: Arc<dyn Store> = Arc::new(open(dir.path()));
        let kept = make_table(&store, "data_20260101").await;
        write(&store, &kept, &partition, &rows).await;
        for name in &names {
            make_table(&store, name).await;
            store.drop_table(&table(name)).await.unwrap();
        }
    }
    {
        let store: Arc<dyn Store> = Arc::new(open(dir.path()));
        for name in &late {
            let table = make_table(&store, name).await;
            write(&store, &table, &partition, &rows).await;
        }
    }
    for _ in 0..2 {
        let store: Arc<dyn Store> = Arc::new(open(dir.path()));
        assert_eq!(store.tables().await.unwrap().len(), 1 + late.len());
        for name in &late {
            assert_eq!(contents(&store, &table(name), &partition).await, rows, "{name}");
        }
    }
}

/// A keyspace that no table has, as a crash between two steps leaves it, is gone after the next open.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_half_made_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store: Arc<dyn Store> = Arc::new(open(dir.path()));
        make_table(&store, "data_20260328").await;
    }
    let keyspaces = dir.path().join("fjall/keyspaces");
    let count = || fs::read_dir(&keyspaces).unwrap().count();
    let before = count();
    {
        let fjall = fjall::Database::builder(dir.path().join("fjall")).open().unwrap();
        fjall.keyspace("suite.data_20260329#7", fjall::KeyspaceCreateOptions::default).unwrap();
    }
    assert_eq!(count(), before + 1);
    let store: Arc<dyn Store> = Arc::new(open(dir.path()));
    assert_eq!(count(), before);
    assert_eq!(store.tables().await.unwrap(), [table("data_20260328")]);
    let made = make_table(&store, "data_20260329").await;
    assert_eq!(contents(&store, &made, &partition("s", 0, 0)).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_dropped_tables_are_deleted() {
    let (store, dir) = fresh();
    let shared: Arc<dyn Store> = store.clone();
    let keyspaces = dir.path().join("fjall/keyspaces");
    let before = fs::read_dir(&keyspaces).unwrap().count();
    let table = make_table(&shared, "data_20260328").await;
    write(&shared, &table, &partition("s", 0, 0), &[row(1, "e", "k", "v")]).await;
    store.drop_table(&table).await.unwrap();
    store.close().await.unwrap(); // waits for the deletion
    assert_eq!(fs::read_dir(&keyspaces).unwrap().count(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_tables_than_allowed_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = anabranch_store_fjall::FjallOptions { max_tables: 2, ..crate::small() };
    let store = anabranch_store_fjall::FjallStore::open(dir.path(), options, Env::system()).unwrap();
    for name in ["a", "b", "b"] {
        store.create_table(&table(name)).await.unwrap();
    }
    let error = store.create_table(&table("c")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused { reason } if reason.contains("at most 2")), "{error}");
    store.drop_table(&table("a")).await.unwrap();
    store.create_table(&table("c")).await.unwrap();
}

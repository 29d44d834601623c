//! Promises of a store that outlives its process: what was acknowledged is there when it is opened again.

use std::sync::Arc;

use anabranch_model::Row;
use bytes::Bytes;

use super::{
    fixture::{Draw, contents, make_table, partition, row, table, write},
    model::Rows,
};
use crate::{CasOutcome, MetaKey, Store, Version, Versioned};

/// W1: rows of many partitions and tables, closed and opened.
pub async fn acknowledged_rows_are_there_after_reopening<P>(place: &P, open: impl AsyncFn(&P) -> Arc<dyn Store>) {
    let mut draw = Draw::new(1);
    let mut written: Vec<(String, u32, Rows)> = Vec::new();
    let store = open(place).await;
    for at in 0..20 {
        let name = format!("data_2026032{}", at % 3);
        let table = make_table(&store, &name).await;
        let rows = Rows::drawn(&mut draw, 30);
        write(&store, &table, &partition("s", at, 0), rows.as_slice()).await;
        written.push((name, at, rows));
    }
    store.close().await.unwrap();
    drop(store);
    let store = open(place).await;
    for (name, at, rows) in &written {
        assert_eq!(contents(&store, &table(name), &partition("s", *at, 0)).await, rows.as_slice(), "{name} {at}");
    }
}

async fn set(
    store: &Arc<dyn Store>,
    key: &MetaKey,
    expected: Option<Version>,
    value: Option<&'static [u8]>,
) -> Version {
    match store.compare_and_set(key, expected, value.map(Bytes::from_static)).await.unwrap() {
        CasOutcome::Applied(version) => version,
        CasOutcome::Conflict(there) => panic!("{key:?}: {there:?}"),
    }
}

/// Documents keep their bytes and versions; deleted ones stay deleted.
pub async fn metadata_is_there_after_reopening<P>(place: &P, open: impl AsyncFn(&P) -> Arc<dyn Store>) {
    let (kept, deleted) = (MetaKey::new("scope", "kept"), MetaKey::new("scope", "deleted"));
    let store = open(place).await;
    let first = set(&store, &kept, None, Some(b"one")).await;
    let second = set(&store, &kept, Some(first), Some(b"two")).await;
    let version = set(&store, &deleted, None, Some(b"gone")).await;
    set(&store, &deleted, Some(version), None).await;
    store.close().await.unwrap();
    drop(store);
    let store = open(place).await;
    let there = Versioned { version: second, value: Bytes::from_static(b"two") };
    assert_eq!(store.load(&kept).await, Ok(Some(there.clone())));
    assert_eq!(store.load(&deleted).await, Ok(None));
    assert_eq!(store.list("scope", None, 10).await, Ok(vec![("kept".to_owned(), there)]));
    assert!(set(&store, &kept, Some(second), Some(b"three")).await > second);
}

/// The list of tables is the same, and a dropped table doesn't come back with its rows.
pub async fn tables_are_there_after_reopening_and_dropped_ones_are_not<P>(
    place: &P,
    open: impl AsyncFn(&P) -> Arc<dyn Store>,
) {
    let (partition, rows) = (partition("s", 0, 0), [row(1, "e", "k", "v")]);
    let store = open(place).await;
    let (empty, dropped) = (make_table(&store, "data_20260328").await, make_table(&store, "data_20260329").await);
    let again = make_table(&store, "data_20260330").await;
    for table in [&dropped, &again] {
        write(&store, table, &partition, &rows).await;
        store.drop_table(table).await.unwrap();
    }
    store.create_table(&again).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let store = open(place).await;
    assert_eq!(store.tables().await, Ok(vec![empty.clone(), again.clone()]));
    store.create_table(&dropped).await.unwrap();
    for table in [&empty, &dropped, &again] {
        assert_eq!(contents(&store, table, &partition).await, [], "{table}");
    }
}

/// W1: acknowledged means durable, whether the store is closed properly or not; nothing waits for a close.
pub async fn a_store_that_was_not_closed_has_everything_acknowledged<P>(
    place: &P,
    open: impl AsyncFn(&P) -> Arc<dyn Store>,
) {
    let (name, partition) = ("data_20260328", partition("s", 0, 0));
    let key = MetaKey::new("scope", "rounds");
    let mut rows: Vec<Row> = Vec::new();
    let mut version = None;
    for round in 0..5 {
        let store = open(place).await;
        let table = make_table(&store, name).await;
        assert_eq!(contents(&store, &table, &partition).await, rows, "round {round}");
        assert_eq!(store.load(&key).await.unwrap().map(|document| document.version), version, "round {round}");
        let new: Vec<Row> = ["a", "b"].map(|key| row(round, "e", key, "v")).to_vec();
        write(&store, &table, &partition, &new).await;
        rows.splice(0..0, new);
        version = Some(set(&store, &key, version, Some(b"v")).await);
    }
}

/// What was written before and after reopening is one history: replaced rows are replaced, others joined.
pub async fn a_reopened_store_takes_writes<P>(place: &P, open: impl AsyncFn(&P) -> Arc<dyn Store>) {
    let partition = partition("s", 0, 0);
    let rows = Rows::new((0..40).map(|at| row(at, "e", "k", "v")).collect());
    for part in [0..25, 15..40, 0..40] {
        let store = open(place).await;
        let table = make_table(&store, "data_20260328").await;
        write(&store, &table, &partition, &rows.as_slice()[part]).await;
        store.close().await.unwrap();
    }
    let store = open(place).await;
    assert_eq!(contents(&store, &table("data_20260328"), &partition).await, rows.as_slice());
    let sample = store.sample(&table("data_20260328"), 0, 10).await.unwrap();
    assert_eq!(sample.partitions.iter().map(|size| size.rows).collect::<Vec<_>>(), [40]);
}

//! Promises about tables: made once, listed, dropped with all that is in them.

use std::sync::Arc;

use anabranch_model::{Interval, TableName, TimeBucket};
use anabranch_runtime::Env;

use super::fixture::{
    batch, contents, let_others_go_on, make_table, partition, row, scan, series, table, table_of, try_write, within,
    write,
};
use crate::{Direction, Store, StoreError};

fn missing(table: &TableName) -> StoreError {
    StoreError::NoSuchTable { table: table.clone() }
}

/// Making a table that is there leaves it and its rows as they are, also when many ask at once.
pub async fn a_table_is_made_once_however_often_it_is_asked_for(store: Arc<dyn Store>) {
    let env = Env::system();
    let makers: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            env.spawn(async move { store.create_table(&table("data_20260328")).await })
        })
        .collect();
    for maker in makers {
        assert_eq!(maker.await, Some(Ok(())));
    }
    let (table, partition) = (table("data_20260328"), partition("s", 0, 0));
    let rows = [row(1, "e", "k", "v")];
    write(&store, &table, &partition, &rows).await;
    store.create_table(&table).await.unwrap();
    assert_eq!(contents(&store, &table, &partition).await, rows);
    assert_eq!(store.tables().await, Ok(vec![table]));
}

/// The list is sorted and complete, whatever order tables were made in.
pub async fn tables_are_listed_in_order(store: Arc<dyn Store>) {
    assert_eq!(store.tables().await, Ok(vec![]), "the store of a test is empty");
    let mut tables = vec![
        table_of("suite", "data_20260328t0400"),
        table_of("a_b", "data_20260328"),
        table_of("suite", "data_20260328"),
        table_of("a", "data_20270101"),
        table_of("suite", "data_19691231"),
    ];
    for table in &tables {
        store.create_table(table).await.unwrap();
    }
    tables.sort();
    assert_eq!(store.tables().await, Ok(tables));
}

/// A dropped table isn't listed, read or written any more; others stay. Dropping it again is fine.
pub async fn a_dropped_table_is_gone_with_its_rows(store: Arc<dyn Store>) {
    let (dropped, kept) = (make_table(&store, "data_20260328").await, make_table(&store, "data_20260329").await);
    let (partition, rows) = (partition("s", 0, 0), [row(1, "e", "k", "v")]);
    write(&store, &dropped, &partition, &rows).await;
    write(&store, &kept, &partition, &rows).await;
    for _ in 0..2 {
        store.drop_table(&dropped).await.unwrap();
        assert_eq!(store.tables().await, Ok(vec![kept.clone()]));
    }
    assert_eq!(try_write(&store, batch(&dropped, &partition, &rows)).await, Err(missing(&dropped)));
    let read = store.scan(&scan(&dropped, &partition, within(Interval::ALL), Direction::Forward)).await;
    assert_eq!(read, Err(missing(&dropped)));
    assert_eq!(contents(&store, &kept, &partition).await, rows);
}

/// Neither rows of the dropped table nor what was refused in between are in a table that is made again.
pub async fn a_table_made_again_is_empty(store: Arc<dyn Store>) {
    let (partition, rows) = (partition("s", 0, 0), [row(1, "e", "k", "v")]);
    for round in 0..3 {
        let table = make_table(&store, "data_20260328").await;
        assert_eq!(contents(&store, &table, &partition).await, [], "round {round}");
        assert_eq!(store.sample(&table, 0, 10).await.unwrap().partitions, [], "round {round}");
        write(&store, &table, &partition, &rows).await;
        assert_eq!(contents(&store, &table, &partition).await, rows, "round {round}");
        store.drop_table(&table).await.unwrap();
        assert_eq!(try_write(&store, batch(&table, &partition, &rows)).await, Err(missing(&table)));
    }
}

/// Calls for a table that was never made say so, and make nothing.
pub async fn a_missing_table_is_named_by_every_call(store: Arc<dyn Store>) {
    let (table, partition) = (table("data_20260328"), partition("s", 0, 0));
    assert_eq!(try_write(&store, batch(&table, &partition, &[row(1, "e", "k", "v")])).await, Err(missing(&table)));
    let read = store.scan(&scan(&table, &partition, within(Interval::ALL), Direction::Forward)).await;
    assert_eq!(read, Err(missing(&table)));
    assert_eq!(store.sample(&table, 0, 1).await, Err(missing(&table)));
    if store.capabilities().ordered_partitions {
        let buckets = TimeBucket(0)..=TimeBucket(1);
        let found = store.occupied(&table, &series("s"), buckets, Direction::Forward, 1).await;
        assert_eq!(found, Err(missing(&table)));
    }
    store.drop_table(&table).await.unwrap();
    assert_eq!(store.tables().await, Ok(vec![]));
}

/// The same name in two namespaces is two tables.
pub async fn tables_of_other_namespaces_are_other_tables(store: Arc<dyn Store>) {
    let tables = [table_of("a", "data_20260328"), table_of("a_data", "data_20260328"), table_of("b", "data_20260328")];
    let partition = partition("s", 0, 0);
    for table in &tables {
        store.create_table(table).await.unwrap();
        write(&store, table, &partition, &[row(1, "e", "k", table.namespace.as_str())]).await;
    }
    store.drop_table(&tables[0]).await.unwrap();
    assert_eq!(store.tables().await, Ok(tables[1..].to_vec()));
    for table in &tables[1..] {
        assert_eq!(contents(&store, table, &partition).await, [row(1, "e", "k", table.namespace.as_str())]);
    }
}

/// Writers that are at work while their table is dropped are told so, and nothing of theirs outlives it.
pub async fn a_write_that_meets_a_drop_leaves_nothing_behind(store: Arc<dyn Store>) {
    let env = Env::system();
    let table = make_table(&store, "data_20260328").await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, table) = (store.clone(), table.clone());
            env.spawn(async move {
                let partition = partition("s", writer, 0);
                for time in 0.. {
                    match try_write(&store, batch(&table, &partition, &[row(time, "e", "k", "v")])).await {
                        Ok(()) => tokio::task::yield_now().await,
                        Err(error) => return error,
                    }
                }
                unreachable!("times do not run out")
            })
        })
        .collect();
    for writer in 0..4 {
        let mut turn = 0;
        while contents(&store, &table, &partition("s", writer, 0)).await.is_empty() {
            let_others_go_on(turn).await;
            turn += 1;
        }
    }
    store.drop_table(&table).await.unwrap();
    for writer in writers {
        assert_eq!(writer.await, Some(missing(&table)));
    }
    store.create_table(&table).await.unwrap();
    for writer in 0..4 {
        assert_eq!(contents(&store, &table, &partition("s", writer, 0)).await, []);
    }
}

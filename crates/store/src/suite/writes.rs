//! Promises about writes: one row per key, batches answered each for itself, large ones too.

use std::sync::Arc;

use super::{
    fixture::{TIMEOUT, batch, contents, make_table, partition, row, table, try_write, write},
    model::Rows,
};
use crate::{ErrorKind, Store, StoreError};

/// W2: the same batch again, as a retry sends it, changes nothing.
pub async fn writing_the_same_row_twice_leaves_one(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let mut rows = vec![row(2, "e", "a", "1"), row(2, "e", "b", "2"), row(1, "e", "a", "3")];
    rows[0].item.metadata = Some("m".into());
    for write_time_micros in [5, 5, 4, 6] {
        let mut batch = batch(&table, &partition, &rows);
        batch.write_time_micros = write_time_micros;
        try_write(&store, batch).await.unwrap();
        assert_eq!(contents(&store, &table, &partition).await, rows);
    }
    write(&store, &table, &partition, &rows[1..2]).await;
    assert_eq!(contents(&store, &table, &partition).await, rows);
}

/// W2: other bytes under the same key leave one row, the same for every read; also within one batch.
pub async fn of_two_values_for_one_key_one_stays(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let mut with_metadata = row(1, "e", "k", "first");
    with_metadata.item.metadata = Some("m".into());
    let candidates = [with_metadata, row(1, "e", "k", "second")];
    for (time_bucket, write_times) in [[1, 2], [1, 1], [2, 1]].into_iter().enumerate() {
        let partition = partition("s", time_bucket as u32, 0);
        for (candidate, write_time_micros) in candidates.iter().zip(write_times) {
            let mut batch = batch(&table, &partition, std::slice::from_ref(candidate));
            batch.write_time_micros = write_time_micros;
            try_write(&store, batch).await.unwrap();
        }
        let kept = contents(&store, &table, &partition).await;
        assert!(kept.len() == 1 && candidates.contains(&kept[0]), "{write_times:?}: {kept:?}");
        assert_eq!(contents(&store, &table, &partition).await, kept);
    }
    let partition = partition("s", 9, 0);
    write(&store, &table, &partition, &candidates).await;
    let kept = contents(&store, &table, &partition).await;
    assert!(kept.len() == 1 && candidates.contains(&kept[0]), "{kept:?}");
}

/// Good batches are stored beside bad ones, and each answer stands where its batch stood.
pub async fn each_batch_of_a_call_is_answered_in_its_place(store: Arc<dyn Store>) {
    let (first, second) = (make_table(&store, "data_20260328").await, make_table(&store, "data_20260329").await);
    let missing = table("data_20260330");
    let (here, there) = (partition("s", 0, 0), partition("s", 0, 1));
    let rows = [row(3, "e", "k", "3"), row(2, "e", "k", "2"), row(1, "e", "k", "1")];
    let batches = vec![
        batch(&first, &here, &rows[..1]),
        batch(&missing, &here, &rows),
        batch(&first, &here, &rows[1..2]),
        batch(&first, &there, &[]),
        batch(&second, &there, &rows),
        batch(&missing, &there, &rows),
        batch(&first, &there, &rows[2..]),
    ];
    let answers = store.write(batches, TIMEOUT).await;
    let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().map_err(StoreError::kind)).collect();
    let (gone, refused) = (Err(ErrorKind::NoSuchTable), Err(ErrorKind::Refused));
    assert_eq!(kinds, [Ok(&()), gone, Ok(&()), refused, Ok(&()), gone, Ok(&())]);
    assert_eq!(answers[1], Err(StoreError::NoSuchTable { table: missing.clone() }));
    assert_eq!(contents(&store, &first, &here).await, rows[..2]);
    assert_eq!(contents(&store, &first, &there).await, rows[2..]);
    assert_eq!(contents(&store, &second, &here).await, []);
    assert_eq!(contents(&store, &second, &there).await, rows);
    assert_eq!(store.tables().await, Ok(vec![first, second]));
    assert_eq!(store.write(vec![], TIMEOUT).await, []);
}

/// A batch without rows is a mistake of the caller, and told so.
pub async fn a_batch_without_rows_is_refused(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let answer = try_write(&store, batch(&table, &partition("s", 0, 0), &[])).await;
    assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Refused));
    assert_eq!(store.sample(&table, 0, 1).await.unwrap().partitions, []);
}

/// A value of 1 MiB with metadata of the same size.
pub async fn a_large_value_is_kept(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let mut large = row(2, "e", "k", "");
    large.item.value = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    large.item.metadata = Some((0..1 << 20).map(|at| (at % 241) as u8).collect());
    let rows = [large, row(1, "e", "k", "small")];
    write(&store, &table, &partition, &rows).await;
    assert!(contents(&store, &table, &partition).await == rows, "another value came back");
}

/// As many rows as a write request may hold, in one batch.
pub async fn a_large_batch_is_kept(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let rows = (0..10_000).map(|at| row(at % 100, &format!("e{at}"), "k", &format!("value {at}"))).collect();
    let rows = Rows::new(rows);
    write(&store, &table, &partition, rows.as_slice()).await;
    assert!(contents(&store, &table, &partition).await == rows.as_slice(), "other rows came back");
}

//! A table and its rows, for tests of what is made of them.

use anabranch_model::Timestamp;
use anabranch_store_cassandra::foreign::{
    rows::{ForeignKey, ForeignRow},
    schema::{Column, ForeignSchema, TimeColumn, TimeKind},
};
use bytes::Bytes;

/// What every row holds.
pub(crate) const BODY: &[u8] = b"what every row holds";
/// A noon, in seconds.
pub(crate) const NOON: i64 = 1_774_699_200;

/// `PRIMARY KEY (device, <clustering>)` with a body, going by the column `at`.
pub(crate) fn schema(clustering: &[(&str, &str)]) -> ForeignSchema {
    let clustering: Vec<Column> = clustering.iter().map(|(name, data_type)| column(name, data_type)).collect();
    let index = clustering.iter().position(|column| column.name == "at").unwrap();
    ForeignSchema {
        keyspace: "k".to_owned(),
        table: "t".to_owned(),
        life_seconds: None,
        partition_key: vec![column("device", "text")],
        clustering,
        regular: vec![column("body", "blob")],
        of_partition: Vec::new(),
        time: Some(TimeColumn { index, kind: TimeKind::Timestamp }),
    }
}

fn column(name: &str, data_type: &str) -> Column {
    Column { name: name.to_owned(), data_type: data_type.to_owned(), descends: false }
}

pub(crate) fn key() -> ForeignKey {
    ForeignKey(vec![Bytes::from("pump")])
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

pub(crate) fn row(seconds: i64, clustering: &[&[u8]]) -> ForeignRow {
    ForeignRow {
        token: 0,
        key: key(),
        time: at(seconds),
        clustering: clustering.iter().map(|part| Bytes::copy_from_slice(part)).collect(),
        values: vec![Some(Bytes::from_static(BODY))],
    }
}

//! What blocks promise, and short ways to make and to read them.

mod damage;
mod finding;
mod mixing;
mod round_trip;
mod vectors;

use std::collections::BTreeMap;

use anabranch_model::{Checksum, Item, Row};
use bytes::Bytes;
use proptest::prelude::*;

use super::{Block, BlockBuilder, BlockError, Codec, Packer};
use crate::{
    Direction,
    suite::{
        fixture::{item_key, position, series},
        model::Rows,
    },
};

const CODECS: [Codec; 3] = [Codec::None, Codec::Lz4, Codec::Zstd { level: 1 }];

/// Rows in table order: equal and extreme times, ids that begin with each other and long ones, events of several
/// items, values and metadata that are empty, absent, noise or text.
pub(crate) fn any_history(most_events: usize) -> impl Strategy<Value = Vec<Row>> {
    let time = prop_oneof![
        4 => 0i64..4,
        2 => (0i64..1000).prop_map(|milliseconds| 1_774_692_000_000_000_000 + milliseconds * 1_000_000),
        1 => any::<i64>(),
    ];
    let id = prop_oneof![6 => "[a-b\u{1}é日]{1,6}", 3 => "event-00[0-9]{3}", 1 => "[ab]{1}x{300,4000}"];
    let value = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..30),
        2 => (0usize..20).prop_map(|times| b"{\"status\":\"done\"}".repeat(times)),
    ];
    let metadata = prop::option::of(prop::collection::vec(any::<u8>(), 0..4));
    let items = prop::collection::btree_map("[a-d\u{1}é]{1,3}", (value, metadata), 1..5);
    prop::collection::btree_map((time, id), items, 1..most_events).prop_map(rows_of)
}

type Items = BTreeMap<String, (Vec<u8>, Option<Vec<u8>>)>;

fn rows_of(events: BTreeMap<(i64, String), Items>) -> Vec<Row> {
    let rows = events.into_iter().flat_map(|((time, id), items)| {
        items.into_iter().map(move |(key, (value, metadata))| Row {
            position: position(time, &id),
            item: Item { key: item_key(&key), value: Bytes::from(value), metadata: metadata.map(Bytes::from) },
        })
    });
    Rows::new(rows.collect()).as_slice().to_vec()
}

/// One block of all rows.
fn packed(rows: &[Row], codec: Codec) -> Row {
    let mut builder = BlockBuilder::new(usize::MAX, codec);
    for event in rows.chunk_by(|left, right| left.position == right.position) {
        builder.push(event).unwrap();
    }
    builder.finish(None).unwrap()
}

/// What a piece stores for rows.
pub(crate) fn stored(rows: &[Row], target_bytes: usize, codec: Codec) -> Vec<Row> {
    let (mut packer, mut out) = (Packer::new(target_bytes, codec), Vec::new());
    rows.iter().for_each(|row| packer.push(row.clone(), &mut out).unwrap());
    packer.finish(&mut out).unwrap();
    out
}

/// The rows that a piece holds, in table order.
fn unpacked(stored: &[Row]) -> Vec<Row> {
    let mut rows = Vec::new();
    for row in stored {
        match row.item.key.is_block() {
            true => rows.extend(all_rows(&Block::open(row).unwrap()).unwrap()),
            false => rows.push(row.clone()),
        }
    }
    rows
}

fn all_rows(block: &Block) -> Result<Vec<Row>, BlockError> {
    Ok(block.rows(0..usize::MAX, Direction::Forward)?.collect())
}

fn checksum(rows: &[Row]) -> Checksum {
    let mut sum = Checksum::default();
    rows.iter().for_each(|row| sum.add(&series("s"), row));
    sum
}

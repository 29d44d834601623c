//! Real rows through the block packer: how many bytes and blocks they become. A row becomes an event, and each of its
//! values an item, as an import would have it.

use anabranch_model::{EventId, EventItemKey, Item, Position, Row, SplitSettings};
use anabranch_store::{Codec, PackError, Packer};
use anabranch_store_cassandra::foreign::{rows::ForeignRow, schema::ForeignSchema};
use bytes::Bytes;

use crate::report::{Packed, PackedBy};

/// Of a key that is longer than an id may be, this much tells rows apart well enough to be packed.
const MOST_ID_BYTES: usize = 200;

/// What rows of one partition would be packed to. `None` when there is nothing to pack.
pub(crate) fn pack(schema: &ForeignSchema, rows: &[ForeignRow]) -> Option<Packed> {
    let mut items: Vec<Row> = rows.iter().flat_map(|row| items_of(schema, row)).collect();
    items.sort_by(|one, other| {
        other.position.cmp(&one.position).then_with(|| one.item.key.as_str().cmp(other.item.key.as_str()))
    });
    items.dedup_by(|one, other| one.position == other.position && one.item.key == other.item.key);
    if items.is_empty() {
        return None;
    }
    let target = SplitSettings::default().block_bytes as usize;
    let by = |codec| pack_with(&items, target, codec).ok();
    Some(Packed {
        rows: rows.len() as u64,
        bytes: items.iter().map(|row| row.bytes() as u64).sum(),
        block_bytes: target as u64,
        lz4: by(Codec::Lz4)?,
        zstd: by(Codec::Zstd { level: 1 })?,
    })
}

fn items_of<'a>(schema: &'a ForeignSchema, row: &'a ForeignRow) -> impl Iterator<Item = Row> + 'a {
    let position = Position { time: row.time, id: id_of(schema, row) };
    let there = schema.regular.iter().zip(&row.values).filter_map(|(column, value)| Some((column, value.clone()?)));
    let mut items: Vec<Row> = there
        .filter_map(|(column, value)| {
            let key = EventItemKey::new(column.name.clone()).ok()?;
            Some(Row { position: position.clone(), item: Item { key, value, metadata: None } })
        })
        .collect();
    if items.is_empty() {
        // A row may be nothing but its key.
        let key = EventItemKey::new("row").expect("a plain word is a key");
        items.push(Row { position, item: Item { key, value: Bytes::new(), metadata: None } });
    }
    items.into_iter()
}

/// Tells rows of one time apart: what comes after the time in the key; of a UUID, all of it.
fn id_of(schema: &ForeignSchema, row: &ForeignRow) -> EventId {
    let time = schema.time();
    let whole = usize::from(schema.clustering[time.index].data_type != "timeuuid");
    let parts = row.clustering[time.index + whole..].iter();
    let texts: Vec<String> = parts
        .map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains(char::is_control) => text.to_owned(),
            _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
        .collect();
    let mut id = texts.join(":");
    if id.len() > MOST_ID_BYTES {
        let end = (0..=MOST_ID_BYTES).rev().find(|end| id.is_char_boundary(*end)).unwrap_or(0);
        id.truncate(end);
    }
    EventId::new(id).unwrap_or_else(|_| EventId::new("row").expect("a plain word is an id"))
}

fn pack_with(items: &[Row], target: usize, codec: Codec) -> Result<PackedBy, PackError> {
    let mut packer = Packer::new(target, codec);
    let mut out = Vec::new();
    for row in items {
        packer.push(row.clone(), &mut out)?;
    }
    packer.finish(&mut out)?;
    Ok(PackedBy { bytes: out.iter().map(|row| row.bytes() as u64).sum(), rows: out.len() as u64 })
}

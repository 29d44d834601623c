//! Real rows through the block packer: how many bytes and blocks they become. A row becomes an event, and each of its
//! values an item, as an import would have it.

use std::collections::BTreeMap;

use anabranch_model::{EventId, EventItemKey, Item, Position, Row, SplitSettings};
use anabranch_store::{Codec, PackError, Packer};
use anabranch_store_cassandra::foreign::{rows::ForeignRow, schema::ForeignSchema};
use bytes::Bytes;

use crate::report::{Packed, PackedBy};

/// Ids are hardly ever longer: of a key that is, this much is taken.
const MOST_ID_BYTES: usize = 200;

/// What rows of one partition would be packed to, each of its series by itself. `None` when there is nothing to pack.
pub(crate) fn pack(schema: &ForeignSchema, rows: &[ForeignRow]) -> Option<Packed> {
    let mut series: BTreeMap<&[Bytes], Events> = BTreeMap::new();
    for row in rows {
        series.entry(&row.clustering[..schema.time().index]).or_default().take(schema, row);
    }
    if series.is_empty() {
        return None;
    }
    let rows: usize = series.values().map(|events| events.0.len()).sum();
    let series: Vec<Vec<Row>> = series.values().map(|events| events.items(schema)).collect();
    let target = SplitSettings::default().block_bytes as usize;
    let by = |codec| pack_with(&series, target, codec).ok();
    Some(Packed {
        rows: rows as u64,
        bytes: series.iter().flatten().map(|row| row.bytes() as u64).sum(),
        block_bytes: target as u64,
        lz4: by(Codec::Lz4)?,
        zstd: by(Codec::Zstd { level: 1 })?,
    })
}

/// The rows of a series, each at a position of its own.
#[derive(Default)]
struct Events<'a>(BTreeMap<Position, &'a ForeignRow>);

impl<'a> Events<'a> {
    fn take(&mut self, schema: &ForeignSchema, row: &'a ForeignRow) {
        let mut position = Position { time: row.time, id: id_of(schema, row) };
        match self.0.get(&position) {
            // Read twice.
            Some(there) if there.clustering == row.clustering => return,
            // Another row, of which an id is too short a name, or a time too coarse.
            Some(_) => position.id = numbered(&position.id, self.0.len()),
            None => {}
        }
        self.0.insert(position, row);
    }

    /// Newest first, as they are packed.
    fn items(&self, schema: &ForeignSchema) -> Vec<Row> {
        self.0.iter().rev().flat_map(|(position, row)| items_of(schema, position, row)).collect()
    }
}

fn items_of(schema: &ForeignSchema, position: &Position, row: &ForeignRow) -> Vec<Row> {
    let there = schema.regular.iter().zip(&row.values).filter_map(|(column, value)| Some((column, value.clone()?)));
    let mut items: Vec<Row> = there
        .filter_map(|(column, value)| {
            let key = EventItemKey::new(column.name.clone()).ok()?;
            Some(Row { position: position.clone(), item: Item { key, value, metadata: None } })
        })
        .collect();
    items.sort_by(|one, other| one.item.key.cmp(&other.item.key));
    if items.is_empty() {
        // A row may be nothing but its key.
        let key = EventItemKey::new("row").expect("a plain word is a key");
        items.push(Row { position: position.clone(), item: Item { key, value: Bytes::new(), metadata: None } });
    }
    items
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

fn numbered(id: &EventId, number: usize) -> EventId {
    EventId::new(format!("{id}~{number}")).unwrap_or_else(|_| id.clone())
}

fn pack_with(series: &[Vec<Row>], target: usize, codec: Codec) -> Result<PackedBy, PackError> {
    let mut out = Vec::new();
    for items in series {
        let mut packer = Packer::new(target, codec);
        for row in items {
            packer.push(row.clone(), &mut out)?;
        }
        packer.finish(&mut out)?;
    }
    Ok(PackedBy { bytes: out.iter().map(|row| row.bytes() as u64).sum(), rows: out.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{BODY, row, schema};

    #[test]
    fn every_value_before_the_time_is_a_series_whose_rows_are_all_packed() {
        let schema = schema(&[("metric", "text"), ("at", "timestamp")]);
        let rows: Vec<ForeignRow> = ["heat", "load", "speed", "strain"]
            .iter()
            .flat_map(|metric| (0..500_i64).map(|at| row(at, &[metric.as_bytes(), &at.to_be_bytes()])))
            .collect();
        let packed = pack(&schema, &rows).unwrap();
        assert_eq!(packed.rows, 2000);
        assert!(packed.bytes >= 2000 * BODY.len() as u64, "{packed:?}");
        let one = pack(&schema, &rows[..500]).unwrap();
        assert_eq!((packed.bytes, packed.lz4.bytes), (4 * one.bytes, 4 * one.lz4.bytes), "no series is left out");
        assert_eq!(packed.lz4.rows, 4 * one.lz4.rows);
    }

    #[test]
    fn only_a_row_that_was_read_twice_is_dropped() {
        let schema = schema(&[("at", "timestamp"), ("id", "text")]);
        let at = 7_i64.to_be_bytes();
        let long = |end: &str| format!("{}{end}", "x".repeat(2 * MOST_ID_BYTES)).into_bytes();
        let all: Vec<ForeignRow> = [b"a".to_vec(), b"b".to_vec(), long("1"), long("2"), Vec::new(), b"row".to_vec()]
            .iter()
            .map(|id| row(7, &[&at, id]))
            .collect();
        let packed = pack(&schema, &all).unwrap();
        assert_eq!(packed.rows, 6, "names that are alike where they are cut are still names of two rows");
        assert!(packed.bytes >= 6 * BODY.len() as u64, "{packed:?}");
        let twice: Vec<ForeignRow> = all.iter().chain(&all[..2]).cloned().collect();
        assert_eq!(pack(&schema, &twice).unwrap().rows, 6);
        assert!(pack(&schema, &[]).is_none());
    }
}

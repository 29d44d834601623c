//! How rows, the spans of scans and documents become bytes.
//!
//! The key of a row is [`anabranch_model::key`]'s. Its value is
//!
//! ```text
//! marker | metadata | value        marker: LEB128 of 0 when metadata is absent, of its length + 1 when it isn't
//! ```
//!
//! so absent and empty metadata stay apart, and both parts can be cut out without a copy. A document is its version
//! (8 bytes, big-endian), then its value, under `scope 00 name`.

use std::ops::{Bound, Range};

use anabranch_model::{
    EventItemKey, Interval, Item, PartitionKey, Position, Row, RowKey, TableName, Timestamp,
    key::{decode_row, encode_partition, encode_position, encode_row, encode_time},
};
use anabranch_store::{After, Direction, MetaKey, PartitionBatch, ScanSpan, StoreError, Version, Versioned};
use bytes::{Buf, Bytes};

use crate::error::refused;

/// fjall's limit for keys.
pub(crate) const MAX_KEY_BYTES: usize = u16::MAX as usize;
/// Well below fjall's limit for values.
const MAX_VALUE_BYTES: usize = 1 << 30;
/// Rows of a batch share buffers of this size: an allocation for hundreds of rows, while a row that someone keeps never
/// holds on to much more than itself.
const CHUNK_BYTES: usize = 64 * 1024;

/// Keys and values of rows.
pub(crate) type EncodedRows = Vec<(Bytes, Bytes)>;

/// The rows of a batch, ready for the committer.
pub(crate) struct EncodedBatch {
    pub(crate) table: TableName,
    pub(crate) rows: EncodedRows,
    pub(crate) bytes: usize,
}

impl EncodedBatch {
    pub(crate) fn new(batch: PartitionBatch) -> Result<Self, StoreError> {
        if batch.rows.is_empty() {
            return Err(refused("a batch without rows"));
        }
        let prefix = partition_prefix(&batch.partition);
        let mut rows = Vec::with_capacity(batch.rows.len());
        let mut chunk = Chunk::default();
        let mut left: usize = batch.rows.iter().map(|row| encoded_bytes(&prefix, row)).sum();
        let bytes = left;
        for row in &batch.rows {
            let size = encoded_bytes(&prefix, row);
            if value_bytes(&row.item) > MAX_VALUE_BYTES || size - value_bytes(&row.item) > MAX_KEY_BYTES {
                return Err(refused(format!("a row of {size} bytes is too large")));
            }
            if chunk.bytes.capacity() - chunk.bytes.len() < size {
                chunk.cut(&mut rows);
                chunk.bytes.reserve_exact(size.max(left.min(CHUNK_BYTES)));
            }
            chunk.push(&prefix, row);
            left -= size;
        }
        chunk.cut(&mut rows);
        Ok(EncodedBatch { table: batch.table, rows, bytes })
    }
}

/// A buffer under way, and where the rows in it end.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Chunk {
    fn push(&mut self, prefix: &[u8], row: &Row) {
        self.bytes.extend_from_slice(prefix);
        encode_position(&row.position, &mut self.bytes);
        self.bytes.extend_from_slice(row.item.key.as_str().as_bytes());
        let key_end = self.bytes.len();
        encode_value(&row.item, &mut self.bytes);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn cut(&mut self, rows: &mut EncodedRows) {
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        let mut start = 0;
        for (key_end, end) in self.ends.drain(..) {
            rows.push((bytes.slice(start..key_end), bytes.slice(key_end..end)));
            start = end;
        }
    }
}

fn encoded_bytes(prefix: &[u8], row: &Row) -> usize {
    prefix.len() + 8 + row.position.id.len() + 1 + row.item.key.len() + value_bytes(&row.item)
}

fn value_bytes(item: &Item) -> usize {
    let metadata = item.metadata.as_ref().map_or(0, Bytes::len);
    marker_bytes(marker(item)) + metadata + item.value.len()
}

fn marker(item: &Item) -> u64 {
    item.metadata.as_ref().map_or(0, |metadata| metadata.len() as u64 + 1)
}

fn marker_bytes(marker: u64) -> usize {
    (64 - (marker | 1).leading_zeros() as usize).div_ceil(7)
}

fn encode_value(item: &Item, out: &mut Vec<u8>) {
    let mut rest = marker(item);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out.extend_from_slice(item.metadata.as_deref().unwrap_or_default());
    out.extend_from_slice(&item.value);
}

/// Where metadata begins and ends; `None` when these bytes are no value of a row.
fn split_value(bytes: &[u8]) -> Option<(Option<Range<usize>>, usize)> {
    let mut marker = 0u64;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        marker |= u64::from(byte & 0x7F) << (7 * index);
        if *byte < 0x80 {
            let start = index + 1;
            let Some(length) = marker.checked_sub(1) else { return Some((None, start)) };
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            return (end <= bytes.len()).then_some((Some(start..end), end));
        }
    }
    None
}

/// A stored value's metadata and value, without a copy.
fn decode_value(mut bytes: Bytes) -> Option<(Option<Bytes>, Bytes)> {
    let (metadata, end) = split_value(&bytes)?;
    let metadata = metadata.map(|range| bytes.slice(range));
    bytes.advance(end);
    Some((metadata, bytes))
}

/// A row from what follows the partition in its key, and its value.
pub(crate) fn decode(suffix: &[u8], value: Bytes) -> Option<Row> {
    let (position, key) = decode_row(suffix)?;
    let (metadata, value) = decode_value(value)?;
    Some(Row { position, item: Item { key, value, metadata } })
}

/// [`Row::bytes`] of a stored row, without building it.
pub(crate) fn row_bytes(suffix: &[u8], value: &[u8]) -> Option<u64> {
    let (metadata, end) = split_value(value)?;
    let payload = metadata.map_or(0, |range| range.len()) + value.len() - end;
    // Time, id and item key as they are; the byte between the latter two doesn't count.
    Some((suffix.len().checked_sub(1)? + payload) as u64)
}

/// The bytes that all keys of a partition begin with.
pub(crate) fn partition_prefix(partition: &PartitionKey) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(partition.series.len() + 64);
    encode_partition(partition, &mut prefix);
    prefix
}

/// The keys that a scan covers, half-open; `None` when there can't be any.
pub(crate) fn span_keys(prefix: &[u8], span: &ScanSpan, direction: Direction) -> Option<Range<Vec<u8>>> {
    let keys = match span {
        ScanSpan::Interval { interval, .. } if interval.is_empty() => return None,
        ScanSpan::Interval { interval, after } => after_keys(interval_keys(prefix, interval), prefix, after, direction),
        ScanSpan::Event { position, from } => event_keys(prefix, position, from.as_ref(), direction),
    };
    (keys.start < keys.end).then_some(keys)
}

/// Latest first: the interval's end is where its keys begin.
fn interval_keys(prefix: &[u8], interval: &Interval) -> Range<Vec<u8>> {
    let at = |nanos| with(prefix, |out| encode_time(Timestamp::from_nanos(nanos), out));
    let end = match interval.start.nanos().checked_sub(1) {
        Some(before) => at(before),
        None => with(prefix, |out| out.extend_from_slice(&[0xFF; 9])), // no id begins with the inverse of NUL
    };
    at(interval.end.nanos() - 1)..end // not empty, so its end isn't the least number
}

fn after_keys(keys: Range<Vec<u8>>, prefix: &[u8], after: &Option<After>, direction: Direction) -> Range<Vec<u8>> {
    match (direction, after) {
        (_, None) => keys,
        (Direction::Forward, Some(After::Event(position))) => keys.start.max(event_end(prefix, position))..keys.end,
        (Direction::Forward, Some(After::Row(row))) => keys.start.max(next(row_key(prefix, row)))..keys.end,
        (Direction::Backward, Some(After::Event(position))) => keys.start..keys.end.min(event_start(prefix, position)),
        (Direction::Backward, Some(After::Row(row))) => keys.start..keys.end.min(row_key(prefix, row)),
    }
}

fn event_keys(prefix: &[u8], position: &Position, from: Bound<&EventItemKey>, direction: Direction) -> Range<Vec<u8>> {
    let (start, end) = (event_start(prefix, position), event_end(prefix, position));
    let item = |key: &EventItemKey| with(&start, |out| out.extend_from_slice(key.as_str().as_bytes()));
    match (direction, from) {
        (_, Bound::Unbounded) => start..end,
        (Direction::Forward, Bound::Included(first)) => item(first)..end,
        (Direction::Forward, Bound::Excluded(behind)) => next(item(behind))..end,
        (Direction::Backward, Bound::Included(first)) => start.clone()..next(item(first)),
        (Direction::Backward, Bound::Excluded(behind)) => start.clone()..item(behind),
    }
}

fn event_start(prefix: &[u8], position: &Position) -> Vec<u8> {
    with(prefix, |out| encode_position(position, out))
}

/// Above all items of an event: no byte of UTF-8 is 0xFF.
fn event_end(prefix: &[u8], position: &Position) -> Vec<u8> {
    let mut key = event_start(prefix, position);
    key.push(0xFF);
    key
}

fn row_key(prefix: &[u8], row: &RowKey) -> Vec<u8> {
    with(prefix, |out| encode_row(row, out))
}

fn with(prefix: &[u8], add: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(prefix.len() + 64);
    out.extend_from_slice(prefix);
    add(&mut out);
    out
}

/// The next key that there could be.
pub(crate) fn next(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The first key above all that begin with `prefix`; `None` when there is none.
pub(crate) fn above(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < 0xFF {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

/// The key of a document. A scope ends at its NUL, so it may hold none.
pub(crate) fn document_key(key: &MetaKey) -> Result<Vec<u8>, StoreError> {
    let mut bytes = scope_prefix(&key.scope)?;
    bytes.extend_from_slice(key.name.as_bytes());
    if bytes.len() > MAX_KEY_BYTES {
        return Err(refused(format!("a document's name of {} bytes is too long", key.name.len())));
    }
    Ok(bytes)
}

/// The bytes that the keys of all documents of a scope begin with.
pub(crate) fn scope_prefix(scope: &str) -> Result<Vec<u8>, StoreError> {
    if scope.is_empty() || scope.contains('\0') {
        return Err(refused("the scope of a document must not be empty or contain U+0000"));
    }
    let mut bytes = Vec::with_capacity(scope.len() + 64);
    bytes.extend_from_slice(scope.as_bytes());
    bytes.push(0);
    Ok(bytes)
}

/// The bytes of a document.
pub(crate) fn encode_document(version: Version, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + value.len());
    bytes.extend_from_slice(&version.0.to_be_bytes());
    bytes.extend_from_slice(value);
    bytes
}

/// A document from its bytes, without a copy.
pub(crate) fn decode_document(mut bytes: Bytes) -> Option<Versioned> {
    let version = bytes.try_get_u64().ok()?;
    Some(Versioned { version: Version(version), value: bytes })
}

#[cfg(test)]
mod tests {
    use anabranch_model::{EventBucket, EventId, NamespaceName, TimeBucket, TimeSeriesId};
    use proptest::prelude::*;

    use super::*;

    fn any_row() -> impl Strategy<Value = Row> {
        let metadata = prop::option::of(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..4),
            prop::collection::vec(any::<u8>(), 125..130),
        ]);
        let value = prop::collection::vec(any::<u8>(), 0..40);
        (any::<i64>(), "[^\0]{1,8}", "[^\0]{1,8}", value, metadata).prop_map(|(time, id, key, value, metadata)| Row {
            position: Position { time: Timestamp::from_nanos(time), id: EventId::new(id).unwrap() },
            item: Item {
                key: EventItemKey::new(key).unwrap(),
                value: value.into(),
                metadata: metadata.map(Bytes::from),
            },
        })
    }

    fn batch(rows: Vec<Row>) -> PartitionBatch {
        PartitionBatch {
            table: TableName { namespace: NamespaceName::new("plays").unwrap(), table: "data_20260328".to_owned() },
            partition: PartitionKey {
                series: TimeSeriesId::new("profile:123").unwrap(),
                time_bucket: TimeBucket(7),
                event_bucket: EventBucket(2),
            },
            rows,
            write_time_micros: 0,
        }
    }

    proptest! {
        #[test]
        fn rows_survive_storage(rows in prop::collection::vec(any_row(), 1..20)) {
            let batch = batch(rows.clone());
            let prefix = partition_prefix(&batch.partition);
            let encoded = EncodedBatch::new(batch).unwrap();
            let sizes: usize = encoded.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
            prop_assert_eq!(encoded.bytes, sizes);
            for (row, (key, value)) in rows.iter().zip(&encoded.rows) {
                let suffix = key.strip_prefix(prefix.as_slice()).unwrap();
                prop_assert_eq!(row_bytes(suffix, value), Some(row.bytes() as u64));
                let decoded = decode(suffix, value.clone());
                prop_assert_eq!(decoded.as_ref(), Some(row));
            }
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes: Vec<u8>) {
            let bytes = Bytes::from(bytes);
            let _ = decode_value(bytes.clone());
            let _ = row_bytes(&bytes, &bytes);
            let _ = decode(&bytes, bytes.clone());
            let _ = decode_document(bytes);
        }

        #[test]
        fn above_is_the_end_of_a_prefix(prefix in prop::collection::vec(250u8.., 1..4), tail: Vec<u8>) {
            let key = [prefix.clone(), tail].concat();
            prop_assert!(above(prefix.clone()).is_none_or(|end| key < end && !end.starts_with(&prefix)));
        }
    }

    #[test]
    fn absent_metadata_is_not_empty_metadata() {
        let item = |metadata: Option<&'static [u8]>| Item {
            key: EventItemKey::new("k").unwrap(),
            value: Bytes::from_static(b"v"),
            metadata: metadata.map(Bytes::from_static),
        };
        let encoded = |item: &Item| {
            let mut out = Vec::new();
            encode_value(item, &mut out);
            out
        };
        assert_eq!(encoded(&item(None)), b"\x00v");
        assert_eq!(encoded(&item(Some(b""))), b"\x01v");
        assert_eq!(encoded(&item(Some(b"m"))), b"\x02mv");
    }

    #[test]
    fn rows_of_all_sizes_share_chunks() {
        let row = |index: i64, size: usize| Row {
            position: Position { time: Timestamp::from_nanos(index), id: EventId::new("e").unwrap() },
            item: Item { key: EventItemKey::new("k").unwrap(), value: vec![7; size].into(), metadata: None },
        };
        let sizes = [10, 70_000, 0, 65_536, 300, 40_000, 40_000, 1];
        let rows: Vec<Row> = (0..).zip(sizes).map(|(index, size)| row(index, size)).collect();
        let batch = batch(rows.clone());
        let prefix = partition_prefix(&batch.partition);
        let encoded = EncodedBatch::new(batch).unwrap();
        let decoded: Vec<Row> =
            encoded.rows.iter().map(|(key, value)| decode(&key[prefix.len()..], value.clone()).unwrap()).collect();
        assert_eq!(decoded, rows);
    }
}

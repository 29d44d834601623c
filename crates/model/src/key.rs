//! Partition keys, and the order-preserving row key of back ends that are ordered maps of bytes.
//!
//! ```text
//! token(4) series 00 time_bucket(4) event_bucket(4) | !time(8) !event_id FF | event_item_key
//! ```
//!
//! Numbers are big-endian; `time` has its sign bit flipped, then it and `event_id` are inverted, so that
//! bytes ascend where positions descend (latest first) and items ascend by key. The token is the upper half of the
//! xxh3-64 of the series: tables are in token order, so that a random token is a fair sample of partitions,
//! while all partitions of a series lie side by side.

use xxhash_rust::xxh3::xxh3_64;

use crate::{EventBucket, EventId, EventItemKey, IdError, Position, RowKey, TimeBucket, TimeSeriesId, Timestamp};

/// Names a partition within its table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    /// Whose history.
    pub series: TimeSeriesId,
    /// Which span of the slice.
    pub time_bucket: TimeBucket,
    /// Which of the span's buckets.
    pub event_bucket: EventBucket,
}

/// The token of a series: its place in a table's order.
pub fn series_token(series: &TimeSeriesId) -> u32 {
    (xxh3_64(series.as_str().as_bytes()) >> 32) as u32
}

/// The bytes that all keys of a series begin with.
pub fn encode_series(series: &TimeSeriesId, out: &mut Vec<u8>) {
    out.extend_from_slice(&series_token(series).to_be_bytes());
    out.extend_from_slice(series.as_str().as_bytes());
    out.push(0);
}

/// The bytes that all row keys of a partition begin with.
pub fn encode_partition(partition: &PartitionKey, out: &mut Vec<u8>) {
    encode_series(&partition.series, out);
    out.extend_from_slice(&partition.time_bucket.0.to_be_bytes());
    out.extend_from_slice(&partition.event_bucket.0.to_be_bytes());
}

/// The bytes that a time begins with, after the partition's.
pub fn encode_time(time: Timestamp, out: &mut Vec<u8>) {
    let ordered = (time.nanos() as u64) ^ (1 << 63);
    out.extend_from_slice(&(!ordered).to_be_bytes());
}

/// The bytes that all items of an event share, after the partition's.
pub fn encode_position(position: &Position, out: &mut Vec<u8>) {
    encode_time(position.time, out);
    out.extend(position.id.as_str().bytes().map(|byte| !byte));
    out.push(0xFF);
}

/// The rest of a row's key, after the partition's bytes.
pub fn encode_row(key: &RowKey, out: &mut Vec<u8>) {
    encode_position(&key.position, out);
    out.extend_from_slice(key.item_key.as_str().as_bytes());
}

/// Reads back what [`encode_row`] wrote: position and item key, which is empty for a block. `None` when these bytes
/// aren't such a key.
pub fn decode_row(bytes: &[u8]) -> Option<(Position, EventItemKey)> {
    let (time, rest) = bytes.split_first_chunk::<8>()?;
    let time = Timestamp::from_nanos((!u64::from_be_bytes(*time) ^ (1 << 63)) as i64);
    let end = rest.iter().position(|byte| *byte == 0xFF)?;
    let item_key = match &rest[end + 1..] {
        [] => EventItemKey::block(),
        key => EventItemKey::new(std::str::from_utf8(key).ok()?).ok()?,
    };
    Some((Position { time, id: decode_id(&rest[..end])? }, item_key))
}

/// Turns the inverted bytes of an id back; most fit where they cost no allocation.
fn decode_id(inverted: &[u8]) -> Option<EventId> {
    let mut short = [0; 64];
    let mut long = Vec::new();
    let bytes = match short.get_mut(..inverted.len()) {
        Some(short) => short,
        None => {
            long.resize(inverted.len(), 0);
            &mut long[..]
        }
    };
    bytes.iter_mut().zip(inverted).for_each(|(byte, inverted)| *byte = !inverted);
    EventId::new(std::str::from_utf8(bytes).ok()?).ok()
}

/// Reads the partition that a row's key begins with, and how many bytes it takes there.
pub fn decode_partition(bytes: &[u8]) -> Option<(PartitionKey, usize)> {
    let end = 4 + bytes.get(4..)?.iter().position(|byte| *byte == 0)?;
    let series: Result<TimeSeriesId, IdError> = TimeSeriesId::new(std::str::from_utf8(&bytes[4..end]).ok()?);
    let (time_bucket, rest) = bytes.get(end + 1..)?.split_first_chunk::<4>()?;
    let (event_bucket, _) = rest.split_first_chunk::<4>()?;
    let partition = PartitionKey {
        series: series.ok()?,
        time_bucket: TimeBucket(u32::from_be_bytes(*time_bucket)),
        event_bucket: EventBucket(u32::from_be_bytes(*event_bucket)),
    };
    Some((partition, end + 9))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_row_key() -> impl Strategy<Value = RowKey> {
        (any::<i64>(), "[a-c\u{1}\u{7f}é]{1,4}", "[a-c\u{1}é]{0,3}").prop_map(|(time, id, key)| RowKey {
            position: Position { time: Timestamp::from_nanos(time % 3), id: EventId::new(id).unwrap() },
            item_key: EventItemKey::new(key).unwrap_or(EventItemKey::block()),
        })
    }

    fn encoded(key: &RowKey) -> Vec<u8> {
        let mut out = Vec::new();
        encode_row(key, &mut out);
        out
    }

    proptest! {
        #[test]
        fn keys_sort_latest_first_then_items_ascending(left in any_row_key(), right in any_row_key()) {
            let expected = right.position.cmp(&left.position).then_with(|| left.item_key.cmp(&right.item_key));
            prop_assert_eq!(encoded(&left).cmp(&encoded(&right)), expected);
        }

        #[test]
        fn times_keep_their_order_over_the_whole_range(left in any::<i64>(), right in any::<i64>()) {
            let bytes = |nanos| { let mut out = Vec::new(); encode_time(Timestamp::from_nanos(nanos), &mut out); out };
            prop_assert_eq!(bytes(left).cmp(&bytes(right)), right.cmp(&left));
        }

        #[test]
        fn row_keys_survive_encoding(key in any_row_key()) {
            prop_assert_eq!(decode_row(&encoded(&key)), Some((key.position, key.item_key)));
        }

        #[test]
        fn partitions_survive_encoding(series in "[^\0]{1,8}", time_bucket: u32, event_bucket: u32, tail: Vec<u8>) {
            let partition = PartitionKey {
                series: TimeSeriesId::new(series).unwrap(),
                time_bucket: TimeBucket(time_bucket),
                event_bucket: EventBucket(event_bucket),
            };
            let mut bytes = Vec::new();
            encode_partition(&partition, &mut bytes);
            let length = bytes.len();
            bytes.extend(tail);
            prop_assert_eq!(decode_partition(&bytes), Some((partition, length)));
        }

        #[test]
        fn decoding_survives_any_bytes(bytes: Vec<u8>) {
            let _ = decode_row(&bytes);
            let _ = decode_partition(&bytes);
        }
    }

    /// Part of the format of every embedded store on disk.
    #[test]
    fn key_vector() {
        let mut bytes = Vec::new();
        let partition = PartitionKey {
            series: TimeSeriesId::new("profile:123").unwrap(),
            time_bucket: TimeBucket(7),
            event_bucket: EventBucket(2),
        };
        encode_partition(&partition, &mut bytes);
        let position = Position { time: Timestamp::from_nanos(1), id: EventId::new("e").unwrap() };
        encode_row(&RowKey { position, item_key: EventItemKey::new("k").unwrap() }, &mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "bdbab88370726f66696c653a3132330000000007000000027ffffffffffffffe9aff6b");
    }
}

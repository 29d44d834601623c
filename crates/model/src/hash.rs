//! The two hashes of the format, and the checksum made of the second. All are part of the format: other
//! languages compute them too, so they never change.

use xxhash_rust::{xxh3, xxh3::Xxh3Default};

use crate::{Position, Row, TimeSeriesId};

/// `h`: xxh3-64 with seed 0 over `event_time` (big-endian i64), then `event_id`. Picks the event bucket.
pub fn event_hash(position: &Position) -> u64 {
    let id = position.id.as_str().as_bytes();
    let time = position.time.nanos().to_be_bytes();
    if id.len() <= 56 {
        // One-shot over a stack buffer: several times as fast as streaming for ids of usual length.
        let mut buffer = [0u8; 64];
        buffer[..8].copy_from_slice(&time);
        buffer[8..8 + id.len()].copy_from_slice(id);
        return xxh3::xxh3_64(&buffer[..8 + id.len()]);
    }
    let mut hasher = Xxh3Default::new();
    hasher.update(&time);
    hasher.update(id);
    hasher.digest()
}

/// A row's hash: xxh3-128 with seed 0 over `time_series_id`, `event_time` (big-endian i64), `event_id`,
/// `event_item_key`, value and metadata; each variable part led by its length as big-endian u32, absent
/// metadata as `0xFFFFFFFF`. Bucket columns and write times are never part of it.
pub fn row_hash(series: &TimeSeriesId, row: &Row) -> u128 {
    let mut hasher = Xxh3Default::new();
    update_part(&mut hasher, series.as_str().as_bytes());
    hasher.update(&row.position.time.nanos().to_be_bytes());
    update_part(&mut hasher, row.position.id.as_str().as_bytes());
    update_part(&mut hasher, row.item.key.as_str().as_bytes());
    update_part(&mut hasher, &row.item.value);
    match &row.item.metadata {
        Some(metadata) => update_part(&mut hasher, metadata),
        None => hasher.update(&u32::MAX.to_be_bytes()),
    }
    hasher.digest128()
}

fn update_part(hasher: &mut Xxh3Default, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX - 1);
    hasher.update(&length.to_be_bytes());
    hasher.update(bytes);
}

/// The sum of row hashes modulo 2^128, with rows and bytes. It doesn't depend on order and can be computed in
/// parts. It guards against faults, not against attackers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Checksum {
    /// Sum of the row hashes, modulo 2^128.
    pub sum: u128,
    /// How many rows.
    pub rows: u64,
    /// How many bytes, as [`Row::bytes`] counts them.
    pub bytes: u64,
}

impl Checksum {
    /// Takes one row in.
    pub fn add(&mut self, series: &TimeSeriesId, row: &Row) {
        self.sum = self.sum.wrapping_add(row_hash(series, row));
        self.rows += 1;
        self.bytes += row.bytes() as u64;
    }

    /// Takes in what was computed elsewhere over other rows.
    pub fn merge(&mut self, other: &Checksum) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::{EventId, EventItemKey, Item, Timestamp};

    fn position(nanos: i64, id: &str) -> Position {
        Position { time: Timestamp::from_nanos(nanos), id: EventId::new(id).unwrap() }
    }

    fn row(nanos: i64, id: &str, key: &str, value: &'static [u8], metadata: Option<&'static [u8]>) -> Row {
        let item = Item {
            key: EventItemKey::new(key).unwrap(),
            value: Bytes::from_static(value),
            metadata: metadata.map(Bytes::from_static),
        };
        Row { position: position(nanos, id), item }
    }

    /// Computed by another implementation (Python's `xxhash`); if one of these changes, stored rows can't be found.
    #[test]
    fn event_hash_vectors() {
        let long = "x".repeat(100);
        let vectors = [
            (0, "e", VECTOR_A),
            (1_774_692_000_123_456_789, "e-1", VECTOR_B),
            (-1, "ä", VECTOR_C),
            (7, &long, VECTOR_D),
        ];
        for (nanos, id, expected) in vectors {
            assert_eq!(event_hash(&position(nanos, id)), expected, "{nanos} {id}");
        }
    }

    #[test]
    fn row_hash_vectors() {
        let series = TimeSeriesId::new("profile:123").unwrap();
        let with = row(1_774_692_000_123_456_789, "e-1", "title", b"Dune", Some(b"text"));
        let empty = row(1_774_692_000_123_456_789, "e-1", "title", b"Dune", Some(b""));
        let without = row(1_774_692_000_123_456_789, "e-1", "title", b"Dune", None);
        assert_eq!(row_hash(&series, &with), VECTOR_ROW_WITH);
        assert_eq!(row_hash(&series, &empty), VECTOR_ROW_EMPTY);
        assert_eq!(row_hash(&series, &without), VECTOR_ROW_WITHOUT);
    }

    const VECTOR_A: u64 = 0x327061479dd8aaa4;
    const VECTOR_B: u64 = 0x498736e8fe34c08e;
    const VECTOR_C: u64 = 0x31d7d8bfb5bc4794;
    const VECTOR_D: u64 = 0x038fc4d900f75358;
    const VECTOR_ROW_WITH: u128 = 0x29de5efb0aeaf2a0e9f39b956e6649a0;
    const VECTOR_ROW_EMPTY: u128 = 0x6aa1389a94071777b52a2264cfae65b9;
    const VECTOR_ROW_WITHOUT: u128 = 0x0bb1d590fa80d3d05aab89507aeb0152;

    proptest! {
        #[test]
        fn a_checksum_does_not_depend_on_order_or_parts(values in prop::collection::vec(any::<[u8; 4]>(), 0..20), cut in 0usize..20) {
            let series = TimeSeriesId::new("s").unwrap();
            let rows: Vec<Row> = values.iter().enumerate().map(|(at, value)| {
                let mut row = row(at as i64, "e", "k", b"", None);
                row.item.value = Bytes::copy_from_slice(value);
                row
            }).collect();
            let sum = |rows: &mut dyn Iterator<Item = &Row>| {
                let mut sum = Checksum::default();
                rows.for_each(|row| sum.add(&series, row));
                sum
            };
            let whole = sum(&mut rows.iter());
            prop_assert_eq!(whole, sum(&mut rows.iter().rev()));
            let cut = cut.min(rows.len());
            let mut parts = sum(&mut rows[..cut].iter());
            parts.merge(&sum(&mut rows[cut..].iter()));
            prop_assert_eq!(whole, parts);
        }
    }
}

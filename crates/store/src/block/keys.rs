//! The second section of a block: its distinct item keys in order, and which row has which.

use anabranch_model::EventItemKey;

use super::{BlockError, Positions, layout::Section, varint::Cursor};

/// The item keys of a block's rows.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// Ascending, so that keys compare as their indexes do.
    dictionary: Vec<EventItemKey>,
    /// One per row; empty when there is only one key.
    indexes: Vec<u32>,
}

fn malformed(reason: &'static str) -> BlockError {
    BlockError::Malformed { section: Section::Keys, reason }
}

const CUT_SHORT: &str = "cut short";

impl Keys {
    pub(super) fn decode(bytes: &[u8], rows: usize, positions: &Positions) -> Result<Self, BlockError> {
        let mut cursor = Cursor(bytes);
        let dictionary = decode_dictionary(&mut cursor)?;
        let indexes = match dictionary.len() {
            1 => Vec::new(),
            known => decode_indexes(&mut cursor, rows, known)?,
        };
        if !cursor.is_at_end() {
            return Err(malformed("longer than they should be"));
        }
        let keys = Keys { dictionary, indexes };
        if keys.ascend_in_events(rows, positions) { Ok(keys) } else { Err(malformed("they do not ascend")) }
    }

    fn ascend_in_events(&self, rows: usize, positions: &Positions) -> bool {
        if rows == positions.len() {
            return true;
        }
        let ascends =
            |event| self.indexes.get(positions.rows_of(event)).is_some_and(|own| own.is_sorted_by(|a, b| a < b));
        (0..positions.len()).all(ascends)
    }

    /// The key of a row.
    pub(super) fn of_row(&self, row: usize) -> &EventItemKey {
        let index = if self.indexes.is_empty() { 0 } else { self.indexes[row] };
        &self.dictionary[index as usize]
    }

    /// Whether some row has this key.
    pub(super) fn contains(&self, key: &EventItemKey) -> bool {
        self.dictionary.binary_search(key).is_ok()
    }
}

fn decode_dictionary(cursor: &mut Cursor<'_>) -> Result<Vec<EventItemKey>, BlockError> {
    let known = cursor.length().filter(|known| *known > 0).ok_or(malformed("no keys"))?;
    let mut lengths = cursor.column(known).ok_or(malformed(CUT_SHORT))?;
    // The column was there, so that this is no more than the section is long.
    let mut dictionary: Vec<EventItemKey> = Vec::with_capacity(known);
    for _ in 0..known {
        let bytes = lengths.length().and_then(|length| cursor.take(length)).ok_or(malformed(CUT_SHORT))?;
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("a key is not UTF-8"))?;
        let key = EventItemKey::new(text).map_err(|_| malformed("a key is empty, too long or contains U+0000"))?;
        if dictionary.last().is_some_and(|last| *last >= key) {
            return Err(malformed("the dictionary does not ascend"));
        }
        dictionary.push(key);
    }
    Ok(dictionary)
}

fn decode_indexes(cursor: &mut Cursor<'_>, rows: usize, known: usize) -> Result<Vec<u32>, BlockError> {
    let mut column = cursor.column(rows).ok_or(malformed(CUT_SHORT))?;
    let mut indexes = Vec::with_capacity(rows);
    for _ in 0..rows {
        let index = column.length().filter(|index| *index < known).ok_or(malformed("no such key"))?;
        indexes.push(index as u32);
    }
    Ok(indexes)
}

//! The rows of an answer, straight from its bytes: there they lie one after the other, each as the columns that are asked for. The
//! driver goes over every row twice and looks at the types of its columns each time.

use anabranch_model::{EventId, EventItemKey, Item, Position, Row, Timestamp};
use anabranch_store::StoreError;
use bytes::Bytes;
use scylla::{deserialize::row::ColumnIterator, response::query_result::QueryRowsResult};

use crate::error::corrupt;

/// The columns of a row: its time, the event's id, the item's key, and value and metadata as one.
type Columns<'a> = (i64, &'a str, &'a str, (Option<Bytes>, Option<Bytes>));

/// How many bytes say how long a cell is.
const LENGTH_BYTES: usize = size_of::<i32>();

static NOTHING: Bytes = Bytes::new();

/// Rows, one after the other. Values aren't copied: they keep the answer's bytes.
pub(crate) struct Rows<'a> {
    /// The answer.
    frame: &'a Bytes,
    /// What of it is still to be read.
    rest: &'a [u8],
    left: usize,
    /// The key of the row before: most have the same, which needn't be checked again.
    key: EventItemKey,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(answer: &'a QueryRowsResult) -> Result<Rows<'a>, StoreError> {
        let other_columns = |error| corrupt("a table of other columns", error);
        answer.rows::<Columns<'_>>().map_err(other_columns)?;
        let mut rows = answer.rows::<ColumnIterator<'_, '_>>().map_err(other_columns)?;
        let Some(first) = rows.next() else { return Ok(Rows::within(&NOTHING, &[], 0)) };
        let unreadable = |error| corrupt("a row", error);
        let time = first.map_err(unreadable)?.next().transpose().map_err(unreadable)?.and_then(|time| time.slice);
        let time = time.ok_or_else(no_column)?;
        let frame = time.as_original_frame_bytes();
        let begin = time.as_slice().as_ptr().addr().checked_sub(frame.as_ptr().addr() + LENGTH_BYTES);
        let rest = begin.and_then(|begin| frame.get(begin..)).ok_or_else(|| corrupt("a row", "it lies elsewhere"))?;
        Ok(Rows::within(frame, rest, answer.rows_num()))
    }

    fn within(frame: &'a Bytes, rest: &'a [u8], left: usize) -> Rows<'a> {
        Rows { frame, rest, left, key: EventItemKey::block() }
    }

    #[inline]
    fn row(&mut self) -> Result<Row, StoreError> {
        let time = self.column()?.try_into().map_err(|error| corrupt("an event's time", error))?;
        let id = EventId::new(text(self.column()?)?).map_err(|error| corrupt("an event's id", error))?;
        let key = self.column()?;
        if key != self.key.as_str().as_bytes() {
            self.key = match key {
                [] => EventItemKey::block(),
                key => EventItemKey::new(text(key)?).map_err(|error| corrupt("an item's key", error))?,
            };
        }
        let key = self.key.clone();
        let mut both = self.column()?;
        let value = part(&mut both)?.map(|value| self.frame.slice_ref(value)).ok_or_else(no_column)?;
        let metadata = part(&mut both)?.map(|metadata| self.frame.slice_ref(metadata));
        let position = Position { time: Timestamp::from_nanos(i64::from_be_bytes(time)), id };
        Ok(Row { position, item: Item { key, value, metadata } })
    }

    /// The next column, which is never null.
    #[inline]
    fn column(&mut self) -> Result<&'a [u8], StoreError> {
        cell(&mut self.rest)?.ok_or_else(no_column)
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, StoreError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.row())
    }
}

fn no_column() -> StoreError {
    corrupt("a row", "a column is null")
}

fn text(bytes: &[u8]) -> Result<&str, StoreError> {
    std::str::from_utf8(bytes).map_err(|error| corrupt("a text", error))
}

/// The next part of a tuple. One that ends early was written when its type was shorter: the rest is null.
#[inline]
fn part<'a>(tuple: &mut &'a [u8]) -> Result<Option<&'a [u8]>, StoreError> {
    if tuple.is_empty() { Ok(None) } else { cell(tuple) }
}

/// The next cell: its length, then its bytes. A negative length is a null.
#[inline]
fn cell<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, StoreError> {
    let cut_off = || corrupt("a row", "it ends within a cell");
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or_else(cut_off)?;
    let (cell, rest) = match usize::try_from(i32::from_be_bytes(*length)) {
        Ok(length) => rest.split_at_checked(length).map(|(cell, rest)| (Some(cell), rest)).ok_or_else(cut_off)?,
        Err(_) => (None, rest),
    };
    *bytes = rest;
    Ok(cell)
}

#[cfg(test)]
mod tests {
    use anabranch_store::{ErrorKind, suite::fixture::row};
    use bytes::BufMut;

    use super::*;

    fn put(cell: Option<&[u8]>, out: &mut Vec<u8>) {
        match cell {
            Some(cell) => {
                out.put_i32(i32::try_from(cell.len()).expect("a short cell"));
                out.put_slice(cell);
            }
            None => out.put_i32(-1),
        }
    }

    /// A row as a node answers it.
    fn answered(row: &Row, metadata: bool) -> Vec<u8> {
        let (mut tuple, mut out) = (Vec::new(), Vec::new());
        put(Some(&row.item.value), &mut tuple);
        if metadata {
            put(row.item.metadata.as_deref(), &mut tuple);
        }
        put(Some(&row.position.time.nanos().to_be_bytes()), &mut out);
        put(Some(row.position.id.as_str().as_bytes()), &mut out);
        put(Some(row.item.key.as_str().as_bytes()), &mut out);
        put(Some(&tuple), &mut out);
        out
    }

    fn read(answer: Vec<u8>, rows: usize) -> Result<Vec<Row>, StoreError> {
        let frame = Bytes::from(answer);
        Rows::within(&frame, &frame, rows).collect()
    }

    fn rows() -> Vec<Row> {
        let mut block = row(1, "a", "k", "");
        block.item.key = EventItemKey::block();
        let mut described = row(3, "c", "k", "value");
        described.item.metadata = Some(Bytes::new());
        vec![described, row(2, "b", "k", "other"), block, row(0, "a", "key", "")]
    }

    #[test]
    fn rows_are_what_was_answered_also_blocks_and_metadata_that_is_empty_absent_or_left_off() {
        let answer: Vec<u8> =
            rows().iter().zip([true, true, false, true]).flat_map(|(row, all)| answered(row, all)).collect();
        assert_eq!(read(answer, 4).unwrap(), rows());
        assert_eq!(read(Vec::new(), 0).unwrap(), []);
    }

    /// Nobody writes one: it is not an empty value.
    #[test]
    fn a_value_that_is_null_is_corrupt() {
        let mut answer = answered(&row(3, "c", "k", ""), true);
        let value = answer.len() - 8;
        answer[value..value + 4].copy_from_slice(&(-1_i32).to_be_bytes());
        assert_eq!(read(answer, 1).expect_err("it has no value").kind(), ErrorKind::Corrupt);
    }

    /// An answer that is cut off anywhere is told, not taken for a shorter one.
    #[test]
    fn what_ends_early_or_is_no_row_is_corrupt() {
        let whole = rows().iter().flat_map(|row| answered(row, true)).collect::<Vec<_>>();
        for end in 0..whole.len() {
            let error = read(whole[..end].to_vec(), rows().len()).expect_err("it is cut off");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
        for (at, byte) in [(3, 7), (12, 0xff), (16, 0xff), (16, 0)] {
            // The length of the time, that of the id, the id: no text, and one that no key could hold.
            let mut altered = whole.clone();
            altered[at] = byte;
            let error = read(altered, rows().len()).expect_err("it is altered");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
    }
}

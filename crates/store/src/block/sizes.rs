//! The third section of a block: how long values and metadata are, so that where they lie is known before they are
//! decoded.

use std::ops::Range;

use super::{
    BlockError,
    layout::{Layout, Section},
    varint::Cursor,
};

/// Where the values and the metadata of rows lie in their sections.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    value_ends: Vec<u32>,
    /// Where each begins and ends; `None` for a row that has none. Empty when no row has any.
    metadata: Vec<Option<Range<u32>>>,
}

fn malformed(reason: &'static str) -> BlockError {
    BlockError::Malformed { section: Section::Sizes, reason }
}

impl Sizes {
    pub(super) fn decode(bytes: &[u8], layout: &Layout) -> Result<Self, BlockError> {
        let mut cursor = Cursor(bytes);
        let mut value_ends = Vec::with_capacity(layout.rows);
        let values = layout.section(Section::Values).raw;
        let mut end = 0;
        for _ in 0..layout.rows {
            end = advance(end, cursor.length(), values)?;
            value_ends.push(end as u32);
        }
        if end != values {
            return Err(malformed("values are longer than their lengths"));
        }
        let metadata = decode_metadata(&mut cursor, layout)?;
        if !cursor.is_at_end() {
            return Err(malformed("longer than they should be"));
        }
        Ok(Sizes { value_ends, metadata })
    }

    /// Where a row's value lies.
    pub(super) fn value(&self, row: usize) -> Range<usize> {
        let start = if row == 0 { 0 } else { self.value_ends[row - 1] };
        start as usize..self.value_ends[row] as usize
    }

    /// Where a row's metadata lies, if it has any.
    pub(super) fn metadata(&self, row: usize) -> Option<Range<usize>> {
        let range = self.metadata.get(row)?.as_ref()?;
        Some(range.start as usize..range.end as usize)
    }
}

fn decode_metadata(cursor: &mut Cursor<'_>, layout: &Layout) -> Result<Vec<Option<Range<u32>>>, BlockError> {
    let total = layout.section(Section::Metadata).raw;
    let mut metadata = Vec::new();
    let mut end = 0;
    if !cursor.is_at_end() {
        metadata.reserve_exact(layout.rows);
        for _ in 0..layout.rows {
            let size = cursor.length().ok_or(malformed("cut short"))?;
            let start = end;
            if let Some(length) = size.checked_sub(1) {
                end = advance(start, Some(length), total)?;
            }
            metadata.push((size > 0).then_some(start as u32..end as u32));
        }
    }
    if end == total { Ok(metadata) } else { Err(malformed("metadata is longer than its lengths")) }
}

fn advance(end: usize, length: Option<usize>, total: usize) -> Result<usize, BlockError> {
    let length = length.ok_or(malformed("cut short"))?;
    end.checked_add(length).filter(|end| *end <= total).ok_or(malformed("lengths go past the section"))
}

//! What stands in a block's `value_metadata`: enough to pass it by without reading its value.

use anabranch_model::{EventId, Position, Timestamp};
use bytes::Bytes;

use super::{BlockError, FORMAT_VERSION, layout::Section, varint::Cursor};

/// A block as its row describes it. The oldest position is that of the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// The version of its format.
    pub version: u8,
    /// How many rows are packed in it.
    pub rows: u32,
    /// The newest position in it.
    pub newest: Position,
}

impl BlockHeader {
    pub(super) fn encode(&self) -> Bytes {
        let id = self.newest.id.as_str().as_bytes();
        let mut out = Vec::with_capacity(13 + id.len());
        out.push(self.version);
        out.extend_from_slice(&self.rows.to_be_bytes());
        out.extend_from_slice(&self.newest.time.nanos().to_be_bytes());
        out.extend_from_slice(id);
        Bytes::from(out)
    }
}

/// Reads the `value_metadata` of a block's row.
pub fn header_of(metadata: &[u8]) -> Result<BlockHeader, BlockError> {
    let malformed = |reason| BlockError::Malformed { section: Section::Header, reason };
    let mut cursor = Cursor(metadata);
    let [version] = cursor.chunk().ok_or(malformed("nothing there"))?;
    if version != FORMAT_VERSION {
        return Err(BlockError::Version { found: version });
    }
    let rows = cursor.chunk().map(u32::from_be_bytes).ok_or(malformed("cut short"))?;
    let time = cursor.chunk().map(i64::from_be_bytes).ok_or(malformed("cut short"))?;
    let id = std::str::from_utf8(cursor.0).map_err(|_| malformed("the newest id is not UTF-8"))?;
    let id = EventId::new(id).map_err(|_| malformed("the newest id is not an event id"))?;
    Ok(BlockHeader { version, rows, newest: Position { time: Timestamp::from_nanos(time), id } })
}

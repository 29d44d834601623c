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
    /// The event right above it in the segment: none lies between. `None` when nothing does.
    pub above: Option<Position>,
}

impl BlockHeader {
    pub(super) fn encode(&self) -> Bytes {
        let ids = self.newest.id.as_str().len() + self.above.as_ref().map_or(0, |above| above.id.as_str().len());
        let mut out = Vec::with_capacity(5 + 2 * 10 + ids);
        out.push(self.version);
        out.extend_from_slice(&self.rows.to_be_bytes());
        for position in [Some(&self.newest), self.above.as_ref()].into_iter().flatten() {
            let id = position.id.as_str().as_bytes();
            out.extend_from_slice(&position.time.nanos().to_be_bytes());
            out.extend_from_slice(&(id.len() as u16).to_be_bytes()); // ids are at most 4,096 bytes long
            out.extend_from_slice(id);
        }
        Bytes::from(out)
    }
}

/// Reads the `value_metadata` of a block's row.
pub fn header_of(metadata: &[u8]) -> Result<BlockHeader, BlockError> {
    let mut cursor = Cursor(metadata);
    let [version] = cursor.chunk().ok_or(malformed("nothing there"))?;
    if version != FORMAT_VERSION {
        return Err(BlockError::Version { found: version });
    }
    let rows = cursor.chunk().map(u32::from_be_bytes).ok_or(malformed("cut short"))?;
    let newest = position(&mut cursor)?;
    let above = if cursor.0.is_empty() { None } else { Some(position(&mut cursor)?) };
    if !cursor.0.is_empty() {
        return Err(malformed("more than two positions"));
    }
    Ok(BlockHeader { version, rows, newest, above })
}

fn position(cursor: &mut Cursor<'_>) -> Result<Position, BlockError> {
    let time = cursor.chunk().map(i64::from_be_bytes).ok_or(malformed("cut short"))?;
    let length = cursor.chunk().map(u16::from_be_bytes).ok_or(malformed("cut short"))?;
    let (id, rest) = cursor.0.split_at_checked(usize::from(length)).ok_or(malformed("cut short"))?;
    cursor.0 = rest;
    let id = std::str::from_utf8(id).map_err(|_| malformed("an id is not UTF-8"))?;
    let id = EventId::new(id).map_err(|_| malformed("an id is not an event id"))?;
    Ok(Position { time: Timestamp::from_nanos(time), id })
}

fn malformed(reason: &'static str) -> BlockError {
    BlockError::Malformed { section: Section::Header, reason }
}

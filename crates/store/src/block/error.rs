//! Why a row can't be read as a block, and why rows can't be packed into one.

use anabranch_model::Position;
use thiserror::Error;

use super::layout::Section;
use crate::StoreError;

/// Why a row isn't a block that can be read. None of these goes away by trying again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// The row has an item key, or no header in its metadata.
    #[error("the row is no block: {reason}")]
    NotABlock {
        /// What it has or lacks.
        reason: &'static str,
    },
    /// Written by a later version, or not a block at all.
    #[error("blocks of version {found} are not known here")]
    Version {
        /// What its first byte says.
        found: u8,
    },
    /// Compressed with something else.
    #[error("codec {found} is not known here")]
    Codec {
        /// What its second byte says.
        found: u8,
    },
    /// The bytes end too early, or go on after the end.
    #[error("a block of {expected} bytes is {found} bytes long")]
    Length {
        /// What its header asks for.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// Bytes were changed after it was written.
    #[error("the checksum of a block is {expected:016x}, but its bytes give {found:016x}")]
    Checksum {
        /// What was written.
        expected: u64,
        /// What the bytes give now.
        found: u64,
    },
    /// It would decode to more than a reader should hold.
    #[error("a block would decode to {bytes} bytes, more than {}", super::MAX_RAW_BYTES)]
    TooLarge {
        /// What it says.
        bytes: u64,
    },
    /// A part of it contradicts the format.
    #[error("the {section} of a block are malformed: {reason}")]
    Malformed {
        /// Which part.
        section: Section,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The block is whole, but the row around it is another one's.
    #[error("a block lies under the wrong row: its {what} differs")]
    Misplaced {
        /// What differs.
        what: &'static str,
    },
}

impl From<BlockError> for StoreError {
    fn from(error: BlockError) -> Self {
        StoreError::Corrupt { reason: error.to_string() }
    }
}

/// Why rows can't be packed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PackError {
    /// An event without rows.
    #[error("an event without rows can't be packed")]
    NoRows,
    /// Rows of several events where one was expected.
    #[error("rows of the event {} at {} came with rows of another one", .position.id, .position.time)]
    SeveralEvents {
        /// The one that came first.
        position: Position,
    },
    /// Not in table order: positions descend, items ascend.
    #[error("the event {} at {} is not in table order", .position.id, .position.time)]
    OutOfOrder {
        /// The one that came too late, or whose items do.
        position: Position,
    },
    /// A block among the rows to pack.
    #[error("the row {} at {} is a block already", .position.id, .position.time)]
    AlreadyPacked {
        /// Where it is.
        position: Position,
    },
    /// More than one block can hold: such an event stays as plain rows.
    #[error("{bytes} bytes are more than a block holds")]
    TooLarge {
        /// What it would have become.
        bytes: usize,
    },
}

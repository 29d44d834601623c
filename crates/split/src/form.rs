//! How rows lie in the pieces of a segment.

use anabranch_store::block::Codec;
use serde::{Deserialize, Serialize};

/// Where size and speed meet.
const ZSTD_LEVEL: i32 = 1;

/// How rows lie in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Form {
    /// As in the original, one by one.
    Rows,
    /// Packed into blocks.
    Blocks {
        /// How blocks are compressed.
        codec: Compression,
        /// How big a block should be before compression.
        block_bytes: u32,
    },
}

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    None,
    /// Quick.
    Lz4,
    /// Small.
    Zstd,
}

impl From<Compression> for Codec {
    fn from(compression: Compression) -> Codec {
        match compression {
            Compression::None => Codec::None,
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd => Codec::Zstd { level: ZSTD_LEVEL },
        }
    }
}

//! Blocks: consecutive events packed and compressed into one row of a piece. `docs/blocks.md` describes the format
//! byte by byte.
//!
//! | module | what it holds |
//! |---|---|
//! | `packer` | [`Packer`]: rows of a piece in, blocks and plain rows out |
//! | `builder` | [`BlockBuilder`]: whole events in, one block out |
//! | `reading` | [`Block`]: opened and checked; decodes no more than it is asked for |
//! | `positions`, `keys`, `sizes` | the sections that say where values lie and whose they are |
//! | `rows` | [`Rows`]: the rows of a block, either way |
//! | `layout`, `header` | the fixed numbers in front of the sections, and those beside the value |
//! | `codec`, `lz4_prefix`, `varint` | compression and numbers |

mod builder;
mod codec;
mod error;
mod header;
mod keys;
mod layout;
mod lz4_prefix;
mod packer;
mod positions;
mod reading;
mod rows;
mod sizes;
#[cfg(test)]
pub(crate) mod tests;
mod varint;

pub use builder::BlockBuilder;
pub use codec::Codec;
pub use error::{BlockError, PackError};
pub use header::{BlockHeader, header_of};
pub use layout::Section;
pub use packer::{PLAIN_FACTOR, Packer};
pub use positions::Positions;
pub use reading::Block;
pub use rows::Rows;

/// The version of the format that is written.
pub const FORMAT_VERSION: u8 = 1;
/// A block whose sections decode to more than this together is refused before anything is allocated.
pub const MAX_RAW_BYTES: usize = 64 << 20;
/// The largest target of a builder; larger ones are taken as this.
pub const MAX_TARGET_BYTES: usize = 1 << 20;

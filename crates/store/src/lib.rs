//! What a back end must do, and what everyone who reads from one shares.
//!
//! | module | what it holds |
//! |---|---|
//! | [`block`] | consecutive events packed into one row: [`Packer`], [`BlockBuilder`], [`Block`] |
//! | [`contract`] | the [`Store`] trait: tables, atomic batches per partition, ordered scans, metadata by compare-and-set |
//! | [`error`] | [`StoreError`], told apart by what the caller has to do |
//! | [`fair`] | [`FairStore`]: a store whose reads ask for permits |
//! | [`hedge`] | when a slow read is worth being sent to a second replica |
//! | [`memory`] | [`MemoryStore`]: the contract in memory; a crash loses what wasn't synced |
//! | [`permits`] | [`Permits`]: how many reads the store has at once, and whose turn it is |
//! | [`piece`] | [`PieceReader`]: reads a piece, packed or not, and notices what is missing; [`BlockCache`] keeps what it read |
//! | [`reader`] | [`PartitionReader`]: the one way to read a partition, page after page |
//! | `suite` | the contract as tests that every back end passes unchanged (feature `suite`) |

pub mod block;
pub mod contract;
pub mod error;
pub mod fair;
pub mod hedge;
pub mod memory;
pub mod permits;
pub mod piece;
pub mod reader;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

pub use block::{Block, BlockBuilder, BlockError, BlockHeader, Codec, PackError, Packer};
pub use contract::{
    After, Capabilities, CasOutcome, Direction, MetaKey, PartitionBatch, PartitionSize, Sample, Scan, ScanPage,
    ScanSpan, Store, TableEstimate, Version, Versioned,
};
pub use error::{ErrorKind, StoreError};
pub use fair::FairStore;
pub use memory::MemoryStore;
pub use permits::{ClassCount, Permit, PermitOptions, Permits, ReadClass};
pub use piece::{BlockCache, Density, PieceBounds, PieceReader};
pub use reader::{PartitionReader, ReadLimits};

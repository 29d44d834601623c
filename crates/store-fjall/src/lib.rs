//! The embedded store, on fjall: one directory, one process, one keyspace of fjall per table.
//!
//! | module | what it holds |
//! |---|---|
//! | [`options`] | [`FjallOptions`]: memory, threads, limits |
//! | [`error`] | [`OpenError`]: why a directory can't be opened, and what to do |
//! | `directory` | the lock and the format file of a directory |
//! | `parts` | what must be in one before fjall is let in |
//! | `layout` | how rows, bounds and documents become bytes |
//! | `database` | what is open: fjall, its tables, and the snapshot that readers share |
//! | `queue`, `committer` | the one thread that changes anything, in groups, with one sync each |
//! | `settle` | leaves no journal behind when the store is closed |
//! | `tables` | making, dropping and recovering tables, safe through crashes |
//! | `documents` | metadata by compare-and-set |
//! | `scan`, `partitions` | reading: pages of a partition; which partitions there are, and how big |
//! | `store` | [`FjallStore`], the contract on top of all this |
//! | [`stats`], [`inspect`](mod@inspect) | sizes, for metrics and for `anabranch doctor` |
//!
//! # How a directory is laid out
//! `FORMAT` says `anabranch-store 1`, `LOCK` keeps a second process away and holds the pid of the first, `PARTS` names the
//! directories below `fjall/keyspaces` that every store has, `fjall/` is fjall's. The keyspace of a table is named `<namespace>.<table>#<number>`; which of them are tables is written in
//! the keyspace `_tables`, documents are in `_documents`.
//!
//! # How changes become visible
//! fjall shows a batch as soon as a flush that ends meanwhile moves the visible sequence number past it, whole or
//! not, and so a fresh snapshot may hold half of a batch. Here every change goes through one thread, and readers
//! share the snapshot that it took after the last group was durable, with none under way: they see whole batches
//! only, none that a crash could take back, and never wait.

pub mod error;
pub mod inspect;
pub mod options;
pub mod stats;

mod committer;
mod database;
mod directory;
mod documents;
mod layout;
mod partitions;
mod parts;
mod queue;
mod scan;
mod settle;
mod store;
mod tables;

pub use error::OpenError;
pub use inspect::{Inspection, inspect};
pub use options::FjallOptions;
pub use stats::{Stats, TableStats};
pub use store::FjallStore;

//! Sizes and counts of an open store, for metrics and for people.

use std::{path::Path, sync::atomic::Ordering};

use anabranch_model::TableName;
use fjall::AbstractTree;

use crate::{database::Database, directory::fjall_in, inspect::journal_bytes};

/// What an open store holds and has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Every table, in order.
    pub tables: Vec<TableStats>,
    /// All tables, documents and journals on disk.
    pub disk_bytes: u64,
    /// The journals alone.
    pub journal_bytes: u64,
    /// What is in memory and in journals, but not yet in files of tables.
    pub memtable_bytes: u64,
    /// Blocks in the cache.
    pub cache_bytes: u64,
    /// What the cache may hold.
    pub cache_limit_bytes: u64,
    /// Flushes that wait.
    pub flushes_waiting: usize,
    /// Compactions under way.
    pub compactions_running: usize,
    /// Compactions since the store was opened.
    pub compactions: usize,
    /// Groups of batches that were synced since the store was opened.
    pub groups: u64,
    /// Batches in them.
    pub batches: u64,
    /// Rows in them.
    pub rows: u64,
    /// Places in tables that reads looked for since the store was opened.
    pub seeks: u64,
    /// Versions of documents that a list has to step over at most, beside those on disk.
    pub document_versions_in_memory: usize,
}

/// What a table takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// Which.
    pub table: TableName,
    /// On disk.
    pub disk_bytes: u64,
    /// In memory, and so in the journal.
    pub memtable_bytes: u64,
}

pub(crate) fn stats(database: &Database) -> Stats {
    let table_stats = |(table, open): (TableName, std::sync::Arc<crate::database::Table>)| TableStats {
        table,
        disk_bytes: open.keyspace.disk_space(),
        memtable_bytes: open.keyspace.tree.active_memtable().size(),
    };
    let tables: Vec<TableStats> = database.tables().into_iter().map(table_stats).collect();
    let journal_bytes = journal_bytes(&fjall_in(database.directory.path()));
    let internal_bytes = database.documents.disk_space() + database.registry.disk_space();
    let counters = &database.counters;
    Stats {
        disk_bytes: tables.iter().map(|table| table.disk_bytes).sum::<u64>() + internal_bytes + journal_bytes,
        memtable_bytes: tables.iter().map(|table| table.memtable_bytes).sum(),
        tables,
        journal_bytes,
        cache_bytes: database.fjall.cache_size(),
        cache_limit_bytes: database.fjall.cache_capacity(),
        flushes_waiting: database.fjall.outstanding_flushes(),
        compactions_running: database.fjall.active_compactions(),
        compactions: database.fjall.compactions_completed(),
        groups: counters.groups.load(Ordering::Relaxed),
        batches: counters.batches.load(Ordering::Relaxed),
        rows: counters.rows.load(Ordering::Relaxed),
        seeks: counters.seeks.load(Ordering::Relaxed),
        document_versions_in_memory: database.documents.tree.active_memtable().len(),
    }
}

/// What the file system of a directory has left for this process.
pub(crate) fn free_bytes(dir: &Path) -> std::io::Result<u64> {
    let system = rustix::fs::statvfs(dir)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

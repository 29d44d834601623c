//! How much memory, disk and how many threads the embedded store may use.

use fjall::{
    CompressionType, KeyspaceCreateOptions,
    config::{BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry},
};

use crate::OpenError;

const MIB: u64 = 1 << 20;
const DOCUMENT_FILTER_BITS: f32 = 10.0;

/// Settings of an embedded store. What belongs to a table (memtable, block) is fixed when the table is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FjallOptions {
    /// Memory for blocks that were read.
    pub cache_bytes: u64,
    /// Threads that flush and compact.
    pub workers: usize,
    /// Journals on disk may grow to this before tables are flushed to free them; at least 64 MiB.
    pub journal_bytes: u64,
    /// A table is flushed once this much of it is only in memory and in the journal.
    pub memtable_bytes: u64,
    /// The same over all tables: past it the biggest are flushed early.
    pub memtable_total_bytes: u64,
    /// Bytes of a block on disk, before compression: 1 KiB to 1 MiB.
    pub block_bytes: u32,
    /// Batches and other changes that may wait for the committer.
    pub commit_queue_batches: usize,
    /// Bytes that may wait for the committer.
    pub commit_queue_bytes: u64,
    /// The most batches that share one sync.
    pub group: usize,
    /// The most tables.
    pub max_tables: usize,
    /// Files held open at once; `None`: half of what the process may open.
    pub open_files: Option<usize>,
}

impl Default for FjallOptions {
    fn default() -> Self {
        FjallOptions {
            cache_bytes: 512 * MIB,
            workers: 2,
            journal_bytes: 512 * MIB,
            memtable_bytes: 64 * MIB,
            memtable_total_bytes: 256 * MIB,
            block_bytes: 16 * 1024,
            commit_queue_batches: 4096,
            commit_queue_bytes: 64 * MIB,
            group: 64,
            max_tables: 2000,
            open_files: None,
        }
    }
}

impl FjallOptions {
    /// Refuses what fjall would panic at, and what could never work.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let rules = [
            ("workers", self.workers >= 1, "at least 1"),
            ("journal_bytes", self.journal_bytes >= 64 * MIB, "at least 64 MiB"),
            ("memtable_bytes", self.memtable_bytes >= 64 * 1024, "at least 64 KiB"),
            ("memtable_total_bytes", self.memtable_total_bytes >= self.memtable_bytes, "at least `memtable_bytes`"),
            ("block_bytes", (1024..=MIB).contains(&u64::from(self.block_bytes)), "between 1 KiB and 1 MiB"),
            ("commit_queue_batches", (1..1 << 24).contains(&self.commit_queue_batches), "between 1 and 16 million"),
            ("commit_queue_bytes", (1024..1 << 34).contains(&self.commit_queue_bytes), "between 1 KiB and 16 GiB"),
            ("group", self.group >= 1, "at least 1"),
            ("open_files", self.open_files.is_none_or(|files| files >= 10), "at least 10"),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((option, _, rule)) => Err(OpenError::Option { option, rule }),
            None => Ok(()),
        }
    }

    /// Half of the process's limit leaves room for connections.
    pub(crate) fn files(&self) -> usize {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let half = usize::try_from(limit.unwrap_or(1 << 13) / 2).unwrap_or(1 << 12);
        self.open_files.unwrap_or(half.clamp(32, 1 << 12))
    }

    /// What a new table gets. Its rows are scanned, never looked up one by one: filters would be written, and read at every start, for
    /// nobody.
    pub(crate) fn table(&self) -> KeyspaceCreateOptions {
        KeyspaceCreateOptions::default()
            .max_memtable_size(self.memtable_bytes)
            .data_block_size_policy(BlockSizePolicy::all(self.block_bytes))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
            .filter_policy(FilterPolicy::disabled())
    }

    /// What the keyspaces of documents and of the list of tables get: small, and read row by row.
    pub(crate) fn internal(&self) -> KeyspaceCreateOptions {
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(DOCUMENT_FILTER_BITS));
        self.table()
            .max_memtable_size(self.memtable_bytes.min(8 * MIB))
            .data_block_size_policy(BlockSizePolicy::all(4096))
            .filter_policy(FilterPolicy::all(bloom))
    }
}

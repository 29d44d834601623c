//! The last thing before a store is closed: empties the journal, so that the next start has nothing to replay.
//!
//! fjall keeps journals until they are 64 MB long and reads all of them when it is opened, which takes longer than
//! everything else. Once all that they hold is flushed they are of no use, and the last one, which fjall itself never
//! deletes, is cut to nothing.

use std::{
    ffi::OsStr,
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_runtime::Env;
use fjall::{AbstractTree, Keyspace};

use crate::{committer::flush, database::Database, inspect::journal_bytes};

/// Less than this is replayed in no time.
const WORTHWHILE_BYTES: u64 = 4 << 20;
/// To flush more tables than this would take longer than what it saves.
const MAX_TABLES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

/// Flushes everything and empties the journal, if that is worth it. Only for the committer, when nothing more can come.
pub(crate) fn settle(database: &Database, env: &Env) {
    let directory = database.directory.fjall();
    if journal_bytes(&directory) < WORTHWHILE_BYTES {
        return;
    }
    let mut keyspaces = vec![database.documents.clone(), database.registry.clone()];
    keyspaces.extend(database.tables().into_iter().map(|(_, table)| table.keyspace.clone()));
    keyspaces.retain(|keyspace| !is_flushed(keyspace));
    if keyspaces.len() > MAX_TABLES {
        return;
    }
    keyspaces.iter().for_each(flush);
    let deadline = env.monotonic() + PATIENCE;
    while !keyspaces.iter().all(is_flushed) {
        if env.monotonic() > deadline {
            tracing::warn!("tables are still being flushed; the next start replays the journal instead");
            return;
        }
        std::thread::park_timeout(PAUSE);
    }
    if let Err(error) = empty_last_journal(&directory) {
        tracing::warn!(%error, "the journal could not be emptied; the next start replays it");
    }
}

fn is_flushed(keyspace: &Keyspace) -> bool {
    keyspace.tree.active_memtable().is_empty() && keyspace.tree.sealed_memtable_count() == 0
}

fn empty_last_journal(directory: &Path) -> io::Result<()> {
    let number = |path: &PathBuf| path.file_stem().and_then(OsStr::to_str).and_then(|name| name.parse::<u64>().ok());
    let mut journals = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "jnl") {
            journals.push(path);
        }
    }
    let Some(last) = journals.iter().max_by_key(|path| number(path)) else { return Ok(()) };
    let file = OpenOptions::new().write(true).open(last)?;
    file.set_len(0)?;
    file.sync_all()
}

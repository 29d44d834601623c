//! Looks at a store's directory without opening it and without changing anything: for `anabranch doctor`.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anabranch_model::TableName;

use crate::{
    directory::{FORMAT, fjall_in, format_of, user_of},
    stats::free_bytes,
    tables::{LABEL, table_name},
};

/// What a directory looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Where.
    pub dir: PathBuf,
    /// What its file `FORMAT` says; `None` when there is none, and so no store.
    pub format: Option<String>,
    /// Whether this version of Anabranch can open it.
    pub understood: bool,
    /// Whether a process has it open now.
    pub locked: bool,
    /// Which process that is, if it is known.
    pub pid: Option<u32>,
    /// Tables with what their files take, in order. What is only in journals isn't part of it.
    pub tables: Vec<(TableName, u64)>,
    /// What the journals take.
    pub journal_bytes: u64,
    /// Everything in the directory.
    pub disk_bytes: u64,
    /// What is left on its file system.
    pub free_bytes: u64,
}

/// Looks at a directory. Sizes are of one moment each: a running server changes them meanwhile.
pub fn inspect(dir: &Path) -> io::Result<Inspection> {
    let format = format_of(dir)?;
    let user = user_of(dir)?;
    let fjall = fjall_in(dir);
    let mut tables = Vec::new();
    if let Ok(keyspaces) = fs::read_dir(fjall.join("keyspaces")) {
        for keyspace in keyspaces.flatten() {
            let label = fs::read_to_string(keyspace.path().join(LABEL)).unwrap_or_default();
            if let Some(name) = table_name(label.trim_end().as_bytes()) {
                tables.push((name, tree_bytes(&keyspace.path())));
            }
        }
    }
    tables.sort_unstable();
    Ok(Inspection {
        dir: dir.to_owned(),
        understood: format.as_deref() == Some(FORMAT),
        format,
        locked: user.is_some(),
        pid: user.flatten(),
        tables,
        journal_bytes: journal_bytes(&fjall),
        disk_bytes: tree_bytes(dir),
        free_bytes: free_bytes(dir)?,
    })
}

/// What the journals in fjall's directory take.
pub(crate) fn journal_bytes(fjall: &Path) -> u64 {
    let Ok(files) = fs::read_dir(fjall) else { return 0 };
    let journals = files.flatten().filter(|file| file.path().extension().is_some_and(|kind| kind == "jnl"));
    journals.map(|file| allocated(&file)).sum()
}

/// Everything below a directory; files that vanish meanwhile don't count.
fn tree_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => tree_bytes(&entry.path()),
        _ => allocated(&entry),
    };
    entries.flatten().map(bytes).sum()
}

/// Journals are made longer than what is in them: only blocks that are there count.
fn allocated(entry: &fs::DirEntry) -> u64 {
    entry.metadata().map_or(0, |metadata| metadata.blocks() * 512)
}

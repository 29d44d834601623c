//! Making, dropping and recovering tables.
//!
//! Which keyspaces are tables is written in the keyspace `_tables`: `<namespace>.<table>` to a state (`c` being made,
//! `l` live, `d` being dropped) and the name of a keyspace that no other table ever had. A change is written down
//! before fjall is asked for it and again when it is done, so that what a crash leaves half done is found and
//! finished by the next open.
//!
//! That second note has another purpose. fjall keeps its own list of keyspaces under sequence numbers, which it takes
//! up again after a restart from the *rows* it finds; were there none as late as the last change of that list, later
//! changes would count as older than it, and a keyspace could vanish with all its rows. [`LAST_CHANGE`] is that row.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anabranch_model::{NamespaceName, TableName};
use anabranch_store::StoreError;
use fjall::{Keyspace, OwnedWriteBatch, PersistMode, Readable};

use crate::{
    FjallOptions, OpenError,
    database::{Database, Internals, Table},
    error::{self, refused},
};

const REGISTRY: &str = "_tables";
const DOCUMENTS: &str = "_documents";
/// The file in a keyspace's directory that tells people, and `inspect`, which table it is.
pub(crate) const LABEL: &str = "table-name";

/// A row that is always there, rewritten with every change. No table has this name.
const LAST_CHANGE: &[u8] = b"\0last-change";
/// More sequence numbers than fjall can have used between two notes.
const SKIPPED_AFTER_CRASH: usize = 1024;
/// fjall's limit for names of keyspaces, less the number.
const MAX_NAME_BYTES: usize = 255 - 21;

const MAKING: u8 = b'c';
const LIVE: u8 = b'l';
const DROPPING: u8 = b'd';

/// Makes and drops tables. Owned by the committer.
pub(crate) struct Registry {
    next_number: u64,
}

/// What an open finds.
pub(crate) struct Recovered {
    pub(crate) internals: Internals,
    pub(crate) tables: BTreeMap<TableName, Arc<Table>>,
    pub(crate) registry: Registry,
}

impl Registry {
    /// Makes a table. One that is there already stays as it is.
    pub(crate) fn create(&mut self, database: &Database, name: &TableName) -> Result<(), StoreError> {
        if database.find(name).is_some() {
            return Ok(());
        }
        let text = name.to_string();
        if text.len() > MAX_NAME_BYTES || name.table.is_empty() {
            return Err(refused(format!("the name of table {name} must be 1 to {MAX_NAME_BYTES} bytes long")));
        }
        let count = database.table_count();
        if count >= database.options.max_tables {
            return Err(refused(format!(
                "there are {count} tables, and the embedded store holds at most {}; use longer slices or fewer namespaces",
                database.options.max_tables
            )));
        }
        self.next_number += 1;
        let keyspace_name = format!("{text}#{}", self.next_number);
        note(database, name, Some((MAKING, &keyspace_name)))?;
        let keyspace = database
            .fjall
            .keyspace(&keyspace_name, || database.options.table())
            .map_err(|error| error::change(&error))?;
        label(keyspace.path(), name);
        note(database, name, Some((LIVE, &keyspace_name)))?;
        database.insert(name.clone(), Table { keyspace });
        Ok(())
    }

    /// Drops a table, and gives it back so that the caller can choose who waits for its files to be deleted.
    pub(crate) fn drop(&self, database: &Database, name: &TableName) -> Result<Option<Arc<Table>>, StoreError> {
        let Some(table) = database.find(name) else { return Ok(None) };
        note(database, name, Some((DROPPING, table.keyspace.name())))?;
        database.remove(name);
        database.fjall.delete_keyspace(table.keyspace.clone()).map_err(|error| error::change(&error))?;
        note(database, name, None)?;
        Ok(Some(table))
    }
}

/// Writes down the state of a table and the name of its keyspace, or that there is no such table; durably.
fn note(database: &Database, name: &TableName, state: Option<(u8, &str)>) -> Result<(), StoreError> {
    let mut batch = OwnedWriteBatch::with_capacity(database.fjall.clone(), 2);
    match state {
        Some((state, keyspace)) => {
            batch.insert(&database.registry, name.to_string(), [&[state], keyspace.as_bytes()].concat());
        }
        None => batch.remove(&database.registry, name.to_string()),
    }
    batch.insert(&database.registry, LAST_CHANGE, b"");
    batch.commit().map_err(|error| error::change(&error))?;
    database.fjall.persist(PersistMode::SyncData).map_err(|error| error::unknown(error.to_string()))
}

/// Only for people who look into the directory: nothing depends on it.
fn label(path: &Path, name: &TableName) {
    if let Err(error) = std::fs::write(path.join(LABEL), format!("{name}\n")) {
        tracing::warn!(%name, %error, "the directory of a table could not be labelled");
    }
}

/// Opens all tables, and finishes what a crash has left half done.
pub(crate) fn recover(fjall: &fjall::Database, options: &FjallOptions, dir: &Path) -> Result<Recovered, OpenError> {
    let damaged = |reason: String| OpenError::Damaged { dir: dir.to_owned(), reason };
    let failed = |error: fjall::Error| damaged(error.to_string());
    let registry = fjall.keyspace(REGISTRY, || options.internal()).map_err(failed)?;
    let documents = fjall.keyspace(DOCUMENTS, || options.internal()).map_err(failed)?;

    let mut tables = BTreeMap::new();
    let mut unfinished = Vec::new();
    let mut keyspaces: Vec<String> = fjall.list_keyspace_names().iter().map(ToString::to_string).collect();
    keyspaces.retain(|name| name != REGISTRY && name != DOCUMENTS);
    let next_number = keyspaces.iter().filter_map(|name| name.rsplit_once('#')?.1.parse().ok()).max().unwrap_or(0);
    keyspaces.sort_unstable();

    for row in fjall.snapshot().iter(&registry) {
        let (key, value) = row.into_inner().map_err(failed)?;
        if *key == *LAST_CHANGE {
            continue;
        }
        let unreadable = || damaged(format!("the note on table `{}` can't be read", key.escape_ascii()));
        let (state, keyspace) = value.split_first().ok_or_else(unreadable)?;
        let keyspace = std::str::from_utf8(keyspace).map_err(|_| unreadable())?;
        if *state != LIVE {
            unfinished.push(key.to_vec());
            continue;
        }
        let name = table_name(&key).ok_or_else(unreadable)?;
        let Ok(found) = keyspaces.binary_search_by(|name| name.as_str().cmp(keyspace)) else {
            return Err(damaged(format!("the files of table {name} are missing")));
        };
        let keyspace = fjall.keyspace(&keyspaces.remove(found), || options.table()).map_err(failed)?;
        tables.insert(name, Arc::new(Table { keyspace }));
    }
    // What is left are keyspaces that no live table has.
    finish(fjall, &registry, &unfinished, &keyspaces).map_err(failed)?;
    Ok(Recovered { internals: Internals { documents, registry }, tables, registry: Registry { next_number } })
}

/// Deletes what was being made or dropped when the process ended.
fn finish(fjall: &fjall::Database, registry: &Keyspace, notes: &[Vec<u8>], keyspaces: &[String]) -> fjall::Result<()> {
    if notes.is_empty() && keyspaces.is_empty() {
        return Ok(());
    }
    tracing::info!(
        notes = notes.len(),
        keyspaces = keyspaces.len(),
        "finishing changes of tables that a crash cut short"
    );
    // The change that was cut short may have a later sequence number than any row: step over it first.
    for _ in 0..SKIPPED_AFTER_CRASH {
        let mut batch = OwnedWriteBatch::with_capacity(fjall.clone(), 1);
        batch.insert(registry, LAST_CHANGE, b"");
        batch.commit()?;
    }
    fjall.persist(PersistMode::SyncData)?;
    for name in keyspaces {
        let keyspace = fjall.keyspace(name, fjall::KeyspaceCreateOptions::default)?;
        fjall.delete_keyspace(keyspace)?;
    }
    let mut batch = OwnedWriteBatch::with_capacity(fjall.clone(), notes.len() + 1);
    notes.iter().for_each(|note| batch.remove(registry, note.as_slice()));
    batch.insert(registry, LAST_CHANGE, b"");
    batch.commit()?;
    fjall.persist(PersistMode::SyncData)
}

/// Reads back how a table is displayed.
pub(crate) fn table_name(bytes: &[u8]) -> Option<TableName> {
    let (namespace, table) = std::str::from_utf8(bytes).ok()?.split_once('.')?;
    Some(TableName { namespace: NamespaceName::new(namespace).ok()?, table: table.to_owned() })
}

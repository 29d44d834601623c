//! Metadata: small documents, changed by compare-and-set only. Nothing in the store itself is counted or queued in
//! them, and the committer flushes them often, so that a document that is rewritten again and again doesn't slow down
//! its neighbours.

use anabranch_store::{CasOutcome, MetaKey, StoreError, Version, Versioned};
use bytes::Bytes;
use fjall::Readable;

use crate::{
    database::Database,
    error,
    layout::{above, decode_document, document_key, encode_document, next, scope_prefix},
    queue::DocumentOrder,
};

/// Holds the highest version of any deleted document. A document made anew begins above it, so that no version of a
/// name ever comes twice. No scope is empty, so no document has this key.
const FLOOR: &[u8] = b"\0floor";

/// The document of a key, as readers see it.
pub(crate) fn load(database: &Database, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
    let key = document_key(key)?;
    let found = database.visible().get(&database.documents, &key).map_err(|error| error::read(&error))?;
    found.map(|bytes| decoded(&key, bytes)).transpose()
}

/// Documents of a scope in order of their names.
pub(crate) fn list(
    database: &Database,
    scope: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<(String, Versioned)>, StoreError> {
    let prefix = scope_prefix(scope)?;
    let start = match after {
        Some(name) => next([&prefix, name.as_bytes()].concat()),
        None => prefix.clone(),
    };
    let Some(end) = above(prefix.clone()) else { return Ok(Vec::new()) };
    if start >= end {
        return Ok(Vec::new());
    }
    let mut documents = Vec::new();
    for entry in database.visible().range(&database.documents, start..end).take(limit) {
        let (key, value) = entry.into_inner().map_err(|error| error::read(&error))?;
        let name = std::str::from_utf8(&key[prefix.len()..]).map_err(|_| damaged(&key))?;
        documents.push((name.to_owned(), decoded(&key, value)?));
    }
    Ok(documents)
}

/// Decides a change and applies it, without a sync. Only for the committer.
pub(crate) fn change(database: &Database, order: &DocumentOrder) -> Result<CasOutcome, StoreError> {
    let found = database.documents.get(&order.key).map_err(|error| error::read(&error))?;
    let current = found.map(|bytes| decoded(&order.key, bytes)).transpose()?;
    if current.as_ref().map(|document| document.version) != order.expected {
        return Ok(CasOutcome::Conflict(current));
    }
    let floor = floor(database)?;
    let mut batch = fjall::OwnedWriteBatch::with_capacity(database.fjall.clone(), 2);
    let version = match (&order.value, order.expected) {
        (Some(value), expected) => {
            let version = Version(expected.unwrap_or(floor).0 + 1);
            batch.insert(&database.documents, order.key.as_slice(), encode_document(version, value));
            version
        }
        (None, None) => return Ok(CasOutcome::Applied(Version(0))),
        (None, Some(last)) => {
            batch.remove(&database.documents, order.key.as_slice());
            if last > floor {
                batch.insert(&database.documents, FLOOR, encode_document(last, b""));
            }
            last
        }
    };
    batch.commit().map_err(|error| error::change(&error))?;
    Ok(CasOutcome::Applied(version))
}

fn floor(database: &Database) -> Result<Version, StoreError> {
    let found = database.documents.get(FLOOR).map_err(|error| error::read(&error))?;
    found.map_or(Ok(Version(0)), |bytes| Ok(decoded(FLOOR, bytes)?.version))
}

fn decoded(key: &[u8], bytes: impl Into<Bytes>) -> Result<Versioned, StoreError> {
    decode_document(bytes.into()).ok_or_else(|| damaged(key))
}

fn damaged(key: &[u8]) -> StoreError {
    StoreError::Corrupt { reason: format!("the document `{}` can't be read", key.escape_ascii()) }
}

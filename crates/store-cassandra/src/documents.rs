//! Metadata by compare-and-set: one row per document, changed by lightweight transactions only, read at SERIAL.
//!
//! Every change carries a nonce of its own. After an answer that was lost, a serial read tells: our nonce, then it is
//! done; the expected version still, then the same change can be tried again. The levels are those of the whole cluster
//! whatever rows are read and written at, since there is one truth about metadata.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anabranch_store::{CasOutcome, MetaKey, StoreError, Version, Versioned};
use bytes::Bytes;
use scylla::{
    client::session::Session,
    errors::{ExecutionError, PrepareError},
    response::{PagingState, query_result::QueryResult},
    serialize::row::SerializeRow,
    statement::{Consistency, SerialConsistency, prepared::PreparedStatement},
    value::{CqlValue, Row},
};
use tokio::sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    error::{Fate, corrupt, fate, read_error, timed_out, unavailable, unknown},
    schema::DOCUMENTS_TABLE,
    session::Profiles,
    store::Inside,
};

/// Changes of one scope by this process wait for each other here: in the cluster they would make each other fail.
const STRIPES: usize = 64;
/// How often a change is tried whose earlier attempts are known to have changed nothing.
const ATTEMPTS: usize = 5;
/// Documents of one answer.
const PAGE: usize = 100;

/// The statements of the table of documents.
#[derive(Debug)]
pub(crate) struct Documents {
    load: PreparedStatement,
    list: PreparedStatement,
    list_after: PreparedStatement,
    create: PreparedStatement,
    update: PreparedStatement,
    delete: PreparedStatement,
    stripes: Vec<Arc<Mutex<()>>>,
    /// Reads and changes that were sent again.
    pub(crate) retries: AtomicU64,
}

impl Documents {
    pub(crate) async fn prepare(
        session: &Session,
        prefix: &str,
        profiles: &Profiles,
        timeout: std::time::Duration,
    ) -> Result<Self, PrepareError> {
        let table = format!("{prefix}.{DOCUMENTS_TABLE}");
        let read = async |what: &str, level| {
            let mut statement = session.prepare(what.replace("{table}", &table)).await?;
            statement.set_consistency(level);
            statement.set_is_idempotent(true);
            statement.set_request_timeout(Some(timeout));
            statement.set_execution_profile_handle(Some(profiles.reads.clone()));
            Ok::<_, PrepareError>(statement)
        };
        let change = async |what: &str| {
            let mut statement = session.prepare(what.replace("{table}", &table)).await?;
            statement.set_consistency(Consistency::Quorum);
            statement.set_serial_consistency(Some(SerialConsistency::Serial));
            statement.set_is_idempotent(false);
            statement.set_request_timeout(Some(timeout));
            statement.set_execution_profile_handle(Some(profiles.changes.clone()));
            Ok::<_, PrepareError>(statement)
        };
        let load = "SELECT version, nonce, value FROM {table} WHERE scope = ? AND name = ?";
        let list = "SELECT name, version, value FROM {table} WHERE scope = ?";
        let create = "INSERT INTO {table} (version, nonce, value, scope, name) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS";
        let update = "UPDATE {table} SET version = ?, nonce = ?, value = ? WHERE scope = ? AND name = ? IF version = ?";
        Ok(Documents {
            load: read(load, Consistency::Serial).await?,
            list: read(list, Consistency::Quorum).await?,
            list_after: read(&format!("{list} AND name > ?"), Consistency::Quorum).await?,
            create: change(create).await?,
            update: change(update).await?,
            delete: change("DELETE FROM {table} WHERE scope = ? AND name = ? IF version = ?").await?,
            stripes: (0..STRIPES).map(|_| Arc::default()).collect(),
            retries: AtomicU64::new(0),
        })
    }

    fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    fn stripe(&self, scope: &str) -> &Mutex<()> {
        &self.stripes[(xxh3_64(scope.as_bytes()) % STRIPES as u64) as usize]
    }
}

/// A document as it is stored.
#[derive(Clone, Debug)]
struct Stored {
    document: Versioned,
    nonce: i64,
}

/// A change that is wanted.
struct Change<'a> {
    key: &'a MetaKey,
    expected: Option<Version>,
    version: Version,
    value: Option<&'a Bytes>,
    nonce: i64,
}

impl Inside {
    pub(crate) async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        Ok(self.stored(key).await?.map(|stored| stored.document))
    }

    async fn stored(&self, key: &MetaKey) -> Result<Option<Stored>, StoreError> {
        let deadline = self.env.monotonic().saturating_add(self.options.metadata_timeout);
        let answer = loop {
            let answer =
                self.session.execute_single_page(&self.documents.load, (&key.scope, &key.name), PagingState::start());
            match answer.await {
                Ok((answer, _)) => break answer,
                // A serial read is a transaction, too, and others of its scope may come before it for as long as a node waits.
                // Where that was nearly all of the time, one more attempt still has its own.
                Err(error) if timed_out(&error) && self.env.monotonic() < deadline => self.documents.count_retry(),
                Err(error) => return Err(read_error(&error)),
            }
        };
        let rows = answer.into_rows_result().map_err(|error| corrupt("an answer without rows", error))?;
        let row = rows.maybe_first_row::<(i64, i64, &[u8])>().map_err(|error| corrupt("a document", error))?;
        Ok(row.map(|(version, nonce, value)| Stored { document: document(version, value), nonce }))
    }

    pub(crate) async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        let mut found = Vec::new();
        let mut state = PagingState::start();
        while found.len() < limit {
            let wanted = i32::try_from((limit - found.len()).min(PAGE)).unwrap_or(i32::MAX);
            let answer = match after {
                Some(name) => self.list_answer(&self.documents.list_after, (scope, name), wanted, state).await,
                None => self.list_answer(&self.documents.list, (scope,), wanted, state).await,
            };
            let (answer, next) = answer.map_err(|error| read_error(&error))?;
            let rows = answer.into_rows_result().map_err(|error| corrupt("an answer without rows", error))?;
            for row in rows.rows::<(String, i64, &[u8])>().map_err(|error| corrupt("a document", error))? {
                let (name, version, value) = row.map_err(|error| corrupt("a document", error))?;
                found.push((name, document(version, value)));
            }
            match next {
                Some(next) => state = next,
                None => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn list_answer(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        rows: i32,
        state: PagingState,
    ) -> Result<(QueryResult, Option<PagingState>), ExecutionError> {
        let mut statement = statement.clone();
        statement.set_page_size(rows);
        let (answer, next) = self.session.execute_single_page(&statement, values, state).await?;
        Ok((answer, next.into_paging_control_flow().continue_value()))
    }

    pub(crate) async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<&Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        let version = match (expected, value) {
            (None, None) => {
                return Ok(self
                    .load(key)
                    .await?
                    .map_or(CasOutcome::Applied(Version(0)), |there| CasOutcome::Conflict(Some(there))));
            }
            // One made anew begins at the microsecond of its making: no version of a name comes twice.
            (None, Some(_)) => Version(u64::try_from(self.env.now().nanos() / 1000).unwrap_or(1).max(1)),
            (Some(last), Some(_)) => Version(last.0 + 1),
            (Some(last), None) => last,
        };
        let nonce = self.env.random_u64() as i64;
        let change = Change { key, expected, version, value, nonce };
        let _turn = self.documents.stripe(&key.scope).lock().await;
        self.change(&change).await
    }

    async fn change(&self, change: &Change<'_>) -> Result<CasOutcome, StoreError> {
        let mut failure = unavailable("it was never tried");
        for attempt in 0..ATTEMPTS {
            let error = match self.try_change(change).await {
                Ok(true) => return Ok(CasOutcome::Applied(change.version)),
                Ok(false) if attempt == 0 => return self.explain_conflict(change).await,
                // An earlier attempt may have been, after all, and somebody went on from there.
                Ok(false) => {
                    return match self.settle(change).await {
                        Settled::Outcome(outcome) => Ok(outcome),
                        Settled::Unchanged | Settled::Unknown => Err(failure),
                    };
                }
                Err(TryError::Driver(error)) => error,
                Err(TryError::Answer(error)) => return Err(unknown(error.to_string())),
            };
            failure = match fate(&error) {
                Fate::NotUnderstood | Fate::Refused if attempt == 0 => return Err(read_error(&error)),
                // Also "not available": a transaction counts its replicas again when it commits.
                _ => unknown(error.to_string()),
            };
            match self.settle(change).await {
                Settled::Outcome(outcome) => return Ok(outcome),
                Settled::Unchanged => self.documents.count_retry(),
                Settled::Unknown => return Err(failure),
            }
        }
        Err(failure)
    }

    async fn try_change(&self, change: &Change<'_>) -> Result<bool, TryError> {
        let (scope, name) = (&change.key.scope, &change.key.name);
        let number = |version: Version| i64::try_from(version.0).unwrap_or(i64::MAX);
        let (version, nonce) = (number(change.version), change.nonce);
        let (session, documents) = (&self.session, &self.documents);
        let answer = match (change.expected.map(number), change.value) {
            (None, value) => session.execute_unpaged(&documents.create, (version, nonce, value, scope, name)).await,
            (Some(expected), Some(value)) => {
                session.execute_unpaged(&documents.update, (version, nonce, value, scope, name, expected)).await
            }
            (Some(expected), None) => session.execute_unpaged(&documents.delete, (scope, name, expected)).await,
        };
        applied(answer.map_err(|error| TryError::Driver(Box::new(error)))?).map_err(TryError::Answer)
    }

    /// Not applied because of what is there.
    async fn explain_conflict(&self, change: &Change<'_>) -> Result<CasOutcome, StoreError> {
        let stored = self.stored(change.key).await?;
        Ok(match stored {
            Some(stored) if stored.nonce == change.nonce => CasOutcome::Applied(stored.document.version),
            stored => CasOutcome::Conflict(stored.map(|stored| stored.document)),
        })
    }

    /// A serial read ends every transaction that was under way: what it shows is what became of ours.
    async fn settle(&self, change: &Change<'_>) -> Settled {
        let Ok(stored) = self.stored(change.key).await else { return Settled::Unknown };
        match stored {
            Some(stored) if stored.nonce == change.nonce => {
                Settled::Outcome(CasOutcome::Applied(stored.document.version))
            }
            stored if stored.as_ref().map(|stored| stored.document.version) == change.expected => Settled::Unchanged,
            // Only one change leads from a version to the next, and it wasn't this one.
            Some(stored)
                if change.expected.is_some() && change.value.is_some() && stored.document.version == change.version =>
            {
                Settled::Outcome(CasOutcome::Conflict(Some(stored.document)))
            }
            // Someone went on from there; whether from ours can't be seen any more.
            _ => Settled::Unknown,
        }
    }
}

/// What a serial read showed of a change whose answer was lost.
enum Settled {
    Outcome(CasOutcome),
    Unchanged,
    Unknown,
}

/// Why a change has no answer.
enum TryError {
    Driver(Box<ExecutionError>),
    Answer(StoreError),
}

/// The first column of a transaction's answer says whether it was applied; which others there are depends on that.
fn applied(answer: QueryResult) -> Result<bool, StoreError> {
    let rows = answer.into_rows_result().map_err(|error| corrupt("the answer of a transaction", error))?;
    let row = rows.first_row::<Row>().map_err(|error| corrupt("the answer of a transaction", error))?;
    match row.columns.first() {
        Some(Some(CqlValue::Boolean(applied))) => Ok(*applied),
        other => Err(corrupt("the answer of a transaction", format!("{other:?} instead of yes or no"))),
    }
}

/// Copied: a document may be kept for long, and shouldn't keep the whole answer with it.
fn document(version: i64, value: &[u8]) -> Versioned {
    Versioned { version: Version(u64::try_from(version).unwrap_or(0)), value: Bytes::copy_from_slice(value) }
}

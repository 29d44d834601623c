//! Why the store can't be reached, and what an error of the driver means for whoever called: above all, whether
//! something may have been changed.

use std::{fmt, path::PathBuf};

use anabranch_store::StoreError;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use thiserror::Error;

/// Why the store can't be reached.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// What was chosen can't work.
    #[error("the options of the Cassandra store are wrong: {reason}")]
    Options {
        /// What is wrong with it.
        reason: String,
    },
    /// A file for TLS can't be used.
    #[error("cannot use {} for TLS: {reason}", path.display())]
    Tls {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// No node answers.
    #[error("cannot connect to Cassandra at {nodes}: {reason}")]
    Unreachable {
        /// Where it was tried.
        nodes: String,
        /// What the driver said.
        reason: String,
    },
    /// A node answers and won't have us. Waiting doesn't help.
    #[error("Cassandra at {nodes} refuses this client: {advice} ({reason})")]
    Refused {
        /// Where it was tried.
        nodes: String,
        /// What the driver said.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// Connected, but the table of documents isn't there and can't be made.
    #[error("cannot prepare the keyspace of documents: {0}")]
    Schema(#[from] StoreError),
}

/// What became of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It never was carried out anywhere. The same call may succeed.
    NotDone,
    /// It may have been carried out, or may still be.
    Unknown,
    /// The server doesn't know what it is about: a table that isn't there, most often.
    NotUnderstood,
    /// It will never be let in.
    Refused,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Its time passed before anything was sent.
    Late,
    Driver(Box<ExecutionError>),
}

impl Failure {
    /// What became of it, if it was an idempotent write.
    pub(crate) fn fate(&self) -> Fate {
        match self {
            Failure::Late => Fate::NotDone,
            Failure::Driver(error) => fate(error),
        }
    }

    /// Whether it was sent, and took too long.
    pub(crate) fn took_too_long(&self) -> bool {
        match self {
            Failure::Late => false,
            Failure::Driver(error) => timed_out(error) || matches!(**error, ExecutionError::RequestTimeout(_)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Late => f.write_str("the time for the call has passed"),
            Failure::Driver(error) => error.fmt(f),
        }
    }
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        Failure::Driver(Box::new(error))
    }
}

/// What became of an idempotent write that failed.
pub(crate) fn fate(error: &ExecutionError) -> Fate {
    match error {
        ExecutionError::BadQuery(_) => Fate::Refused,
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) | ExecutionError::UseKeyspaceError(_) => {
            Fate::NotDone
        }
        ExecutionError::PrepareError(error) => fate_of_preparing(error),
        ExecutionError::LastAttemptError(error) => fate_of_attempt(error),
        _ => Fate::Unknown,
    }
}

/// Preparing changes nothing, whatever goes wrong.
pub(crate) fn fate_of_preparing(error: &PrepareError) -> Fate {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => match fate_of_attempt(first_attempt) {
            Fate::Unknown => Fate::NotDone,
            known => known,
        },
        _ => Fate::NotDone,
    }
}

fn fate_of_attempt(error: &RequestAttemptError) -> Fate {
    match error {
        RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => Fate::Refused,
        RequestAttemptError::UnableToAllocStreamId => Fate::NotDone,
        RequestAttemptError::DbError(error, _) => match error {
            DbError::SyntaxError | DbError::Invalid | DbError::ConfigError => Fate::NotUnderstood,
            DbError::AuthenticationError | DbError::Unauthorized => Fate::Refused,
            // The coordinator counts replicas before it sends anything.
            DbError::Unavailable { .. } | DbError::IsBootstrapping | DbError::Unprepared { .. } => Fate::NotDone,
            // Also `Overloaded`: it is thrown when hints pile up, after some replicas were asked.
            _ => Fate::Unknown,
        },
        _ => Fate::Unknown,
    }
}

/// What a read answers: it changes nothing, so there is nothing unknown about it.
pub(crate) fn read_error(error: &ExecutionError) -> StoreError {
    read_failure(fate(error), error.to_string())
}

/// As [`read_error`], by what became of it.
pub(crate) fn read_failure(fate: Fate, reason: String) -> StoreError {
    match fate {
        Fate::NotDone | Fate::Unknown => StoreError::Unavailable { reason },
        // The node that was asked hasn't heard of the table yet, which another one has made or shown.
        Fate::NotUnderstood if reason.contains("does not exist") => StoreError::Unavailable { reason },
        Fate::NotUnderstood | Fate::Refused => StoreError::Refused { reason },
    }
}

/// Whether a node waited for as long as it waits, and in vain.
pub(crate) fn timed_out(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::ReadTimeout { .. }, _)))
}

/// Stored bytes that aren't what this store writes.
pub(crate) fn corrupt(what: &str, error: impl fmt::Display) -> StoreError {
    StoreError::Corrupt { reason: format!("{what}: {error}") }
}

pub(crate) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into() }
}

pub(crate) fn unknown(reason: impl Into<String>) -> StoreError {
    StoreError::Unknown { reason: reason.into() }
}

pub(crate) fn refused(reason: impl Into<String>) -> StoreError {
    StoreError::Refused { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use scylla::{errors::WriteType, statement::Consistency};

    use super::*;

    fn answered(error: DbError) -> ExecutionError {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, String::new()))
    }

    /// W1, S4: an outcome that isn't known may never be told as "nothing was changed".
    #[test]
    fn what_may_have_been_written_is_never_told_as_not_done() {
        let level = Consistency::LocalQuorum;
        let timeout = DbError::WriteTimeout {
            consistency: level,
            received: 1,
            required: 2,
            write_type: WriteType::UnloggedBatch,
        };
        for error in [
            answered(timeout),
            answered(DbError::Overloaded),
            answered(DbError::ServerError),
            answered(DbError::Other(0x1700)),
            ExecutionError::RequestTimeout(Duration::from_secs(1)),
        ] {
            assert_eq!(fate(&error), Fate::Unknown, "{error}");
        }
        let unavailable = DbError::Unavailable { consistency: level, required: 2, alive: 1 };
        assert_eq!(fate(&answered(unavailable)), Fate::NotDone);
        assert_eq!(fate(&ExecutionError::EmptyPlan), Fate::NotDone);
    }

    #[test]
    fn a_read_that_failed_can_be_tried_again() {
        let error = ExecutionError::RequestTimeout(Duration::from_secs(1));
        assert!(matches!(read_error(&error), StoreError::Unavailable { .. }));
        assert!(matches!(read_error(&answered(DbError::Unauthorized)), StoreError::Refused { .. }));
        let reason = "table documents does not exist".to_owned();
        let behind = ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, reason));
        assert!(matches!(read_error(&behind), StoreError::Unavailable { .. }), "a node that is behind with the schema");
        assert!(matches!(read_error(&answered(DbError::Invalid)), StoreError::Refused { .. }));
    }
}

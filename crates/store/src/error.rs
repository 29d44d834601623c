//! What can go wrong in a back end, told apart by what the caller has to do.

use anabranch_model::TableName;
use thiserror::Error;

/// What the caller of a store has to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nothing was changed; the same call may succeed later.
    Retry,
    /// Nothing was done, because too much is asked for at once: the same call again, at once, would make it worse.
    Overloaded,
    /// A write may or may not have happened, or may still happen. Writing the same again is safe.
    Unknown,
    /// The table isn't there: look at the slices again.
    NoSuchTable,
    /// The same call will never succeed.
    Refused,
    /// What is stored can't be understood: a person has to look.
    Corrupt,
}

/// An error of a back end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The store can't take the call now; nothing was changed.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// What the back end said.
        reason: String,
    },
    /// Too many reads wait for the store already.
    #[error("the store has too much to do: {reason}")]
    Overloaded {
        /// How many, or for how long.
        reason: String,
    },
    /// The time for the call has passed, or its answer was lost.
    #[error("the outcome of a store call is not known: {reason}")]
    Unknown {
        /// What the back end said.
        reason: String,
    },
    /// The table was never made, or was dropped.
    #[error("there is no table {table}")]
    NoSuchTable {
        /// Which.
        table: TableName,
    },
    /// Too large, too many, not supported.
    #[error("the store refused: {reason}")]
    Refused {
        /// What is wrong with the call.
        reason: String,
    },
    /// Stored bytes that no version of the format explains.
    #[error("the store holds damaged data: {reason}")]
    Corrupt {
        /// What was found, and where.
        reason: String,
    },
}

impl StoreError {
    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Unavailable { .. } => ErrorKind::Retry,
            StoreError::Overloaded { .. } => ErrorKind::Overloaded,
            StoreError::Unknown { .. } => ErrorKind::Unknown,
            StoreError::NoSuchTable { .. } => ErrorKind::NoSuchTable,
            StoreError::Refused { .. } => ErrorKind::Refused,
            StoreError::Corrupt { .. } => ErrorKind::Corrupt,
        }
    }
}

//! What can go wrong on the way of a write or a read, told apart by what the client has to do.

use std::time::Duration;

use anabranch_model::{IdError, NamespaceName, SliceError, Timestamp, TokenError};
use anabranch_store::{ErrorKind as StoreErrorKind, StoreError};
use thiserror::Error;

/// What a client has to do about an error. Each has a twin among the gRPC codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// Change the request.
    InvalidArgument,
    /// The event's time is outside of what the namespace accepts.
    OutOfRange,
    /// It isn't there.
    NotFound,
    /// It is there already.
    AlreadyExists,
    /// The series is blocked.
    PermissionDenied,
    /// Something else has to change first.
    FailedPrecondition,
    /// Somebody else changed the same thing at the same time: look again.
    Aborted,
    /// Come back later, with less.
    ResourceExhausted,
    /// The time ran out; of a write, the outcome isn't known.
    DeadlineExceeded,
    /// Try again.
    Unavailable,
    /// Stored data is damaged.
    DataLoss,
    /// It isn't built.
    Unimplemented,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a path into the request: `events[3].event_items[0].event_item_key`.
    pub field: String,
    /// What, and what to do about it.
    pub reason: String,
    /// How bad: `InvalidArgument`, `OutOfRange` or `PermissionDenied`.
    pub kind: ErrorKind,
}

/// What became of the events of a failed write, by index in the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Durable.
    pub stored: Vec<u32>,
    /// Not stored, and won't be.
    pub not_stored: Vec<u32>,
    /// Perhaps stored, perhaps not, perhaps later.
    pub unknown: Vec<u32>,
}

/// An error of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// A series that was to be taken off the block list, and isn't on it.
    #[error("`{series}` isn't blocked; nothing was changed")]
    NotBlocked {
        /// Which.
        series: String,
    },
    /// Something that isn't built yet.
    #[error("{what}")]
    NotThere {
        /// What, and what to do instead.
        what: String,
    },
    /// Somebody else changed the record of a split at the same time.
    #[error("the split is being changed by somebody else; try again: {reason}")]
    SplitBusy {
        /// What was found.
        reason: String,
    },
    /// The request can't be taken; nothing was done (W3). Names everything that is wrong.
    #[error("{}", describe(.0))]
    Refused(Vec<Violation>),
    /// No such namespace.
    #[error("there is no namespace `{name}`; `anabranch namespace list` shows those that are there")]
    NoSuchNamespace {
        /// What was asked for.
        name: String,
    },
    /// A namespace of this name is there.
    #[error("the namespace `{name}` exists already, or was deleted and can still be restored")]
    NamespaceExists {
        /// Which.
        name: NamespaceName,
    },
    /// No such backfill window.
    #[error("the namespace `{namespace}` has no backfill window `{id}`")]
    NoSuchBackfill {
        /// In which namespace.
        namespace: NamespaceName,
        /// What was asked for.
        id: String,
    },
    /// No proposal of the tuner waits.
    #[error(
        "nothing is proposed for `{namespace}`; `anabranch tune propose` looks now, `anabranch tune history` shows what was"
    )]
    NothingProposed {
        /// For which namespace.
        namespace: NamespaceName,
    },
    /// The series is on the namespace's block list.
    #[error("the series `{series}` is blocked since {since}: {reason}")]
    Blocked {
        /// Which.
        series: String,
        /// Since when.
        since: Timestamp,
        /// Why.
        reason: String,
    },
    /// A page token that can't be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Some events of a write weren't stored, or aren't known to be.
    #[error("{reason}: {} stored, {} not stored, {} unknown of {} events; sending the same events again is safe",
        .outcome.stored.len(), .outcome.not_stored.len(), .outcome.unknown.len(),
        .outcome.stored.len() + .outcome.not_stored.len() + .outcome.unknown.len())]
    WriteFailed {
        /// Which.
        outcome: WriteOutcome,
        /// Why.
        reason: String,
        /// What to do.
        kind: ErrorKind,
    },
    /// The time for the request ran out before anything could be answered.
    #[error("{what} did not finish in time; try again, or ask for less")]
    DeadlineExceeded {
        /// What was being done.
        what: &'static str,
    },
    /// A queue or limit is full.
    #[error("{what}; try again later")]
    Overloaded {
        /// Which limit.
        what: String,
    },
    /// A slice can't be made.
    #[error("no slice can be made: {0}")]
    Slice(#[from] SliceError),
    /// Somebody else keeps changing the same namespace.
    #[error("the namespace `{name}` was changed by others at the same time; look at it and try again")]
    Contended {
        /// Which.
        name: NamespaceName,
    },
    /// This server is ending, or has lost touch with its configuration.
    #[error("{reason}; try another server, or this one later")]
    NotServing {
        /// Why.
        reason: String,
    },
    /// This server has ended before everything that was queued could be written.
    #[error("{events} queued events could not be written within {waited:?} (engine.drain_timeout) and are lost")]
    Undrained {
        /// How many; what was on its way to the store may have got there.
        events: usize,
        /// How long was waited for them.
        waited: Duration,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EngineError {
    /// What the client has to do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            EngineError::Refused(violations) => refusal_kind(violations),
            EngineError::NoSuchNamespace { .. } | EngineError::NoSuchBackfill { .. } => ErrorKind::NotFound,
            EngineError::NothingProposed { .. } => ErrorKind::FailedPrecondition,
            EngineError::NamespaceExists { .. } => ErrorKind::AlreadyExists,
            EngineError::Blocked { .. } => ErrorKind::PermissionDenied,
            EngineError::Token(_) => ErrorKind::InvalidArgument,
            EngineError::WriteFailed { kind, .. } => *kind,
            EngineError::DeadlineExceeded { .. } | EngineError::Undrained { .. } => ErrorKind::DeadlineExceeded,
            EngineError::Overloaded { .. } | EngineError::Slice(_) => ErrorKind::ResourceExhausted,
            EngineError::Contended { .. } | EngineError::SplitBusy { .. } => ErrorKind::Aborted,
            EngineError::NotServing { .. } => ErrorKind::Unavailable,
            EngineError::NotThere { .. } => ErrorKind::Unimplemented,
            EngineError::NotBlocked { .. } => ErrorKind::NotFound,
            EngineError::Store(error) => match error.kind() {
                StoreErrorKind::Retry | StoreErrorKind::Unknown | StoreErrorKind::NoSuchTable => ErrorKind::Unavailable,
                StoreErrorKind::Overloaded => ErrorKind::ResourceExhausted,
                StoreErrorKind::Refused => ErrorKind::FailedPrecondition,
                StoreErrorKind::Corrupt => ErrorKind::DataLoss,
            },
        }
    }

    /// A request with one thing wrong.
    pub fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        let violation = Violation { field: field.into(), reason: reason.into(), kind: ErrorKind::InvalidArgument };
        EngineError::Refused(vec![violation])
    }
}

/// The names of namespaces are checked so early that a bad one is simply not there.
pub(crate) fn no_such_namespace(name: &str) -> EngineError {
    EngineError::NoSuchNamespace { name: name.to_owned() }
}

/// A bad name where one is being made.
pub fn bad_namespace_name(error: &IdError) -> EngineError {
    EngineError::invalid("name", error.to_string())
}

/// One kind for all: the plain mistake outweighs the others, since it has to be mended first.
fn refusal_kind(violations: &[Violation]) -> ErrorKind {
    violations.iter().map(|violation| violation.kind).min().unwrap_or(ErrorKind::InvalidArgument)
}

/// The first few, in words; all of them are in the details.
fn describe(violations: &[Violation]) -> String {
    const SHOWN: usize = 3;
    let mut text = String::new();
    for violation in violations.iter().take(SHOWN) {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&format!("{}: {}", violation.field, violation.reason));
    }
    if violations.len() > SHOWN {
        text.push_str(&format!("; and {} more", violations.len() - SHOWN));
    }
    text
}

impl From<anabranch_split::SplitError> for EngineError {
    fn from(error: anabranch_split::SplitError) -> Self {
        match error {
            anabranch_split::SplitError::Store(error) => EngineError::Store(error),
            other => EngineError::SplitBusy { reason: other.to_string() },
        }
    }
}

//! What can go wrong for a client, told apart by what the caller has to do.

use std::time::Duration;

use anabranch_api::v1::WriteOutcome;
use prost::{Message, Name};
use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::{StatusExt, pb};

use crate::origin::{Origin, origin};

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Correct the address or the settings of the client.
    Address,
    /// Correct the request: see the field violations.
    Invalid,
    /// The time of an event lies outside of what the namespace accepts.
    OutOfRange,
    /// It isn't there: make it first.
    NotFound,
    /// It is there already.
    AlreadyExists,
    /// The series is blocked: ask whoever blocked it.
    Denied,
    /// Something else has to change first.
    FailedPrecondition,
    /// Somebody else changed the same thing: look again, then decide.
    Conflict,
    /// Come back later, with less.
    Overloaded,
    /// The time ran out. Of a write the outcome isn't known; sending it again is safe.
    Timeout,
    /// The server can't be reached, was lost, or can't serve: try again later. Of a write the outcome isn't known; sending it again is
    /// safe.
    Unavailable,
    /// Stored data is damaged, or the server failed: a person has to look.
    Broken,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// Where, as a path into the request: `events[3].event_time`.
    pub field: String,
    /// What, and what to do about it.
    pub reason: String,
}

/// A request that failed.
#[derive(Clone, Debug, Error)]
#[error("{}", .0.message)]
pub struct ClientError(Box<Told>);

/// What is known of a failure; boxed, so that successes stay small.
#[derive(Clone, Debug)]
struct Told {
    kind: ErrorKind,
    code: Code,
    message: String,
    reason: Option<String>,
    violations: Vec<FieldViolation>,
    outcome: Option<WriteOutcome>,
    retry_after: Option<Duration>,
}

impl ClientError {
    pub(crate) fn address(message: impl Into<String>) -> Self {
        ClientError::plain(ErrorKind::Address, Code::InvalidArgument, message.into())
    }

    /// Nothing was sent: without an id of its own, a request sent again would be another one.
    pub(crate) fn no_chance(error: &dyn std::fmt::Display) -> Self {
        let message = format!("this machine has no random numbers to make an id of: {error}; choose the id yourself");
        ClientError::plain(ErrorKind::Broken, Code::Internal, message)
    }

    pub(crate) fn unreachable(address: &str, error: &tonic::transport::Error) -> Self {
        let message = format!("no server answers at {address}: {}; is `anabranch serve` running there?", causes(error));
        ClientError::plain(ErrorKind::Unavailable, Code::Unavailable, message)
    }

    fn plain(kind: ErrorKind, code: Code, message: String) -> Self {
        let (reason, violations, outcome, retry_after) = (None, Vec::new(), None, None);
        ClientError(Box::new(Told { kind, code, message, reason, violations, outcome, retry_after }))
    }

    /// What the caller has to do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The gRPC code; of a lost connection `UNAVAILABLE`, of an answer that didn't come in time `DEADLINE_EXCEEDED`.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What happened, and what to do.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The server's word for it, for programs: `NO_SUCH_NAMESPACE`.
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// Everything that is wrong with the request, as far as the server could say it in one answer.
    pub fn violations(&self) -> &[FieldViolation] {
        &self.0.violations
    }

    /// What became of each event of a failed write, where the server could tell.
    pub fn write_outcome(&self) -> Option<&WriteOutcome> {
        self.0.outcome.as_ref()
    }

    /// How long the server asks to wait before the same request is sent again; `None` when it didn't ask for it.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let violations = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
        let (kind, code) = match origin(&status) {
            Origin::Answer => (kind(status.code()), status.code()),
            Origin::Unconnected | Origin::Broken => (ErrorKind::Unavailable, Code::Unavailable),
            Origin::TimedOut => (ErrorKind::Timeout, Code::DeadlineExceeded),
        };
        let violation =
            |found: tonic_types::FieldViolation| FieldViolation { field: found.field, reason: found.description };
        ClientError(Box::new(Told {
            kind,
            code,
            message: message(&status),
            reason: details.error_info().map(|info| info.reason.clone()),
            violations: violations.into_iter().map(violation).collect(),
            outcome: outcome(status.details()),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }))
    }
}

fn kind(code: Code) -> ErrorKind {
    match code {
        Code::InvalidArgument => ErrorKind::Invalid,
        Code::OutOfRange => ErrorKind::OutOfRange,
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Denied,
        Code::FailedPrecondition | Code::Unimplemented => ErrorKind::FailedPrecondition,
        Code::Aborted => ErrorKind::Conflict,
        Code::ResourceExhausted => ErrorKind::Overloaded,
        Code::DeadlineExceeded | Code::Cancelled => ErrorKind::Timeout,
        Code::Unavailable => ErrorKind::Unavailable,
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => ErrorKind::Broken,
    }
}

/// The server's message; where the transport failed, what lies beneath it.
fn message(status: &Status) -> String {
    let text = match status.message() {
        "" => status.code().description(),
        text => text,
    };
    match std::error::Error::source(status) {
        Some(source) => format!("{text}: {}", causes(source)),
        None => text.to_owned(),
    }
}

/// An error and all that lies beneath it, each said once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}

/// The outcome of a write among the details of a status.
fn outcome(details: &[u8]) -> Option<WriteOutcome> {
    let status = pb::Status::decode(details).ok()?;
    let found = status.details.iter().find(|detail| detail.type_url == WriteOutcome::type_url())?;
    WriteOutcome::decode(found.value.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_of_a_status_are_decoded() {
        let bad = pb::BadRequest {
            field_violations: vec![pb::bad_request::FieldViolation {
                field: "events[1].event_id".to_owned(),
                description: "must not be empty".to_owned(),
                ..Default::default()
            }],
        };
        let outcome = WriteOutcome { stored: vec![0], not_stored: vec![1], unknown: vec![2, 3] };
        let any = |url: &str, value: Vec<u8>| prost_types::Any { type_url: url.to_owned(), value };
        let details = vec![
            any("type.googleapis.com/google.rpc.BadRequest", bad.encode_to_vec()),
            any(&WriteOutcome::type_url(), outcome.encode_to_vec()),
        ];
        let status = pb::Status { code: 3, message: "no".to_owned(), details };
        let status = Status::with_details(Code::InvalidArgument, "no", status.encode_to_vec().into());
        let error = ClientError::from(status);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), "no");
        let violation =
            FieldViolation { field: "events[1].event_id".to_owned(), reason: "must not be empty".to_owned() };
        assert_eq!(error.violations(), [violation]);
        assert_eq!(error.write_outcome(), Some(&outcome));
        assert_eq!(error.retry_after(), None);
    }
}

//! An error with all that any protocol may tell of it: a code, words, and details for programs.

use std::time::Duration;

use anabranch_api::v1;
use anabranch_engine::{EngineError, ErrorKind, Violation};
use tonic::Code;

/// How soon a full queue or limit is worth another try.
const RETRY_OVERLOADED: Duration = Duration::from_millis(200);
/// How soon a server that can't serve is worth another try.
const RETRY_UNAVAILABLE: Duration = Duration::from_secs(1);

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// What happened, to what, and what to do.
    pub(crate) message: String,
    /// The same for programs: `NO_SUCH_NAMESPACE`.
    pub(crate) reason: &'static str,
    /// Boxed, so that successes stay small.
    pub(crate) details: Box<Details>,
}

/// What a program may want to know of a failure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    /// Everything that is wrong with the request.
    pub(crate) violations: Vec<Violation>,
    /// What isn't there, or is there already: its type and name.
    pub(crate) resource: Option<(&'static str, String)>,
    /// When the same request may succeed.
    pub(crate) retry_after: Option<Duration>,
    /// What became of the events of a write.
    pub(crate) outcome: Option<v1::WriteOutcome>,
}

impl Failure {
    pub(crate) fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), reason, details: Box::default() }
    }

    /// One field that can't be used.
    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Failure {
        EngineError::invalid(field, reason).into()
    }

    /// Something that isn't there: its type and name.
    pub(crate) fn not_found(reason: &'static str, kind: &'static str, name: String, message: String) -> Failure {
        let mut failure = Failure::new(Code::NotFound, reason, message);
        failure.details.resource = Some((kind, name));
        failure
    }

    /// Too much at once, by a limit of the server.
    pub(crate) fn overloaded(message: impl Into<String>) -> Failure {
        let mut failure = Failure::new(Code::ResourceExhausted, "OVERLOADED", message);
        failure.details.retry_after = Some(RETRY_OVERLOADED);
        failure
    }

    /// Something that should never happen.
    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure::new(Code::Internal, "INTERNAL", message)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        let kind = error.kind();
        let mut failure = Failure::new(code(kind), reason(&error, kind), error.to_string());
        let details = &mut *failure.details;
        details.retry_after = retry_after(&error, kind);
        match error {
            EngineError::Refused(violations) => details.violations = violations,
            EngineError::Token(error) => {
                let (field, reason) = ("page_token".to_owned(), error.to_string());
                details.violations = vec![Violation { field, reason, kind }];
            }
            EngineError::NoSuchNamespace { name } => details.resource = Some(("namespace", name)),
            EngineError::NamespaceExists { name } => details.resource = Some(("namespace", name.into())),
            EngineError::NoSuchBackfill { id, .. } => details.resource = Some(("backfill", id)),
            EngineError::NotBlocked { series } => details.resource = Some(("series", series)),
            EngineError::WriteFailed { outcome: found, .. } => {
                let (stored, not_stored, unknown) = (found.stored, found.not_stored, found.unknown);
                details.outcome = Some(v1::WriteOutcome { stored, not_stored, unknown });
            }
            EngineError::Blocked { .. }
            | EngineError::DeadlineExceeded { .. }
            | EngineError::Overloaded { .. }
            | EngineError::Slice(_)
            | EngineError::Contended { .. }
            | EngineError::SplitBusy { .. }
            | EngineError::NothingProposed { .. }
            | EngineError::NotServing { .. }
            | EngineError::NotThere { .. }
            | EngineError::Undrained { .. }
            | EngineError::Store(_) => {}
        }
        failure
    }
}

fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::OutOfRange => Code::OutOfRange,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::FailedPrecondition => Code::FailedPrecondition,
        ErrorKind::Aborted => Code::Aborted,
        ErrorKind::ResourceExhausted => Code::ResourceExhausted,
        ErrorKind::DeadlineExceeded => Code::DeadlineExceeded,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::DataLoss => Code::DataLoss,
        ErrorKind::Unimplemented => Code::Unimplemented,
    }
}

fn reason(error: &EngineError, kind: ErrorKind) -> &'static str {
    match error {
        EngineError::Refused(_) => match kind {
            ErrorKind::OutOfRange => "OUTSIDE_ACCEPTED_TIME",
            ErrorKind::PermissionDenied => "SERIES_BLOCKED",
            _ => "INVALID_REQUEST",
        },
        EngineError::NoSuchNamespace { .. } => "NO_SUCH_NAMESPACE",
        EngineError::NamespaceExists { .. } => "NAMESPACE_EXISTS",
        EngineError::NoSuchBackfill { .. } => "NO_SUCH_BACKFILL",
        EngineError::Blocked { .. } => "SERIES_BLOCKED",
        EngineError::Token(_) => "BAD_PAGE_TOKEN",
        EngineError::WriteFailed { .. } => "WRITE_FAILED",
        EngineError::DeadlineExceeded { .. } => "DEADLINE_EXCEEDED",
        EngineError::Overloaded { .. } => "OVERLOADED",
        EngineError::Slice(_) => "NO_SLICE",
        EngineError::Contended { .. } => "CONTENDED",
        EngineError::SplitBusy { .. } => "SPLIT_BUSY",
        EngineError::NothingProposed { .. } => "NOTHING_PROPOSED",
        EngineError::NotServing { .. } | EngineError::Undrained { .. } => "NOT_SERVING",
        EngineError::NotThere { .. } => "NOT_BUILT",
        EngineError::NotBlocked { .. } => "NOT_BLOCKED",
        EngineError::Store(_) => match kind {
            ErrorKind::DataLoss => "DATA_DAMAGED",
            ErrorKind::ResourceExhausted => "OVERLOADED",
            ErrorKind::FailedPrecondition => "STORE_REFUSED",
            _ => "STORE_UNAVAILABLE",
        },
    }
}

fn retry_after(error: &EngineError, kind: ErrorKind) -> Option<Duration> {
    match (error, kind) {
        (EngineError::Overloaded { .. }, _) | (EngineError::Store(_), ErrorKind::ResourceExhausted) => {
            Some(RETRY_OVERLOADED)
        }
        (_, ErrorKind::Unavailable) => Some(RETRY_UNAVAILABLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anabranch_api::errors::REASONS;
    use anabranch_engine::WriteOutcome;
    use anabranch_model::{NamespaceName, SliceError, Timestamp, TokenError};
    use anabranch_store::StoreError;

    use super::*;

    fn errors() -> Vec<EngineError> {
        let name = NamespaceName::new("plays").unwrap();
        let (series, id, reason) = ("profile:1".to_owned(), "bf-1".to_owned(), "as said".to_owned());
        let violation = |kind| Violation { field: "events[0]".to_owned(), reason: "bad".to_owned(), kind };
        let kinds = [ErrorKind::InvalidArgument, ErrorKind::OutOfRange, ErrorKind::PermissionDenied];
        let mut errors: Vec<_> = kinds.map(|kind| EngineError::Refused(vec![violation(kind)])).into();
        errors.extend([
            EngineError::NoSuchNamespace { name: "plays".to_owned() },
            EngineError::NamespaceExists { name: name.clone() },
            EngineError::NoSuchBackfill { namespace: name.clone(), id },
            EngineError::Blocked { series, since: Timestamp::EARLIEST, reason: reason.clone() },
            EngineError::NotBlocked { series: "profile:1".to_owned() },
            EngineError::NotThere { what: reason.clone() },
            EngineError::Token(TokenError::Forged),
            EngineError::WriteFailed {
                outcome: WriteOutcome::default(),
                reason: reason.clone(),
                kind: ErrorKind::DeadlineExceeded,
            },
            EngineError::DeadlineExceeded { what: "the read" },
            EngineError::Overloaded { what: reason.clone() },
            EngineError::Slice(SliceError::TooMany { slices: 400 }),
            EngineError::Contended { name },
            EngineError::SplitBusy { reason: reason.clone() },
            EngineError::NothingProposed { namespace: NamespaceName::new("plays").unwrap() },
            EngineError::NotServing { reason: reason.clone() },
            EngineError::Store(StoreError::Unavailable { reason: reason.clone() }),
            EngineError::Store(StoreError::Overloaded { reason: reason.clone() }),
            EngineError::Store(StoreError::Refused { reason: reason.clone() }),
            EngineError::Store(StoreError::Corrupt { reason }),
        ]);
        errors
    }

    #[test]
    fn every_reason_that_is_told_is_given_somewhere() {
        let sources = [
            include_str!("failure.rs"),
            include_str!("http/errors.rs"),
            include_str!("http/message.rs"),
            include_str!("http/origin.rs"),
            include_str!("operations.rs"),
            include_str!("operations/splits.rs"),
        ];
        for told in REASONS {
            let literal = format!("\"{}\"", told.name);
            assert!(sources.iter().any(|source| source.contains(&literal)), "nobody answers {}", told.name);
        }
        for given in sources.iter().flat_map(|source| source.split("Failure::new(Code::").skip(1)) {
            let given = given.split_once(", \"").filter(|(code, _)| code.chars().all(char::is_alphanumeric));
            let Some(given) = given.and_then(|(_, rest)| rest.split('"').next()) else { continue };
            assert!(REASONS.iter().any(|told| told.name == given), "{given} is missing from anabranch_api::errors");
        }
    }

    #[test]
    fn every_error_has_a_code_its_http_twin_and_a_reason() {
        let mut lines = String::new();
        for error in errors() {
            let failure = Failure::from(error);
            let status = crate::grpc::status::status(failure.clone());
            assert_eq!(status.code(), failure.code);
            let response = crate::http::refuse(&failure);
            let retry = response.headers().get("retry-after").map(|seconds| format!("{seconds:?}"));
            let (code, http) = (crate::observe::code_name(failure.code), response.status().as_u16());
            lines += &format!("{code} {http} {} {}\n", failure.reason, retry.as_deref().unwrap_or("-"));
            let told = REASONS.iter().any(|told| (told.name, told.code, told.http) == (failure.reason, code, http));
            assert!(told, "{} {code} {http} is missing from anabranch_api::errors", failure.reason);
        }
        insta::assert_snapshot!(lines, @r#"
        INVALID_ARGUMENT 400 INVALID_REQUEST -
        OUT_OF_RANGE 400 OUTSIDE_ACCEPTED_TIME -
        PERMISSION_DENIED 403 SERIES_BLOCKED -
        NOT_FOUND 404 NO_SUCH_NAMESPACE -
        ALREADY_EXISTS 409 NAMESPACE_EXISTS -
        NOT_FOUND 404 NO_SUCH_BACKFILL -
        PERMISSION_DENIED 403 SERIES_BLOCKED -
        NOT_FOUND 404 NOT_BLOCKED -
        UNIMPLEMENTED 501 NOT_BUILT -
        INVALID_ARGUMENT 400 BAD_PAGE_TOKEN -
        DEADLINE_EXCEEDED 504 WRITE_FAILED -
        DEADLINE_EXCEEDED 504 DEADLINE_EXCEEDED -
        RESOURCE_EXHAUSTED 429 OVERLOADED "1"
        RESOURCE_EXHAUSTED 429 NO_SLICE -
        ABORTED 409 CONTENDED -
        ABORTED 409 SPLIT_BUSY -
        FAILED_PRECONDITION 400 NOTHING_PROPOSED -
        UNAVAILABLE 503 NOT_SERVING "1"
        UNAVAILABLE 503 STORE_UNAVAILABLE "1"
        RESOURCE_EXHAUSTED 429 OVERLOADED "1"
        FAILED_PRECONDITION 400 STORE_REFUSED -
        DATA_LOSS 500 DATA_DAMAGED -
        "#);
    }
}

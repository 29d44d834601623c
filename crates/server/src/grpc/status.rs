//! Failures as a gRPC status with the details of `google.rpc`. They travel in headers, for which many clients take no more
//! than 8 KiB: what doesn't fit is cut, and the message says so.

use anabranch_api::v1::WriteOutcome;
use anabranch_engine::Violation;
use prost::{Message, Name};
use prost_types::Any;
use tonic::Status;
use tonic_types::pb;

use crate::failure::Failure;

/// Bytes that the details may take. Beside them stands the message once more, and base64 makes a third more of both: about
/// 6,000 in all.
const MAX_DETAIL_BYTES: usize = 3600;
/// Bytes that the message may take; outside of the details each of its bytes that isn't ASCII takes three.
const MAX_MESSAGE_BYTES: usize = 768;
/// Bytes of one description.
const MAX_DESCRIPTION_BYTES: usize = 512;
/// What a list needs to hold one more entry: a tag and its length.
const ENTRY_BYTES: usize = 4;
const DOMAIN: &str = "anabranch";
const TYPES: &str = "type.googleapis.com/";

/// The status that tells of a failure.
pub(crate) fn status(failure: Failure) -> Status {
    let Failure { code, message, reason, details: known } = failure;
    let mut message = cut(&message, MAX_MESSAGE_BYTES);
    let mut details = Details::default();
    let info = pb::ErrorInfo { reason: reason.to_owned(), domain: DOMAIN.to_owned(), ..Default::default() };
    details.push("google.rpc.ErrorInfo", &info);
    if let Some(delay) = known.retry_after {
        let retry_delay = prost_types::Duration::try_from(delay).ok();
        details.push("google.rpc.RetryInfo", &pb::RetryInfo { retry_delay });
    }
    if let Some((kind, name)) = known.resource {
        let resource_name = cut(&name, MAX_DESCRIPTION_BYTES);
        let resource = pb::ResourceInfo { resource_type: kind.to_owned(), resource_name, ..Default::default() };
        details.push("google.rpc.ResourceInfo", &resource);
    }
    if let Some(outcome) = known.outcome
        && !details.push(&WriteOutcome::full_name(), &outcome)
    {
        message.push_str(" (the outcome of each event does not fit into this answer)");
    }
    let shown = details.push_violations(&known.violations);
    if shown < known.violations.len() {
        let total = known.violations.len();
        message.push_str(&format!(" ({total} things are wrong; the details hold the first {shown}, the rest was cut)"));
    }
    let status = pb::Status { code: code.into(), message: message.clone(), details: details.list };
    Status::with_details(code, message, status.encode_to_vec().into())
}

/// Details that fit.
struct Details {
    list: Vec<Any>,
    room: usize,
}

impl Default for Details {
    fn default() -> Self {
        Details { list: Vec::new(), room: MAX_DETAIL_BYTES }
    }
}

impl Details {
    /// Says whether there was room.
    fn push(&mut self, name: &str, detail: &impl Message) -> bool {
        let any = Any { type_url: format!("{TYPES}{name}"), value: detail.encode_to_vec() };
        let bytes = any.encoded_len() + ENTRY_BYTES;
        let fits = bytes <= self.room;
        if fits {
            self.room -= bytes;
            self.list.push(any);
        }
        fits
    }

    /// As many of the first as there is room for; says how many.
    fn push_violations(&mut self, violations: &[Violation]) -> usize {
        let mut field_violations = Vec::new();
        // The list itself, its type, and a margin.
        let mut room = self.room.saturating_sub(128);
        for violation in violations {
            let entry = pb::bad_request::FieldViolation {
                field: cut(&violation.field, MAX_DESCRIPTION_BYTES),
                description: cut(&violation.reason, MAX_DESCRIPTION_BYTES),
                ..Default::default()
            };
            let bytes = entry.encoded_len() + ENTRY_BYTES;
            if bytes > room {
                break;
            }
            room -= bytes;
            field_violations.push(entry);
        }
        let shown = field_violations.len();
        if shown > 0 {
            self.push("google.rpc.BadRequest", &pb::BadRequest { field_violations });
        }
        shown
    }
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use anabranch_engine::{EngineError, ErrorKind};
    use proptest::prelude::*;
    use tonic::Code;
    use tonic_types::StatusExt;

    use super::*;

    fn refused(violations: Vec<Violation>) -> Status {
        status(EngineError::Refused(violations).into())
    }

    fn header_bytes(status: &Status) -> usize {
        let response = status.clone().into_http::<()>();
        response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
    }

    proptest! {
        #[test]
        fn no_failure_outgrows_the_headers(
            count in 0usize..2000,
            field in ".{1,40}",
            reason in ".{0,1500}",
        ) {
            let violation = Violation { field, reason, kind: ErrorKind::InvalidArgument };
            let status = refused(vec![violation; count]);
            prop_assert!(status.details().len() <= 6 * 1024 * 3 / 4, "{}", status.details().len());
            prop_assert!(header_bytes(&status) <= 12 * 1024, "{}", header_bytes(&status));
            let shown = status.get_details_bad_request().map_or(0, |bad| bad.field_violations.len());
            prop_assert_eq!(shown < count, status.message().contains("the rest was cut"));
            prop_assert!(shown > 0 || count == 0);
        }
    }

    #[test]
    fn many_violations_are_cut_and_counted() {
        let violation = |index| Violation {
            field: format!("events[{index}].event_id"),
            reason: "must not be empty".to_owned(),
            kind: ErrorKind::InvalidArgument,
        };
        let status = refused((0..1000).map(violation).collect());
        insta::assert_snapshot!(status.message(), @"events[0].event_id: must not be empty; events[1].event_id: must not be empty; events[2].event_id: must not be empty; and 997 more (1000 things are wrong; the details hold the first 77, the rest was cut)");
        let shown = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!(shown[1].field, "events[1].event_id");
        assert_eq!(status.get_details_error_info().unwrap().reason, "INVALID_REQUEST");
    }

    #[test]
    fn an_outcome_that_does_not_fit_is_left_out_and_said_to_be() {
        let failed = |events: u32| {
            let outcome = anabranch_engine::WriteOutcome { unknown: (0..events).collect(), ..Default::default() };
            let reason = "the disk is slow".to_owned();
            status(EngineError::WriteFailed { outcome, reason, kind: ErrorKind::DeadlineExceeded }.into())
        };
        let decoded = |status: &Status| {
            let details = pb::Status::decode(status.details()).unwrap().details;
            let found = details.into_iter().find(|any| any.type_url == WriteOutcome::type_url());
            found.map(|any| WriteOutcome::decode(any.value.as_slice()).unwrap())
        };
        let small = failed(3);
        assert_eq!(small.code(), Code::DeadlineExceeded);
        assert_eq!(decoded(&small).unwrap().unknown, [0, 1, 2]);
        let big = failed(10_000);
        assert_eq!(decoded(&big), None);
        assert!(
            big.message().ends_with("(the outcome of each event does not fit into this answer)"),
            "{}",
            big.message()
        );
    }
}

//! Messages to what the engine takes, and back. Values move; nothing here decides what is allowed.

pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod namespaces;
pub(crate) mod observe;
pub(crate) mod reads;
pub(crate) mod searches;
pub(crate) mod splits;
pub(crate) mod tuning;

use std::time::Duration;

use anabranch_api::wkt;
use anabranch_engine::{EngineError, ErrorKind, Violation};
use anabranch_model::Timestamp;

/// A time for an answer.
pub(crate) fn timestamp(time: Timestamp) -> Option<wkt::Timestamp> {
    Some(wkt::Timestamp::from_nanos(time.nanos()))
}

/// A length of time for an answer.
pub(crate) fn duration(duration: Duration) -> Option<wkt::Duration> {
    wkt::Duration::try_from(duration).ok()
}

/// A bound in time. What lies outside of the time that events may have is cut to it: nothing is there.
fn bound(time: wkt::Timestamp) -> Result<Timestamp, wkt::TimestampError> {
    match time.to_nanos() {
        Ok(nanos) => Ok(Timestamp::from_nanos(nanos).clamp(Timestamp::EARLIEST, Timestamp::LATEST)),
        Err(wkt::TimestampError::Range) if time.seconds < 0 => Ok(Timestamp::EARLIEST),
        Err(wkt::TimestampError::Range) => Ok(Timestamp::LATEST),
        Err(error) => Err(error),
    }
}

/// Collects everything that is wrong with a request.
#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        let (field, reason) = (field.into(), reason.into());
        self.0.push(Violation { field, reason, kind: ErrorKind::InvalidArgument });
    }

    /// The value, or a note of why there is none.
    fn take<T, E: ToString>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(field, error.to_string())).ok()
    }

    fn into_result(self) -> Result<(), EngineError> {
        if self.0.is_empty() { Ok(()) } else { Err(EngineError::Refused(self.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_beyond_all_events_are_cut_and_malformed_ones_refused() {
        let at = |seconds, nanos| bound(wkt::Timestamp { seconds, nanos });
        assert_eq!(at(i64::MIN, 0), Ok(Timestamp::EARLIEST));
        assert_eq!(at(-62_135_596_800, 0), Ok(Timestamp::EARLIEST));
        assert_eq!(at(253_402_300_799, 0), Ok(Timestamp::LATEST));
        assert_eq!(at(i64::MAX, 999_999_999), Ok(Timestamp::LATEST));
        assert_eq!(at(-9_214_560_001, 0), Ok(Timestamp::EARLIEST));
        assert_eq!(at(1, 5), Ok(Timestamp::from_nanos(1_000_000_005)));
        assert_eq!(at(1, -5), Err(wkt::TimestampError::Nanos(-5)));
    }
}

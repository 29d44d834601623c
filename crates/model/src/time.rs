//! Points and half-open spans of time, in nanoseconds since the Unix epoch, UTC.

use std::{fmt, ops::Range, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A point in time: nanoseconds since the Unix epoch, UTC. Prints and parses as RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// A time that can't be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TimeError {
    /// Outside of what events may carry.
    #[error("time is outside {} to {}", Timestamp::EARLIEST, Timestamp::LATEST)]
    OutOfRange,
    /// Not RFC 3339.
    #[error("`{text}` is not an RFC 3339 time such as 2026-03-28T10:00:00.123Z")]
    Syntax {
        /// What was given.
        text: String,
    },
}

impl Timestamp {
    /// The earliest time an event may have: 1678-01-01T00:00:00Z.
    pub const EARLIEST: Timestamp = Timestamp(-9_214_560_000 * NANOS_PER_SECOND);
    /// The end of time: events are strictly before 2262-01-01T00:00:00Z.
    pub const LATEST: Timestamp = Timestamp(9_214_646_400 * NANOS_PER_SECOND);

    /// Takes any number of nanoseconds; use [`Timestamp::checked`] for what comes from outside.
    pub const fn from_nanos(nanos: i64) -> Self {
        Timestamp(nanos)
    }

    /// Whole seconds since the epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Timestamp(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// Refuses times that no slice could hold.
    pub fn checked(nanos: i64) -> Result<Self, TimeError> {
        let time = Timestamp(nanos);
        if (Self::EARLIEST..Self::LATEST).contains(&time) { Ok(time) } else { Err(TimeError::OutOfRange) }
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(NANOS_PER_SECOND)
    }

    /// Whether it is still to come, and no further ahead than a right clock can have put the end of something that lasts at most
    /// this long. What a wrong clock stored isn't waited for.
    pub fn is_ahead_of(self, now: Timestamp, longest: Duration) -> bool {
        now < self && self <= now.saturating_add(longest * 2)
    }

    /// Later by `by`; stops at the end of the number range.
    pub fn saturating_add(self, by: Duration) -> Self {
        Timestamp(self.0.saturating_add(clamp(by)))
    }

    /// Earlier by `by`; stops at the end of the number range.
    pub fn saturating_sub(self, by: Duration) -> Self {
        Timestamp(self.0.saturating_sub(clamp(by)))
    }

    /// How much later this is than `earlier`; zero when it isn't.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let nanos = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

fn clamp(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{}ns", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let time: jiff::Timestamp = text.parse().map_err(|_| TimeError::Syntax { text: text.to_owned() })?;
        let nanos = i64::try_from(time.as_nanosecond()).map_err(|_| TimeError::OutOfRange)?;
        Timestamp::checked(nanos)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == Timestamp::LATEST.to_string() {
            return Ok(Timestamp::LATEST);
        }
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A duration as people write it: `36h`, `1m 30s`.
pub fn describe(duration: Duration) -> String {
    jiff::fmt::friendly::SpanPrinter::new().unsigned_duration_to_string(&duration)
}

/// A half-open span of time: `start <= t < end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Interval {
    /// The first instant inside.
    pub start: Timestamp,
    /// The first instant after.
    pub end: Timestamp,
}

impl Interval {
    /// No time.
    pub const EMPTY: Interval = Interval { start: Timestamp::EARLIEST, end: Timestamp::EARLIEST };
    /// All the time that events may have.
    pub const ALL: Interval = Interval { start: Timestamp::EARLIEST, end: Timestamp::LATEST };

    /// From `start` up to, not including, `end`.
    pub const fn new(start: Timestamp, end: Timestamp) -> Self {
        Interval { start, end }
    }

    /// Whether no instant is inside.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Whether `time` is inside.
    pub fn contains(&self, time: Timestamp) -> bool {
        self.start <= time && time < self.end
    }

    /// What both have in common; empty when nothing.
    #[must_use]
    pub fn intersect(&self, other: &Interval) -> Interval {
        Interval { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// How long it is.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }
}

impl From<Range<Timestamp>> for Interval {
    fn from(range: Range<Timestamp>) -> Self {
        Interval { start: range.start, end: range.end }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_midnights_they_are_documented_as() {
        assert_eq!(Timestamp::EARLIEST.to_string(), "1678-01-01T00:00:00Z");
        assert_eq!(Timestamp::LATEST.to_string(), "2262-01-01T00:00:00Z");
    }

    #[test]
    fn extreme_times_are_refused() {
        for nanos in [i64::MIN, Timestamp::EARLIEST.nanos() - 1, Timestamp::LATEST.nanos(), i64::MAX] {
            assert_eq!(Timestamp::checked(nanos), Err(TimeError::OutOfRange), "{nanos}");
        }
        assert!(Timestamp::checked(Timestamp::EARLIEST.nanos()).is_ok());
        assert!(Timestamp::checked(Timestamp::LATEST.nanos() - 1).is_ok());
        assert_eq!("0001-01-01T00:00:00Z".parse::<Timestamp>(), Err(TimeError::OutOfRange));
        assert!("yesterday".parse::<Timestamp>().is_err());
    }

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(describe(Duration::from_secs(36 * 3600)), "36h");
        assert_eq!(describe(Duration::from_millis(90_500)), "1m 30s 500ms");
        assert_eq!(describe(Duration::ZERO), "0s");
    }

    #[test]
    fn nanoseconds_survive_text() {
        let time: Timestamp = "2026-03-28T10:00:00.123456789Z".parse().unwrap();
        assert_eq!(time.nanos(), 1_774_692_000_123_456_789);
        assert_eq!(time.to_string(), "2026-03-28T10:00:00.123456789Z");
    }
}

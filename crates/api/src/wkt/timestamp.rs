//! `google.protobuf.Timestamp`: an instant to the nanosecond, from the year 1 to 9999.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time, date};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

use super::{NANOS_PER_SECOND, text};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;

/// An instant. In JSON: RFC 3339 in UTC, `2026-03-28T10:00:00.123456789Z`, with 0, 3, 6 or 9 digits of fraction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds that count forward from `seconds`: 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Why something is no timestamp, or not one that can be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// The text isn't RFC 3339.
    #[error("{0:?} is not an RFC 3339 time such as 2026-03-28T10:00:00.123456789Z")]
    Text(String),
    /// Before the year 1 or after 9999.
    #[error("a time must lie in the years 0001 to 9999")]
    Year,
    /// `nanos` is negative, or a whole second or more.
    #[error("nanos must be 0 to 999999999, not {0}")]
    Nanos(i32),
    /// Outside 1677-09-21 to 2262-04-11, what 64 bits of nanoseconds can hold.
    #[error("a time must lie between 1677-09-21T00:12:43.145224192Z and 2262-04-11T23:47:16.854775807Z")]
    Range,
}

impl Timestamp {
    /// The instant so many nanoseconds after 1970 (before, when negative).
    pub fn from_nanos(nanos: i64) -> Timestamp {
        let per_second = i64::from(NANOS_PER_SECOND);
        Timestamp {
            seconds: nanos.div_euclid(per_second),
            nanos: i32::try_from(nanos.rem_euclid(per_second)).expect("a remainder below 10^9 fits 32 bits"),
        }
    }

    /// Nanoseconds since 1970. Refuses a time that 64 bits can't hold or whose `nanos` are out of bounds.
    pub fn to_nanos(self) -> Result<i64, TimestampError> {
        self.check_nanos()?;
        let nanos = i128::from(self.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos);
        i64::try_from(nanos).map_err(|_| TimestampError::Range)
    }

    fn check_nanos(self) -> Result<(), TimestampError> {
        if (0..NANOS_PER_SECOND).contains(&self.nanos) { Ok(()) } else { Err(TimestampError::Nanos(self.nanos)) }
    }

    /// The JSON form.
    fn to_text(self) -> Result<String, TimestampError> {
        self.check_nanos()?;
        if !(FIRST_SECOND..=LAST_SECOND).contains(&self.seconds) {
            return Err(TimestampError::Year);
        }
        let at = EPOCH.checked_add(SignedDuration::from_secs(self.seconds)).map_err(|_| TimestampError::Year)?;
        Ok(format!("{at}{}Z", text::fraction(self.nanos.unsigned_abs())))
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Any offset is taken, and nothing is rounded: more than nine digits of fraction and leap seconds are refused.
    fn from_str(text: &str) -> Result<Timestamp, TimestampError> {
        let (local, nanos, offset_seconds) = parse(text).ok_or_else(|| TimestampError::Text(text.to_owned()))?;
        let seconds = local.duration_since(EPOCH).as_secs() - offset_seconds;
        if !(FIRST_SECOND..=LAST_SECOND).contains(&seconds) {
            return Err(TimestampError::Year);
        }
        Ok(Timestamp { seconds, nanos })
    }
}

/// Local time to the second, nanoseconds, and the offset from UTC in seconds.
fn parse(text: &str) -> Option<(DateTime, i32, i64)> {
    // jiff's `Timestamp` ends a day before protobuf's, and its parser takes more than RFC 3339: hence its civil types.
    let (date, time) = text.split_once(['T', 't'])?;
    let (year, month, day) = three(date, '-', [4, 2, 2])?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone);
    let (clock, nanos) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, text::parse_fraction(fraction)?),
        None => (clock, 0),
    };
    let (hour, minute, second) = three(clock, ':', [2, 2, 2])?;
    let date = Date::new(year, narrow(month)?, narrow(day)?).ok()?;
    let time = Time::new(narrow(hour)?, narrow(minute)?, narrow(second)?, 0).ok()?;
    Some((DateTime::from_parts(date, time), nanos, offset(zone)?))
}

/// Three numbers of fixed widths between separators.
fn three(text: &str, separator: char, widths: [usize; 3]) -> Option<(i16, i16, i16)> {
    let mut parts = text.split(separator).zip(widths).map(|(part, width)| {
        let number = (part.len() == width).then(|| text::parse_digits(part)).flatten()?;
        i16::try_from(number).ok()
    });
    let numbers = (parts.next()??, parts.next()??, parts.next()??);
    let whole = text.split(separator).count() == 3;
    whole.then_some(numbers)
}

fn narrow(number: i16) -> Option<i8> {
    i8::try_from(number).ok()
}

/// `Z`, or `+hh:mm` or `-hh:mm`, as seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, clock) = match zone.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    let (hours, minutes) = clock.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (text::parse_digits(hours)?, text::parse_digits(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_text() {
            Ok(text) => f.write_str(&text),
            Err(_) => write!(f, "{}s+{}ns since 1970", self.seconds, self.nanos),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text().map_err(ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        text::deserialize(deserializer, "an RFC 3339 time")
    }
}

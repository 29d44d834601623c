//! `google.protobuf.Duration`: a signed length of time to the nanosecond, up to about 10,000 years.

use std::fmt;
use std::str::FromStr;
use std::time;

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

use super::{NANOS_PER_SECOND, text};

const MOST_SECONDS: i64 = 315_576_000_000;

/// A length of time. In JSON: seconds, `"0.004s"`, with 0, 3, 6 or 9 digits of fraction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// The rest in nanoseconds, below a second, with the sign of `seconds`.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Why something is no duration, or not one that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text isn't seconds followed by `s`.
    #[error("{0:?} is not a duration in seconds such as 3600s or 0.004s")]
    Text(String),
    /// Longer than protobuf allows.
    #[error("a duration is 315576000000 seconds at most")]
    Range,
    /// `nanos` are a whole second or more, or differ from `seconds` in sign.
    #[error("nanos must be below a second, with the sign of the seconds, not {0}")]
    Nanos(i32),
    /// Less than nothing, where only a real length of time makes sense.
    #[error("a duration must not be negative, as {0} is")]
    Negative(Duration),
}

impl Duration {
    fn check(self) -> Result<(), DurationError> {
        if self.seconds.unsigned_abs() > MOST_SECONDS.unsigned_abs() {
            return Err(DurationError::Range);
        }
        let signs_differ = self.seconds.signum() * i64::from(self.nanos.signum()) < 0;
        if signs_differ || self.nanos.unsigned_abs() >= NANOS_PER_SECOND.unsigned_abs() {
            return Err(DurationError::Nanos(self.nanos));
        }
        Ok(())
    }

    /// The JSON form.
    fn to_text(self) -> Result<String, DurationError> {
        self.check()?;
        let sign = if self.seconds < 0 || self.nanos < 0 { "-" } else { "" };
        Ok(format!("{sign}{}{}s", self.seconds.unsigned_abs(), text::fraction(self.nanos.unsigned_abs())))
    }
}

impl TryFrom<Duration> for time::Duration {
    type Error = DurationError;

    fn try_from(duration: Duration) -> Result<time::Duration, DurationError> {
        duration.check()?;
        match (u64::try_from(duration.seconds), u32::try_from(duration.nanos)) {
            (Ok(seconds), Ok(nanos)) => Ok(time::Duration::new(seconds, nanos)),
            _ => Err(DurationError::Negative(duration)),
        }
    }
}

impl TryFrom<time::Duration> for Duration {
    type Error = DurationError;

    fn try_from(duration: time::Duration) -> Result<Duration, DurationError> {
        let seconds = i64::try_from(duration.as_secs()).map_err(|_| DurationError::Range)?;
        let nanos = i32::try_from(duration.subsec_nanos()).map_err(|_| DurationError::Range)?;
        let duration = Duration { seconds, nanos };
        duration.check().map(|()| duration)
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Duration, DurationError> {
        let (negative, seconds, nanos) = parse(text).ok_or_else(|| DurationError::Text(text.to_owned()))?;
        let duration =
            if negative { Duration { seconds: -seconds, nanos: -nanos } } else { Duration { seconds, nanos } };
        duration.check().map(|()| duration)
    }
}

/// Whether it is negative, then seconds and nanoseconds without their sign.
fn parse(text: &str) -> Option<(bool, i64, i32)> {
    let number = text.strip_suffix('s')?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (seconds, nanos) = match number.split_once('.') {
        Some((seconds, fraction)) => (seconds, text::parse_fraction(fraction)?),
        None => (number, 0),
    };
    Some((negative, text::parse_digits(seconds)?, nanos))
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_text() {
            Ok(text) => f.write_str(&text),
            Err(_) => write!(f, "{}s+{}ns", self.seconds, self.nanos),
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text().map_err(ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        text::deserialize(deserializer, "a duration in seconds, such as \"0.004s\"")
    }
}

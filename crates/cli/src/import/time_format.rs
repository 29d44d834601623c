//! How a file writes its times.

use std::str::FromStr;

use anabranch_model::Timestamp;
use jiff::fmt::strtime;

use crate::times::{calendar_time, scaled, utc};

/// How to read a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimeFormat {
    /// RFC 3339, or a date with or without a time, in UTC.
    Auto,
    Rfc3339,
    /// A number since 1970, of so many nanoseconds each.
    Unix {
        unit_nanos: u32,
    },
    /// As of strptime; UTC unless it says otherwise.
    Pattern(String),
}

impl FromStr for TimeFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(TimeFormat::Auto),
            "rfc3339" => Ok(TimeFormat::Rfc3339),
            "unix" | "unix-s" => Ok(TimeFormat::Unix { unit_nanos: 1_000_000_000 }),
            "unix-ms" => Ok(TimeFormat::Unix { unit_nanos: 1_000_000 }),
            "unix-us" => Ok(TimeFormat::Unix { unit_nanos: 1_000 }),
            "unix-ns" => Ok(TimeFormat::Unix { unit_nanos: 1 }),
            pattern if pattern.contains('%') => Ok(TimeFormat::Pattern(pattern.to_owned())),
            _ => {
                Err("must be auto, rfc3339, unix, unix-ms, unix-us, unix-ns, or a pattern such as '%Y-%m-%d'"
                    .to_owned())
            }
        }
    }
}

impl TimeFormat {
    /// The instant that `text` means.
    pub(crate) fn parse(&self, text: &str) -> Result<Timestamp, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        match self {
            TimeFormat::Auto => calendar_time(text).map_err(|reason| match reason.ends_with("is not a time") {
                _ if is_number(text) => {
                    format!("{reason}; for numbers say --time-format unix, unix-ms, unix-us or unix-ns")
                }
                true => format!("{reason} such as 2026-03-28T10:00:00Z; --time-format says how times are written"),
                false => reason,
            }),
            TimeFormat::Rfc3339 => {
                text.parse::<anabranch_api::wkt::Timestamp>().map_err(|error| error.to_string()).and_then(|time| {
                    let nanos = time.to_nanos().map_err(|error| error.to_string())?;
                    Timestamp::checked(nanos).map_err(|error| error.to_string())
                })
            }
            TimeFormat::Unix { unit_nanos } => unix(text, *unit_nanos),
            TimeFormat::Pattern(pattern) => {
                by_pattern(pattern, text).ok_or_else(|| format!("`{text}` doesn't match the pattern `{pattern}`"))
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'-')
}

fn unix(text: &str, unit_nanos: u32) -> Result<Timestamp, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let nanos = plain.then(|| scaled(digits, u128::from(unit_nanos))).flatten();
    let nanos = nanos.ok_or_else(|| format!("`{text}` is not a number"))?;
    let nanos = i64::try_from(nanos).ok().map(|nanos| if negative { -nanos } else { nanos });
    let time = nanos.and_then(|nanos| Timestamp::checked(nanos).ok());
    time.ok_or_else(|| format!("`{text}` is out of range; are the units right (--time-format unix, unix-ms, …)?"))
}

fn by_pattern(pattern: &str, text: &str) -> Option<Timestamp> {
    let parsed = strtime::parse(pattern, text).ok()?;
    if parsed.offset().is_some() || parsed.timestamp().is_some() {
        let time = parsed.to_timestamp().ok()?;
        return Timestamp::checked(i64::try_from(time.as_nanosecond()).ok()?).ok();
    }
    let local = parsed.to_datetime().or_else(|_| parsed.to_date().map(jiff::civil::DateTime::from)).ok()?;
    utc(local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_reads_its_own() {
        let cases = [
            ("auto", "2026-03-28T10:00:00.5Z", "2026-03-28T10:00:00.5Z"),
            ("auto", "2026-03-28 10:00:00", "2026-03-28T10:00:00Z"),
            ("auto", "2026-03-28", "2026-03-28T00:00:00Z"),
            ("rfc3339", "2026-03-28T12:00:00+02:00", "2026-03-28T10:00:00Z"),
            ("unix", "1774692000", "2026-03-28T10:00:00Z"),
            ("unix", "1774692000.123456789", "2026-03-28T10:00:00.123456789Z"),
            ("unix", "-1.5", "1969-12-31T23:59:58.5Z"),
            ("unix-ms", "1774692000123", "2026-03-28T10:00:00.123Z"),
            ("unix-us", "1774692000123456", "2026-03-28T10:00:00.123456Z"),
            ("unix-ns", "1774692000123456789", "2026-03-28T10:00:00.123456789Z"),
            ("%d.%m.%Y %H:%M", "28.03.2026 10:00", "2026-03-28T10:00:00Z"),
            ("%d.%m.%Y", "28.03.2026", "2026-03-28T00:00:00Z"),
            ("%Y-%m-%d %H:%M:%S%.f %z", "2026-03-28 12:00:00.25 +0200", "2026-03-28T10:00:00.25Z"),
        ];
        for (format, text, expected) in cases {
            let time = format.parse::<TimeFormat>().unwrap().parse(text);
            assert_eq!(time.map(|time| time.to_string()), Ok(expected.to_owned()), "{format} {text}");
        }
    }

    #[test]
    fn what_is_no_time_is_said_so() {
        let parse = |format: &str, text: &str| format.parse::<TimeFormat>().unwrap().parse(text).unwrap_err();
        assert!(parse("auto", "1774692000").contains("--time-format unix"));
        assert!(parse("auto", "soon").contains("`soon` is not a time"));
        let range =
            "`1500-01-01T00:00:00Z` is out of range: times lie from 1678-01-01T00:00:00Z to 2262-01-01T00:00:00Z";
        assert_eq!(parse("auto", "1500-01-01T00:00:00Z"), range);
        assert!(parse("unix", "1774692000123456").contains("out of range"));
        assert!(parse("unix", "1e9").contains("not a number"));
        assert!(parse("unix", "").contains("empty"));
        assert!(parse("rfc3339", "2026-03-28").contains("RFC 3339"));
        assert!(parse("%Y", "28.03.2026").contains("pattern"));
        assert!("seconds".parse::<TimeFormat>().is_err());
    }
}

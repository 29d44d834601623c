//! Moments, lengths of time and sizes as people type and read them: `-2h`, `2026-03-28`, `36h`, `4MiB`.

use std::{fmt, str::FromStr, time::Duration};

use anabranch_api::{v1::TimeInterval, wkt};
use anabranch_model::Timestamp;
use jiff::civil;

const UNITS: [(&str, u128); 10] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

const SIZES: [(&str, u64); 10] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tb", 1_000_000_000_000),
    ("tib", 1 << 40),
];

/// A moment on the command line. Relative ones are resolved once, when the command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    At(Timestamp),
    Ago(Duration),
    Ahead(Duration),
}

impl Moment {
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Moment::At(time) => time,
            Moment::Ago(by) => now.saturating_sub(by).max(Timestamp::EARLIEST),
            Moment::Ahead(by) => now.saturating_add(by),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "now" {
            return Ok(Moment::Ahead(Duration::ZERO));
        }
        let relative = text.strip_prefix("now").unwrap_or(text);
        if let Some(by) = relative.strip_prefix('-').and_then(duration) {
            return Ok(Moment::Ago(by));
        }
        if let Some(by) = relative.strip_prefix('+').and_then(duration) {
            return Ok(Moment::Ahead(by));
        }
        let explain = |reason: String| {
            format!("{reason}; use 2026-03-28T10:00:00Z, 2026-03-28, now, or a time ago such as -2h or -7d")
        };
        calendar_time(text).map(Moment::At).map_err(explain)
    }
}

/// RFC 3339, or a date, or a date and time without a zone; the latter two count as UTC.
pub(crate) fn calendar_time(text: &str) -> Result<Timestamp, String> {
    match text.parse::<Timestamp>() {
        Ok(time) => return Ok(time),
        Err(anabranch_model::TimeError::OutOfRange) => return Err(out_of_range(text)),
        Err(anabranch_model::TimeError::Syntax { .. }) => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) || text.contains('[') {
        return Err(format!("`{text}` is not a time"));
    }
    let local = text.parse::<civil::DateTime>().or_else(|_| text.parse::<civil::Date>().map(civil::DateTime::from));
    let local = local.map_err(|_| format!("`{text}` is not a time"))?;
    utc(local).ok_or_else(|| out_of_range(text))
}

fn out_of_range(text: &str) -> String {
    format!("`{text}` is out of range: times lie from {} to {}", Timestamp::EARLIEST, Timestamp::LATEST)
}

/// The instant at which a clock in UTC shows this.
pub(crate) fn utc(local: civil::DateTime) -> Option<Timestamp> {
    let time = jiff::tz::Offset::UTC.to_timestamp(local).ok()?;
    Timestamp::checked(i64::try_from(time.as_nanosecond()).ok()?).ok()
}

/// `1d`, `12h`, `1h30m`, `0.5s`; without a unit: seconds.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(number);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ').unwrap_or(tail.len());
        let (name, tail) = tail.split_at(unit);
        let per_unit = match name {
            "" if digits.len() == text.trim().len() => 1_000_000_000,
            name => UNITS.iter().find(|(unit, _)| *unit == name)?.1,
        };
        nanos = nanos.checked_add(scaled(digits, per_unit)?)?;
        rest = tail.trim_start();
    }
    Some(Duration::from_nanos(u64::try_from(nanos).ok()?))
}

/// A decimal number times a unit, to the last digit.
pub(crate) fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let part = digits(fraction)?.checked_mul(unit)? / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    digits(whole)?.checked_mul(unit)?.checked_add(part)
}

/// For clap: a length of time.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text)
        .ok_or_else(|| format!("`{text}` is not a length of time such as 36h, 7d, 1h30m, 500ms or 90 (seconds)"))
}

/// For clap: a length of time in whole seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<u32, String> {
    let length = parse_duration(text)?;
    match u32::try_from(length.as_secs()) {
        Ok(seconds) if length.subsec_nanos() == 0 => Ok(seconds),
        _ => Err(format!("`{text}` is not a number of whole seconds below 136 years")),
    }
}

/// For clap: a number of bytes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let unit = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, name) = trimmed.split_at(unit);
    let name = name.trim().to_ascii_lowercase();
    let parsed = SIZES.iter().find(|(size, _)| *size == name).and_then(|(_, size)| scaled(number, u128::from(*size)));
    parsed
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or_else(|| format!("`{text}` is not a size such as 4MiB, 512KiB or 1000000 (bytes)"))
}

/// A length of time as [`parse_duration`] takes it: `7d`, `36h`, `1h30m`, `500ms`.
pub(crate) fn show_duration(length: Duration) -> String {
    let seconds = length.as_secs();
    if length.is_zero() {
        return "0s".to_owned();
    }
    if length.subsec_nanos() == 0 && seconds.is_multiple_of(86_400) {
        return format!("{}d", seconds / 86_400);
    }
    let mut text = String::new();
    // Up to three days hours are easier to compare: 36h.
    let (days, seconds) = if seconds < 3 * 86_400 { (0, seconds) } else { (seconds / 86_400, seconds % 86_400) };
    for (amount, unit) in [(days, "d"), (seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")] {
        if amount > 0 {
            text.push_str(&format!("{amount}{unit}"));
        }
    }
    let nanos = length.subsec_nanos();
    for (amount, unit) in [(nanos / 1_000_000, "ms"), (nanos / 1_000 % 1_000, "us"), (nanos % 1_000, "ns")] {
        if amount > 0 {
            text.push_str(&format!("{amount}{unit}"));
        }
    }
    text
}

/// How long something took: two units are enough.
pub(crate) fn show_elapsed(length: Duration) -> String {
    match length.as_secs() {
        0 => format!("{} ms", length.as_millis()),
        seconds @ 1..60 => format!("{seconds}.{} s", length.subsec_millis() / 100),
        seconds => show_duration(Duration::from_secs(seconds)),
    }
}

/// A size, exactly where it is a round one: `4MiB`, else `1.3 MiB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (63 - bytes.max(1).leading_zeros()) / 10;
    let unit = units[power as usize];
    let size = 1_u64 << (power * 10);
    if bytes.is_multiple_of(size) {
        return format!("{} {unit}", bytes / size);
    }
    let tenths = u128::from(bytes) * 10 / u128::from(size);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// A number with its thousands apart: `1,234,567`.
pub(crate) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time on the wire as text; `-` when absent.
pub(crate) fn show_time(time: Option<&wkt::Timestamp>) -> String {
    show_or_dash(time)
}

/// A length of time on the wire as text; `-` when absent.
pub(crate) fn show_wire_duration(length: Option<&wkt::Duration>) -> String {
    match length.map(|length| Duration::try_from(*length)) {
        Some(Ok(length)) => show_duration(length),
        _ => show_or_dash(length),
    }
}

fn show_or_dash(value: Option<&impl fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// A time for the wire.
pub(crate) fn to_wire(time: Timestamp) -> wkt::Timestamp {
    wkt::Timestamp::from_nanos(time.nanos())
}

/// A span for the wire; none where no bound is given.
pub(crate) fn time_interval(from: Option<Moment>, to: Option<Moment>, now: Timestamp) -> Option<TimeInterval> {
    let wire = |moment: Moment| to_wire(moment.resolve(now));
    (from.is_some() || to.is_some()).then(|| TimeInterval { start: from.map(wire), end: to.map(wire) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn moments_are_what_people_type() {
        let now = at("2026-03-28T12:00:00Z");
        let cases = [
            ("now", "2026-03-28T12:00:00Z"),
            ("-2h", "2026-03-28T10:00:00Z"),
            ("now-1d", "2026-03-27T12:00:00Z"),
            ("+10m", "2026-03-28T12:10:00Z"),
            ("-1h30m", "2026-03-28T10:30:00Z"),
            ("2026-03-28", "2026-03-28T00:00:00Z"),
            ("2026-03-28 09:30", "2026-03-28T09:30:00Z"),
            ("2026-03-28T10:00:00+02:00", "2026-03-28T08:00:00Z"),
            ("2026-03-28T10:00:00.123456789Z", "2026-03-28T10:00:00.123456789Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Moment>().map(|moment| moment.resolve(now)), Ok(at(expected)), "{text}");
        }
        for text in ["", "yesterday", "-", "-2 parsecs", "2026-13-01", "9999-01-01T00:00:00Z", "12", "-5.h.", "--2h"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_of_time_survive_text() {
        for (text, seconds) in [("1d", 86_400), ("12h", 43_200), ("1h30m", 5400), ("90", 90), ("1w", 604_800), ("0", 0)]
        {
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
            let shown = show_duration(Duration::from_secs(u64::from(seconds)));
            assert_eq!(parse_seconds(&shown), Ok(seconds), "{shown}");
        }
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(show_duration(Duration::from_secs(36 * 3600)), "36h");
        assert_eq!(show_duration(Duration::from_secs(30 * 86_400 - 35)), "29d23h59m25s");
        assert_eq!(show_duration(Duration::from_millis(1500)), "1s500ms");
        for text in ["", "h", "1x", "1d5", "-1h", "1e3", "99999999999999w"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert!(parse_seconds("500ms").is_err());
    }

    #[test]
    fn sizes_are_exact_or_rounded_down() {
        for (text, bytes) in
            [("4MiB", 4 << 20), ("512 kib", 512 << 10), ("1000", 1000), ("1.5GiB", 3 << 29), ("2MB", 2_000_000)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "4 parsecs", "-1", "1..5MiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!(show_bytes(0), "0 B");
        assert_eq!(show_bytes(4 << 20), "4 MiB");
        assert_eq!(show_bytes(1_400_000), "1.3 MiB");
        assert_eq!(show_bytes(u64::MAX), "15.9 EiB");
        assert_eq!(show_count(1_234_567), "1,234,567");
        assert_eq!(show_count(12), "12");
    }
}

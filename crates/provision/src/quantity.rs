//! Kinds of numbers that a workload is described with, as people write them: `2.5e6`, `30d`, `4KiB`, `40%`.

use std::time::Duration;

const TIMES: [(&str, f64); 9] = [
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("w", 604_800.0),
    ("y", 31_536_000.0),
];

const SIZES: [(&str, f64); 9] = [
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

/// On which scale a number is uncertain, and so how its distribution is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Off by factors: rates, sizes, counts, lengths of time.
    Logarithmic,
    /// Off by sums: exponents.
    Linear,
    /// Between 0 and 1, ends excluded.
    Share,
}

/// A kind of number.
pub trait Kind {
    /// How it is uncertain.
    const SCALE: Scale;
    /// What a person may write, for messages.
    const EXAMPLE: &'static str;

    /// Reads text; `None` when it isn't of this kind.
    fn parse(text: &str) -> Option<f64>;

    /// Writes text that [`Kind::parse`] reads.
    fn show(value: f64) -> String;
}

/// A plain number: `1000`, `2.5e6`, `10k`, `3M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {}

/// A size: `500`, `4KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {}

/// A length of time: `90` (seconds), `36h`, `30d`, `1y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seconds {}

/// An exponent: `0.9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exponent {}

/// A share: `0.4` or `40%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {}

impl Kind for Count {
    const SCALE: Scale = Scale::Logarithmic;
    const EXAMPLE: &'static str = "a number such as 1000, 2.5e6, 10k or 3M";

    fn parse(text: &str) -> Option<f64> {
        let powers = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];
        let power = powers.iter().find_map(|(suffix, by)| Some((text.strip_suffix(suffix)?, *by)));
        let (number, by) = power.unwrap_or((text, 1.0));
        Some(plain(number)? * by)
    }

    fn show(value: f64) -> String {
        format!("{value}")
    }
}

impl Kind for Exponent {
    const SCALE: Scale = Scale::Linear;
    const EXAMPLE: &'static str = "an exponent such as 0.9";

    fn parse(text: &str) -> Option<f64> {
        plain(text)
    }

    fn show(value: f64) -> String {
        format!("{value}")
    }
}

impl Kind for Share {
    const SCALE: Scale = Scale::Share;
    const EXAMPLE: &'static str = "a share such as 0.4 or 40%";

    fn parse(text: &str) -> Option<f64> {
        match text.strip_suffix('%') {
            Some(percent) => Some(plain(percent)? / 100.0),
            None => plain(text),
        }
    }

    fn show(value: f64) -> String {
        format!("{value}")
    }
}

impl Kind for Bytes {
    const SCALE: Scale = Scale::Logarithmic;
    const EXAMPLE: &'static str = "a size such as 500 (bytes) or 4KiB";

    fn parse(text: &str) -> Option<f64> {
        let (number, unit) = split_unit(text);
        if unit.is_empty() {
            return plain(number);
        }
        let unit = unit.to_ascii_lowercase();
        let size = SIZES.iter().find(|(name, _)| *name == unit)?.1;
        Some(plain(number)? * size)
    }

    fn show(value: f64) -> String {
        format!("{value}")
    }
}

impl Kind for Seconds {
    const SCALE: Scale = Scale::Logarithmic;
    const EXAMPLE: &'static str = "a length of time such as 36h, 30d, 1y or 90 (seconds)";

    fn parse(text: &str) -> Option<f64> {
        if let Some(seconds) = plain(text) {
            return Some(seconds);
        }
        let mut sum = 0.0;
        let mut rest = text;
        while !rest.is_empty() {
            let (number, tail) = split_unit(rest);
            let end = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
            let unit = TIMES.iter().find(|(name, _)| *name == &tail[..end])?.1;
            sum += plain(number)? * unit;
            rest = tail[end..].trim_start();
        }
        (!text.is_empty()).then_some(sum)
    }

    fn show(value: f64) -> String {
        show_seconds(value)
    }
}

/// Digits only: `inf`, `NaN` and signs are no quantities.
fn plain(text: &str) -> Option<f64> {
    let text = text.trim();
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    text.replace('_', "").parse().ok().filter(|value: &f64| value.is_finite())
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// A length of time in the largest units that leave no rest: `7d`, `36h`, `1h30m`, `500ms`.
pub fn show_seconds(seconds: f64) -> String {
    let whole = seconds.trunc() as u64;
    let mut text = String::new();
    // Up to three days hours are easier to compare: 36h.
    let days = if whole.is_multiple_of(86_400) || whole >= 3 * 86_400 { whole / 86_400 } else { 0 };
    let rest = whole - days * 86_400;
    for (amount, unit) in [(days, "d"), (rest / 3600, "h"), (rest / 60 % 60, "m"), (rest % 60, "s")] {
        if amount > 0 {
            text.push_str(&format!("{amount}{unit}"));
        }
    }
    let millis = (seconds.fract() * 1e3).round() as u64;
    if millis > 0 {
        text.push_str(&format!("{millis}ms"));
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A size to three digits: `4 MiB`, `1.31 GiB`.
pub fn show_bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes.max(0.0);
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

/// A number to three digits, thousands apart: `1,230,000`, `12.3`, `0.5`.
pub fn show_count(count: f64) -> String {
    if count < 999.5 {
        return three_digits(count);
    }
    let unit = 10_f64.powf((count.log10().floor() - 2.0).max(0.0));
    let digits = format!("{}", (count / unit).round() * unit);
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn three_digits(value: f64) -> String {
    let decimals = if value >= 99.95 || value.fract() == 0.0 { 0 } else { 2 - usize::from(value >= 9.995) };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The same length of time as the rest of the house has it.
pub(crate) fn to_duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// [`Duration`]s in files, as people write them: `30d`.
pub(crate) mod duration_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::{Kind, Seconds, show_seconds, to_duration};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&show_seconds(duration.as_secs_f64()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        let seconds = Seconds::parse(&text);
        seconds.map(to_duration).ok_or_else(|| D::Error::custom(format!("`{text}` is not {}", Seconds::EXAMPLE)))
    }
}

/// The same where there may be none; an absent field must be marked as `default`.
pub(crate) mod optional_duration_text {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::duration_text::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        super::duration_text::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_people_write() {
        assert_eq!(Count::parse("2.5e6"), Some(2.5e6));
        assert_eq!(Count::parse("1_000"), Some(1000.0));
        assert_eq!(Count::parse("10k"), Some(1e4));
        assert_eq!(Bytes::parse("4KiB"), Some(4096.0));
        assert_eq!(Bytes::parse("1.5 MB"), Some(1.5e6));
        assert_eq!(Seconds::parse("90"), Some(90.0));
        assert_eq!(Seconds::parse("1y"), Some(31_536_000.0));
        assert_eq!(Seconds::parse("1h30m"), Some(5400.0));
        assert_eq!(Seconds::parse("500ms"), Some(0.5));
        assert_eq!(Share::parse("40%"), Some(0.4));
        for text in ["", "-1", "inf", "NaN", "many", "1x"] {
            assert_eq!(Count::parse(text), None, "{text}");
            assert_eq!(Seconds::parse(text), None, "{text}");
            assert_eq!(Bytes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn lengths_of_time_survive_text() {
        for seconds in [0.5, 1.0, 5400.0, 129_600.0, 604_800.0, 1_209_600.0, 31_536_000.0, 300_001.0] {
            assert_eq!(Seconds::parse(&show_seconds(seconds)), Some(seconds), "{}", show_seconds(seconds));
        }
        assert_eq!(show_seconds(129_600.0), "36h");
        assert_eq!(show_seconds(1_209_600.0), "14d");
    }

    #[test]
    fn three_digits_are_shown() {
        assert_eq!(show_bytes(4_194_304.0), "4 MiB");
        assert_eq!(show_bytes(1_234_567.0), "1.18 MiB");
        assert_eq!(show_bytes(0.0), "0 B");
        assert_eq!(show_count(1_234_567.0), "1,230,000");
        assert_eq!(show_count(12.34), "12.3");
        assert_eq!(show_count(0.5), "0.5");
        assert_eq!(show_count(99.96), "100");
    }
}

//! What the text forms of `Timestamp` and `Duration` share: fractions of a second, and serde through a string.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

/// A fraction of a second with its dot, in the fewest of 0, 3, 6 or 9 digits that keep every nanosecond.
pub(super) fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        n if n % 1_000_000 == 0 => format!(".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    }
}

/// Nanoseconds of 1 to 9 digits after the dot.
pub(super) fn parse_fraction(digits: &str) -> Option<i32> {
    if digits.len() > 9 {
        return None;
    }
    let value = parse_digits(digits)?;
    let missing = u32::try_from(9 - digits.len()).ok()?;
    i32::try_from(value * 10_i64.pow(missing)).ok()
}

/// A number of ASCII digits only: no sign, no space, not empty.
pub(super) fn parse_digits(digits: &str) -> Option<i64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Reads a `T` from a JSON string.
pub(super) fn deserialize<'de, D, T>(deserializer: D, expecting: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: fmt::Display,
{
    deserializer.deserialize_str(TextVisitor { expecting, of: PhantomData })
}

struct TextVisitor<T> {
    expecting: &'static str,
    of: PhantomData<T>,
}

impl<T> Visitor<'_> for TextVisitor<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

//! Rules of a configuration: what each setting may be, noted while it is checked, so that what is refused and what is
//! documented can't differ.

use std::{fmt, time::Duration};

use crate::time::describe;

/// A rule that a configuration breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The setting, as in JSON and TOML: `accept_limit`, `page_limits.max_page_size`.
    pub field: &'static str,
    /// What is wrong and what to do.
    pub reason: String,
}

/// The least and the most that a setting may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The setting.
    pub field: &'static str,
    /// Not less than this.
    pub least: Amount,
    /// Not more than this; absent where nothing is too much.
    pub most: Option<Amount>,
}

/// A value that has an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Amount {
    /// Of anything that is counted.
    Number(u64),
    /// Of bytes.
    Bytes(u64),
    /// A length of time.
    Time(Duration),
}

impl From<u32> for Amount {
    fn from(number: u32) -> Self {
        Amount::Number(number.into())
    }
}

impl From<usize> for Amount {
    fn from(number: usize) -> Self {
        Amount::Number(number as u64)
    }
}

impl From<Duration> for Amount {
    fn from(length: Duration) -> Self {
        Amount::Time(length)
    }
}

impl fmt::Display for Amount {
    /// As it can be written in a configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match self {
            Amount::Number(number) => number.fmt(f),
            Amount::Bytes(bytes) => {
                let whole = UNITS.into_iter().find(|(_, size)| *bytes > 0 && bytes.is_multiple_of(*size));
                let (unit, size) = whole.unwrap_or(("B", 1));
                write!(f, "{} {unit}", bytes / size)
            }
            Amount::Time(length) => f.write_str(&describe(*length)),
        }
    }
}

/// Checks settings, and notes both what is wrong and what was asked.
#[derive(Debug, Default)]
pub struct Rules {
    /// Every rule that is broken.
    pub problems: Vec<ConfigProblem>,
    /// The bounds of every setting that has some.
    pub bounds: Vec<Bound>,
}

impl Rules {
    /// A rule that isn't a bound.
    pub fn that(&mut self, field: &'static str, holds: bool, reason: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(ConfigProblem { field, reason: reason() });
        }
    }

    /// A number or a length of time between bounds, both allowed.
    pub fn range<T: Into<Amount>>(&mut self, field: &'static str, value: T, least: T, most: T) {
        let (value, least, most) = (value.into(), least.into(), most.into());
        self.that(field, least <= value && value <= most, || format!("{value} is not between {least} and {most}"));
        self.bounds.push(Bound { field, least, most: Some(most) });
    }

    /// A number of bytes between bounds, both allowed; `u64::MAX` is none.
    pub fn size(&mut self, field: &'static str, value: u64, least: u64, most: u64) {
        let (value, least, most) = (Amount::Bytes(value), Amount::Bytes(least), Amount::Bytes(most));
        self.that(field, value >= least, || format!("{value} is too little; at least {least} is needed"));
        self.that(field, value <= most, || format!("{value} is too much; at most {most} is allowed"));
        let bounded = most != Amount::Bytes(u64::MAX);
        self.bounds.push(Bound { field, least, most: bounded.then_some(most) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_and_what_is_noted_are_the_same() {
        let mut rules = Rules::default();
        rules.range("number", 0_u32, 1, 1024);
        rules.range("time", Duration::from_millis(1500), Duration::ZERO, Duration::from_secs(3600));
        rules.size("size", 3 << 20, 4096, 2 << 20);
        rules.size("open", 5000, 4096, u64::MAX);
        let problems: Vec<String> =
            rules.problems.iter().map(|problem| format!("{}: {}", problem.field, problem.reason)).collect();
        assert_eq!(
            problems,
            ["number: 0 is not between 1 and 1024", "size: 3 MiB is too much; at most 2 MiB is allowed"]
        );
        let bounds = rules.bounds.iter().map(|bound| {
            let most = bound.most.map_or_else(|| "-".to_owned(), |most| most.to_string());
            format!("{} {} {most}", bound.field, bound.least)
        });
        assert_eq!(bounds.collect::<Vec<_>>(), ["number 1 1024", "time 0s 1h", "size 4 KiB 2 MiB", "open 4 KiB -"]);
    }
}

//! From when to when rows happened. Times that stand for something else are left out as long as there are others: one
//! zero would make fifty years of a day.

use anabranch_model::Timestamp;
use anabranch_store_cassandra::foreign::schema::is_plausible;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Span {
    plausible: Option<(Timestamp, Timestamp)>,
    any: Option<(Timestamp, Timestamp)>,
}

impl Span {
    pub(crate) fn saw(&mut self, time: Timestamp) {
        let of_one = Some((time, time));
        self.join(Span { plausible: of_one.filter(|_| is_plausible(time)), any: of_one });
    }

    /// Takes in what another has seen.
    pub(crate) fn join(&mut self, other: Span) {
        self.plausible = joined(self.plausible, other.plausible);
        self.any = joined(self.any, other.any);
    }

    /// How long it is; `None` of nothing.
    pub(crate) fn seconds(self) -> Option<f64> {
        let (oldest, newest) = self.plausible.or(self.any)?;
        Some(newest.since(oldest).as_secs_f64())
    }
}

fn joined(
    one: Option<(Timestamp, Timestamp)>,
    other: Option<(Timestamp, Timestamp)>,
) -> Option<(Timestamp, Timestamp)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(seconds: &[i64]) -> Span {
        let mut span = Span::default();
        seconds.iter().for_each(|seconds| span.saw(Timestamp::from_nanos(seconds * 1_000_000_000)));
        span
    }

    #[test]
    fn a_time_that_stands_for_something_else_makes_no_span_longer() {
        let noon = 1_774_699_200;
        assert_eq!(span(&[noon, 0, noon + 60, 9_000_000_000]).seconds(), Some(60.0));
        assert_eq!(span(&[10, 17]).seconds(), Some(7.0), "where there is nothing else, they are what there is");
        assert_eq!(span(&[]).seconds(), None);
        let mut both = span(&[noon, 3]);
        both.join(span(&[noon - 5]));
        assert_eq!(both.seconds(), Some(5.0));
    }
}

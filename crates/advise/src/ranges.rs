//! The tokens of a table, cut into equal ranges, and how far each of them has been gone through.

/// Ranges of tokens, a power of two.
const RANGES: usize = 256;

pub(crate) struct Ranges(Vec<Reach>);

/// How far a range has been gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Up to this token, which is next.
    Next(i64),
    /// To its end.
    Ended,
    /// Up to this token, and no further: the rest couldn't be read.
    Broken(i64),
}

/// The tokens of a range, both ends included.
fn range(index: usize) -> (i64, i64) {
    let width = (1_u128 << 64) / RANGES as u128;
    let start = i64::MIN as i128 + (index as u128 * width) as i128;
    (start as i64, (start + width as i128 - 1) as i64)
}

impl Ranges {
    pub(crate) fn new() -> Self {
        Ranges((0..RANGES).map(|index| Reach::Next(range(index).0)).collect())
    }

    /// Every range once, evenly spread at any moment: bits of a count, reversed.
    pub(crate) fn order() -> impl Iterator<Item = usize> {
        (0..RANGES).map(|count| count.reverse_bits() >> (usize::BITS - RANGES.trailing_zeros()))
    }

    /// The tokens of a range that are still to be gone through, both included.
    pub(crate) fn left(&self, index: usize) -> Option<(i64, i64)> {
        match self.0[index] {
            Reach::Next(from) => Some((from, range(index).1)),
            Reach::Ended | Reach::Broken(_) => None,
        }
    }

    pub(crate) fn reached(&mut self, index: usize, reach: Reach) {
        self.0[index] = reach;
    }

    /// Whether there is nothing left that could be read.
    pub(crate) fn is_done(&self) -> bool {
        (0..RANGES).all(|index| self.left(index).is_none())
    }

    /// Whether every token was gone through.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.iter().all(|reach| *reach == Reach::Ended)
    }

    /// Which share of the tokens was gone through.
    pub(crate) fn share(&self) -> f64 {
        if self.is_everything() {
            return 1.0;
        }
        let tokens = |(index, reach): (usize, &Reach)| {
            let (start, end) = range(index);
            let next = match reach {
                Reach::Next(next) | Reach::Broken(next) => i128::from(*next),
                Reach::Ended => i128::from(end) + 1,
            };
            (next - i128::from(start)) as f64
        };
        self.0.iter().enumerate().map(tokens).sum::<f64>() / (1_u128 << 64) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_all_tokens_once_and_visited_evenly() {
        let mut visited: Vec<usize> = Ranges::order().collect();
        assert!(visited[..16].iter().all(|index| index % 16 == 0), "{:?}", &visited[..16]);
        visited.sort_unstable();
        assert!(visited.iter().copied().eq(0..RANGES));
        assert_eq!((range(0).0, range(RANGES - 1).1), (i64::MIN, i64::MAX));
        for index in 1..RANGES {
            assert_eq!(range(index).0, range(index - 1).1 + 1);
        }
    }

    #[test]
    fn what_could_not_be_read_is_no_part_of_the_share() {
        let mut ranges = Ranges::new();
        assert_eq!(ranges.share(), 0.0);
        for index in 0..RANGES {
            ranges.reached(index, Reach::Ended);
        }
        assert!(ranges.is_done() && ranges.is_everything());
        assert_eq!(ranges.share(), 1.0);
        // One broke at its beginning, one in its middle, one wasn't gone through to its end.
        let middle = range(1).0 + (range(1).1 - range(1).0) / 2 + 1;
        ranges.reached(0, Reach::Broken(range(0).0));
        ranges.reached(1, Reach::Broken(middle));
        assert!(ranges.is_done() && !ranges.is_everything());
        assert_eq!(ranges.left(1), None, "what broke isn't tried again and again");
        assert_eq!(ranges.share(), 1.0 - 1.5 / RANGES as f64);
        ranges.reached(2, Reach::Next(range(2).0));
        assert_eq!(ranges.left(2), Some(range(2)));
        assert!(!ranges.is_done());
        assert_eq!(ranges.share(), 1.0 - 2.5 / RANGES as f64);
    }
}

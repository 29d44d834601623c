//! Sizes of partitions, of which some weren't read to their end: what was read of them, what they likely have, and
//! which percentiles can't be told because of them.

use anabranch_provision::SizeHistogram;

/// How big a partition may be that wasn't read to its end.
const ENDLESS: u64 = u64::MAX;

/// Sizes of one kind: rows, or bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sizes {
    /// As far as they were read.
    pub(crate) read: SizeHistogram,
    /// As they likely are; where that isn't known, as far as they were read.
    pub(crate) likely: SizeHistogram,
    /// As they may be.
    most: SizeHistogram,
}

/// A percentile, and between what the true one lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// By what was read.
    pub(crate) size: u64,
    /// Whether those that weren't read to their end could make it bigger.
    pub(crate) is_at_least: bool,
    pub(crate) low: u64,
    /// `None`: there is no telling.
    pub(crate) high: Option<u64>,
}

impl Sizes {
    pub(crate) fn add(&mut self, read: u64, likely: Option<u64>, is_whole: bool) {
        self.read.add(read);
        self.likely.add(likely.unwrap_or(read));
        self.most.add(if is_whole { read } else { ENDLESS });
    }

    /// The size that this share of all partitions doesn't exceed. `everything`: none of them was left out.
    pub(crate) fn percentile(&self, share: f64, everything: bool) -> Option<Bounds> {
        let read = self.read.sampled_percentile(share, everything)?;
        let most = self.most.sampled_percentile(share, everything)?;
        Some(Bounds {
            size: read.bytes,
            is_at_least: most.bytes != read.bytes,
            low: read.low_bytes,
            high: known(most.high_bytes),
        })
    }

    /// The biggest of all.
    pub(crate) fn widest(&self, everything: bool) -> Option<Bounds> {
        let size = (self.read.counted() > 0).then(|| self.read.largest())?;
        let high = known(self.most.largest());
        Some(Bounds { size, is_at_least: high.is_none(), low: size, high: high.filter(|_| everything) })
    }
}

/// Endless ones come out somewhere in the last class of sizes.
fn known(size: u64) -> Option<u64> {
    (size < ENDLESS / 2).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a thousand of 1,000 each, and ten that were cut off at 50,000, of which half likely have 900,000.
    fn ten_cut_off() -> Sizes {
        let mut sizes = Sizes::default();
        (0..490).for_each(|_| sizes.add(1000, Some(1000), true));
        (0..10).for_each(|place| sizes.add(50_000, (place % 2 == 0).then_some(900_000), false));
        sizes
    }

    #[test]
    fn what_was_cut_off_leaves_the_ranks_that_it_reaches_open_upwards() {
        let sizes = ten_cut_off();
        let half = sizes.percentile(0.5, true).unwrap();
        assert_eq!((half.is_at_least, half.high), (false, Some(half.size)), "far from any that was cut off");
        let high = sizes.percentile(0.99, true).unwrap();
        assert!(high.is_at_least && high.high.is_none() && high.low == high.size, "{high:?}");
        assert_eq!(sizes.widest(true).unwrap(), Bounds { size: 50_000, is_at_least: true, low: 50_000, high: None });
    }

    #[test]
    fn a_small_one_that_was_cut_off_may_be_the_widest() {
        let mut sizes = Sizes::default();
        (0..100).for_each(|_| sizes.add(80_000, Some(80_000), true));
        sizes.add(10, None, false);
        assert!(sizes.widest(true).unwrap().is_at_least);
        assert_eq!(sizes.percentile(0.999, true).unwrap().high, None);
        let half = sizes.percentile(0.5, true).unwrap();
        assert_eq!((half.is_at_least, half.high), (false, Some(half.size)), "all that count are alike");
    }

    #[test]
    fn sizes_that_were_all_read_are_exact() {
        let mut sizes = Sizes::default();
        (1..=1000).for_each(|size| sizes.add(size, Some(size), true));
        for share in [0.5, 0.99, 0.999] {
            let found = sizes.percentile(share, true).unwrap();
            assert!(!found.is_at_least && found.high == Some(found.size), "{found:?}");
        }
        assert_eq!(sizes.widest(true).unwrap().high, Some(1000));
        assert_eq!(sizes.widest(false).unwrap().high, None, "a wider one may be where nothing was read");
        assert!(Sizes::default().widest(true).is_none() && Sizes::default().percentile(0.5, true).is_none());
    }

    #[test]
    fn totals_take_what_is_likely_where_it_is_known() {
        assert_eq!(ten_cut_off().likely.bytes(), 490_000 + 5 * 900_000 + 5 * 50_000);
        assert_eq!(ten_cut_off().read.bytes(), 490_000 + 10 * 50_000);
    }
}

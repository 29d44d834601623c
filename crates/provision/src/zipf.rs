//! How events fall on ids: the id of rank r gets a share in proportion to 1 / r^s. Sums over millions of ranks are
//! integrals here.

/// Ranks that are summed one by one; beyond them an integral is exact to a thousandth.
const EXACT_RANKS: f64 = 16.0;
/// How much longer each group of ranks is than the one before.
const GROUP_GROWTH: f64 = 1.35;

/// A Zipf distribution over ranks from 1 on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    pub(crate) ids: f64,
    pub(crate) exponent: f64,
    total: f64,
}

/// Neighbouring ranks that are taken together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankGroup {
    /// The last rank in it.
    pub(crate) last: f64,
    /// How many ids it has.
    pub(crate) ids: f64,
    /// The share of the one in its middle.
    pub(crate) share: f64,
}

impl Zipf {
    pub(crate) fn new(ids: f64, exponent: f64) -> Self {
        let ids = ids.max(1.0).floor();
        Zipf { ids, exponent, total: mass(ids, exponent) }
    }

    /// The distribution in which the busiest hundredth of the ids gets this share of the events.
    pub(crate) fn with_top_one_percent(ids: f64, share: f64) -> Self {
        let (mut low, mut high) = (0.0, 4.0);
        for _ in 0..40 {
            let exponent = f64::midpoint(low, high);
            if mass(ids / 100.0, exponent) / mass(ids, exponent) < share {
                low = exponent;
            } else {
                high = exponent;
            }
        }
        Zipf::new(ids, f64::midpoint(low, high))
    }

    /// The share of the id of this rank.
    pub(crate) fn share(&self, rank: f64) -> f64 {
        rank.powf(-self.exponent) / self.total
    }

    /// The share of all ids up to this rank, together.
    pub(crate) fn share_up_to(&self, rank: f64) -> f64 {
        (mass(rank.clamp(0.0, self.ids), self.exponent) / self.total).min(1.0)
    }

    /// How many ids have at least this share.
    pub(crate) fn ids_with(&self, share: f64) -> f64 {
        if self.share(1.0) < share {
            return 0.0;
        }
        if self.exponent < 1e-6 {
            return self.ids;
        }
        (share * self.total).powf(-1.0 / self.exponent).min(self.ids).floor()
    }

    /// Groups of neighbouring ranks, the first ones alone: enough to sum over, whatever the number of ids.
    pub(crate) fn groups(&self) -> Vec<RankGroup> {
        let mut groups = Vec::new();
        let (mut before, mut end) = (0.0, 1.0_f64);
        loop {
            let last = end.min(self.ids);
            groups.push(RankGroup { last, ids: last - before, share: self.share((before + 1.0 + last) / 2.0) });
            if last >= self.ids {
                return groups;
            }
            before = end;
            end = if end < EXACT_RANKS { end + 1.0 } else { (end * GROUP_GROWTH).floor() };
        }
    }
}

/// The sum of 1 / r^s over ranks up to `rank`.
fn mass(rank: f64, exponent: f64) -> f64 {
    let exact = rank.min(EXACT_RANKS);
    let mut sum = 0.0;
    let mut r = 1.0;
    while r <= exact {
        sum += r.powf(-exponent);
        r += 1.0;
    }
    if rank < EXACT_RANKS {
        // A part of the next rank, so that the sum has no steps.
        return sum + (rank - rank.floor()) * r.powf(-exponent);
    }
    let (from, to) = (EXACT_RANKS + 0.5, rank + 0.5);
    let power = 1.0 - exponent;
    let tail = if power.abs() < 1e-9 { (to / from).ln() } else { (to.powf(power) - from.powf(power)) / power };
    sum + tail
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integrals_agree_with_sums(ids in 1_u32..20_000, exponent in 0.0_f64..2.5) {
            let sum: f64 = (1..=ids).map(|rank| f64::from(rank).powf(-exponent)).sum();
            let found = mass(f64::from(ids), exponent);
            prop_assert!((found / sum - 1.0).abs() < 1e-3, "{found} {sum}");
        }

        #[test]
        fn a_share_of_the_busiest_is_met(ids in 1e3_f64..1e9, share in 0.02_f64..0.98) {
            let zipf = Zipf::with_top_one_percent(ids, share);
            let found = zipf.share_up_to(zipf.ids / 100.0);
            prop_assert!((found - share).abs() < 0.01, "{found} {share}");
        }

        #[test]
        fn ids_with_a_share_are_those_that_have_it(ids in 1_u32..1_000_000, exponent in 0.1_f64..2.0, part in 0.0_f64..1.0) {
            let zipf = Zipf::new(f64::from(ids), exponent);
            let share = zipf.share(1.0) * part + 1e-12;
            let count = zipf.ids_with(share);
            prop_assert!(count < 1.0 || zipf.share(count) >= share * 0.999_999);
            prop_assert!(count >= zipf.ids || zipf.share(count + 1.0) < share * 1.000_001);
        }
    }
}

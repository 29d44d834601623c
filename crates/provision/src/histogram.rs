//! Sizes of partitions, counted into classes: percentiles of all from a sample of some, and how sure they are.

use serde::{Deserialize, Serialize};

/// Classes in each doubling of size: a class is at most a sixteenth wide, so that its middle is never off by more than
/// a thirtieth.
const CLASSES_PER_DOUBLING: usize = 16;

/// Sizes that were seen, and of how many. Histograms of parts of a table add up to that of the whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeHistogram {
    /// How many partitions fell into each class, by class; trailing empty ones are left out.
    classes: Vec<u64>,
    counted: u64,
    bytes: u64,
    largest: u64,
}

/// A percentile from a sample, and between which sizes the true one lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampledPercentile {
    /// The likeliest.
    pub bytes: u64,
    /// The true one is hardly smaller (one case in forty).
    pub low_bytes: u64,
    /// The true one is hardly bigger (one case in forty).
    pub high_bytes: u64,
}

impl SampledPercentile {
    /// Whether the true percentile is within this share of the found one.
    pub fn is_within(&self, share: f64) -> bool {
        let found = self.bytes as f64;
        self.low_bytes as f64 >= found * (1.0 - share) && self.high_bytes as f64 <= found * (1.0 + share)
    }
}

impl SizeHistogram {
    /// Counts a partition.
    pub fn add(&mut self, bytes: u64) {
        let class = class_of(bytes);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
        self.counted += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.largest = self.largest.max(bytes);
    }

    /// Adds what another part of the table holds.
    pub fn merge(&mut self, other: &SizeHistogram) {
        if self.classes.len() < other.classes.len() {
            self.classes.resize(other.classes.len(), 0);
        }
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            *mine += theirs;
        }
        self.counted += other.counted;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.largest = self.largest.max(other.largest);
    }

    /// How many partitions were counted.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Their bytes together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The biggest of them.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The size that this share of the counted partitions doesn't exceed; `None` when there are none.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let rank = (share * self.counted as f64).ceil() as u64;
        self.at_rank(rank.clamp(1, self.counted.max(1)))
    }

    /// The same for all partitions of which the counted ones are a random sample. `everything` says that nothing was
    /// left out, and so that nothing is in doubt but the class.
    pub fn sampled_percentile(&self, share: f64, everything: bool) -> Option<SampledPercentile> {
        let bytes = self.percentile(share)?;
        if everything {
            return Some(SampledPercentile { bytes, low_bytes: bytes, high_bytes: bytes });
        }
        // The rank of the true percentile in a sample is binomial; two deviations hold 95 % of the cases.
        let count = self.counted as f64;
        let deviation = 1.96 * (count * share * (1.0 - share)).sqrt();
        let (low, high) = ((count * share - deviation).floor().max(1.0), (count * share + deviation).ceil() + 1.0);
        let low_bytes = self.at_rank(low as u64)?;
        // Beyond the sample there is no telling.
        let high_bytes = if high > count { u64::MAX } else { self.at_rank(high as u64)? };
        Some(SampledPercentile { bytes, low_bytes, high_bytes })
    }

    /// How many partitions, and how many bytes, a whole has of which this share was counted.
    pub fn extrapolated(&self, share_counted: f64) -> (u64, u64) {
        let scale = 1.0 / share_counted.clamp(f64::MIN_POSITIVE, 1.0);
        ((self.counted as f64 * scale).round() as u64, (self.bytes as f64 * scale).round() as u64)
    }

    /// The classes that hold anything: the biggest size of each, and how many partitions, smallest first.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.classes.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(class, count)| (end_of(class).min(self.largest), *count))
    }

    fn at_rank(&self, rank: u64) -> Option<u64> {
        // The last of all is known to the byte.
        if self.counted > 0 && rank >= self.counted {
            return Some(self.largest);
        }
        let mut seen = 0;
        for (class, count) in self.classes.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Some(middle_of(class).min(self.largest));
            }
        }
        None
    }
}

/// Sizes below 16 have a class each.
fn class_of(bytes: u64) -> usize {
    if bytes < 16 {
        return bytes as usize;
    }
    let doubling = bytes.ilog2();
    let within = (bytes >> (doubling - 4)) - 16;
    16 + (doubling as usize - 4) * CLASSES_PER_DOUBLING + within as usize
}

fn start_of(class: usize) -> u64 {
    if class < 16 {
        return class as u64;
    }
    let (doubling, within) = ((class - 16) / CLASSES_PER_DOUBLING, (class - 16) % CLASSES_PER_DOUBLING);
    (16 + within as u64).checked_shl(doubling as u32).unwrap_or(u64::MAX)
}

fn end_of(class: usize) -> u64 {
    // The last class of all ends where numbers do.
    if class >= class_of(u64::MAX) { u64::MAX } else { start_of(class + 1) - 1 }
}

fn middle_of(class: usize) -> u64 {
    let (start, end) = (start_of(class), end_of(class));
    start + (end - start) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn histogram(sizes: &[u64]) -> SizeHistogram {
        let mut histogram = SizeHistogram::default();
        sizes.iter().for_each(|size| histogram.add(*size));
        histogram
    }

    /// Sizes as they are: many small ones, a few enormous ones.
    fn skewed(count: u64) -> Vec<u64> {
        (1..=count).map(|rank| 200 + (5e9 / (rank as f64).powf(1.1)) as u64).collect()
    }

    #[test]
    fn a_percentile_that_is_the_biggest_partition_is_as_big_as_that() {
        let one = histogram(&[410]);
        assert_eq!([0.5, 0.99].map(|share| one.percentile(share)), [Some(one.largest()); 2]);
        let two = histogram(&[1000, 5000]);
        assert_eq!(two.percentile(0.99), Some(5000));
        assert!(two.percentile(0.5).is_some_and(|half| half < 1100));
        assert_eq!(histogram(&[]).percentile(0.5), None);
    }

    #[test]
    fn a_sample_that_says_it_is_sure_is_within_a_fifth_of_the_exact_p99() {
        let sizes = skewed(200_000);
        let mut sorted = sizes.clone();
        sorted.sort_unstable();
        let exact = sorted[sizes.len() * 99 / 100] as f64;
        let mut wrong = 0;
        for seed in 0..50 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut sample = SizeHistogram::default();
            let found = loop {
                for _ in 0..500 {
                    sample.add(sizes[(random.next_u64() % sizes.len() as u64) as usize]);
                }
                let found = sample.sampled_percentile(0.99, false).unwrap();
                if found.is_within(0.2) {
                    break found.bytes as f64;
                }
            };
            assert!(sample.counted() < 40_000, "{}", sample.counted());
            wrong += u32::from((found / exact - 1.0).abs() > 0.2);
        }
        assert!(wrong <= 2, "{wrong} of 50");
    }

    #[test]
    fn too_small_a_sample_is_not_sure() {
        let few = histogram(&skewed(100));
        assert_eq!(few.sampled_percentile(0.99, false).unwrap().high_bytes, u64::MAX);
        assert!(!few.sampled_percentile(0.99, false).unwrap().is_within(0.2));
        assert!(few.sampled_percentile(0.99, true).unwrap().is_within(0.0));
        assert_eq!(SizeHistogram::default().percentile(0.5), None);
    }

    #[test]
    fn a_share_stands_for_the_whole() {
        assert_eq!(histogram(&[100; 50]).extrapolated(0.1), (500, 50_000));
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_sorting_within_a_class(
            mut sizes in prop::collection::vec(prop_oneof![0_u64..100, 0_u64..1 << 40], 1..300), share in 0.0_f64..1.0,
        ) {
            let found = histogram(&sizes).percentile(share).unwrap() as f64;
            sizes.sort_unstable();
            let rank = ((share * sizes.len() as f64).ceil() as usize).clamp(1, sizes.len());
            let exact = sizes[rank - 1] as f64;
            prop_assert!((found - exact).abs() <= exact * 0.035 + 0.5, "{found} {exact}");
        }

        #[test]
        fn parts_add_up_to_the_whole(sizes in prop::collection::vec(any::<u64>(), 0..100), at in 0_usize..100) {
            let at = at.min(sizes.len());
            let mut merged = histogram(&sizes[..at]);
            merged.merge(&histogram(&sizes[at..]));
            prop_assert_eq!(&merged, &histogram(&sizes));
            let json = serde_json::to_string(&merged).unwrap();
            prop_assert_eq!(serde_json::from_str::<SizeHistogram>(&json).unwrap(), merged);
        }

        #[test]
        fn every_size_lies_in_its_class(bytes: u64) {
            let class = class_of(bytes);
            prop_assert!(start_of(class) <= bytes && bytes <= end_of(class));
        }
    }
}

//! What partitions each length of time bucket would make of the rows that are read. The series of a row is its
//! partition's key with the clustering columns before its time; rows of a series come in the order of time, so that one
//! run after another is enough.

use anabranch_model::Timestamp;
use anabranch_provision::{
    SizeHistogram,
    candidate::{BUCKET_STEPS, DENSITY_HIGH_BYTES},
};
use bytes::Bytes;

const LENGTHS: usize = BUCKET_STEPS.len();

/// Sizes of what each length of bucket would make, and of whole series.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    lengths: Vec<Sizes>,
    pub(crate) series: SizeHistogram,
}

/// Partitions of one length of bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) bytes: SizeHistogram,
    pub(crate) wide_bytes: u64,
}

/// The buckets that a read of a partition is in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    series: Option<Vec<Bytes>>,
    series_bytes: u64,
    /// For each length the bucket and its bytes.
    open: [(i64, u64); LENGTHS],
}

impl Default for Buckets {
    fn default() -> Self {
        Buckets { lengths: vec![Sizes::default(); LENGTHS], series: SizeHistogram::default() }
    }
}

impl Buckets {
    /// The next row of a partition.
    pub(crate) fn row(&mut self, runs: &mut Runs, series: &[Bytes], time: Timestamp, bytes: u64) {
        if runs.series.as_deref() != Some(series) {
            self.end(runs);
            runs.series = Some(series.to_vec());
        }
        runs.series_bytes += bytes;
        let seconds = time.nanos().div_euclid(1_000_000_000);
        for ((sizes, open), length) in self.lengths.iter_mut().zip(&mut runs.open).zip(BUCKET_STEPS) {
            let bucket = seconds.div_euclid(length.into());
            if bucket != open.0 {
                sizes.count(open.1);
                *open = (bucket, 0);
            }
            open.1 += bytes;
        }
    }

    /// The end of a partition.
    pub(crate) fn end(&mut self, runs: &mut Runs) {
        for (sizes, open) in self.lengths.iter_mut().zip(&mut runs.open) {
            sizes.count(open.1);
        }
        if runs.series.is_some() {
            self.series.add(runs.series_bytes);
        }
        *runs = Runs::default();
    }

    /// Each length in seconds, with what it would make.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (u32, &Sizes)> {
        BUCKET_STEPS.into_iter().zip(&self.lengths)
    }
}

impl Sizes {
    fn count(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.bytes.add(bytes);
        if bytes > DENSITY_HIGH_BYTES {
            self.wide_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn rows_are_counted_into_the_buckets_that_they_would_lie_in() {
        let (mut buckets, mut runs) = (Buckets::default(), Runs::default());
        // A day of a row a minute, latest first, of two series in one partition; then another partition.
        for series in ["a", "b"] {
            for minute in (0..1440).rev() {
                buckets.row(&mut runs, &[Bytes::from(series)], at(minute * 60), 10);
            }
        }
        buckets.end(&mut runs);
        buckets.row(&mut runs, &[Bytes::from("a")], at(-1), 7);
        buckets.end(&mut runs);
        buckets.end(&mut runs);
        assert_eq!((buckets.series.counted(), buckets.series.bytes()), (3, 2 * 14_400 + 7));
        let of = |seconds: u32| &buckets.lengths().find(|(length, _)| *length == seconds).unwrap().1.bytes;
        assert_eq!((of(3600).counted(), of(3600).largest()), (2 * 24 + 1, 600));
        assert_eq!((of(86_400).counted(), of(86_400).largest()), (3, 14_400));
        assert_eq!(of(60).counted(), 2 * 1440 + 1);
    }
}

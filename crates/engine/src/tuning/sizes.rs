//! What is kept of a slice's partitions: one document for each slice, replaced by each measuring.

use anabranch_model::{NamespaceName, PartitionSettings, Timestamp};
use anabranch_provision::SizeHistogram;
use anabranch_store::{MetaKey, PartitionSize};
use serde::{Deserialize, Serialize};

/// Heaviest partitions that are kept of a slice, one for each series.
pub const KEPT_HEAVIEST: usize = 10;

/// How big the partitions of a slice are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceSizes {
    /// Of which namespace, among those that had its name.
    pub incarnation: u64,
    /// How the slice was divided.
    pub settings: PartitionSettings,
    /// When the measuring ended.
    pub measured: Timestamp,
    /// Whether the slice took no more events, so that nothing will change: then it isn't measured again.
    pub settled: bool,
    /// How often the slice had been opened again for old events.
    pub reopened: u64,
    /// Whether a backfill wrote to it, or may have.
    pub backfilled: bool,
    /// The partitions that were counted.
    pub counted: CountedPartitions,
}

/// Partitions of a table, or of a fair share of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedPartitions {
    /// Their bytes.
    pub bytes: SizeHistogram,
    /// Their rows.
    pub rows: SizeHistogram,
    /// The share of the table that was counted; 1 is all of it.
    pub share: f64,
    /// The heaviest that were met, one for each series, heaviest first.
    pub heaviest: Vec<HeavyPartition>,
}

/// A partition that stands out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeavyPartition {
    /// Whose history.
    pub time_series_id: String,
    /// Its time bucket.
    pub time_bucket: u32,
    /// Its event bucket.
    pub event_bucket: u32,
    /// Its bytes.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
}

impl CountedPartitions {
    /// Whether nothing was left out.
    pub fn is_everything(&self) -> bool {
        self.share >= 1.0
    }

    /// How many partitions there are in all, as far as the counted share tells.
    pub fn partitions(&self) -> u64 {
        self.bytes.extrapolated(self.share).0
    }

    /// How many bytes there are in all, as far as the counted share tells.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.extrapolated(self.share).1
    }

    pub(crate) fn add(&mut self, size: &PartitionSize) {
        self.bytes.add(size.bytes);
        self.rows.add(size.rows);
        if self.is_heavy(size.bytes) {
            self.add_heavy(HeavyPartition {
                time_series_id: size.partition.series.as_str().to_owned(),
                time_bucket: size.partition.time_bucket.0,
                event_bucket: size.partition.event_bucket.0,
                bytes: size.bytes,
                rows: size.rows,
            });
        }
    }

    /// Adds what another part of the table holds.
    pub(crate) fn merge(&mut self, other: CountedPartitions) {
        self.bytes.merge(&other.bytes);
        self.rows.merge(&other.rows);
        for heavy in other.heaviest {
            if self.is_heavy(heavy.bytes) {
                self.add_heavy(heavy);
            }
        }
    }

    fn is_heavy(&self, bytes: u64) -> bool {
        self.heaviest.len() < KEPT_HEAVIEST || self.heaviest.last().is_some_and(|least| least.bytes < bytes)
    }

    fn add_heavy(&mut self, heavy: HeavyPartition) {
        let same = self.heaviest.iter().position(|known| known.time_series_id == heavy.time_series_id);
        if let Some(at) = same {
            if self.heaviest[at].bytes >= heavy.bytes {
                return;
            }
            self.heaviest.remove(at);
        }
        let place = self.heaviest.partition_point(|known| known.bytes >= heavy.bytes);
        self.heaviest.insert(place, heavy);
        self.heaviest.truncate(KEPT_HEAVIEST);
    }
}

pub(crate) fn scope(namespace: &NamespaceName) -> String {
    format!("slice_sizes/{namespace}")
}

pub(crate) fn key(namespace: &NamespaceName, slice: &str) -> MetaKey {
    MetaKey::new(scope(namespace), slice)
}

#[cfg(test)]
mod tests {
    use anabranch_model::{EventBucket, PartitionKey, TimeBucket, TimeSeriesId};

    use super::*;

    #[test]
    fn the_heaviest_series_are_kept_each_by_its_heaviest_partition() {
        let mut counted = CountedPartitions::default();
        for at in 0..100_u64 {
            let series = TimeSeriesId::new(format!("s{}", at % 30)).unwrap();
            let partition = PartitionKey { series, time_bucket: TimeBucket(at as u32), event_bucket: EventBucket(0) };
            counted.add(&PartitionSize { partition, rows: 1, bytes: at * 7 % 101 });
        }
        assert_eq!(counted.heaviest.len(), KEPT_HEAVIEST);
        assert_eq!(counted.heaviest[0].bytes, 100);
        assert!(counted.heaviest.windows(2).all(|pair| pair[0].bytes >= pair[1].bytes));
        let mut series: Vec<&str> = counted.heaviest.iter().map(|heavy| heavy.time_series_id.as_str()).collect();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), KEPT_HEAVIEST);
    }
}

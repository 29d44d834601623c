//! The partitions of one series and their sizes, for people who look at it. Counted by reading, within limits; says where it stopped.

use std::time::Duration;

use anabranch_model::{EventBucket, Interval, PartitionKey, Slice, SliceState, TimeBucket, TimeSeriesId, Timestamp};
use anabranch_split::{WidePartition, WideRow};
use anabranch_store::{After, Direction, ReadClass, Scan, ScanSpan};

use crate::{EngineError, engine::Engine, registry::Namespace};

/// The most partitions that are answered at once.
const MOST_PARTITIONS: usize = 1000;
/// Partitions that are answered when nobody says how many.
const DEFAULT_PARTITIONS: usize = 200;
/// Bytes that are read to count.
const MOST_BYTES: u64 = 64 << 20;
/// How long counting may take.
const MOST_TIME: Duration = Duration::from_secs(3);
/// Rows and bytes fetched at once.
const ROWS: usize = 4096;
const BYTES: usize = 1 << 20;

/// Which series, and what of it.
#[derive(Clone, Debug, Default)]
pub struct SeriesSelection {
    /// Whose history.
    pub series: String,
    /// Only partitions that hold time from here on.
    pub start: Option<Timestamp>,
    /// Only partitions that hold time before this.
    pub end: Option<Timestamp>,
    /// Most partitions; 0 means 200.
    pub max_partitions: usize,
}

/// One partition of a series.
#[derive(Clone, Debug)]
pub struct SeriesPartition {
    /// Its slice.
    pub time_slice: String,
    /// Which span of the slice.
    pub time_bucket: TimeBucket,
    /// Which of the span's buckets.
    pub event_bucket: EventBucket,
    /// The time that it covers.
    pub interval: Interval,
    /// Rows of the original.
    pub rows: u64,
    /// Bytes of the original.
    pub bytes: u64,
    /// There may be more.
    pub at_least: bool,
    /// Its split, if it has one.
    pub split: Option<WideRow>,
}

/// The partitions of a series that hold something, newest first.
#[derive(Clone, Debug, Default)]
pub struct SeriesPartitions {
    /// Those that were found.
    pub partitions: Vec<SeriesPartition>,
    /// Why not everything is here or counted, if it isn't.
    pub cut: Option<String>,
    /// A partition is wide from this many bytes on.
    pub threshold_bytes: u64,
}

/// What is left of the limits.
struct Budget {
    bytes: u64,
    deadline: Duration,
}

impl Engine {
    /// The partitions of a series, with their sizes.
    pub async fn series_partitions(
        &self,
        name: &str,
        which: &SeriesSelection,
    ) -> Result<SeriesPartitions, EngineError> {
        let namespace = self.registry.get(name)?;
        let series = TimeSeriesId::new(which.series.clone())
            .map_err(|error| EngineError::invalid("time_series_id", error.to_string()))?;
        let wanted = Interval::new(which.start.unwrap_or(Timestamp::EARLIEST), which.end.unwrap_or(Timestamp::LATEST));
        let most = match which.max_partitions {
            0 => DEFAULT_PARTITIONS,
            most => most.min(MOST_PARTITIONS),
        };
        let _place = self.admission.page(&self.env, ReadClass::Bulk, MOST_TIME).await?;
        let mut found = SeriesPartitions {
            threshold_bytes: namespace.record.config_at(self.env.now()).split.threshold_bytes,
            ..SeriesPartitions::default()
        };
        let mut budget = Budget { bytes: MOST_BYTES, deadline: self.env.monotonic() + MOST_TIME };
        let open = |slice: &&Slice| slice.state == SliceState::Open;
        for slice in namespace.record.slices.overlapping(wanted).iter().rev().filter(open) {
            for (time_bucket, event_bucket) in self.occupied_keys(&namespace, slice, &series, wanted, most).await? {
                if found.partitions.len() >= most {
                    found.cut =
                        Some(format!("there are more than {most} partitions; name a span of time for the others"));
                    return Ok(found);
                }
                if self.env.monotonic() >= budget.deadline && !self.store.capabilities().ordered_partitions {
                    found.cut = Some("looking for older partitions took too long; name a span of time".to_owned());
                    return Ok(found);
                }
                let key = PartitionKey { series: series.clone(), time_bucket, event_bucket };
                let partition = self.sized(&namespace, slice, key, &mut budget).await?;
                // Where a store can't list partitions, empty ones are found by looking.
                if partition.rows > 0 || partition.at_least {
                    if partition.at_least {
                        found.cut = Some("counting stopped where sizes are marked as “at least”".to_owned());
                    }
                    found.partitions.push(partition);
                }
            }
        }
        Ok(found)
    }

    /// Keys of partitions that may hold something, newest first.
    async fn occupied_keys(
        &self,
        namespace: &Namespace,
        slice: &Slice,
        series: &TimeSeriesId,
        wanted: Interval,
        most: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, EngineError> {
        let both = slice.interval.intersect(&wanted);
        if both.is_empty() {
            return Ok(Vec::new());
        }
        let first = slice.time_bucket(both.start);
        let last = slice.time_bucket(Timestamp::from_nanos(both.end.nanos() - 1));
        if self.store.capabilities().ordered_partitions {
            let table = slice.table(&namespace.name);
            let store = self.admission.store(ReadClass::Bulk);
            return Ok(store.occupied(&table, series, first..=last, Direction::Backward, most + 1).await?);
        }
        let spread = |bucket| (0..slice.settings.event_buckets).map(move |at| (TimeBucket(bucket), EventBucket(at)));
        Ok((first.0..=last.0).rev().flat_map(spread).take(most * 4).collect())
    }

    /// One partition: what its pieces cover is known from its record, the rest is counted.
    async fn sized(
        &self,
        namespace: &Namespace,
        slice: &Slice,
        key: PartitionKey,
        budget: &mut Budget,
    ) -> Result<SeriesPartition, EngineError> {
        let time_slice = slice.name();
        let wide = WidePartition::new(namespace.name.clone(), time_slice.clone(), key.clone());
        let split = self.splits.records.load(&wide).await?.map(|loaded| loaded.row);
        let interval = slice.bucket_interval(key.time_bucket);
        let mut partition = SeriesPartition {
            time_slice,
            time_bucket: key.time_bucket,
            event_bucket: key.event_bucket,
            interval,
            rows: 0,
            bytes: 0,
            at_least: false,
            split,
        };
        let mut rest = interval;
        for segment in partition.split.iter().flat_map(|row| &row.served) {
            partition.rows += segment.pre_split_data.rows;
            partition.bytes += segment.pre_split_data.bytes;
            rest.start = rest.start.max(segment.span.end);
        }
        self.count_rows(slice.table(&namespace.name), key, rest, &mut partition, budget).await?;
        Ok(partition)
    }

    async fn count_rows(
        &self,
        table: anabranch_model::TableName,
        partition: PartitionKey,
        interval: Interval,
        counted: &mut SeriesPartition,
        budget: &mut Budget,
    ) -> Result<(), EngineError> {
        let mut after = None;
        while !interval.is_empty() {
            let timeout = budget.deadline.saturating_sub(self.env.monotonic());
            if budget.bytes == 0 || timeout.is_zero() {
                counted.at_least = true;
                return Ok(());
            }
            let scan = Scan {
                table: table.clone(),
                partition: partition.clone(),
                span: ScanSpan::Interval { interval, after: after.take() },
                direction: Direction::Forward,
                max_rows: ROWS,
                max_bytes: BYTES,
                timeout,
            };
            let page = self.admission.store(ReadClass::Bulk).scan(&scan).await?;
            let bytes: u64 = page.rows.iter().map(|row| row.bytes() as u64).sum();
            counted.rows += page.rows.len() as u64;
            counted.bytes += bytes;
            budget.bytes = budget.bytes.saturating_sub(bytes);
            match page.rows.last() {
                Some(last) if page.more => after = Some(After::Row(last.key())),
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

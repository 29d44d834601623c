//! What an operator asks of splits.

use anabranch_model::{
    EventBucket, Interval, NamespaceName, PartitionKey, ReadMode, Slice, SliceState, TableName, TimeBucket,
    TimeSeriesId,
};
use anabranch_split::{State, WidePartition, WideRow};
use anabranch_store::{Direction, ReadClass, Scan, ScanSpan};
use futures_util::future::try_join_all;

use crate::{
    EngineError, NamespaceRecord,
    engine::Engine,
    splits::{due::Errand, verdict::KeptDifference, worker::Rechecked},
};

/// Partitions that one request takes up: a record is made for each.
pub const MAX_REQUESTED: usize = 100;
/// Partitions that one request looks into to find them, where the store can't list those that hold something.
const MAX_PROBED: usize = 10_000;
/// Of these, so many at once.
const PROBES_AT_ONCE: usize = 8;

/// Which partitions an operator means.
#[derive(Clone, Debug, Default)]
pub struct SplitSelection {
    /// Only of this series.
    pub time_series_id: Option<String>,
    /// Only of this slice: `data_20260328`.
    pub time_slice: Option<String>,
    /// Only of this time bucket.
    pub time_bucket: Option<u32>,
    /// Only of this event bucket.
    pub event_bucket: Option<u32>,
}

impl SplitSelection {
    fn holds(&self, partition: &WidePartition) -> bool {
        self.time_series_id.as_ref().is_none_or(|series| series == partition.time_series_id.as_str())
            && self.time_slice.as_ref().is_none_or(|slice| *slice == partition.time_slice)
            && self.time_bucket.is_none_or(|bucket| bucket == partition.time_bucket)
            && self.event_bucket.is_none_or(|bucket| bucket == partition.event_bucket)
    }
}

/// What a request for splits came to.
#[derive(Clone, Debug, Default)]
pub struct Requested {
    /// The records of the partitions that were taken up.
    pub rows: Vec<WideRow>,
    /// Whether more partitions were meant than one request takes up.
    pub more: bool,
}

/// Partitions that are meant, and whether there are more.
#[derive(Default)]
struct Meant {
    partitions: Vec<WidePartition>,
    more: bool,
}

/// What a recheck on demand found.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Which partition.
    pub partition: WidePartition,
    /// Segments that are the same as the original.
    pub segments: usize,
    /// What differs, if anything does.
    pub difference: Option<KeptDifference>,
    /// Why nothing was compared, if nothing was.
    pub skipped: Option<String>,
}

impl Engine {
    /// The split records of a namespace that are meant.
    pub async fn split_records(&self, name: &str, which: &SplitSelection) -> Result<Vec<WideRow>, EngineError> {
        let namespace = self.registry.get(name)?;
        let mut found = Vec::new();
        for slice in namespace.record.slices.iter() {
            let slice_name = slice.name();
            if which.time_slice.as_ref().is_some_and(|wanted| *wanted != slice_name) {
                continue;
            }
            let records = self.splits.records.of_slice(&namespace.name, &slice_name).await?;
            found.extend(records.into_iter().map(|loaded| loaded.row).filter(|row| which.holds(&row.partition)));
        }
        Ok(found)
    }

    /// The split record of one partition, if it has one.
    pub async fn split_record(
        &self,
        name: &str,
        time_slice: &str,
        partition: PartitionKey,
    ) -> Result<Option<WideRow>, EngineError> {
        let namespace = self.registry.get(name)?;
        let partition = WidePartition::new(namespace.name.clone(), time_slice.to_owned(), partition);
        Ok(self.splits.records.load(&partition).await?.map(|loaded| loaded.row))
    }

    /// Asks that partitions be looked at, wide or not; a limited number of them at once.
    pub async fn request_splits(&self, name: &str, which: &SplitSelection) -> Result<Requested, EngineError> {
        self.check_ready()?;
        let Meant { partitions, more } = self.requested(name, which).await?;
        let mut rows = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let loaded = self.splits.records.detect(&partition, None).await?;
            if !self.splits.due.push(partition, Errand::Advance) {
                self.metrics.split_work_dropped.inc(); // the next sweep finds it
            }
            rows.push(loaded.row);
        }
        Ok(Requested { rows, more })
    }

    /// The partitions that a request means: of a series, those that hold something, newest slices first.
    async fn requested(&self, name: &str, which: &SplitSelection) -> Result<Meant, EngineError> {
        let namespace = self.registry.get(name)?;
        let Some(series) = &which.time_series_id else {
            return self.of_whole_slice(name, which).await;
        };
        let series = TimeSeriesId::new(series.clone())
            .map_err(|error| EngineError::invalid("time_series_id", error.to_string()))?;
        let mut meant = Meant::default();
        let mut probes = MAX_PROBED;
        let slices: Vec<&Slice> = namespace.record.slices.iter().collect();
        for slice in slices.into_iter().rev().filter(|slice| slice.state == SliceState::Open) {
            let time_slice = slice.name();
            if which.time_slice.as_ref().is_some_and(|wanted| *wanted != time_slice) {
                continue;
            }
            let room = MAX_REQUESTED - meant.partitions.len();
            let (keys, more) = self.occupied(&namespace.name, slice, &series, which, room, &mut probes).await?;
            meant.more |= more;
            meant.partitions.extend(keys.into_iter().map(|(time_bucket, event_bucket)| {
                let key = PartitionKey { series: series.clone(), time_bucket, event_bucket };
                WidePartition::new(namespace.name.clone(), time_slice.clone(), key)
            }));
        }
        Ok(meant)
    }

    /// The partitions of a series in a slice that hold something and are meant, newest first, as many as there is `room` for; and
    /// whether there may be more.
    async fn occupied(
        &self,
        name: &NamespaceName,
        slice: &Slice,
        series: &TimeSeriesId,
        which: &SplitSelection,
        room: usize,
        probes: &mut usize,
    ) -> Result<(Vec<(TimeBucket, EventBucket)>, bool), EngineError> {
        let count = slice.interval.length().as_secs().div_ceil(u64::from(slice.settings.seconds_per_bucket));
        let (table, last) = (slice.table(name), u32::try_from(count).unwrap_or(u32::MAX).saturating_sub(1));
        let buckets = which.time_bucket.map_or(0..=last, |bucket| bucket..=bucket.min(last));
        let meant = |event_bucket: u32| which.event_bucket.is_none_or(|wanted| wanted == event_bucket);
        let mut found = Vec::new();
        if self.store.capabilities().ordered_partitions {
            let buckets = TimeBucket(*buckets.start())..=TimeBucket(*buckets.end());
            let all = usize::try_from(slice.settings.event_buckets).unwrap_or(1).saturating_mul(room + 1);
            let store = self.admission.store(ReadClass::Bulk);
            found = store.occupied(&table, series, buckets, Direction::Backward, all).await?;
            found.retain(|(_, event_bucket)| meant(event_bucket.0));
        } else {
            let spread = |bucket| (0..slice.settings.event_buckets).map(move |at| (bucket, at));
            let mut candidates =
                buckets.rev().flat_map(spread).filter(|(_, event_bucket)| meant(*event_bucket)).peekable();
            // A record for every partition that could be would be far more than there are.
            while found.len() <= room && candidates.peek().is_some() {
                if *probes == 0 {
                    return Ok((found, true));
                }
                let some: Vec<(u32, u32)> = candidates.by_ref().take(PROBES_AT_ONCE.min(*probes)).collect();
                *probes -= some.len();
                let probed = some.into_iter().map(|(time_bucket, event_bucket)| {
                    let (time_bucket, event_bucket) = (TimeBucket(time_bucket), EventBucket(event_bucket));
                    let key = PartitionKey { series: series.clone(), time_bucket, event_bucket };
                    self.holds_something(&table, key)
                });
                let some = try_join_all(probed).await?;
                found.extend(some.into_iter().flatten().map(|key| (key.time_bucket, key.event_bucket)));
            }
        }
        let more = found.len() > room;
        found.truncate(room);
        Ok((found, more))
    }

    /// The partition, if it holds a row.
    async fn holds_something(
        &self,
        table: &TableName,
        partition: PartitionKey,
    ) -> Result<Option<PartitionKey>, EngineError> {
        let scan = Scan {
            table: table.clone(),
            partition: partition.clone(),
            span: ScanSpan::Interval { interval: Interval::ALL, after: None },
            direction: Direction::Forward,
            max_rows: 1,
            max_bytes: 1,
            timeout: self.options.meta_timeout,
        };
        let page = self.admission.store(ReadClass::Bulk).scan(&scan).await?;
        Ok((!page.rows.is_empty()).then_some(partition))
    }

    /// Every partition of a slice that is big enough, found by looking through the store.
    async fn of_whole_slice(&self, name: &str, which: &SplitSelection) -> Result<Meant, EngineError> {
        let Some(time_slice) = &which.time_slice else {
            return Err(EngineError::invalid("time_series_id", "name a series, or a slice"));
        };
        let namespace = self.registry.get(name)?;
        let Some(slice) = namespace.record.slices.iter().find(|slice| slice.name() == *time_slice) else {
            return Err(EngineError::invalid("time_slice", format!("there is no slice `{time_slice}`")));
        };
        let threshold = namespace.record.config_at(self.env.now()).split.threshold_bytes;
        let table = slice.table(&namespace.name);
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(token) = from {
            let sample = self.admission.store(ReadClass::Background).sample(&table, token, 1000).await?;
            from = sample.next;
            let wide = sample.partitions.into_iter().filter(|size| size.bytes >= threshold);
            found.extend(
                wide.map(|size| WidePartition::new(namespace.name.clone(), time_slice.clone(), size.partition))
                    .filter(|partition| which.holds(partition)),
            );
            if found.len() > MAX_REQUESTED {
                break;
            }
        }
        let more = found.len() > MAX_REQUESTED;
        found.truncate(MAX_REQUESTED);
        Ok(Meant { partitions: found, more })
    }

    /// Lets splits that failed or are parked begin again at once. Answers their records.
    pub async fn retry_splits(&self, name: &str, which: &SplitSelection) -> Result<Vec<WideRow>, EngineError> {
        let mut rows = Vec::new();
        for row in self.split_records(name, which).await? {
            let retry = |row: &mut WideRow| match &mut row.state {
                State::Failed(failure) => {
                    failure.retry_after = anabranch_model::Timestamp::EARLIEST;
                    row.try_anew();
                    true
                }
                State::Parked { .. } | State::NotWide { .. } => {
                    row.state = State::Detected;
                    row.try_anew();
                    true
                }
                _ if row.set_aside.is_some() => {
                    row.set_aside = None;
                    true
                }
                _ => false,
            };
            let before = row.nonce;
            let Some(loaded) = self.splits.records.change(&row.partition, retry).await? else { continue };
            if loaded.row.nonce != before {
                self.splits.router.forget(&row.partition);
                self.splits.due.push(row.partition.clone(), Errand::Advance);
                rows.push(loaded.row);
            }
        }
        self.wake_sweep.notify_one(); // what is shown follows at once
        Ok(rows)
    }

    /// Gives splits up: whoever works on them loses its lease, nothing of them is used, and nothing is tried again until an
    /// operator asks.
    pub async fn abandon_splits(
        &self,
        name: &str,
        which: &SplitSelection,
        reason: &str,
    ) -> Result<Vec<WideRow>, EngineError> {
        let mut rows = Vec::new();
        for row in self.split_records(name, which).await? {
            let abandon = |row: &mut WideRow| {
                row.invalidate(reason);
                row.state = State::given_up(reason);
                true
            };
            let Some(loaded) = self.splits.records.change(&row.partition, abandon).await? else { continue };
            self.splits.router.forget(&row.partition);
            rows.push(loaded.row);
        }
        self.wake_sweep.notify_one();
        Ok(rows)
    }

    /// Compares splits with their originals now, whole. What isn't served, or not any more, is left out.
    pub async fn verify_splits(&self, name: &str, which: &SplitSelection) -> Result<Vec<Verified>, EngineError> {
        let mut found = Vec::new();
        for row in self.split_records(name, which).await? {
            if row.served.is_empty() {
                continue;
            }
            let partition = row.partition;
            // Only what was really compared is told: records and windows change meanwhile.
            let (segments, difference, skipped) = match self.recheck(&partition).await? {
                Rechecked::Same { segments } => (segments, None, None),
                Rechecked::Differs(difference) => (0, Some(*difference), None),
                Rechecked::NotServed => continue,
                Rechecked::Skipped(reason) => (0, None, Some(reason)),
            };
            found.push(Verified { partition, segments, difference, skipped });
        }
        Ok(found)
    }

    /// Sets how far reads of a namespace trust splits.
    pub async fn set_read_mode(
        &self,
        name: &str,
        mode: ReadMode,
        by: &str,
        reason: &str,
    ) -> Result<NamespaceRecord, EngineError> {
        let namespace = self.registry.get(name)?;
        let now = self.env.now();
        let changed = self
            .registry
            .change(&namespace.name, |record| Ok(record.splits.change_mode(mode, by, reason, now)))
            .await?;
        if changed {
            self.metrics.mode_changes.with_label_values(&[name, mode.name()]).inc();
        }
        self.namespace(name)
    }

    /// Comparisons of a namespace without a difference, as this server counts them, and since when.
    pub fn clean_comparisons(&self, name: &str) -> Result<Option<(u32, anabranch_model::Timestamp)>, EngineError> {
        Ok(self.splits.doubts.clean(&self.registry.get(name)?.name))
    }
}

//! What an operator asks of splits.

use anabranch_model::{EventBucket, PartitionKey, ReadMode, SliceState, TimeBucket, TimeSeriesId};
use anabranch_split::{State, WidePartition, WideRow};
use anabranch_store::{Direction, ReadClass};

use crate::{
    EngineError, NamespaceRecord,
    engine::Engine,
    splits::{due::Errand, ground::bucket, verdict::KeptDifference},
};

/// Partitions that one request may name.
pub const MAX_REQUESTED: usize = 1000;

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

    /// Asks that partitions be looked at, wide or not. Answers their records.
    pub async fn request_splits(&self, name: &str, which: &SplitSelection) -> Result<Vec<WideRow>, EngineError> {
        self.check_ready()?;
        let mut rows = Vec::new();
        for partition in self.requested(name, which).await? {
            let loaded = self.splits.records.detect(&partition, None).await?;
            self.splits.due.push(partition, Errand::Advance);
            rows.push(loaded.row);
        }
        Ok(rows)
    }

    /// The partitions that a request means: of a series, those that hold something.
    async fn requested(&self, name: &str, which: &SplitSelection) -> Result<Vec<WidePartition>, EngineError> {
        let namespace = self.registry.get(name)?;
        let Some(series) = &which.time_series_id else {
            return self.of_whole_slice(name, which).await;
        };
        let series = TimeSeriesId::new(series.clone())
            .map_err(|error| EngineError::invalid("time_series_id", error.to_string()))?;
        let ordered = self.store.capabilities().ordered_partitions;
        let mut found = Vec::new();
        for slice in namespace.record.slices.iter().filter(|slice| slice.state == SliceState::Open) {
            let time_slice = slice.name();
            if which.time_slice.as_ref().is_some_and(|wanted| *wanted != time_slice) {
                continue;
            }
            let table = slice.table(&namespace.name);
            let buckets =
                slice.interval.length().as_secs().div_ceil(u64::from(slice.settings.seconds_per_bucket)) as u32;
            let keys: Vec<(TimeBucket, EventBucket)> = if ordered {
                let all = TimeBucket(0)..=TimeBucket(buckets.saturating_sub(1));
                self.admission
                    .store(ReadClass::Bulk)
                    .occupied(&table, &series, all, Direction::Backward, MAX_REQUESTED)
                    .await?
            } else {
                let wanted = which.time_bucket.map_or(0..buckets, |bucket| bucket..bucket + 1);
                let spread =
                    |bucket| (0..slice.settings.event_buckets).map(move |at| (TimeBucket(bucket), EventBucket(at)));
                wanted.flat_map(spread).take(MAX_REQUESTED).collect()
            };
            found.extend(keys.into_iter().map(|(time_bucket, event_bucket)| {
                let key = PartitionKey { series: series.clone(), time_bucket, event_bucket };
                WidePartition::new(namespace.name.clone(), time_slice.clone(), key)
            }));
        }
        found.retain(|partition| which.holds(partition));
        found.truncate(MAX_REQUESTED);
        Ok(found)
    }

    /// Every partition of a slice that is big enough, found by looking through the store.
    async fn of_whole_slice(&self, name: &str, which: &SplitSelection) -> Result<Vec<WidePartition>, EngineError> {
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
            if found.len() >= MAX_REQUESTED {
                break;
            }
        }
        found.truncate(MAX_REQUESTED);
        Ok(found)
    }

    /// Lets splits that failed or are parked begin again at once. Answers their records.
    pub async fn retry_splits(&self, name: &str, which: &SplitSelection) -> Result<Vec<WideRow>, EngineError> {
        let mut rows = Vec::new();
        for row in self.split_records(name, which).await? {
            let retry = |row: &mut WideRow| match &mut row.state {
                State::Failed(failure) => {
                    failure.retry_after = anabranch_model::Timestamp::EARLIEST;
                    row.attempts = 0;
                    true
                }
                State::Parked { .. } | State::NotWide { .. } => {
                    row.state = State::Detected;
                    row.attempts = 0;
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
                row.state = State::Parked { reason: format!("abandoned: {reason}") };
                true
            };
            let Some(loaded) = self.splits.records.change(&row.partition, abandon).await? else { continue };
            self.splits.router.forget(&row.partition);
            rows.push(loaded.row);
        }
        self.wake_sweep.notify_one();
        Ok(rows)
    }

    /// Compares splits with their originals now, whole.
    pub async fn verify_splits(&self, name: &str, which: &SplitSelection) -> Result<Vec<Verified>, EngineError> {
        let mut found = Vec::new();
        for row in self.split_records(name, which).await? {
            if row.served.is_empty() {
                continue;
            }
            let skipped = self.why_not_rechecked(&row.partition)?;
            let difference = if skipped.is_none() { self.recheck(&row.partition).await? } else { None };
            let segments = if difference.is_some() || skipped.is_some() { 0 } else { row.served.len() };
            found.push(Verified { partition: row.partition, segments, difference, skipped });
        }
        Ok(found)
    }

    /// Why a comparison with the original would mean nothing now, if it would.
    fn why_not_rechecked(&self, partition: &WidePartition) -> Result<Option<String>, EngineError> {
        let namespace = self.registry.get(partition.namespace.as_str())?;
        let Some(bucket) = bucket(&namespace.record, partition) else {
            return Ok(Some("its slice is closed".to_owned()));
        };
        let changing = namespace.record.may_be_backfilled(bucket, self.env.now(), self.registry.notice());
        Ok(changing.then(|| "a backfill window may still bring events; it is compared when that is over".to_owned()))
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

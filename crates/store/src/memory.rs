//! The contract in memory, for the simulation and for tests: deterministic, and honest about crashes. A write is
//! applied first and synced later; [`MemoryStore::crash`] takes back what was applied and not synced.

mod range;
mod state;

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_model::{EventBucket, PartitionKey, RowKey, TableName, TimeBucket, TimeSeriesId, key};
use anabranch_runtime::Env;
use async_trait::async_trait;
use bytes::Bytes;
use state::State;

use crate::{
    Capabilities, CasOutcome, Direction, MetaKey, PartitionBatch, Sample, Scan, ScanPage, Store, StoreError, Version,
    Versioned,
};

/// A store in memory. Several simulated servers may share one.
pub struct MemoryStore {
    env: Env,
    state: Mutex<State>,
    max_sync_latency: Duration,
    ordered_partitions: bool,
}

impl MemoryStore {
    /// An empty store whose syncs take no time.
    pub fn new(env: Env) -> Self {
        MemoryStore { env, state: Mutex::default(), max_sync_latency: Duration::ZERO, ordered_partitions: true }
    }

    /// Lets a random time of up to `max` pass before a change is synced, so that a crash can come between.
    #[must_use]
    pub fn with_sync_latency(self, max: Duration) -> Self {
        MemoryStore { max_sync_latency: max, ..self }
    }

    /// Refuses [`Store::occupied`], as a store does whose partitions lie in no order.
    #[must_use]
    pub fn without_ordered_partitions(self) -> Self {
        MemoryStore { ordered_partitions: false, ..self }
    }

    /// Loses everything that isn't synced: rows, metadata, tables made and dropped alike. Calls that wait for their
    /// sync answer [`StoreError::Unknown`].
    pub fn crash(&self) {
        self.state().crash();
    }

    /// Loses a row behind everybody's back, as a failing disk might.
    pub fn forget_row(&self, table: &TableName, partition: &PartitionKey, key: &RowKey) {
        self.state().forget_row(table, partition, key);
    }

    /// What a scan would see if these batches had been written, which they aren't.
    pub fn scan_as_if(&self, scan: &Scan, written: Vec<PartitionBatch>) -> Result<ScanPage, StoreError> {
        self.state().scan_as_if(scan, written)
    }

    /// Never held over an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then makes all that was applied so far durable: the way of every change but a write of rows.
    async fn change<T>(&self, apply: impl FnOnce(&mut State) -> T + Send) -> Result<T, StoreError> {
        let (answer, epoch) = {
            let mut state = self.state();
            (apply(&mut state), state.crashes())
        };
        self.sync(epoch, Duration::MAX).await?;
        Ok(answer)
    }

    /// Makes everything applied so far durable, unless a crash has come since the state had seen `crashes` of them.
    async fn sync(&self, crashes: u64, timeout: Duration) -> Result<(), StoreError> {
        if !self.max_sync_latency.is_zero() {
            let max_nanos = u64::try_from(self.max_sync_latency.as_nanos()).unwrap_or(u64::MAX - 1);
            let latency = Duration::from_nanos(self.env.random_below(max_nanos + 1));
            self.env.sleep(latency.min(timeout)).await;
            if latency > timeout {
                let reason = format!("the sync took longer than {timeout:?}");
                return Err(StoreError::Unknown { reason });
            }
        }
        let mut state = self.state();
        if state.crashes() != crashes {
            return Err(StoreError::Unknown { reason: "the store crashed before the change was synced".to_owned() });
        }
        state.sync();
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "memory", shared: true, ordered_partitions: self.ordered_partitions, max_tables: 2000 }
    }

    fn everywhere(self: Arc<Self>) -> Arc<dyn Store> {
        self
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.change(|state| state.create_table(table)).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.change(|state| state.drop_table(table)).await
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        Ok(self.state().table_names())
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        let (mut answers, crashes) = {
            let mut state = self.state();
            let answers: Vec<_> = batches.into_iter().map(|batch| state.apply(batch)).collect();
            (answers, state.crashes())
        };
        if answers.iter().any(Result::is_ok)
            && let Err(error) = self.sync(crashes, timeout).await
        {
            answers.iter_mut().filter(|answer| answer.is_ok()).for_each(|answer| *answer = Err(error.clone()));
        }
        answers
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        if scan.max_rows == 0 {
            return Err(StoreError::Refused { reason: "a scan of no rows".to_owned() });
        }
        self.state().scan(scan)
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        if !self.ordered_partitions {
            return Err(StoreError::Refused { reason: "partitions of this store lie in no order".to_owned() });
        }
        let bound = |time_bucket: &TimeBucket, event_bucket: u32| {
            let mut bytes = Vec::new();
            key::encode_series(series, &mut bytes);
            bytes.extend_from_slice(&time_bucket.0.to_be_bytes());
            bytes.extend_from_slice(&event_bucket.to_be_bytes());
            bytes
        };
        let state = self.state();
        let partitions = state.table(table)?.partitions();
        if buckets.is_empty() {
            return Ok(Vec::new());
        }
        let found = partitions.range(bound(buckets.start(), 0)..=bound(buckets.end(), u32::MAX));
        let found = found.map(|(_, partition)| (partition.key.time_bucket, partition.key.event_bucket));
        Ok(match direction {
            Direction::Forward => found.take(limit).collect(),
            Direction::Backward => found.rev().take(limit).collect(),
        })
    }

    /// A place is the token of the series (upper 32 bits) and the rank of the partition among those of this token.
    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        if limit == 0 {
            return Err(StoreError::Refused { reason: "a sample of no partitions".to_owned() });
        }
        let state = self.state();
        let token = (from >> 32) as u32;
        let mut sample = Sample::default();
        let mut last = None;
        for (bytes, partition) in state.table(table)?.partitions().range(token.to_be_bytes().to_vec()..) {
            let token = &bytes[..size_of::<u32>()];
            let rank = match last {
                Some((last, rank)) if last == token => rank + 1,
                _ => 0u64,
            };
            last = Some((token, rank));
            let place = (u64::from(key::series_token(&partition.key.series)) << 32) + rank;
            if place < from {
                continue;
            }
            if sample.partitions.len() == limit {
                sample.next = Some(place);
                break;
            }
            sample.partitions.push(partition.size());
        }
        Ok(sample)
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        Ok(self.state().load(key))
    }

    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        Ok(self.state().list(scope, after, limit))
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        self.change(|state| state.compare_and_set(key, expected, value)).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.change(|_| ()).await
    }
}

//! A store whose reads wait for their turn: a decorator that asks for a permit before each. One for every class of reads, over
//! the same store and the same [`Permits`].

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use anabranch_model::{EventBucket, NamespaceName, Row, TableName, TimeBucket, TimeSeriesId};
use async_trait::async_trait;
use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3Default;

use crate::{
    Capabilities, CasOutcome, Direction, MetaKey, PartitionBatch, Permits, ReadClass, Sample, Scan, ScanPage, Store,
    StoreError, TableEstimate, Version, Versioned, hedge::HedgeCount,
};

/// How long a read without a deadline of its own waits for its turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a part of a whole history may be read once it has its turn, which it waits for much longer: a store that hangs is to be noticed.
const LONGEST_BULK_READ: Duration = Duration::from_secs(10);
/// What listing one partition counts for.
const LISTED_BYTES: u64 = 64;

/// The reads of one class.
pub struct FairStore {
    inner: Arc<dyn Store>,
    permits: Arc<Permits>,
    class: ReadClass,
}

impl FairStore {
    /// `inner`, with permits for its reads.
    pub fn new(inner: Arc<dyn Store>, permits: Arc<Permits>, class: ReadClass) -> Self {
        FairStore { inner, permits, class }
    }
}

/// Tells series apart, wherever their rows lie: in originals or in pieces.
fn flow(namespace: &NamespaceName, series: &str) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.update(namespace.as_str().as_bytes());
    hasher.update(b"/");
    hasher.update(series.as_bytes());
    hasher.digest()
}

#[async_trait]
impl Store for FairStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }

    fn takes_no_writes(&self) -> Option<String> {
        self.inner.takes_no_writes()
    }

    fn everywhere(self: Arc<Self>) -> Arc<dyn Store> {
        Arc::new(FairStore::new(self.inner.clone().everywhere(), self.permits.clone(), self.class))
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.inner.create_table(table).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.inner.drop_table(table).await
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        self.inner.tables().await
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        self.inner.write(batches, timeout).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        let flow = flow(&scan.table.namespace, scan.partition.series.as_str());
        // Gives up before whoever asks does: no turn and a store that doesn't answer are not the same.
        let permit = self.permits.acquire(self.class, flow, scan.timeout / 4 * 3).await?;
        let mut timeout = scan.timeout.saturating_sub(permit.waited());
        if self.class == ReadClass::Bulk {
            timeout = timeout.min(LONGEST_BULK_READ);
        }
        let page = if timeout == scan.timeout {
            self.inner.scan(scan).await?
        } else {
            self.inner.scan(&Scan { timeout, ..scan.clone() }).await?
        };
        permit.done(page.rows.iter().map(|row: &Row| row.bytes() as u64).sum());
        Ok(page)
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        let permit = self.permits.acquire(self.class, flow(&table.namespace, series.as_str()), PATIENCE).await?;
        let found = self.inner.occupied(table, series, buckets, direction, limit).await?;
        permit.done(found.len() as u64 * LISTED_BYTES);
        Ok(found)
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        let permit = self.permits.acquire(self.class, flow(&table.namespace, &table.table), PATIENCE).await?;
        let sample = self.inner.sample(table, from, limit).await?;
        permit.done(sample.partitions.iter().map(|size| size.bytes).sum());
        Ok(sample)
    }

    async fn estimate(&self, table: &TableName) -> Result<Option<TableEstimate>, StoreError> {
        self.inner.estimate(table).await
    }

    fn hedging(&self) -> Option<HedgeCount> {
        self.inner.hedging()
    }

    fn metadata_retries(&self) -> u64 {
        self.inner.metadata_retries()
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        self.inner.load(key).await
    }

    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        self.inner.list(scope, after, limit).await
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        self.inner.compare_and_set(key, expected, value).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

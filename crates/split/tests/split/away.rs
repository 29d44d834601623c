//! The in-memory store, of which no partition can be read for a while.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch_model::{EventBucket, TableName, TimeBucket, TimeSeriesId};
use anabranch_store::{
    Capabilities, CasOutcome, Direction, MemoryStore, MetaKey, PartitionBatch, Sample, Scan, ScanPage, Store,
    StoreError, Version, Versioned,
};
use async_trait::async_trait;
use bytes::Bytes;

pub(crate) struct Away {
    inner: Arc<MemoryStore>,
    /// What scans are answered, as long as there is something.
    pub(crate) because: Mutex<Option<StoreError>>,
}

impl Away {
    pub(crate) fn new(inner: Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(Away { inner, because: Mutex::default() })
    }
}

#[async_trait]
impl Store for Away {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn everywhere(self: Arc<Self>) -> Arc<dyn Store> {
        self
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
        let because = self.because.lock().unwrap().clone();
        match because {
            Some(error) => Err(error),
            None => self.inner.scan(scan).await,
        }
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        self.inner.occupied(table, series, buckets, direction, limit).await
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        self.inner.sample(table, from, limit).await
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

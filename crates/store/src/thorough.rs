//! A store whose every scan sees all that any replica holds: for those who plan, copy, verify and compare.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use anabranch_model::{EventBucket, TableName, TimeBucket, TimeSeriesId};
use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Capabilities, CasOutcome, Direction, MetaKey, PartitionBatch, Sample, Scan, ScanPage, Store, StoreError, Version,
    Versioned,
};

/// The store inside, but for scans: these are [`Store::scan_everywhere`].
pub struct Thorough(Arc<dyn Store>);

impl Thorough {
    /// Around a store.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Thorough(inner)
    }
}

#[async_trait]
impl Store for Thorough {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.0.free_bytes()
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.0.create_table(table).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.0.drop_table(table).await
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        self.0.tables().await
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        self.0.write(batches, timeout).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.0.scan_everywhere(scan).await
    }

    async fn scan_everywhere(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.0.scan_everywhere(scan).await
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        self.0.occupied(table, series, buckets, direction, limit).await
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        self.0.sample(table, from, limit).await
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        self.0.load(key).await
    }

    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        self.0.list(scope, after, limit).await
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        self.0.compare_and_set(key, expected, value).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.0.close().await
    }
}

//! A store whose reads wait for their turn: a decorator that asks for a permit before each. One for every class of reads, over
//! the same store and the same [`Permits`].

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use anabranch_model::{EventBucket, NamespaceName, Row, TableName, TimeBucket, TimeSeriesId};
use async_trait::async_trait;
use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3Default;

use crate::{
    Capabilities, CasOutcome, Direction, MetaKey, PartitionBatch, Permits, ReadClass, Sample, Scan, ScanPage, ScanSpan,
    Store, StoreError, TableEstimate, Version, Versioned, hedge::HedgeCount,
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
        let max_bytes = match scan.span {
            ScanSpan::Interval { .. } => scan.max_bytes.min(permit.max_bytes()),
            // Parts of a record end where so much of it was asked for.
            ScanSpan::Event { .. } => scan.max_bytes,
        };
        let page = if (timeout, max_bytes) == (scan.timeout, scan.max_bytes) {
            self.inner.scan(scan).await?
        } else {
            self.inner.scan(&Scan { timeout, max_bytes, ..scan.clone() }).await?
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

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use anabranch_model::Timestamp;
    use anabranch_runtime::run_simulated;

    use super::*;
    use crate::{
        After, MemoryStore, PermitOptions,
        suite::fixture::{DIRECTIONS, EVER, make_table, partition, position, row, scan, within, write},
    };

    /// R1: what is cut short beside small reads says so, and goes on where it ended.
    #[test]
    fn a_heavy_read_beside_small_ones_comes_in_short_pages_that_hold_everything() {
        run_simulated(7, Timestamp::from_seconds(0), |env| async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
            let table = make_table(&store, "data_20260328").await;
            let partition = partition("s", 0, 0);
            let rows: Vec<Row> = (0..9).rev().map(|time| row(time, "e", "k", "value")).collect();
            write(&store, &table, &partition, &rows).await;
            let two = rows[0].bytes() + rows[1].bytes();
            let options = PermitOptions { heavy_bytes_beside: two, ..PermitOptions::default() };
            let permits = Arc::new(Permits::new(env.clone(), options));
            let [small, bulk] =
                [ReadClass::Small, ReadClass::Bulk].map(|class| FairStore::new(store.clone(), permits.clone(), class));
            for direction in DIRECTIONS {
                let all = scan(&table, &partition, within(EVER), direction);
                assert_eq!(small.scan(&all).await.unwrap().rows.len(), 9, "a small read is never cut");
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let span = ScanSpan::Interval { interval: EVER, after };
                    let page = bulk.scan(&Scan { span, ..all.clone() }).await.unwrap();
                    assert!((1..=2).contains(&page.rows.len()), "{:?}", page.rows);
                    after = page.rows.last().map(|row| After::Row(row.key()));
                    found.extend(page.rows);
                    if !page.more {
                        break;
                    }
                }
                assert_eq!(found, store.scan(&all).await.unwrap().rows);
            }
            env.sleep(Duration::from_secs(2)).await;
            let all = scan(&table, &partition, within(EVER), Direction::Forward);
            assert_eq!(bulk.scan(&all).await.unwrap().rows, rows, "once nobody else reads");
        });
    }

    #[test]
    fn parts_of_a_record_end_where_they_would_without_small_reads() {
        run_simulated(7, Timestamp::from_seconds(0), |env| async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
            let table = make_table(&store, "data_20260328").await;
            let partition = partition("s", 0, 0);
            let items: Vec<Row> = ["a", "b", "c"].map(|key| row(1, "e", key, "value")).to_vec();
            write(&store, &table, &partition, &items).await;
            let options = PermitOptions { heavy_bytes_beside: 1, ..PermitOptions::default() };
            let permits = Arc::new(Permits::new(env.clone(), options));
            permits.acquire(ReadClass::Small, 1, PATIENCE).await.unwrap().done(1);
            let bulk = FairStore::new(store, permits, ReadClass::Bulk);
            let event = ScanSpan::Event { position: position(1, "e"), from: Bound::Unbounded };
            let page = bulk.scan(&scan(&table, &partition, event, Direction::Forward)).await.unwrap();
            assert_eq!(page.rows, items);
        });
    }
}

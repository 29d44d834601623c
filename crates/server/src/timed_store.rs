//! A store with a clock beside it: what each kind of call takes. Around the real back ends only.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use anabranch_engine::TRACE;
use anabranch_model::{EventBucket, TableName, TimeBucket, TimeSeriesId};
use anabranch_runtime::Env;
use anabranch_store::{
    Capabilities, CasOutcome, Direction, MetaKey, PartitionBatch, Sample, Scan, ScanPage, Store, StoreError,
    TableEstimate, Version, Versioned, hedge::HedgeCount,
};
use async_trait::async_trait;
use bytes::Bytes;
use prometheus::{HistogramOpts, HistogramVec, exponential_buckets};
use tracing::Instrument as _;

/// Times the calls of the store inside.
pub(crate) struct TimedStore {
    inner: Arc<dyn Store>,
    env: Env,
    seconds: HistogramVec,
}

/// What [`TimedStore`] counts; not registered yet.
pub(crate) fn store_seconds() -> HistogramVec {
    // From 10 µs to 10 s, each four times the one before.
    let buckets = exponential_buckets(0.00001, 4.0, 11).expect("bounds are constants");
    let opts = HistogramOpts::new("anabranch_store_seconds", "What calls of the store took").buckets(buckets);
    HistogramVec::new(opts, &["call"]).expect("names and labels are constants")
}

impl TimedStore {
    pub(crate) fn new(inner: Arc<dyn Store>, env: Env, seconds: HistogramVec) -> Self {
        TimedStore { inner, env, seconds }
    }

    async fn timed<T>(&self, call: &str, work: impl Future<Output = T> + Send) -> T {
        let begun = self.env.monotonic();
        let answer = work.instrument(tracing::trace_span!(target: TRACE, "store", otel.name = call)).await;
        let took = self.env.monotonic().saturating_sub(begun);
        self.seconds.with_label_values(&[call]).observe(took.as_secs_f64());
        answer
    }
}

#[async_trait]
impl Store for TimedStore {
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
        let inner = self.inner.clone().everywhere();
        Arc::new(TimedStore { inner, env: self.env.clone(), seconds: self.seconds.clone() })
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.timed("create_table", self.inner.create_table(table)).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        self.timed("drop_table", self.inner.drop_table(table)).await
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        self.timed("tables", self.inner.tables()).await
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        self.timed("write", self.inner.write(batches, timeout)).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.timed("scan", self.inner.scan(scan)).await
    }

    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        self.timed("occupied", self.inner.occupied(table, series, buckets, direction, limit)).await
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        self.timed("sample", self.inner.sample(table, from, limit)).await
    }

    async fn estimate(&self, table: &TableName) -> Result<Option<TableEstimate>, StoreError> {
        self.timed("estimate", self.inner.estimate(table)).await
    }

    fn hedging(&self) -> Option<HedgeCount> {
        self.inner.hedging()
    }

    fn metadata_retries(&self) -> u64 {
        self.inner.metadata_retries()
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        self.timed("load", self.inner.load(key)).await
    }

    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        self.timed("list", self.inner.list(scope, after, limit)).await
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        self.timed("compare_and_set", self.inner.compare_and_set(key, expected, value)).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

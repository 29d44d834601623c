//! Counts the partitions of one table: a fair share of them first, more while their p99 isn't sure, all of them if need be. Pauses
//! between calls, so that it takes no more than its part of the time.

use std::time::Duration;

use anabranch_model::TableName;
use anabranch_provision::SizeHistogram;
use anabranch_runtime::Env;
use anabranch_store::{Store, StoreError};

use crate::{lease::Lease, tuning::sizes::CountedPartitions};

/// Equal stretches of the table's tokens; of each the same share is counted.
const STRETCHES: u64 = 64;
const STRETCH: u64 = (u64::MAX / STRETCHES) + 1;
/// Shares that are tried, as parts of a stretch. The last counts everything.
const SHARES: [u64; 4] = [64, 16, 4, 1];
/// Fewer partitions than these are never sure.
const LEAST_COUNTED: u64 = 4000;
/// What is aimed at, so that the truth is well within a fifth.
const SURE_WITHIN: f64 = 0.15;
/// Stretches are dealt into so many hands, whose percentiles show how much chance there is in them: partitions of a series lie
/// side by side, so that counting more of them tells less than it seems.
const HANDS: usize = 8;
/// A call asks for as many partitions as probably hold about this much.
const CALL_BYTES: u64 = 2 << 20;
const MOST_PER_CALL: usize = 128;
/// Hundredths of the time that a call asks for: waking up and going to sleep cost something, too.
const WITH_MARGIN: u32 = 110;

/// Counts partitions of a table.
pub(crate) struct TableCount<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) env: &'a Env,
    pub(crate) table: &'a TableName,
    /// How many hundredths of the time it may take.
    pub(crate) percent: u32,
    /// What gives the right to count.
    pub(crate) lease: &'a Lease,
    /// Whether the server ends.
    pub(crate) is_stopping: &'a (dyn Fn() -> bool + Sync),
}

/// How far into the table a share of it reaches, and how much was asked for at once.
struct Progress {
    /// Tokens below this were counted or passed over.
    at: u64,
    per_call: usize,
    tokens: f64,
    ended: bool,
}

impl TableCount<'_> {
    /// Counts until the p99 is sure. `None` when the lease is lost over it, or the server ends.
    pub(crate) async fn count(&self) -> Result<Option<CountedPartitions>, StoreError> {
        let mut per_call = 16;
        for part in SHARES {
            let mut hands: Vec<CountedPartitions> = vec![CountedPartitions::default(); HANDS];
            let mut progress = Progress { at: 0, per_call, tokens: 0.0, ended: false };
            for stretch in 0..STRETCHES {
                let start = stretch * STRETCH;
                let end = start.saturating_add(STRETCH / part - 1);
                progress.at = progress.at.max(start);
                let hand = &mut hands[stretch as usize % HANDS];
                while !progress.ended && progress.at <= end {
                    if (self.is_stopping)() || !self.lease.take().await? {
                        return Ok(None);
                    }
                    self.call(&mut progress, hand).await?;
                }
            }
            per_call = progress.per_call;
            let spread = spread_of_p99(&hands);
            let counted = together(hands, progress.tokens / u64::MAX as f64);
            if counted.is_everything() || is_sure(&counted.bytes, spread) {
                return Ok(Some(counted));
            }
        }
        Err(StoreError::Corrupt { reason: format!("the tokens of {} have no end", self.table) })
    }

    async fn call(&self, progress: &mut Progress, hand: &mut CountedPartitions) -> Result<(), StoreError> {
        let begun = self.env.monotonic();
        let sample = self.store.sample(self.table, progress.at, progress.per_call).await?;
        let next = sample.next.unwrap_or(u64::MAX);
        progress.tokens += next.saturating_sub(progress.at) as f64;
        progress.ended = sample.next.is_none();
        progress.at = next;
        let mut bytes = 0;
        for size in &sample.partitions {
            hand.add(size);
            bytes += size.bytes;
        }
        let count = sample.partitions.len().max(1) as u64;
        let wanted = usize::try_from(CALL_BYTES / (bytes / count).max(1)).unwrap_or(MOST_PER_CALL);
        progress.per_call = wanted.clamp(1, (progress.per_call * 2).min(MOST_PER_CALL));
        let took = self.env.monotonic().saturating_sub(begun);
        let pause = (took * WITH_MARGIN / self.percent.clamp(1, 100)).saturating_sub(took);
        if pause > Duration::ZERO {
            self.env.sleep(pause).await;
        }
        Ok(())
    }
}

fn together(hands: Vec<CountedPartitions>, share: f64) -> CountedPartitions {
    let mut all = CountedPartitions { share: if share > 0.999_999 { 1.0 } else { share }, ..Default::default() };
    hands.into_iter().for_each(|hand| all.merge(hand));
    all
}

/// By how much the p99 of all hands is off because of chance, as far as the hands' own ones tell.
fn spread_of_p99(hands: &[CountedPartitions]) -> f64 {
    let each: Vec<f64> = hands.iter().filter_map(|hand| hand.bytes.percentile(0.99)).map(|size| size as f64).collect();
    let count = each.len() as f64;
    let mean = each.iter().sum::<f64>() / count;
    let variance = each.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    2.0 * (variance / count).sqrt()
}

/// Whether the p99 is known well enough, by the rank of the true one in a sample and by how much the hands differ.
fn is_sure(all: &SizeHistogram, spread: f64) -> bool {
    let Some(found) = all.sampled_percentile(0.99, false) else { return false };
    let enough = all.counted() >= LEAST_COUNTED && found.is_within(SURE_WITHIN);
    enough && spread <= SURE_WITHIN * found.bytes as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_model::{
        EventBucket, EventId, EventItemKey, Item, NamespaceName, PartitionKey, Position, Row, TimeBucket, TimeSeriesId,
        Timestamp,
    };
    use anabranch_runtime::run_simulated;
    use anabranch_store::{MemoryStore, PartitionBatch};
    use bytes::Bytes;

    use super::*;

    fn table() -> TableName {
        TableName { namespace: NamespaceName::new("plays").unwrap(), table: "data_20260328".to_owned() }
    }

    fn batch(series: usize, bucket: u32, bytes: usize) -> PartitionBatch {
        let position = Position { time: Timestamp::from_seconds(1), id: EventId::new("e").unwrap() };
        let item = Item { key: EventItemKey::new("k").unwrap(), value: Bytes::from(vec![7; bytes]), metadata: None };
        let partition = PartitionKey {
            series: TimeSeriesId::new(format!("s{series}")).unwrap(),
            time_bucket: TimeBucket(bucket),
            event_bucket: EventBucket(0),
        };
        PartitionBatch { table: table(), partition, rows: vec![Row { position, item }], write_time_micros: 1 }
    }

    /// Skewed sizes: a few series have all that is big, and all of the big ones' buckets lie side by side.
    fn fill(count: usize, buckets: u32) -> Vec<PartitionBatch> {
        let size = |series: usize| 20 + (2e5 / (series as f64 + 1.0).powf(0.8)) as usize;
        (0..count).flat_map(|series| (0..buckets).map(move |bucket| batch(series, bucket, size(series)))).collect()
    }

    async fn counting(store: &Arc<dyn Store>, env: &Env, server: &str) -> Option<CountedPartitions> {
        let lease = Lease::new(store.clone(), env.clone(), "measure", server, Duration::from_secs(30));
        let table = table();
        let counting =
            TableCount { store: store.as_ref(), env, table: &table, percent: 2, lease: &lease, is_stopping: &|| false };
        counting.count().await.unwrap()
    }

    fn count(batches: Vec<PartitionBatch>) -> (CountedPartitions, u64) {
        let sizes = |batch: &PartitionBatch| batch.rows.iter().map(Row::bytes).sum::<usize>() as u64;
        let mut exact: Vec<u64> = batches.iter().map(sizes).collect();
        exact.sort_unstable();
        let rank = (exact.len() * 99).div_ceil(100).max(1) - 1;
        let counted = run_simulated(3, Timestamp::from_seconds(1), |env| async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
            store.create_table(&table()).await.unwrap();
            for answer in store.write(batches, Duration::from_secs(1)).await {
                answer.unwrap();
            }
            counting(&store, &env, "a").await.unwrap()
        });
        (counted, exact[rank])
    }

    #[test]
    fn a_share_of_a_table_tells_its_p99_within_a_fifth() {
        let (counted, exact) = count(fill(60_000, 1));
        assert!(counted.share < 0.5, "{} was counted", counted.share);
        let found = counted.bytes.percentile(0.99).unwrap() as f64;
        assert!((found / exact as f64 - 1.0).abs() <= 0.2, "{found} instead of {exact}");
        let partitions = counted.partitions() as f64;
        assert!((partitions / 60_000.0 - 1.0).abs() <= 0.1, "{partitions} partitions");
    }

    #[test]
    fn partitions_that_lie_side_by_side_are_not_taken_for_many_opinions() {
        let (counted, exact) = count(fill(600, 40));
        let found = counted.bytes.percentile(0.99).unwrap() as f64;
        assert!((found / exact as f64 - 1.0).abs() <= 0.2, "{found} instead of {exact}, of {}", counted.share);
    }

    #[test]
    fn a_small_table_is_counted_whole_and_once() {
        let (counted, _) = count(fill(500, 1));
        assert_eq!((counted.bytes.counted(), counted.rows.counted(), counted.share), (500, 500, 1.0));
        assert_eq!(counted.heaviest[0].time_series_id, "s0");
        let (empty, _) = count(fill(1, 1));
        assert_eq!(empty.partitions(), 1);
    }

    #[test]
    fn who_has_no_lease_does_not_count() {
        run_simulated(3, Timestamp::from_seconds(1), |env| async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
            store.create_table(&table()).await.unwrap();
            assert!(counting(&store, &env, "a").await.is_some());
            assert_eq!(counting(&store, &env, "b").await, None);
        });
    }
}

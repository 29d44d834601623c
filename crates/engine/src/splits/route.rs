//! For one read: which partitions come from pieces, what is compared beside it, and what looks wide.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anabranch_bus::{Detection, Published};
use anabranch_model::{
    EventBucket, Interval, Order, PartitionKey, Position, ReadMode, TableName, TimeSeriesId, Timestamp,
};
use anabranch_split::{HistoryReader, Served, SliceFilter, WidePartition};
use anabranch_store::{After, BlockCache, ErrorKind, ReadClass, Store, StoreError};
use tracing::{Instrument as _, Span, field::Empty};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    TRACE,
    engine::Engine,
    read::{Group, Plan},
    registry::Namespace,
    splits::doubt::{Beside, DoubtedRead},
};

/// In ON the costs of both sides are taken down for this share of partitions.
const ON_PERCENT: u64 = 1;

/// Of so many pages one times its first lookup.
const TIMED_PAGES: u64 = 16;

/// The way to pieces of one page.
pub(crate) struct Routing<'a> {
    engine: &'a Engine,
    /// For reads of the page's class.
    store: Arc<dyn Store>,
    blocks: Option<Arc<BlockCache>>,
    namespace: Arc<Namespace>,
    mode: ReadMode,
    /// Of the page, by the monotonic clock.
    deadline: Duration,
    /// Whether the next lookup is timed.
    times_lookup: bool,
    /// Of the slice that was asked for last.
    filter: Option<(TableName, Option<Arc<SliceFilter>>)>,
    doubted: Vec<DoubtedRead>,
}

impl<'a> Routing<'a> {
    pub(crate) fn new(engine: &'a Engine, plan: &Plan) -> Self {
        let (namespace, deadline) = (plan.namespace.clone(), plan.deadline);
        // Whoever can't trust its clock can't trust what it holds for sealed.
        let trusted = engine.heartbeat.check_clock().is_ok();
        let mode = if trusted { namespace.record.splits.mode } else { ReadMode::Off };
        let store = engine.admission.store(plan.class).clone();
        let times_lookup = engine.splits.pages_routed.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIMED_PAGES);
        // A whole history would push out what others come back for.
        let blocks = engine.splits.blocks.clone().filter(|_| plan.class == ReadClass::Small);
        Routing { engine, store, blocks, namespace, mode, deadline, times_lookup, filter: None, doubted: Vec::new() }
    }

    /// Opens a partition where its rows are to be read from. Says also below which time they come from pieces.
    pub(crate) async fn open(
        &mut self,
        group: &Group,
        partition: PartitionKey,
        order: Order,
        after: Option<After>,
    ) -> (HistoryReader, Option<Timestamp>) {
        let span =
            tracing::trace_span!(target: TRACE, "route", event_bucket = partition.event_bucket.0, outcome = Empty);
        let served = if self.mode == ReadMode::Off {
            span.record("outcome", "off");
            None
        } else if self.may_be_split(&group.table, &partition) {
            self.consider(group, &partition, order, after.as_ref()).instrument(span).await
        } else {
            span.record("outcome", "not_split");
            None
        };
        let (store, interval) = (self.store.clone(), group.interval);
        match served {
            Some(served) => {
                let until = served.until();
                let env = self.engine.env.clone();
                let blocks = self.blocks.clone();
                (HistoryReader::split(store, env, Arc::new(served), blocks, interval, order, after), Some(until))
            }
            None => (HistoryReader::original(store, group.table.clone(), partition, interval, order, after), None),
        }
    }

    /// Whether the filter says yes. The first lookup of one page in some is timed: a clock costs about as much as a lookup.
    fn may_be_split(&mut self, table: &TableName, partition: &PartitionKey) -> bool {
        let timed = std::mem::take(&mut self.times_lookup).then(|| self.engine.env.monotonic());
        let answer = self.ask_filter(table, partition);
        if let Some(begun) = timed {
            let took = self.engine.env.monotonic().saturating_sub(begun);
            self.engine.metrics.filter_check_seconds.observe(took.as_secs_f64());
        }
        answer
    }

    fn ask_filter(&mut self, table: &TableName, partition: &PartitionKey) -> bool {
        if self.filter.as_ref().is_none_or(|(known, _)| known != table) {
            self.filter = Some((table.clone(), self.engine.splits.router.filter(table)));
        }
        let filter = self.filter.as_ref().and_then(|(_, filter)| filter.as_ref());
        filter.is_some_and(|filter| filter.may_hold(partition))
    }

    /// What is served of a partition that is probably split, if reads may be.
    async fn consider(
        &mut self,
        group: &Group,
        partition: &PartitionKey,
        order: Order,
        after: Option<&After>,
    ) -> Option<Served> {
        let (splits, metrics) = (&self.engine.splits, &self.engine.metrics);
        let time_slice = group.table.table.clone();
        let wide = WidePartition::new(self.namespace.name.clone(), time_slice, partition.clone());
        self.doubt(group, &wide, order, after);
        if !self.mode.serves_splits() {
            Span::current().record("outcome", "compared_only");
            return None;
        }
        if splits.router.rests(&group.table) {
            metrics.split_routes.with_label_values(&["resting"]).inc();
            Span::current().record("outcome", "resting");
            return None;
        }
        let reopened = self.namespace.record.splits.reopened(group.slice.interval.start);
        #[cfg(feature = "plant")]
        let reopened = if anabranch_split::plant::is_planted(anabranch_split::plant::Bug::IgnoresReopening) {
            0
        } else {
            reopened
        };
        // So that the original can still answer when the record doesn't come.
        let patience = self.deadline.saturating_sub(self.engine.env.monotonic()) / 2;
        let begun = self.engine.env.monotonic();
        let record = self.engine.env.timeout(patience, splits.router.record(&wide)).await;
        metrics.metadata_seconds.observe(self.engine.env.monotonic().saturating_sub(begun).as_secs_f64());
        let route = match record {
            Ok(Ok(Some(row))) => Served::of(row, reopened).ok_or("not_usable"),
            Ok(Ok(None)) => Err("false_positive"),
            Ok(Err(error)) => {
                tracing::warn!(partition = ?wide, %error, "a split can't be looked up; the original is read");
                Err("lookup_failed")
            }
            Err(_) => Err("lookup_slow"),
        };
        let outcome = *route.as_ref().err().unwrap_or(&"split");
        metrics.split_routes.with_label_values(&[outcome]).inc();
        Span::current().record("outcome", outcome);
        route.ok()
    }

    /// Perhaps both sides are read later, beside the request. The share is by hash of the partition.
    fn doubt(&mut self, group: &Group, wide: &WidePartition, order: Order, after: Option<&After>) {
        let settings = self.namespace.record.config_at(self.engine.env.now()).split;
        let percent = if self.mode == ReadMode::On { ON_PERCENT } else { u64::from(settings.compare_percent) };
        if xxh3_64(wide.name().as_bytes()) % 100 >= percent {
            return;
        }
        let after = after.map(|after| after.position().clone());
        self.doubted.push(DoubtedRead {
            partition: wide.clone(),
            slice_start: group.slice.interval.start,
            interval: group.interval,
            order,
            after,
            rows: 0,
            beside: if self.mode.compares() { Beside::Compare } else { Beside::CostsOnly },
        });
    }

    /// The page is done: it took so many rows.
    pub(crate) fn conclude(self, rows: u64, examined_until: Option<&Position>) {
        for mut doubted in self.doubted {
            doubted.rows = rows.max(1);
            if let Some(position) = examined_until {
                doubted.interval = match doubted.order {
                    Order::LatestFirst => doubted.interval.intersect(&Interval::new(position.time, Timestamp::LATEST)),
                    Order::OldestFirst => {
                        let end = position.time.saturating_add(Duration::from_nanos(1));
                        doubted.interval.intersect(&Interval::new(Timestamp::EARLIEST, end))
                    }
                };
            }
            if !doubted.interval.is_empty() && !self.engine.splits.doubts.push(doubted) {
                self.engine.metrics.comparisons.with_label_values(&["dropped"]).inc();
            }
        }
    }
}

impl Engine {
    /// A read piece by piece had to go back to the original. A piece that isn't what it should be is compared at once, whole.
    pub(crate) fn note_fallback(
        &self,
        namespace: &Namespace,
        group: &Group,
        event_bucket: EventBucket,
        series: &TimeSeriesId,
        error: &StoreError,
    ) {
        let table = &group.table;
        self.metrics.split_fallbacks.inc();
        if error.kind() == ErrorKind::Corrupt {
            self.metrics.checksum_mismatches.with_label_values(&["read"]).inc();
            let key = PartitionKey { series: series.clone(), time_bucket: group.bucket, event_bucket };
            let doubted = DoubtedRead {
                partition: WidePartition::new(namespace.name.clone(), table.table.clone(), key),
                slice_start: group.slice.interval.start,
                interval: Interval::ALL,
                order: Order::LatestFirst,
                after: None,
                rows: u64::MAX,
                beside: Beside::Compare,
            };
            if !self.splits.doubts.push(doubted) {
                self.metrics.comparisons.with_label_values(&["dropped"]).inc();
            }
        }
        tracing::warn!(table = %table, %error, "a piece can't be read; the original was read instead");
        if self.splits.router.fell_back(table) {
            self.metrics.split_rests.inc();
            tracing::warn!(table = %table, "too many pieces can't be read; this slice's splits rest for a while");
        }
    }

    /// A scan has read so many bytes of a partition's original, of which `before` were known when the page began. Never
    /// waits, and never fails a read.
    pub(crate) fn detect(
        &self,
        namespace: &Namespace,
        group: &Group,
        partition: &PartitionKey,
        before: u64,
        bytes: u64,
    ) {
        let now = self.env.now();
        let config = namespace.record.config_at(now);
        let threshold = config.split.threshold_bytes;
        if !config.split.detect || level(bytes, threshold) <= level(before, threshold) {
            return;
        }
        let sealed = now.saturating_sub(config.accept_limit + config.seal_margin);
        let bucket = group.slice.bucket_interval(group.bucket);
        if bucket.start >= sealed {
            return; // nothing of it can be split yet
        }
        let immutable = bucket.end <= sealed;
        let time_slice = group.table.table.clone();
        // What is split is extended as time seals it, without being asked; only when that has not come for long, it is.
        let wide = WidePartition::new(namespace.name.clone(), time_slice.clone(), partition.clone());
        let served = self.splits.router.served_until(&wide);
        if served
            .is_some_and(|until| sealed.min(bucket.end) <= until.saturating_add(self.splits.options.extend_interval))
        {
            self.metrics.detections.with_label_values(&[namespace.name.as_str(), "known"]).inc();
            return;
        }
        let detection = Detection::new(namespace.name.clone(), time_slice, partition, immutable, Some(bytes));
        let outcome = match self.splits.bus.publish(detection) {
            Published::Accepted => "accepted",
            Published::Merged => "merged",
            Published::Dropped => "dropped",
        };
        self.metrics.detections.with_label_values(&[namespace.name.as_str(), outcome]).inc();
    }
}

/// How often a scan has passed the threshold, where the next one is always half as much again.
fn level(bytes: u64, threshold: u64) -> u32 {
    let (mut level, mut next) = (0, threshold.max(1));
    while bytes >= next {
        level += 1;
        next = next.saturating_add((next / 2).max(1));
        if next == u64::MAX {
            break;
        }
    }
    level
}

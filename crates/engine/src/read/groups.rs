//! Lists the partitions that a read has to look at, in groups: the event buckets of one time bucket. Groups follow each
//! other in the read's order and never overlap in time; only within a group records have to be merged.

use std::{collections::VecDeque, sync::Arc};

use anabranch_model::{EventBucket, Interval, Order, Slice, SliceState, TableName, TimeBucket, Timestamp};
use anabranch_store::{Direction, Store, StoreError};

use crate::{read::request::Plan, registry::Namespace};

/// The most occupied partitions that are listed at once: each costs a look at the table.
const MOST_LISTED: usize = 256;
/// With more event buckets than these a time bucket isn't opened on a guess.
const GUESSED_BUCKETS: u32 = 4;

/// The partitions of one time bucket.
pub(crate) struct Group {
    pub(crate) slice: Slice,
    pub(crate) table: TableName,
    pub(crate) bucket: TimeBucket,
    /// What of the bucket is asked for.
    pub(crate) interval: Interval,
    pub(crate) event_buckets: Vec<EventBucket>,
}

/// The groups of a read, listed as they are needed.
pub(crate) struct Groups {
    store: Arc<dyn Store>,
    namespace: Arc<Namespace>,
    series: anabranch_model::TimeSeriesId,
    order: Order,
    interval: Interval,
    /// In the read's order.
    slices: VecDeque<Slice>,
    /// Of the first slice: the buckets that are left, in the read's order from `first` on.
    buckets: Option<Buckets>,
    listed: VecDeque<Group>,
    /// How many occupied partitions to list next.
    list_next: usize,
    /// Whether the first partition is likely to be all that is needed, so that nothing is asked before it is read.
    guess: bool,
}

#[derive(Clone, Copy)]
struct Buckets {
    oldest: u32,
    newest: u32,
}

impl Groups {
    /// `expected` partitions are likely to be enough.
    pub(crate) fn new(store: Arc<dyn Store>, plan: &Plan, expected: usize) -> Self {
        let overlapping = plan.namespace.record.slices.overlapping(plan.interval).iter();
        let open = overlapping.filter(|slice| slice.state == SliceState::Open).cloned();
        let slices = match plan.order {
            Order::LatestFirst => open.rev().collect(),
            Order::OldestFirst => open.collect(),
        };
        Groups {
            store,
            namespace: plan.namespace.clone(),
            series: plan.series.clone(),
            order: plan.order,
            interval: plan.interval,
            slices,
            buckets: None,
            listed: VecDeque::new(),
            list_next: expected.min(MOST_LISTED),
            guess: expected <= 1,
        }
    }

    /// The next group, or `None` when there are no more.
    pub(crate) async fn next(&mut self) -> Result<Option<Group>, StoreError> {
        loop {
            if let Some(group) = self.listed.pop_front() {
                return Ok(Some(group));
            }
            let Some(slice) = self.slices.front().cloned() else { return Ok(None) };
            let buckets = *self.buckets.get_or_insert_with(|| buckets_of(&slice, self.interval));
            let guess = std::mem::take(&mut self.guess) && slice.settings.event_buckets <= GUESSED_BUCKETS;
            let left = match self.store.capabilities().ordered_partitions {
                true if !guess && partitions(&slice, buckets) > 1 => self.list_occupied(&slice, buckets).await?,
                _ => self.list_all(&slice, buckets),
            };
            self.buckets = left;
            if left.is_none() {
                self.slices.pop_front();
            }
        }
    }

    /// Partitions of a series lie side by side: one seek finds the next that isn't empty, however many are.
    async fn list_occupied(&mut self, slice: &Slice, buckets: Buckets) -> Result<Option<Buckets>, StoreError> {
        let table = slice.table(&self.namespace.name);
        let direction = match self.order {
            Order::LatestFirst => Direction::Backward,
            Order::OldestFirst => Direction::Forward,
        };
        let range = TimeBucket(buckets.oldest)..=TimeBucket(buckets.newest);
        // A time bucket must come whole, so that its records can be merged.
        let limit = self.list_next.max(slice.settings.event_buckets as usize) + 1;
        self.list_next = (self.list_next * 2).clamp(8, MOST_LISTED);
        let mut found = self.store.occupied(&table, &self.series, range, direction, limit).await?;
        let cut = (found.len() == limit).then(|| found.last().map(|(bucket, _)| *bucket)).flatten();
        if let Some(cut) = cut {
            found.retain(|(bucket, _)| *bucket != cut);
        }
        for (bucket, event_bucket) in found {
            match self.listed.back_mut() {
                Some(group) if group.bucket == bucket => group.event_buckets.push(event_bucket),
                _ => {
                    let group = self.group(slice, &table, bucket, vec![event_bucket]);
                    self.listed.push_back(group);
                }
            }
        }
        Ok(cut.map(|TimeBucket(cut)| match self.order {
            Order::LatestFirst => Buckets { newest: cut, ..buckets },
            Order::OldestFirst => Buckets { oldest: cut, ..buckets },
        }))
    }

    /// One time bucket with all its event buckets, whether they are empty or not.
    fn list_all(&mut self, slice: &Slice, buckets: Buckets) -> Option<Buckets> {
        let bucket = match self.order {
            Order::LatestFirst => buckets.newest,
            Order::OldestFirst => buckets.oldest,
        };
        let all = (0..slice.settings.event_buckets).map(EventBucket).collect();
        let group = self.group(slice, &slice.table(&self.namespace.name), TimeBucket(bucket), all);
        self.listed.push_back(group);
        if buckets.oldest == buckets.newest {
            return None;
        }
        Some(match self.order {
            Order::LatestFirst => Buckets { newest: bucket - 1, ..buckets },
            Order::OldestFirst => Buckets { oldest: bucket + 1, ..buckets },
        })
    }

    fn group(&self, slice: &Slice, table: &TableName, bucket: TimeBucket, event_buckets: Vec<EventBucket>) -> Group {
        let interval = slice.bucket_interval(bucket).intersect(&self.interval);
        Group { slice: slice.clone(), table: table.clone(), bucket, interval, event_buckets }
    }
}

/// The buckets of a slice that have time in common with the interval; the two do overlap.
fn buckets_of(slice: &Slice, interval: Interval) -> Buckets {
    let both = slice.interval.intersect(&interval);
    let last = Timestamp::from_nanos(both.end.nanos() - 1);
    Buckets { oldest: slice.time_bucket(both.start).0, newest: slice.time_bucket(last).0 }
}

fn partitions(slice: &Slice, buckets: Buckets) -> u64 {
    (u64::from(buckets.newest - buckets.oldest) + 1) * u64::from(slice.settings.event_buckets)
}

//! Which partitions are split, and how. A filter per slice answers for nearly all partitions, which aren't, without touching
//! memory much; a cache of records answers for the rest. Whatever is unknown or fails means the original.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_model::{NamespaceName, PartitionKey, TableName, Timestamp};
use anabranch_runtime::{Env, HashMap};
use arc_swap::ArcSwap;
use fastbloom::AtomicBloomFilter;
use tokio::sync::OnceCell;
use xxhash_rust::xxh3::{Xxh3Default, Xxh3DefaultBuilder};

use crate::{
    Records, SplitError,
    record::{WidePartition, WideRow},
};

/// A little better than promised: what is promised is 0.1 %.
const FALSE_POSITIVES: f64 = 0.0008;
/// Room for splits that complete before a filter is built anew.
const SPARE: usize = 16;

/// How a router behaves.
#[derive(Clone, Copy, Debug)]
pub struct RouterOptions {
    /// How long a record is believed: what another server changed is seen after this.
    pub believe: Duration,
    /// Records kept, whether there are any or not.
    pub max_records: usize,
    /// Pieces in all records kept.
    pub max_pieces: usize,
    /// So many fallbacks within [`RouterOptions::fallback_window`] stop the use of a slice's splits.
    pub max_fallbacks: u32,
    /// See above.
    pub fallback_window: Duration,
    /// For how long they stop it.
    pub rest: Duration,
}

impl Default for RouterOptions {
    fn default() -> Self {
        RouterOptions {
            believe: Duration::from_secs(1),
            max_records: 10_000,
            max_pieces: 200_000,
            max_fallbacks: 10,
            fallback_window: Duration::from_secs(10),
            rest: Duration::from_secs(30),
        }
    }
}

/// The split partitions of one slice. Says yes to every one that it was built from (S6), and to 0.1 % of the others.
pub struct SliceFilter {
    bloom: AtomicBloomFilter<Xxh3DefaultBuilder>,
    elements: AtomicUsize,
    built: Timestamp,
}

impl SliceFilter {
    /// A filter of these partitions.
    pub fn build<'a>(partitions: impl ExactSizeIterator<Item = &'a PartitionKey>, now: Timestamp) -> Self {
        let elements = partitions.len();
        let bloom = AtomicBloomFilter::with_false_pos(FALSE_POSITIVES)
            .hasher(Xxh3DefaultBuilder::new())
            .expected_items(elements + SPARE);
        for partition in partitions {
            bloom.insert_hash(hash(partition));
        }
        SliceFilter { bloom, elements: AtomicUsize::new(elements), built: now }
    }

    /// Whether a partition may be split; when not, it certainly wasn't when the filter was built.
    pub fn may_hold(&self, partition: &PartitionKey) -> bool {
        self.bloom.contains_hash(hash(partition))
    }

    fn add(&self, partition: &PartitionKey) {
        if !self.bloom.insert_hash(hash(partition)) {
            self.elements.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many partitions it was built from or was told of.
    pub fn elements(&self) -> usize {
        self.elements.load(Ordering::Relaxed)
    }

    /// How big it is.
    pub fn bits(&self) -> usize {
        self.bloom.num_bits()
    }

    /// When it was built.
    pub fn built(&self) -> Timestamp {
        self.built
    }
}

fn hash(partition: &PartitionKey) -> u64 {
    let mut buckets = [0; 8];
    buckets[..4].copy_from_slice(&partition.time_bucket.0.to_be_bytes());
    buckets[4..].copy_from_slice(&partition.event_bucket.0.to_be_bytes());
    let mut hasher = Xxh3Default::new();
    hasher.update(&buckets);
    hasher.update(partition.series.as_str().as_bytes());
    hasher.digest()
}

type Filters = BTreeMap<TableName, Arc<SliceFilter>>;
type Slot = Arc<OnceCell<Option<Arc<WideRow>>>>;

/// A record, or the knowledge that there is none.
struct Believed {
    slot: Slot,
    /// When the store began to be asked, by the monotonic clock.
    since: Duration,
}

#[derive(Default)]
struct Fallbacks {
    count: u32,
    since: Duration,
    rest_until: Duration,
}

/// Answers which partitions are split, and how.
pub struct Router {
    records: Records,
    env: Env,
    options: RouterOptions,
    filters: ArcSwap<Filters>,
    /// Filters change one after the other.
    building: tokio::sync::Mutex<()>,
    believed: Mutex<HashMap<WidePartition, Believed>>,
    pieces: AtomicUsize,
    /// Up to where partitions are served from pieces, as far as was learnt; not more of them than records are kept.
    served: Mutex<HashMap<WidePartition, Timestamp>>,
    fallbacks: Mutex<BTreeMap<TableName, Fallbacks>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Router {
    /// A router that knows nothing yet.
    pub fn new(records: Records, env: Env, options: RouterOptions) -> Self {
        Router {
            records,
            env,
            options,
            filters: ArcSwap::default(),
            building: tokio::sync::Mutex::new(()),
            believed: Mutex::default(),
            pieces: AtomicUsize::new(0),
            served: Mutex::default(),
            fallbacks: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The filter of a slice. None yet, or none because nothing is split, means the original.
    pub fn filter(&self, table: &TableName) -> Option<Arc<SliceFilter>> {
        self.filters.load().get(table).cloned()
    }

    /// All filters, by slice.
    pub fn filters(&self) -> Arc<BTreeMap<TableName, Arc<SliceFilter>>> {
        self.filters.load_full()
    }

    /// Records found in the cache, and not found.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// Whether too many reads had to open the originals of this slice lately.
    pub fn rests(&self, table: &TableName) -> bool {
        let fallbacks = self.fallbacks.lock().unwrap_or_else(PoisonError::into_inner);
        fallbacks.get(table).is_some_and(|fallbacks| fallbacks.rest_until > self.env.monotonic())
    }

    /// A read had to open the original. Says whether that stops the use of the slice's splits for a while.
    pub fn fell_back(&self, table: &TableName) -> bool {
        let now = self.env.monotonic();
        let mut all = self.fallbacks.lock().unwrap_or_else(PoisonError::into_inner);
        let fallbacks = all.entry(table.clone()).or_default();
        if now.saturating_sub(fallbacks.since) > self.options.fallback_window {
            *fallbacks = Fallbacks { since: now, ..Fallbacks::default() };
        }
        fallbacks.count += 1;
        let too_many = fallbacks.count == self.options.max_fallbacks;
        if too_many {
            fallbacks.rest_until = now + self.options.rest;
        }
        too_many
    }

    /// The record of a partition as of not long ago. One caller at a time asks the store.
    pub async fn record(&self, partition: &WidePartition) -> Result<Option<Arc<WideRow>>, SplitError> {
        let slot = self.slot(partition);
        if let Some(known) = slot.get() {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(known.clone());
        }
        let load = async {
            self.misses.fetch_add(1, Ordering::Relaxed);
            let row = self.records.load(partition).await?.map(|loaded| Arc::new(loaded.row));
            if let Some(row) = &row {
                let pieces: usize = row.served.iter().map(|segment| segment.pieces.len()).sum();
                self.pieces.fetch_add(pieces, Ordering::Relaxed);
            }
            Ok(row)
        };
        slot.get_or_try_init(|| load).await.cloned()
    }

    fn slot(&self, partition: &WidePartition) -> Slot {
        let now = self.env.monotonic();
        let mut believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = believed.get(partition)
            && now.saturating_sub(known.since) < self.options.believe
        {
            return known.slot.clone();
        }
        let full = believed.len() >= self.options.max_records;
        if full || self.pieces.load(Ordering::Relaxed) > self.options.max_pieces {
            believed.clear();
            self.pieces.store(0, Ordering::Relaxed);
        }
        let slot = Slot::default();
        believed.insert(partition.clone(), Believed { slot: slot.clone(), since: now });
        slot
    }

    /// Up to where a partition was served from pieces when this server last learnt of it. Never asks the store: for those who can
    /// do without an answer.
    pub fn served_until(&self, partition: &WidePartition) -> Option<Timestamp> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).get(partition).copied()
    }

    fn note_served<'a>(&self, rows: impl Iterator<Item = &'a WideRow>) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            match row.served_until() {
                Some(until) if served.len() < self.options.max_records || served.contains_key(&row.partition) => {
                    served.insert(row.partition.clone(), until);
                }
                Some(_) => {}
                None => drop(served.remove(&row.partition)),
            }
        }
    }

    /// Takes in what a record says now, at once on this server.
    pub fn learn(&self, row: &WideRow) {
        self.believed.lock().unwrap_or_else(PoisonError::into_inner).remove(&row.partition);
        self.note_served(std::iter::once(row));
        if row.served.is_empty() {
            return;
        }
        if let Some(filter) = self.filter(&row.partition.table()) {
            filter.add(&row.partition.key());
        } else {
            // The first of its slice.
            let (table, now) = (row.partition.table(), self.env.now());
            let filter = Arc::new(SliceFilter::build([row.partition.key()].iter(), now));
            self.filters.rcu(|filters| {
                let mut filters = Filters::clone(filters);
                filters.entry(table.clone()).or_insert_with(|| filter.clone()).add(&row.partition.key());
                filters
            });
        }
    }

    /// Forgets what is believed of a partition.
    pub fn forget(&self, partition: &WidePartition) {
        self.believed.lock().unwrap_or_else(PoisonError::into_inner).remove(partition);
    }

    /// Builds the filter of a slice anew from its records, and answers those.
    pub async fn rebuild(&self, namespace: &NamespaceName, time_slice: &str) -> Result<Vec<crate::Loaded>, SplitError> {
        let _building = self.building.lock().await;
        let begun = self.env.now();
        let before = self.filter(&TableName { namespace: namespace.clone(), table: time_slice.to_owned() });
        let records = self.records.of_slice(namespace, time_slice).await?;
        self.note_served(records.iter().map(|loaded| &loaded.row));
        let split: Vec<PartitionKey> = records
            .iter()
            .filter(|loaded| !loaded.row.served.is_empty())
            .map(|loaded| loaded.row.partition.key())
            .collect();
        let table = TableName { namespace: namespace.clone(), table: time_slice.to_owned() };
        let fits =
            |filter: &SliceFilter| filter.elements() == split.len() && split.iter().all(|key| filter.may_hold(key));
        #[cfg(feature = "plant")]
        if before.is_some() && crate::plant::is_planted(crate::plant::Bug::KeepsOldFilter) {
            return Ok(records);
        }
        if before.as_deref().map_or(split.is_empty(), fits) {
            return Ok(records);
        }
        let filter = Arc::new(SliceFilter::build(split.iter(), begun));
        self.filters.rcu(|filters| {
            let mut filters = Filters::clone(filters);
            filters.insert(table.clone(), filter.clone());
            filters
        });
        Ok(records)
    }

    /// Keeps filters only of slices that are still there.
    pub fn retain(&self, is_there: impl Fn(&TableName) -> bool) {
        if self.filters.load().keys().any(|table| !is_there(table)) {
            self.filters.rcu(|filters| {
                let kept = filters.iter().filter(|(table, _)| is_there(table));
                kept.map(|(table, filter)| (table.clone(), filter.clone())).collect::<Filters>()
            });
            self.fallbacks.lock().unwrap_or_else(PoisonError::into_inner).retain(|table, _| is_there(table));
            let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
            served.retain(|partition, _| is_there(&partition.table()));
        }
    }
}

//! What promises are tested with: short ways to tables, rows and scans, and numbers drawn from a seed.

use std::{sync::Arc, time::Duration};

use anabranch_model::{
    EventBucket, EventId, EventItemKey, Interval, Item, NamespaceName, PartitionKey, Position, Row, RowKey, TableName,
    TimeBucket, TimeSeriesId, Timestamp,
};
use anabranch_runtime::Env;
use bytes::Bytes;

use crate::{Direction, PartitionBatch, Scan, ScanPage, ScanSpan, Store, StoreError};

/// Longer than any call of a test should take.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Every time that a number can say, but for the last.
pub const EVER: Interval = Interval::new(Timestamp::from_nanos(i64::MIN), Timestamp::from_nanos(i64::MAX));
/// Both ways to read a partition.
pub const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// A table of the namespace that most promises are tested in.
pub fn table(name: &str) -> TableName {
    table_of("suite", name)
}

/// A table of a namespace.
pub fn table_of(namespace: &str, name: &str) -> TableName {
    TableName { namespace: NamespaceName::new(namespace).unwrap(), table: name.to_owned() }
}

/// A series.
pub fn series(id: &str) -> TimeSeriesId {
    TimeSeriesId::new(id).unwrap()
}

/// A partition.
pub fn partition(id: &str, time_bucket: u32, event_bucket: u32) -> PartitionKey {
    PartitionKey { series: series(id), time_bucket: TimeBucket(time_bucket), event_bucket: EventBucket(event_bucket) }
}

/// A position.
pub fn position(nanos: i64, id: &str) -> Position {
    Position { time: Timestamp::from_nanos(nanos), id: EventId::new(id).unwrap() }
}

/// An item's key; an empty one is that of a block.
pub fn item_key(key: &str) -> EventItemKey {
    if key.is_empty() { EventItemKey::block() } else { EventItemKey::new(key).unwrap() }
}

/// A row's key.
pub fn row_key(nanos: i64, id: &str, key: &str) -> RowKey {
    RowKey { position: position(nanos, id), item_key: item_key(key) }
}

/// A row without metadata.
pub fn row(nanos: i64, id: &str, key: &str, value: &str) -> Row {
    let item = Item { key: item_key(key), value: Bytes::copy_from_slice(value.as_bytes()), metadata: None };
    Row { position: position(nanos, id), item }
}

/// An interval of nanoseconds.
pub fn interval(start: i64, end: i64) -> Interval {
    Interval::new(Timestamp::from_nanos(start), Timestamp::from_nanos(end))
}

/// A batch, written at time 1.
pub fn batch(table: &TableName, partition: &PartitionKey, rows: &[Row]) -> PartitionBatch {
    PartitionBatch { table: table.clone(), partition: partition.clone(), rows: rows.to_vec(), write_time_micros: 1 }
}

/// A scan that only its span limits.
pub fn scan(table: &TableName, partition: &PartitionKey, span: ScanSpan, direction: Direction) -> Scan {
    Scan {
        table: table.clone(),
        partition: partition.clone(),
        span,
        direction,
        max_rows: 1_000_000,
        max_bytes: usize::MAX,
        timeout: TIMEOUT,
    }
}

/// All rows of an interval.
pub fn within(interval: Interval) -> ScanSpan {
    ScanSpan::Interval { interval, after: None }
}

/// A table of this name, made.
pub async fn make_table(store: &Arc<dyn Store>, name: &str) -> TableName {
    let table = table(name);
    store.create_table(&table).await.unwrap();
    table
}

/// Writes one batch.
pub async fn try_write(store: &Arc<dyn Store>, batch: PartitionBatch) -> Result<(), StoreError> {
    let mut answers = store.write(vec![batch], TIMEOUT).await;
    assert_eq!(answers.len(), 1, "one batch, one answer");
    answers.remove(0)
}

/// Writes rows as one batch, which must succeed.
pub async fn write(store: &Arc<dyn Store>, table: &TableName, partition: &PartitionKey, rows: &[Row]) {
    try_write(store, batch(table, partition, rows)).await.unwrap();
}

/// Everything in a partition, in table order.
pub async fn contents(store: &Arc<dyn Store>, table: &TableName, partition: &PartitionKey) -> Vec<Row> {
    let page = store.scan(&scan(table, partition, within(EVER), Direction::Forward)).await.unwrap();
    assert!(!page.more, "a scan without limits ends at the end");
    page.rows
}

/// The page of a scan, which must succeed.
pub async fn page(store: &Arc<dyn Store>, scan: &Scan) -> ScanPage {
    store.scan(scan).await.unwrap()
}

/// Lets others go on, between two turns of a loop that waits for them. Now and then a moment passes, for virtual time
/// stands still while a task is ready to run.
pub async fn let_others_go_on(turn: u64) {
    if turn % 8 == 7 {
        Env::system().sleep(Duration::from_millis(1)).await;
    } else {
        tokio::task::yield_now().await;
    }
}

/// Numbers drawn from a seed: the same seed, the same numbers.
pub struct Draw(u64);

impl Draw {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Draw(seed)
    }

    /// The next number (splitmix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Up to `most` bytes.
    pub fn bytes(&mut self, most: usize) -> Bytes {
        let length = self.below(most + 1);
        (0..length).map(|_| self.number() as u8).collect()
    }
}

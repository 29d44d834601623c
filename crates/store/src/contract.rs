//! The trait that a back end implements, and the words it is spoken to in.
//!
//! A table is a map from partitions to rows. Within a partition rows are in *table order*: positions descend
//! (latest first), items of an event ascend by key. Metadata is a map of small documents, changed only by
//! compare-and-set.

use std::{
    ops::{Bound, RangeInclusive},
    sync::Arc,
    time::Duration,
};

use anabranch_model::{
    EventBucket, EventItemKey, Interval, Order, PartitionKey, Position, Row, RowKey, TableName, TimeBucket,
    TimeSeriesId,
};
use async_trait::async_trait;
use bytes::Bytes;

use crate::{StoreError, hedge::HedgeCount};

/// A back end. Every method may be called from many tasks at once.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What this back end is and can do.
    fn capabilities(&self) -> Capabilities;

    /// How many bytes more it can hold, where it can tell.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Why it takes no more writes until it is opened anew, once it has come to that. Reads go on.
    fn takes_no_writes(&self) -> Option<String> {
        None
    }

    /// The same store for those who make what everybody else will read: its scans see whatever was acknowledged in any data
    /// centre, and what it writes is seen by every scan in each of them. Calls fail while a place that is needed is away.
    /// A store that lies in one place is that itself.
    fn everywhere(self: Arc<Self>) -> Arc<dyn Store>;

    /// Makes a table. One that is there already is left as it is.
    async fn create_table(&self, table: &TableName) -> Result<(), StoreError>;

    /// Drops a table with all its rows. One that isn't there is fine. Scans under way may still finish; a write that
    /// was answered with success before is gone, one that comes after is refused with `NoSuchTable`.
    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError>;

    /// All tables, in order.
    async fn tables(&self) -> Result<Vec<TableName>, StoreError>;

    /// Writes batches and answers for each, in their order. A batch is atomic: all of its rows or none, for readers
    /// and through crashes; one of more than a mebibyte may be cut between events, each of which still is. `Ok` means
    /// durable (W1). A row with the key of another replaces it (W2).
    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>>;

    /// Reads rows of one partition. Sees every batch that was answered with `Ok` before, and of none only a part; where
    /// a page has more rows or bytes than the back end reads at once, batches that arrive meanwhile may be seen in part.
    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError>;

    /// The partitions of a series within a span of time buckets that hold a row: in the order of buckets, or its
    /// reverse, at most `limit`. Only for stores with [`Capabilities::ordered_partitions`]; others refuse.
    async fn occupied(
        &self,
        table: &TableName,
        series: &TimeSeriesId,
        buckets: RangeInclusive<TimeBucket>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError>;

    /// Sizes of up to `limit` partitions, from the one at or after `from` in the store's own order of tokens on; at least one, but
    /// fewer than `limit` where they are large. Equal steps of `from` are fair steps through the partitions of a table.
    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError>;

    /// What the store itself reckons of a table without reading it, where it does; `None` where it doesn't. May be minutes old,
    /// and knows nothing of what isn't in files yet.
    async fn estimate(&self, table: &TableName) -> Result<Option<TableEstimate>, StoreError> {
        let _ = table;
        Ok(None)
    }

    /// How many reads were sent to a second replica because the first was slow, where there are several.
    fn hedging(&self) -> Option<HedgeCount> {
        None
    }

    /// How often a read or a change of metadata was sent again, because others came before it or its answer was lost.
    fn metadata_retries(&self) -> u64 {
        0
    }

    /// The document of a key, as of the last change that was acknowledged anywhere.
    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError>;

    /// Documents of a scope in order of their names, after `after`, at most `limit`.
    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError>;

    /// Changes a document if it still has the `expected` version (`None`: if there is none). `None` as value deletes it.
    /// Durable when `Applied`. After [`StoreError::Unknown`] only a [`Store::load`] tells.
    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError>;

    /// Makes everything durable and lets go of what is open. Calls after it may be refused.
    async fn close(&self) -> Result<(), StoreError>;
}

/// What a back end is and can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its name, for people.
    pub name: &'static str,
    /// Whether other servers may use the same store at the same time.
    pub shared: bool,
    /// Whether [`Store::occupied`] answers: partitions of a series lie side by side.
    pub ordered_partitions: bool,
    /// The most tables it should hold.
    pub max_tables: usize,
}

/// Rows of one partition that are written together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionBatch {
    /// Which table.
    pub table: TableName,
    /// Which partition of it.
    pub partition: PartitionKey,
    /// What to write; not empty. Of two rows with the same key one stays.
    pub rows: Vec<Row>,
    /// Microseconds since the epoch, set once per request and kept over its retries. Where a store orders writes by
    /// time, this is it.
    pub write_time_micros: i64,
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Table order: positions descend, items ascend.
    Forward,
    /// The exact reverse: positions ascend, items *descend*.
    Backward,
}

impl From<Order> for Direction {
    fn from(order: Order) -> Direction {
        match order {
            Order::LatestFirst => Direction::Forward,
            Order::OldestFirst => Direction::Backward,
        }
    }
}

/// A bounded read of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Which table.
    pub table: TableName,
    /// Which partition of it.
    pub partition: PartitionKey,
    /// Which rows of it.
    pub span: ScanSpan,
    /// Which way.
    pub direction: Direction,
    /// The most rows to answer; at least 1.
    pub max_rows: usize,
    /// Stop once this many bytes ([`Row::bytes`]) have been answered; at least one row is.
    pub max_bytes: usize,
    /// How long it may take.
    pub timeout: Duration,
}

/// Which rows of a partition a scan covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanSpan {
    /// Rows of events in an interval, beginning after some place in the scan's direction.
    Interval {
        /// Half-open, as ever.
        interval: Interval,
        /// Where to go on; `None` begins at the interval's bound.
        after: Option<After>,
    },
    /// Rows of one event, from this item key on in the scan's direction.
    Event {
        /// Which.
        position: Position,
        /// The first item wanted.
        from: Bound<EventItemKey>,
    },
}

/// A place in a partition that a scan goes on after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// All rows of this event are behind.
    Event(Position),
    /// This row is behind; the rest of its event isn't.
    Row(RowKey),
}

impl After {
    /// The event that it lies in or behind.
    pub fn position(&self) -> &Position {
        match self {
            After::Event(position) => position,
            After::Row(key) => &key.position,
        }
    }
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// Rows in the scan's direction.
    pub rows: Vec<Row>,
    /// Whether rows of the span may follow the last one. Never false where some do; a full page may say so where none does,
    /// because looking would cost a row.
    pub more: bool,
}

/// Names a metadata document: a scope, and a name that is unique in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetaKey {
    /// What is listed together.
    pub scope: String,
    /// Which of them.
    pub name: String,
}

impl MetaKey {
    /// A document's key.
    pub fn new(scope: impl Into<String>, name: impl Into<String>) -> Self {
        MetaKey { scope: scope.into(), name: name.into() }
    }
}

/// Counts the changes of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

/// A document with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// Rises with every change.
    pub version: Version,
    /// The document.
    pub value: Bytes,
}

/// What became of a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CasOutcome {
    /// Done; the document has this version now (of a deleted one: the last it had).
    Applied(Version),
    /// Not done, because this is there instead.
    Conflict(Option<Versioned>),
}

/// A partition's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSize {
    /// Which.
    pub partition: PartitionKey,
    /// How many rows.
    pub rows: u64,
    /// How many bytes, as [`Row::bytes`] counts.
    pub bytes: u64,
}

/// What a store reckons of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableEstimate {
    /// How many partitions it has.
    pub partitions: u64,
    /// Their bytes together, as the store counts them.
    pub bytes: u64,
}

/// Some partitions of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// In token order.
    pub partitions: Vec<PartitionSize>,
    /// Where to go on; `None` at the table's end.
    pub next: Option<u64>,
}

//! The record of how one wide partition is served: the segments that reads may use, and the state of the next one.
//!
//! Reads look only at [`WideRow::served`]. Completing a segment appends to it; nothing but invalidation takes one away.

use std::time::Duration;

use anabranch_model::{
    Checksum, EventBucket, Interval, NamespaceName, PartitionKey, Position, TableName, TimeBucket, TimeSeriesId,
    Timestamp,
};
use anabranch_store::Density;
use serde::{Deserialize, Serialize};

use crate::form::Form;

/// The most pieces of one segment.
pub const MAX_PIECES: usize = 1024;
/// The most generations of one slice.
pub const MAX_GENERATIONS: u32 = 8;
/// Event buckets of pieces are `original × stride + ordinal`.
pub const STRIDE: u32 = 1 << 20;

/// Rises with every change of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// Another plan or source goes to the next generation's table, never over an older one's pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Generation(pub u32);

impl Generation {
    /// The first.
    pub const FIRST: Generation = Generation(1);

    /// The one after.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }

    /// The table that pieces of a slice's table go to: `wide_data_20260328_1`.
    pub fn table(self, namespace: &NamespaceName, time_slice: &str) -> TableName {
        TableName::of_pieces(namespace.clone(), time_slice, self.0)
    }
}

/// How the rows of a segment are divided among its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Strategy {
    /// Contiguous pieces, cut between events.
    TimeRange,
    /// Spread by hash over so many pieces, a power of two.
    EventBucket {
        /// How many pieces there may be; those that nothing fell into are left out. 0 until it is planned.
        pieces: u32,
        /// The ordinal of the first.
        first_ordinal: u32,
        /// Over how many partitions the events of the time bucket were spread before.
        event_buckets: u32,
    },
}

/// Names a partition among all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WidePartition {
    /// In which namespace.
    pub namespace: NamespaceName,
    /// The slice's table: `data_20260328`.
    pub time_slice: String,
    /// Whose history.
    pub time_series_id: TimeSeriesId,
    /// Which span of the slice.
    pub time_bucket: u32,
    /// Which of the span's buckets.
    pub event_bucket: u32,
}

impl WidePartition {
    /// A partition of a slice.
    pub fn new(namespace: NamespaceName, time_slice: String, partition: PartitionKey) -> Self {
        WidePartition {
            namespace,
            time_slice,
            time_series_id: partition.series,
            time_bucket: partition.time_bucket.0,
            event_bucket: partition.event_bucket.0,
        }
    }

    /// Its name within its slice.
    pub fn name(&self) -> String {
        format!("{}.{}.{}", self.time_bucket, self.event_bucket, self.time_series_id)
    }

    /// Its key in the original's table.
    pub fn key(&self) -> PartitionKey {
        PartitionKey {
            series: self.time_series_id.clone(),
            time_bucket: TimeBucket(self.time_bucket),
            event_bucket: EventBucket(self.event_bucket),
        }
    }

    /// The original's table.
    pub fn table(&self) -> TableName {
        TableName { namespace: self.namespace.clone(), table: self.time_slice.clone() }
    }

    /// The partition of a piece. No two plans share one (S7): ordinals count on within a generation, and another plan after a
    /// failure goes to another generation.
    pub fn piece(&self, ordinal: u32) -> PartitionKey {
        PartitionKey { event_bucket: EventBucket(self.event_bucket * STRIDE + ordinal), ..self.key() }
    }
}

/// The record of one wide partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WideRow {
    /// Which.
    pub partition: WidePartition,
    /// Rises each time the lease is taken (S4).
    pub epoch: Epoch,
    /// Who works on it.
    pub lease: Option<Lease>,
    /// Of the last change: tells its maker whether it was done, after an answer was lost.
    pub nonce: u64,
    /// Segments that reads may use, oldest first; each begins where the one before ends.
    pub served: Vec<Segment>,
    /// Up to where time was looked at for another segment.
    pub looked_until: Timestamp,
    /// Why reads don't use the segments of this generation, if they don't: they were slower than the original.
    pub set_aside: Option<String>,
    /// Of the next segment.
    pub state: State,
    /// How often the next segment was tried. An attempt that the store was away for, or had too much to do, doesn't count.
    pub attempts: u32,
    /// How often in a row it waited for such a store without getting any further.
    pub waits: u32,
    /// How often in a row a lease was taken from somebody who had got no further with it: who died, or stood still.
    pub abandoned: u32,
    /// Where the next segment's pieces go.
    pub generation: Generation,
    /// The first ordinal that no piece of this generation has.
    pub next_ordinal: u32,
    /// When it last changed.
    pub updated: Timestamp,
}

/// Who works on a record, and until when others keep away. Only for liveness: what makes it safe is the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// A worker.
    pub worker: String,
    /// Until when, by the worker's clock.
    pub until: Timestamp,
}

impl Lease {
    /// Whether others keep away at `now`, where leases are so long. One that ends much later was given by a clock that was wrong.
    pub fn holds(&self, now: Timestamp, length: Duration) -> bool {
        self.until.is_ahead_of(now, length)
    }
}

/// The state of the next segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "name", deny_unknown_fields)]
pub enum State {
    /// Somebody suspects that there is something to split.
    Detected,
    /// The span is being read and cut.
    Planning(Draft),
    /// The cuts are found.
    Planned(Plan),
    /// Rows are being copied into pieces.
    Splitting(Copying),
    /// Pieces are being read back and compared with the plan.
    Verifying(Checking),
    /// The segment is served.
    Completed {
        /// Since when.
        at: Timestamp,
    },
    /// What is sealed is smaller than the threshold.
    NotWide {
        /// How big it is.
        bytes: u64,
        /// Up to where that was counted.
        watermark: Timestamp,
    },
    /// An attempt failed; it will be tried again.
    Failed(Failure),
    /// Left for an operator, or left alone by one.
    Parked {
        /// Why.
        reason: String,
        /// Whether an operator gave it up: what parked by itself waits for one.
        given_up: bool,
    },
    /// What was served is not used any more.
    Invalidated {
        /// Why.
        reason: String,
    },
}

impl State {
    /// Its name, as in metrics and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            State::Detected => "DETECTED",
            State::Planning(_) => "PLANNING",
            State::Planned(_) => "PLANNED",
            State::Splitting(_) => "SPLITTING",
            State::Verifying(_) => "VERIFYING",
            State::Completed { .. } => "COMPLETED",
            State::NotWide { .. } => "NOT_WIDE",
            State::Failed(_) => "FAILED",
            State::Parked { .. } => "PARKED",
            State::Invalidated { .. } => "INVALIDATED",
        }
    }

    /// What parks by itself.
    pub fn parked(reason: String) -> State {
        State::Parked { reason, given_up: false }
    }

    /// An operator gave it up.
    pub fn given_up(reason: &str) -> State {
        State::Parked { reason: format!("abandoned: {reason}"), given_up: true }
    }

    /// Whether an operator gave it up.
    pub fn is_given_up(&self) -> bool {
        matches!(self, State::Parked { given_up: true, .. })
    }
}

/// What a segment will cover and how; fixed before its first row is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `event_time`s that it covers. The end is the watermark: everything before it is sealed (S3).
    pub span: Interval,
    /// Where its pieces go.
    pub generation: Generation,
    /// How rows are divided among pieces.
    pub strategy: Strategy,
    /// How rows lie in pieces.
    pub form: Form,
    /// How often sealed time of the namespace had been opened again when its rows were read. What was opened again later may
    /// hold more.
    pub as_of: u64,
    /// How big pieces should be.
    pub target_piece_bytes: u64,
    /// From how many bytes on it is worth it.
    pub threshold_bytes: u64,
    /// When work on it began.
    pub begun: Timestamp,
}

/// A plan in the making.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// What is planned.
    pub target: Target,
    /// Pieces that are cut, newest first; the last one still grows.
    pub pieces: Vec<Piece>,
    /// Raised from the target's when there would be too many pieces.
    pub piece_bytes: u64,
}

/// What each piece must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What is planned.
    pub target: Target,
    /// Newest first.
    pub pieces: Vec<Piece>,
}

/// Rows on their way into pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copying {
    /// What is copied.
    pub plan: Plan,
    /// Everything up to here (in table order) is in its piece.
    pub copied: Option<Position>,
    /// Bytes copied.
    pub bytes: u64,
}

/// Pieces being read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checking {
    /// What must be there.
    pub plan: Plan,
    /// How many pieces are proven.
    pub proven: usize,
    /// What the proven ones take in the store.
    pub stored: Stored,
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Why.
    pub reason: String,
    /// When it may be tried again.
    pub retry_after: Timestamp,
    /// Where to go on: the state that failed, or planning anew.
    pub resume: Box<State>,
}

impl Failure {
    /// Whether it isn't tried again yet at `now`, where waits are so long at most.
    pub fn waits(&self, now: Timestamp, longest_retry: Duration) -> bool {
        self.retry_after.is_ahead_of(now, longest_retry)
    }
}

/// One target partition of a segment: consecutive events, and what must be read back from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Its number within the generation.
    pub ordinal: u32,
    /// Its first event in table order.
    pub newest: Position,
    /// Its last event in table order.
    pub oldest: Position,
    /// Rows, bytes and sum of the rows that it must hold.
    pub content: Content,
}

/// A checksum as it is stored: the sum in hex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// How many rows.
    pub rows: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Sum of the row hashes.
    #[serde(with = "hex_sum")]
    pub checksum: u128,
}

impl From<Checksum> for Content {
    fn from(sum: Checksum) -> Self {
        Content { rows: sum.rows, bytes: sum.bytes, checksum: sum.sum }
    }
}

impl From<Content> for Checksum {
    fn from(content: Content) -> Self {
        Checksum { sum: content.checksum, rows: content.rows, bytes: content.bytes }
    }
}

/// What something takes in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Rows of the store: a block is one.
    pub rows: u64,
    /// Bytes of keys, values and metadata.
    pub bytes: u64,
}

/// A sealed, contiguous span of a partition that was copied and proven as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// What it covers.
    pub span: Interval,
    /// Where its pieces are.
    pub generation: Generation,
    /// How rows are divided among them.
    pub strategy: Strategy,
    /// How rows lie in them.
    pub form: Form,
    /// How often sealed time of the namespace had been opened again when this was last compared with the original.
    pub as_of: u64,
    /// When it was last compared with the original.
    pub checked: Timestamp,
    /// Newest first; of a segment spread by hash, in the order of the hash.
    pub pieces: Vec<Piece>,
    /// What the rows are, in the original.
    pub pre_split_data: Stored,
    /// What the pieces take.
    pub post_split_data: Stored,
    /// How long it took from planning to being served.
    pub took: Duration,
    /// Since when it is served.
    pub completed: Timestamp,
}

impl WideRow {
    /// A new record: something was detected.
    pub fn detected(partition: WidePartition, now: Timestamp) -> Self {
        WideRow {
            partition,
            epoch: Epoch(0),
            lease: None,
            nonce: 0,
            served: Vec::new(),
            looked_until: Timestamp::EARLIEST,
            set_aside: None,
            state: State::Detected,
            attempts: 0,
            waits: 0,
            abandoned: 0,
            generation: Generation::FIRST,
            next_ordinal: 0,
            updated: now,
        }
    }

    /// Takes all segments out of use; work begins anew in the next generation. Whoever works on it has lost its lease.
    pub fn invalidate(&mut self, reason: &str) {
        self.epoch = Epoch(self.epoch.0 + 1);
        self.lease = None;
        self.served.clear();
        self.looked_until = Timestamp::EARLIEST;
        self.set_aside = None;
        self.state = State::Invalidated { reason: reason.to_owned() };
        self.try_anew();
        self.generation = self.generation.next();
        self.next_ordinal = 0;
    }

    /// Forgets how often the next segment was tried in vain.
    pub fn try_anew(&mut self) {
        (self.attempts, self.waits, self.abandoned) = (0, 0, 0);
    }

    /// Everything before this is served from pieces.
    pub fn served_until(&self) -> Option<Timestamp> {
        self.served.last().map(|segment| segment.span.end)
    }
}

impl Segment {
    /// How much history one stored row of it holds.
    pub fn density(&self) -> Density {
        let ratio = |above: u64, below: u64| above as f64 / below.max(1) as f64;
        Density {
            rows: ratio(self.pre_split_data.rows, self.post_split_data.rows),
            bytes: ratio(self.post_split_data.bytes, self.pre_split_data.bytes),
        }
    }
}

mod hex_sum {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(sum: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{sum:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S5: a worker whose clock was far ahead stops nobody for so long, neither by its lease nor by when it would try again.
    #[test]
    fn times_that_a_wrong_clock_has_stored_are_not_waited_for_s5() {
        let (now, length) = (Timestamp::from_seconds(1000), Duration::from_secs(10));
        for (seconds, waits) in [(999, false), (1000, false), (1001, true), (1010, true), (1021, false), (5000, false)]
        {
            let time = Timestamp::from_seconds(seconds);
            let lease = Lease { worker: "w".to_owned(), until: time };
            assert_eq!(lease.holds(now, length), waits, "{seconds}");
            let failure = Failure { reason: "r".to_owned(), retry_after: time, resume: Box::new(State::Detected) };
            assert_eq!(failure.waits(now, length), waits, "{seconds}");
        }
    }
}

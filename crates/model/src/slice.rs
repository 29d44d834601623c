//! Slices: half-open spans of time, each one table with partition settings of its own, and the map in which they
//! never overlap. Time without a slice is empty.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Interval, NamespaceName, PartitionKey, Position, TimeSeriesId, Timestamp, event_hash};

/// Slices begin on whole minutes, so that their names are unique.
pub const SLICE_GRAIN_SECONDS: u32 = 60;
/// No slice is longer than this: 100 years, so that differences of times inside stay in 64 bits.
pub const MAX_SLICE_SECONDS: u64 = 100 * 365 * 86_400;

/// Index of a span of time inside a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimeBucket(pub u32);

/// Index of a bucket that events of one time bucket are spread over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventBucket(pub u32);

/// How the rows of a slice are divided into partitions. Fixed once a write can reach the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartitionSettings {
    /// Length of a time bucket.
    pub seconds_per_bucket: u32,
    /// Over how many partitions the events of a time bucket are spread.
    pub event_buckets: u32,
}

/// Where a slice is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum SliceState {
    /// Written and read.
    #[default]
    Open,
    /// Past `close_after`: not read, not written.
    Closed,
    /// Its table is being dropped.
    Dropping,
}

/// How names of tables for pieces begin.
const PIECES: &str = "wide_";

/// The name of a table: `data_20260328`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableName {
    /// The namespace that the table belongs to.
    pub namespace: NamespaceName,
    /// Its own name within it.
    pub table: String,
}

impl TableName {
    /// The table for pieces of a slice's partitions, of this generation: `wide_data_20260328_1`.
    pub fn of_pieces(namespace: NamespaceName, time_slice: &str, generation: u32) -> Self {
        TableName { namespace, table: format!("{PIECES}{time_slice}_{generation}") }
    }

    /// The name of the slice whose pieces it holds, if it holds pieces.
    pub fn pieces_of(&self) -> Option<&str> {
        let (time_slice, generation) = self.table.strip_prefix(PIECES)?.rsplit_once('_')?;
        generation.parse::<u32>().is_ok().then_some(time_slice)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.table)
    }
}

impl fmt::Debug for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A half-open span of time that is one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// What it covers; both ends on whole minutes.
    pub interval: Interval,
    /// How its rows are divided.
    pub settings: PartitionSettings,
    /// Where it is in its life.
    pub state: SliceState,
}

impl Slice {
    /// `data_20260328`, or `data_20260328t0400` when it doesn't begin at midnight UTC.
    pub fn name(&self) -> String {
        let seconds = self.interval.start.seconds();
        let minutes = seconds.rem_euclid(86_400) / 60;
        let date = self.interval.start.to_string()[..10].replace('-', "");
        if minutes == 0 {
            format!("data_{date}")
        } else {
            format!("data_{date}t{:02}{:02}", minutes / 60, minutes % 60)
        }
    }

    /// Its table.
    pub fn table(&self, namespace: &NamespaceName) -> TableName {
        TableName { namespace: namespace.clone(), table: self.name() }
    }

    /// The bucket that holds `time`, which must be inside the slice.
    pub fn time_bucket(&self, time: Timestamp) -> TimeBucket {
        debug_assert!(self.interval.contains(time));
        let seconds = (time.nanos() - self.interval.start.nanos()) / crate::time::NANOS_PER_SECOND;
        TimeBucket((seconds / i64::from(self.settings.seconds_per_bucket)) as u32)
    }

    /// What a time bucket covers.
    pub fn bucket_interval(&self, bucket: TimeBucket) -> Interval {
        let length = Duration::from_secs(u64::from(self.settings.seconds_per_bucket));
        let offset = Duration::from_secs(u64::from(self.settings.seconds_per_bucket) * u64::from(bucket.0));
        let start = self.interval.start.saturating_add(offset);
        Interval::new(start, start.saturating_add(length).min(self.interval.end))
    }

    /// The bucket that holds an event. The same event always gets the same, so that a retry finds its row (W2).
    pub fn event_bucket(&self, position: &Position) -> EventBucket {
        if self.settings.event_buckets == 1 {
            return EventBucket(0);
        }
        EventBucket((event_hash(position) % u64::from(self.settings.event_buckets)) as u32)
    }

    /// The partition that holds an event of `series`.
    pub fn partition(&self, series: &TimeSeriesId, position: &Position) -> PartitionKey {
        PartitionKey {
            series: series.clone(),
            time_bucket: self.time_bucket(position.time),
            event_bucket: self.event_bucket(position),
        }
    }
}

/// Why a slice can't be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SliceError {
    /// The namespace has all the slices it may have.
    #[error(
        "the namespace already has {slices} slices, the most allowed: lengthen `seconds_per_slice` or shorten `delete_after`"
    )]
    TooMany {
        /// How many there are.
        slices: usize,
    },
    /// It would cover time that another slice covers.
    #[error("{interval} overlaps the slice {other}")]
    Overlap {
        /// What was asked for.
        interval: Interval,
        /// What is there.
        other: String,
    },
    /// Empty, too long, or not on whole minutes.
    #[error("{interval} can't be a slice: it must begin and end on whole minutes and last at most 100 years")]
    Shape {
        /// What was asked for.
        interval: Interval,
    },
}

/// The slices of a namespace, oldest first, never overlapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SliceMap {
    slices: Vec<Slice>,
}

impl<'de> Deserialize<'de> for SliceMap {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut map = SliceMap::default();
        for slice in Vec::<Slice>::deserialize(deserializer)? {
            map.insert(slice).map_err(serde::de::Error::custom)?;
        }
        Ok(map)
    }
}

impl SliceMap {
    /// All of them, oldest first.
    pub fn iter(&self) -> std::slice::Iter<'_, Slice> {
        self.slices.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The slice that holds `time`, if there is one.
    pub fn at(&self, time: Timestamp) -> Option<&Slice> {
        let after = self.slices.partition_point(|slice| slice.interval.start <= time);
        self.slices[..after].last().filter(|slice| slice.interval.contains(time))
    }

    /// The slices that have time in common with `interval`, oldest first.
    pub fn overlapping(&self, interval: Interval) -> &[Slice] {
        if interval.is_empty() {
            return &[];
        }
        let first = self.slices.partition_point(|slice| slice.interval.end <= interval.start);
        let last = self.slices.partition_point(|slice| slice.interval.start < interval.end);
        &self.slices[first..last.max(first)]
    }

    /// Adds a slice; refuses one that overlaps another.
    pub fn insert(&mut self, slice: Slice) -> Result<(), SliceError> {
        let interval = slice.interval;
        let grain = i64::from(SLICE_GRAIN_SECONDS) * crate::time::NANOS_PER_SECOND;
        let whole = |time: Timestamp| time.nanos().rem_euclid(grain) == 0;
        let too_long = interval.length() > Duration::from_secs(MAX_SLICE_SECONDS);
        if interval.is_empty() || too_long || !whole(interval.start) || !whole(interval.end) {
            return Err(SliceError::Shape { interval });
        }
        if let Some(other) = self.overlapping(interval).first() {
            return Err(SliceError::Overlap { interval, other: other.name() });
        }
        let at = self.slices.partition_point(|other| other.interval.start < interval.start);
        self.slices.insert(at, slice);
        Ok(())
    }

    /// The slice that covers exactly this. A longer one that begins where it did is another, though its table has the same name.
    pub fn exactly(&self, interval: Interval) -> Option<&Slice> {
        self.at(interval.start).filter(|slice| slice.interval == interval)
    }

    /// Changes the state of the slice that covers exactly this.
    pub fn set_state(&mut self, interval: Interval, state: SliceState) {
        if let Some(slice) = self.slices.iter_mut().find(|slice| slice.interval == interval) {
            slice.state = state;
        }
    }

    /// Takes the slice that covers exactly this out.
    pub fn remove(&mut self, interval: Interval) {
        self.slices.retain(|slice| slice.interval != interval);
    }

    /// The slice to make so that `time` has one: aligned to multiples of its length since the epoch and cut to the gap
    /// between its neighbours. The length is `seconds_per_slice`, doubled `doublings` times; see [`doublings`].
    pub fn plan(
        &self,
        time: Timestamp,
        seconds_per_slice: u32,
        settings: PartitionSettings,
        max_slices: usize,
        doublings: u32,
    ) -> Result<Slice, SliceError> {
        if self.slices.len() >= max_slices {
            return Err(SliceError::TooMany { slices: self.slices.len() });
        }
        let length = (u64::from(seconds_per_slice) << doublings).min(longest_multiple(seconds_per_slice));
        let start = time.seconds().div_euclid(length as i64) * length as i64;
        let aligned = Interval::new(Timestamp::from_seconds(start), Timestamp::from_seconds(start + length as i64));
        let before = self.slices.iter().rev().find(|slice| slice.interval.end <= time);
        let after = self.slices.iter().find(|slice| slice.interval.start > time);
        let gap = Interval::new(
            before.map_or(Timestamp::EARLIEST, |slice| slice.interval.end),
            after.map_or(Timestamp::LATEST, |slice| slice.interval.start),
        );
        let interval = aligned.intersect(&gap);
        let seconds = u32::try_from(interval.length().as_secs()).unwrap_or(u32::MAX);
        let settings =
            PartitionSettings { seconds_per_bucket: settings.seconds_per_bucket.min(seconds.max(1)), ..settings };
        Ok(Slice { interval, settings, state: SliceState::Open })
    }
}

/// How often the length of a new slice is doubled when `used` of `limit` places are taken: not at all up to three
/// quarters, then once more each time half of the room that is left is used up. So that what has no end in sight
/// slows down instead of running full at once.
pub fn doublings(used: usize, limit: usize) -> u32 {
    let mut left = limit - limit * 3 / 4;
    let mut used_until = limit * 3 / 4;
    let mut doublings = 0;
    while used >= used_until && left > 1 {
        left /= 2;
        used_until = limit - left;
        doublings += 1;
    }
    doublings
}

/// The longest slice that is `seconds_per_slice` doubled some times.
fn longest_multiple(seconds_per_slice: u32) -> u64 {
    let mut length = u64::from(seconds_per_slice);
    while length * 2 <= MAX_SLICE_SECONDS {
        length *= 2;
    }
    length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::EventId;

    const SETTINGS: PartitionSettings = PartitionSettings { seconds_per_bucket: 3600, event_buckets: 4 };

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn slice(start: &str, end: &str) -> Slice {
        Slice { interval: Interval::new(time(start), time(end)), settings: SETTINGS, state: SliceState::Open }
    }

    #[test]
    fn names_say_when_a_slice_begins() {
        assert_eq!(slice("2026-03-28T00:00:00Z", "2026-03-29T00:00:00Z").name(), "data_20260328");
        assert_eq!(slice("2026-03-28T04:00:00Z", "2026-03-28T08:00:00Z").name(), "data_20260328t0400");
        assert_eq!(slice("1678-01-01T00:00:00Z", "1678-01-02T00:00:00Z").name(), "data_16780101");
    }

    #[test]
    fn tables_of_pieces_say_of_which_slice() {
        let plays = NamespaceName::new("plays").unwrap();
        let table = |table: &str| TableName { namespace: plays.clone(), table: table.to_owned() };
        for slice in ["data_20260328", "data_20260328t0400"] {
            let pieces = TableName::of_pieces(plays.clone(), slice, 12);
            assert_eq!(pieces, table(&format!("wide_{slice}_12")));
            assert_eq!(pieces.pieces_of(), Some(slice));
            assert_eq!(table(slice).pieces_of(), None);
        }
        for other in ["wide_", "wide_data", "wide_data_", "wide_data_x", "data_20260328_1"] {
            assert_eq!(table(other).pieces_of(), None, "{other}");
        }
    }

    #[test]
    fn overlapping_slices_are_refused() {
        let mut map = SliceMap::default();
        map.insert(slice("2026-03-28T00:00:00Z", "2026-03-29T00:00:00Z")).unwrap();
        let overlapping = map.insert(slice("2026-03-28T23:59:00Z", "2026-03-29T01:00:00Z"));
        assert!(matches!(overlapping, Err(SliceError::Overlap { .. })));
        let text = serde_json::to_string(&map).unwrap();
        let doubled = format!("[{},{}]", &text[1..text.len() - 1], &text[1..text.len() - 1]);
        assert!(serde_json::from_str::<SliceMap>(&doubled).is_err());
        assert_eq!(serde_json::from_str::<SliceMap>(&text).unwrap(), map);
    }

    #[test]
    fn a_longer_slice_that_begins_where_another_did_is_not_taken_for_it() {
        let gone = slice("2026-03-28T00:00:00Z", "2026-03-29T00:00:00Z");
        let longer = slice("2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z");
        assert_eq!(gone.name(), longer.name());
        let mut map = SliceMap::default();
        map.insert(longer.clone()).unwrap();
        map.set_state(gone.interval, SliceState::Dropping);
        map.remove(gone.interval);
        assert_eq!(map.exactly(gone.interval), None);
        assert_eq!(map.exactly(longer.interval), Some(&longer));
        map.remove(longer.interval);
        assert!(map.is_empty());
    }

    #[test]
    fn slices_lengthen_before_they_run_out() {
        let mut map = SliceMap::default();
        let mut at = time("2026-01-01T00:00:00Z");
        for _ in 0..400 {
            let slice = map.plan(at, 86_400, SETTINGS, 400, doublings(map.len(), 400)).unwrap();
            at = slice.interval.end;
            map.insert(slice).unwrap();
        }
        assert!(at.since(time("2026-01-01T00:00:00Z")) > Duration::from_secs(900 * 86_400), "{at}");
        assert_eq!(map.plan(at, 86_400, SETTINGS, 400, 0), Err(SliceError::TooMany { slices: 400 }));
    }

    proptest! {
        #[test]
        fn every_instant_falls_in_exactly_one_slice_and_one_bucket(
            instants in prop::collection::vec(Timestamp::EARLIEST.nanos()..Timestamp::LATEST.nanos(), 1..40),
            lengths in prop::collection::vec(1u32..5_000_000, 1..4),
            seconds_per_bucket in 1u32..10_000_000,
            event_buckets in 1u32..100,
        ) {
            let mut map = SliceMap::default();
            for (at, nanos) in instants.iter().enumerate() {
                let time = Timestamp::from_nanos(*nanos);
                if map.at(time).is_none() {
                    let settings = PartitionSettings { seconds_per_bucket, event_buckets };
                    let slice = map.plan(time, lengths[at % lengths.len()] * 60, settings, 400, 0).unwrap();
                    prop_assert!(slice.interval.contains(time));
                    map.insert(slice).unwrap();
                }
            }
            for nanos in instants {
                let time = Timestamp::from_nanos(nanos);
                prop_assert_eq!(map.iter().filter(|slice| slice.interval.contains(time)).count(), 1);
                let slice = map.at(time).unwrap();
                prop_assert!(slice.interval.contains(time));
                let bucket = slice.time_bucket(time);
                prop_assert!(slice.bucket_interval(bucket).contains(time));
                prop_assert!(slice.settings.seconds_per_bucket as u64 <= slice.interval.length().as_secs());
                let position = Position { time, id: EventId::new("e").unwrap() };
                prop_assert!(slice.event_bucket(&position).0 < event_buckets);
                let overlapping = map.overlapping(Interval::new(time, Timestamp::from_nanos(nanos + 1)));
                prop_assert_eq!(overlapping.len(), 1);
            }
            let names: std::collections::BTreeSet<String> = map.iter().map(Slice::name).collect();
            prop_assert_eq!(names.len(), map.len());
        }
    }
}

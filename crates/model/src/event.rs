//! Events, their items, and the positions that order a history.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{EventId, EventItemKey, TimeSeriesId, Timestamp};

/// A place in a history. Positions are ordered by time, then id; every bound and cut is one, never a bare time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// When.
    pub time: Timestamp,
    /// Which, of those at that time.
    pub id: EventId,
}

/// The place of one row: an item of the event at a position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The event.
    pub position: Position,
    /// The item.
    pub item_key: EventItemKey,
}

/// One value of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Unique within the event.
    pub key: EventItemKey,
    /// The value, opaque to the store.
    pub value: Bytes,
    /// What describes the value. Absent isn't the same as empty.
    pub metadata: Option<Bytes>,
}

impl Item {
    /// Bytes of key, value and metadata: what page limits count.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.len() + self.metadata.as_ref().map_or(0, Bytes::len)
    }
}

/// The items of a record. Most records have one, which then lies in the record itself.
pub type Items = SmallVec<[Item; 1]>;

/// An event as clients write it. It holds at least one item, and no two with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose history.
    pub series: TimeSeriesId,
    /// Where in it.
    pub position: Position,
    /// What happened.
    pub items: Vec<Item>,
}

/// One item at its position: one row of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The event's place.
    pub position: Position,
    /// One of its items.
    pub item: Item,
}

impl Row {
    /// Bytes that count as read or stored for this row: time, id, key, value, metadata.
    #[inline]
    pub fn bytes(&self) -> usize {
        size_of::<i64>() + self.position.id.len() + self.item.bytes()
    }

    /// Its place.
    pub fn key(&self) -> RowKey {
        RowKey { position: self.position.clone(), item_key: self.item.key.clone() }
    }
}

/// An event with its items, as answered: items ascend by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The event's place.
    pub position: Position,
    /// Its items, or the next part of them.
    pub items: Items,
    /// Whether the next record of the answer goes on with this same event.
    pub continued: bool,
}

impl Record {
    /// What page limits count: the event's id, and keys, values and metadata of its items.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.position.id.len() + self.items.iter().map(Item::bytes).sum::<usize>()
    }
}

/// The order of records in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// Positions descend: the default.
    #[default]
    LatestFirst,
    /// Positions ascend.
    OldestFirst,
}

impl Order {
    /// Compares two positions as this order lists them.
    pub fn compare(self, left: &Position, right: &Position) -> std::cmp::Ordering {
        match self {
            Order::LatestFirst => right.cmp(left),
            Order::OldestFirst => left.cmp(right),
        }
    }
}

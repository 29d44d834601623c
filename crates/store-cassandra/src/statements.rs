//! Prepared statements: for each table the shapes that are used, prepared when first needed.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use anabranch_model::TableName;
use anabranch_store::{Direction, StoreError};
use scylla::{client::session::Session, errors::PrepareError, statement::prepared::PreparedStatement};
use tokio::sync::OnceCell;

use crate::{names::Place, page::RowSize};

const PARTITION: &str = "time_series_id = ? AND time_bucket = ? AND event_bucket = ?";
const TOKEN: &str = "token(time_series_id, time_bucket, event_bucket)";
const ROW: &str = "event_time, event_id, event_item_key, event_item";
const REVERSE: &str = " ORDER BY event_time ASC, event_id ASC, event_item_key DESC";

/// Which slice of a partition a statement reads. Positions descend and keys ascend, so no comparison of all three
/// columns at once follows the order of the table: what lies after a row is a slice of its event and a slice of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// Events from a time to before another.
    Times,
    /// Events after a position in the scan's direction, up to the interval's bound.
    AfterPosition,
    /// All items of an event.
    Event,
    /// Items of an event from a key on, in the scan's direction.
    ItemsFrom,
    /// Items of an event after a key, in the scan's direction.
    ItemsAfter,
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Insert,
    Read(Slice, Direction),
    /// Keys of partitions from a token on.
    Partitions,
}

impl Shape {
    fn to_cql(self, place: &Place) -> String {
        match self {
            Shape::Insert => format!(
                "INSERT INTO {place} (time_series_id, time_bucket, event_bucket, {ROW}) VALUES (?, ?, ?, ?, ?, ?, ?)"
            ),
            Shape::Read(slice, direction) => {
                let slice = slice.to_cql(direction);
                let order = if direction == Direction::Forward { "" } else { REVERSE };
                format!("SELECT {ROW} FROM {place} WHERE {PARTITION} AND {slice}{order}")
            }
            Shape::Partitions => format!(
                "SELECT DISTINCT time_series_id, time_bucket, event_bucket, {TOKEN} FROM {place} WHERE {TOKEN} >= ?"
            ),
        }
    }
}

impl Slice {
    fn to_cql(self, direction: Direction) -> &'static str {
        match (self, direction) {
            (Slice::Times, _) => "event_time >= ? AND event_time < ?",
            (Slice::AfterPosition, Direction::Forward) => "(event_time, event_id) < (?, ?) AND (event_time) >= (?)",
            (Slice::AfterPosition, Direction::Backward) => "(event_time, event_id) > (?, ?) AND (event_time) < (?)",
            (Slice::Event, _) => "event_time = ? AND event_id = ?",
            (Slice::ItemsFrom, Direction::Forward) => "event_time = ? AND event_id = ? AND event_item_key >= ?",
            (Slice::ItemsFrom, Direction::Backward) => "event_time = ? AND event_id = ? AND event_item_key <= ?",
            (Slice::ItemsAfter, Direction::Forward) => "event_time = ? AND event_id = ? AND event_item_key > ?",
            (Slice::ItemsAfter, Direction::Backward) => "event_time = ? AND event_id = ? AND event_item_key < ?",
        }
    }
}

/// A table that has been used, and what is known about it.
#[derive(Debug)]
pub(crate) struct KnownTable {
    pub(crate) place: Place,
    pub(crate) row_size: RowSize,
    prepared: RwLock<Vec<(Shape, Arc<OnceCell<PreparedStatement>>)>>,
}

impl KnownTable {
    fn new(place: Place) -> Self {
        KnownTable { place, row_size: RowSize::default(), prepared: RwLock::default() }
    }

    /// The statement of a shape, if it was prepared.
    pub(crate) fn prepared(&self, shape: Shape) -> Option<PreparedStatement> {
        self.cell(shape).get().cloned()
    }

    /// The statement of a shape. Those who come while it is being prepared wait for the same one. The driver waits for every node,
    /// however long: whoever calls has a deadline.
    pub(crate) async fn prepare(&self, session: &Session, shape: Shape) -> Result<PreparedStatement, PrepareError> {
        let cell = self.cell(shape);
        let prepare = async || {
            let mut statement = session.prepare(shape.to_cql(&self.place)).await?;
            // Safe for writes too: the same row with the same write time, however often.
            statement.set_is_idempotent(true);
            // Tables are never altered, so the columns needn't come with every answer.
            statement.set_use_cached_result_metadata(true);
            Ok(statement)
        };
        cell.get_or_try_init(prepare).await.cloned()
    }

    /// A dozen at most: looking along a list is the quickest way.
    fn cell(&self, shape: Shape) -> Arc<OnceCell<PreparedStatement>> {
        let find = |all: &[(Shape, Arc<OnceCell<_>>)]| {
            all.iter().find(|(known, _)| *known == shape).map(|(_, cell)| cell.clone())
        };
        if let Some(cell) = find(&self.prepared.read().unwrap_or_else(PoisonError::into_inner)) {
            return cell;
        }
        let mut prepared = self.prepared.write().unwrap_or_else(PoisonError::into_inner);
        find(&prepared).unwrap_or_else(|| {
            let cell = Arc::new(OnceCell::new());
            prepared.push((shape, cell.clone()));
            cell
        })
    }
}

/// All tables that have been used.
#[derive(Debug, Default)]
pub(crate) struct KnownTables(RwLock<BTreeMap<TableName, Arc<KnownTable>>>);

impl KnownTables {
    /// What is known about a table; whether it is there isn't.
    pub(crate) fn get(
        &self,
        table: &TableName,
        place: impl FnOnce() -> Result<Place, StoreError>,
    ) -> Result<Arc<KnownTable>, StoreError> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(table) {
            return Ok(known.clone());
        }
        let known = Arc::new(KnownTable::new(place()?));
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Ok(tables.entry(table.clone()).or_insert(known).clone())
    }

    /// Forgets a table that is gone: one made again under its name is another.
    pub(crate) fn forget(&self, table: &TableName) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_names_its_partition_and_the_reverse_reverses_all_three_columns() {
        let place = Place { keyspace: "k".to_owned(), table: "t".to_owned() };
        for slice in [Slice::Times, Slice::AfterPosition, Slice::Event, Slice::ItemsFrom, Slice::ItemsAfter] {
            let [forward, backward] =
                [Direction::Forward, Direction::Backward].map(|way| Shape::Read(slice, way).to_cql(&place));
            assert!(forward.contains(PARTITION) && backward.contains(PARTITION));
            assert!(!forward.contains("ORDER BY"), "the table's own order needs no sorting");
            assert!(backward.ends_with(REVERSE));
        }
    }
}

//! Rows as the bytes that the store keeps. Nothing is decoded that isn't needed, so that no type of column, however
//! unusual, can stand in the way.

use std::time::Duration;

use anabranch_model::Timestamp;
use bytes::Bytes;
use scylla::{
    deserialize::{
        DeserializationError, TypeCheckError,
        row::{ColumnIterator, DeserializeRow},
    },
    frame::response::result::ColumnSpec,
    response::query_result::QueryResult,
    serialize::{
        SerializationError,
        row::{RowSerializationContext, SerializeRow},
        writers::RowWriter,
    },
};

use super::{Cursor, schema::ForeignSchema};

/// The values of a partition's key, in the order of its columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignKey(pub Vec<Bytes>);

/// One row.
#[derive(Clone, Debug)]
pub struct ForeignRow {
    /// Where its partition lies.
    pub token: i64,
    /// Its partition.
    pub key: ForeignKey,
    /// When it happened.
    pub time: Timestamp,
    /// The values of the clustering columns, in their order.
    pub clustering: Vec<Bytes>,
    /// The values of the other columns, in their order; columns that a partition has once aren't among them.
    pub values: Vec<Option<Bytes>>,
}

impl ForeignRow {
    /// Bytes of its clustering columns and its values.
    pub fn bytes(&self) -> u64 {
        let clustering: usize = self.clustering.iter().map(Bytes::len).sum();
        let values: usize = self.values.iter().flatten().map(Bytes::len).sum();
        (clustering + values) as u64
    }
}

/// What a read found.
#[derive(Debug)]
pub struct ForeignPage {
    /// In the order of the read. A partition that has no row isn't told.
    pub rows: Vec<ForeignRow>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
    /// How long the store took, and the way there and back.
    pub took: Duration,
}

impl ForeignSchema {
    /// A row of a read over partitions; `None` for a partition that has none of its own.
    pub(super) fn row_with_key(&self, cells: Vec<Option<Bytes>>) -> Option<ForeignRow> {
        let mut cells = cells.into_iter();
        let token = i64::from_be_bytes(cells.next()??.as_ref().try_into().ok()?);
        let key: Option<Vec<Bytes>> = cells.by_ref().take(self.partition_key.len()).collect();
        self.row(token, ForeignKey(key?), cells)
    }

    /// A row of a partition.
    pub(super) fn row_of(&self, key: &ForeignKey, cells: Vec<Option<Bytes>>) -> Option<ForeignRow> {
        self.row(0, key.clone(), cells.into_iter())
    }

    fn row(&self, token: i64, key: ForeignKey, mut cells: impl Iterator<Item = Option<Bytes>>) -> Option<ForeignRow> {
        let clustering: Option<Vec<Bytes>> = cells.by_ref().take(self.clustering.len()).collect();
        let clustering = clustering?;
        let when = self.time();
        let time = when.kind.time(clustering.get(when.index)?)?;
        Some(ForeignRow { token, key, time, clustering, values: cells.collect() })
    }
}

/// Cells of a row, of whatever types.
struct Cells(Vec<Option<Bytes>>);

impl<'frame, 'metadata> DeserializeRow<'frame, 'metadata> for Cells {
    fn type_check(_: &[ColumnSpec<'_>]) -> Result<(), TypeCheckError> {
        Ok(())
    }

    fn deserialize(row: ColumnIterator<'frame, 'metadata>) -> Result<Self, DeserializationError> {
        // Copied: a slice would keep the whole answer in memory for as long as a key is remembered.
        row.map(|column| Ok(column?.slice.map(|slice| Bytes::copy_from_slice(slice.as_slice()))))
            .collect::<Result<_, _>>()
            .map(Cells)
    }
}

/// The rows of an answer.
pub(super) fn pages_of(
    answer: QueryResult,
) -> Result<Vec<Vec<Option<Bytes>>>, Box<dyn std::error::Error + Send + Sync>> {
    let answer = answer.into_rows_result()?;
    let mut rows = Vec::with_capacity(answer.rows_num());
    for row in answer.rows::<Cells>()? {
        rows.push(row?.0);
    }
    Ok(rows)
}

/// A key as the values of a statement: the very bytes that came.
pub(super) struct KeyValues<'a>(pub(super) &'a ForeignKey);

impl SerializeRow for KeyValues<'_> {
    fn serialize(&self, _: &RowSerializationContext<'_>, writer: &mut RowWriter<'_>) -> Result<(), SerializationError> {
        for value in &self.0.0 {
            writer.make_cell_writer().set_value(value).map_err(SerializationError::new)?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }
}

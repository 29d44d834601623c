//! The rows of a block, one after the other, as if they had been stored as rows.

use std::ops::Range;

use anabranch_model::{Item, Position, Row};
use bytes::Bytes;

use super::{Positions, keys::Keys, sizes::Sizes};
use crate::Direction;

/// Rows of a block in a scan's direction. Their values are slices of the decoded section, which stays in memory as
/// long as one of them does.
pub struct Rows<'a> {
    pub(super) positions: &'a Positions,
    pub(super) keys: &'a Keys,
    pub(super) sizes: &'a Sizes,
    pub(super) metadata: Bytes,
    /// At least as long as the rows of the range need.
    pub(super) values: Bytes,
    pub(super) range: Range<usize>,
    pub(super) direction: Direction,
    /// The event that the last row belonged to, and where its rows are.
    pub(super) event: Option<(Range<usize>, Position)>,
}

impl Rows<'_> {
    fn position_of(&mut self, row: usize) -> Position {
        if let Some((_, position)) = self.event.as_ref().filter(|(rows, _)| rows.contains(&row)) {
            return position.clone();
        }
        let event = self.positions.event_of(row);
        let position = self.positions.get(event);
        let rows = self.positions.rows_of(event);
        if rows.len() > 1 {
            self.event = Some((rows, position.clone()));
        }
        position
    }
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let row = match self.direction {
            Direction::Forward => self.range.next()?,
            Direction::Backward => self.range.next_back()?,
        };
        let item = Item {
            key: self.keys.of_row(row).clone(),
            value: self.values.slice(self.sizes.value(row)),
            metadata: self.sizes.metadata(row).map(|range| self.metadata.slice(range)),
        };
        Some(Row { position: self.position_of(row), item })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl ExactSizeIterator for Rows<'_> {}

//! A block that was opened: its checksum is verified at once, its sections are decoded when they are first needed.

use std::{
    ops::{Bound, Range},
    sync::OnceLock,
};

use anabranch_model::{EventItemKey, Position, Row};
use anabranch_runtime::let_others_run;
use bytes::Bytes;

use super::{
    BlockError, Positions, Rows,
    codec::Compression,
    header::header_of,
    keys::Keys,
    layout::{Layout, Section},
    lz4_prefix::decode_prefix,
    sizes::Sizes,
};
use crate::{After, Direction, ScanSpan};

/// A block, checked and ready to be read by many at once. Rows are numbered from 0 in table order.
#[derive(Debug)]
pub struct Block {
    value: Bytes,
    layout: Layout,
    /// Newest and oldest position, as the row around it says.
    place: Option<(Position, Position)>,
    above: Option<Position>,
    positions: OnceLock<Positions>,
    keys: OnceLock<Keys>,
    sizes: OnceLock<Sizes>,
    metadata: OnceLock<Bytes>,
    values: OnceLock<Bytes>,
}

/// What was decoded before, or else is now. Of two readers that decode at once, one's work is kept.
fn once<T>(kept: &OnceLock<T>, decode: impl FnOnce() -> Result<T, BlockError>) -> Result<&T, BlockError> {
    match kept.get() {
        Some(decoded) => Ok(decoded),
        None => {
            let decoded = decode()?;
            Ok(kept.get_or_init(|| decoded))
        }
    }
}

impl Block {
    /// Opens a block's row: verifies its header and checksum, and later that its positions are those of the row.
    pub fn open(row: &Row) -> Result<Block, BlockError> {
        if !row.item.key.is_block() {
            return Err(BlockError::NotABlock { reason: "it has an item key" });
        }
        let metadata = row.item.metadata.as_ref().ok_or(BlockError::NotABlock { reason: "it has no header" })?;
        let header = header_of(metadata)?;
        let mut block = Block::open_value(row.item.value.clone())?;
        if header.rows as usize != block.layout.rows {
            return Err(BlockError::Misplaced { what: "number of rows" });
        }
        block.place = Some((header.newest, row.position.clone()));
        block.above = header.above;
        Ok(block)
    }

    /// Opens a block without the row around it.
    pub fn open_value(value: Bytes) -> Result<Block, BlockError> {
        let_others_run();
        let layout = Layout::parse(&value)?;
        Ok(Block {
            value,
            layout,
            place: None,
            above: None,
            positions: OnceLock::new(),
            keys: OnceLock::new(),
            sizes: OnceLock::new(),
            metadata: OnceLock::new(),
            values: OnceLock::new(),
        })
    }

    /// How many rows it holds.
    pub fn row_count(&self) -> usize {
        self.layout.rows
    }

    /// How many events it holds.
    pub fn event_count(&self) -> usize {
        self.layout.events
    }

    /// About how many bytes it takes in memory once everything is decoded.
    pub fn memory_bytes(&self) -> usize {
        self.value.len() + self.layout.raw_bytes() + 16 * self.layout.rows
    }

    /// The event right above it in the segment, as its row says: none lies between.
    pub fn above(&self) -> Option<&Position> {
        self.above.as_ref()
    }

    /// The positions of its events. Decodes nothing else.
    pub fn positions(&self) -> Result<&Positions, BlockError> {
        once(&self.positions, || {
            let bytes = self.section(Section::Positions)?;
            let positions = Positions::decode(&bytes, self.layout.rows, self.layout.events)?;
            self.check_place(&positions)?;
            Ok(positions)
        })
    }

    fn check_place(&self, positions: &Positions) -> Result<(), BlockError> {
        let Some((newest, oldest)) = &self.place else { return Ok(()) };
        if positions.compare_to(0, newest).is_ne() {
            return Err(BlockError::Misplaced { what: "newest position" });
        }
        if positions.compare_to(positions.len() - 1, oldest).is_ne() {
            return Err(BlockError::Misplaced { what: "oldest position" });
        }
        Ok(())
    }

    /// Whether a row has this item key. When none has, no filter that asks for it needs the values.
    pub fn matches_key(&self, key: &EventItemKey) -> Result<bool, BlockError> {
        Ok(self.keys()?.contains(key))
    }

    /// The rows from a position on, in a direction: at it or after it (`Included`), after it (`Excluded`), or all.
    pub fn find(&self, from: Bound<&Position>, direction: Direction) -> Result<Range<usize>, BlockError> {
        let positions = self.positions()?;
        let split = match (from, direction) {
            (Bound::Unbounded, _) => return Ok(0..self.layout.rows),
            (Bound::Included(from), Direction::Forward) | (Bound::Excluded(from), Direction::Backward) => {
                positions.first_at_or_below(from)
            }
            (Bound::Excluded(from), Direction::Forward) | (Bound::Included(from), Direction::Backward) => {
                positions.first_below(from)
            }
        };
        let row = positions.first_row(split);
        Ok(match direction {
            Direction::Forward => row..self.layout.rows,
            Direction::Backward => 0..row,
        })
    }

    /// The rows that a scan of this span would answer if they were stored as rows.
    pub fn span(&self, span: &ScanSpan, direction: Direction) -> Result<Range<usize>, BlockError> {
        match span {
            ScanSpan::Interval { interval, after } => {
                let positions = self.positions()?;
                let (first, last) = (positions.first_before(interval.end), positions.first_before(interval.start));
                let within = positions.first_row(first)..positions.first_row(last);
                Ok(intersect(&within, &self.after(after.as_ref(), direction)?))
            }
            ScanSpan::Event { position, from } => self.items(position, from.as_ref(), direction),
        }
    }

    /// The rows after a place.
    fn after(&self, after: Option<&After>, direction: Direction) -> Result<Range<usize>, BlockError> {
        match after {
            None => Ok(0..self.layout.rows),
            Some(After::Event(position)) => self.find(Bound::Excluded(position), direction),
            Some(After::Row(key)) => {
                let rest = self.items(&key.position, Bound::Excluded(&key.item_key), direction)?;
                let others = self.find(Bound::Excluded(&key.position), direction)?;
                Ok(match direction {
                    _ if rest.is_empty() => others,
                    Direction::Forward => rest.start..others.end,
                    Direction::Backward => others.start..rest.end,
                })
            }
        }
    }

    /// The rows of one event from an item key on, in a direction.
    fn items(
        &self,
        position: &Position,
        from: Bound<&EventItemKey>,
        direction: Direction,
    ) -> Result<Range<usize>, BlockError> {
        let positions = self.positions()?;
        let event = positions.first_at_or_below(position);
        if event == positions.len() || positions.compare_to(event, position).is_ne() {
            return Ok(0..0);
        }
        let rows = positions.rows_of(event);
        if from == Bound::Unbounded {
            return Ok(rows);
        }
        let keys = self.keys()?;
        let wanted = |row: &usize| match (from, direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(from), Direction::Forward) => keys.of_row(*row) >= from,
            (Bound::Excluded(from), Direction::Forward) => keys.of_row(*row) > from,
            (Bound::Included(from), Direction::Backward) => keys.of_row(*row) <= from,
            (Bound::Excluded(from), Direction::Backward) => keys.of_row(*row) < from,
        };
        let count = rows.clone().filter(wanted).count();
        Ok(match direction {
            Direction::Forward => rows.end - count..rows.end,
            Direction::Backward => rows.start..rows.start + count,
        })
    }

    /// Rows by their numbers, in a direction. Numbers past the end are left out. Decodes all sections; of the values
    /// no more than the beginning where that is enough.
    pub fn rows(&self, range: Range<usize>, direction: Direction) -> Result<Rows<'_>, BlockError> {
        let range = intersect(&range, &(0..self.layout.rows));
        let (positions, keys, sizes) = (self.positions()?, self.keys()?, self.sizes()?);
        let metadata = once(&self.metadata, || self.section(Section::Metadata))?.clone();
        let needed = if range.is_empty() { 0 } else { sizes.value(range.end - 1).end };
        let values = self.values(needed)?;
        Ok(Rows { positions, keys, sizes, metadata, values, range, direction, event: None })
    }

    /// The values section, or its first `needed` bytes where that is much less. Only the whole is kept.
    fn values(&self, needed: usize) -> Result<Bytes, BlockError> {
        let stored = self.layout.section(Section::Values);
        let lz4 = self.layout.compression == Compression::Lz4 && !stored.is_raw();
        if lz4 && needed <= stored.raw / 2 && self.values.get().is_none() {
            let bytes = decode_prefix(&self.value[stored.at.clone()], needed);
            return bytes.map(Bytes::from).ok_or(undecodable(Section::Values));
        }
        Ok(once(&self.values, || self.section(Section::Values))?.clone())
    }

    fn keys(&self) -> Result<&Keys, BlockError> {
        once(&self.keys, || Keys::decode(&self.section(Section::Keys)?, self.layout.rows, self.positions()?))
    }

    fn sizes(&self) -> Result<&Sizes, BlockError> {
        once(&self.sizes, || Sizes::decode(&self.section(Section::Sizes)?, &self.layout))
    }

    /// A section's bytes, decoded; without a copy when it is stored as it is.
    fn section(&self, section: Section) -> Result<Bytes, BlockError> {
        let stored = self.layout.section(section);
        let bytes = self.value.slice(stored.at.clone());
        if stored.is_raw() {
            return Ok(bytes);
        }
        self.layout.compression.decode(&bytes, stored.raw).map(Bytes::from).ok_or(undecodable(section))
    }
}

fn undecodable(section: Section) -> BlockError {
    BlockError::Malformed { section, reason: "they can't be decompressed" }
}

fn intersect(left: &Range<usize>, right: &Range<usize>) -> Range<usize> {
    let start = left.start.max(right.start);
    start..left.end.min(right.end).max(start)
}

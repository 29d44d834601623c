//! Rows of a piece in table order in, what is stored of it out: blocks, and plain rows of events too large for one.

use anabranch_model::{Position, Row};

use super::{BlockBuilder, Codec, PackError};

/// An event larger than this many targets stays as plain rows.
pub const PLAIN_FACTOR: usize = 4;

/// Packs the rows of a segment. Each block names the event right above it, so that a reader notices a block that is
/// missing. Holds no more than one block and [`PLAIN_FACTOR`] targets of the event that follows.
///
/// The same rows with the same target are cut into the same blocks, whatever the calls bring at a time, so that work
/// that is done again from [`Packer::packed_until`] on replaces what it wrote before.
pub struct Packer {
    builder: BlockBuilder,
    /// The event that is coming in.
    event: Vec<Row>,
    event_bytes: usize,
    /// The event whose rows go through as they are.
    plain: Option<Position>,
    packed_until: Option<Position>,
}

impl Packer {
    /// A packer of blocks that are full at `target_bytes`, as [`Row::bytes`] counts, before compression.
    pub fn new(target_bytes: usize, codec: Codec) -> Self {
        let builder = BlockBuilder::new(target_bytes, codec);
        Packer { builder, event: Vec::new(), event_bytes: 0, plain: None, packed_until: None }
    }

    /// Goes on with a segment that is packed down to `packed_until`.
    #[must_use]
    pub fn resume(mut self, packed_until: Option<Position>) -> Self {
        self.packed_until = packed_until;
        self
    }

    /// Takes the next row and appends what became ready to `out`.
    pub fn push(&mut self, row: Row, out: &mut Vec<Row>) -> Result<(), PackError> {
        if row.item.key.is_block() {
            return Err(PackError::AlreadyPacked { position: row.position });
        }
        if self.plain.as_ref() == Some(&row.position) {
            out.push(row);
            return Ok(());
        }
        if self.event.last().is_none_or(|last| last.position != row.position) {
            self.end_event(out)?;
            if self.last().is_some_and(|last| *last <= row.position) {
                return Err(PackError::OutOfOrder { position: row.position });
            }
        }
        self.event_bytes += row.bytes();
        self.event.push(row);
        if self.event_bytes > PLAIN_FACTOR * self.builder.target_bytes() {
            self.end_block(out);
            self.plain = self.event.first().map(|row| row.position.clone());
            out.append(&mut self.event);
            self.event_bytes = 0;
        }
        Ok(())
    }

    /// Appends what is left to `out`. The next row begins anew, at any position below.
    pub fn finish(&mut self, out: &mut Vec<Row>) -> Result<(), PackError> {
        self.end_event(out)?;
        self.end_block(out);
        Ok(())
    }

    /// Everything down to this position, and nothing below, has been handed out: where to go on after a crash.
    pub fn packed_until(&self) -> Option<&Position> {
        self.packed_until.as_ref()
    }

    /// The last event that is complete.
    fn last(&self) -> Option<&Position> {
        self.builder.oldest().or(self.packed_until.as_ref())
    }

    fn end_event(&mut self, out: &mut Vec<Row>) -> Result<(), PackError> {
        if let Some(position) = self.plain.take() {
            self.packed_until = Some(position);
        }
        if self.event.is_empty() {
            return Ok(());
        }
        let target = self.builder.target_bytes();
        if !self.builder.is_empty() && self.builder.bytes() + self.event_bytes > 2 * target {
            self.end_block(out);
        }
        self.builder.push(&self.event)?;
        self.event.clear();
        self.event_bytes = 0;
        if self.builder.is_full() {
            self.end_block(out);
        }
        Ok(())
    }

    fn end_block(&mut self, out: &mut Vec<Row>) {
        if let Some(block) = self.builder.finish(self.packed_until.clone()) {
            self.packed_until = Some(block.position.clone());
            out.push(block);
        }
    }
}

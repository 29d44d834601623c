//! Reads the pieces of a segment that was spread by hash: rows of all of them, merged into one order. A row that lies where its hash
//! doesn't lead is noticed before it comes out.

use std::{cmp::Ordering, collections::VecDeque, sync::Arc};

use anabranch_model::{Interval, Order, Row};
use anabranch_store::{After, PartitionReader, ReadLimits, Store, StoreError};
use futures_util::future::try_join_all;

use crate::{
    record::{Segment, Strategy, WidePartition},
    spread::piece_of,
};

/// Reads the rows of a spread segment in an interval.
pub(crate) struct MergedReader {
    pieces: Vec<PieceState>,
    strategy: Strategy,
    order: Order,
    rows: VecDeque<Row>,
}

struct PieceState {
    reader: PartitionReader,
    ordinal: u32,
    /// Rows that were read, when all of them are: those that the record says.
    whole: Option<u64>,
    read: u64,
}

impl MergedReader {
    /// An interval that reaches beyond the segment's span brings out what doesn't belong there, too.
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        partition: &WidePartition,
        segment: &Segment,
        interval: Interval,
        order: Order,
        after: Option<&After>,
    ) -> Self {
        let table = segment.generation.table(&partition.namespace, &partition.time_slice);
        let from_the_beginning = after.is_none();
        let covers = interval.intersect(&segment.span) == segment.span;
        let pieces = segment.pieces.iter().map(|piece| PieceState {
            reader: PartitionReader::new(
                store.clone(),
                table.clone(),
                partition.piece(piece.ordinal),
                interval,
                order,
                after.cloned(),
            ),
            ordinal: piece.ordinal,
            whole: (from_the_beginning && covers).then_some(piece.content.rows),
            read: 0,
        });
        MergedReader { pieces: pieces.collect(), strategy: segment.strategy, order, rows: VecDeque::new() }
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.pieces.iter().all(|piece| piece.reader.is_exhausted() && piece.reader.fetched() == 0)
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.reader.bytes_read()).sum()
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<Row> {
        std::mem::take(&mut self.rows)
    }

    /// A row comes out only when every piece has shown its next one or its end.
    pub(crate) async fn fetch(&mut self, limits: ReadLimits) -> Result<(), StoreError> {
        let share = ReadLimits {
            rows: (limits.rows / self.pieces.len().max(1)).saturating_add(16),
            bytes: (limits.bytes / self.pieces.len().max(1)).saturating_add(16 << 10),
            ..limits
        };
        let silent = self.pieces.iter_mut().filter(|piece| piece.reader.fetched() == 0);
        try_join_all(silent.map(|piece| piece.fetch(share))).await?;
        loop {
            let shown = self.pieces.iter().all(|piece| piece.reader.fetched() > 0 || piece.reader.is_exhausted());
            let first = self.pieces.iter().enumerate().filter_map(|(at, piece)| Some((at, piece.reader.peek()?)));
            let first = first.min_by(|(_, left), (_, right)| self.compare(left, right)).map(|(at, _)| at);
            let Some(at) = first.filter(|_| shown) else { return Ok(()) };
            let Some(row) = self.pieces[at].reader.take() else { return Ok(()) };
            self.check_home(&row, self.pieces[at].ordinal)?;
            self.rows.push_back(row);
        }
    }

    fn check_home(&self, row: &Row, ordinal: u32) -> Result<(), StoreError> {
        let home = match self.strategy {
            Strategy::EventBucket { pieces, first_ordinal, event_buckets } => {
                first_ordinal + piece_of(&row.position, event_buckets, pieces)
            }
            Strategy::TimeRange => ordinal,
        };
        if home == ordinal && !row.item.key.is_block() {
            return Ok(());
        }
        let reason = format!("piece {ordinal} holds a row at {:?} that doesn't belong there", row.position);
        Err(StoreError::Corrupt { reason })
    }

    fn compare(&self, left: &Row, right: &Row) -> Ordering {
        // Rows of one event are in one piece, so items needn't be compared.
        self.order.compare(&left.position, &right.position)
    }
}

impl PieceState {
    async fn fetch(&mut self, limits: ReadLimits) -> Result<(), StoreError> {
        let before = self.reader.fetched();
        self.reader.fetch(limits).await?;
        self.read += (self.reader.fetched() - before) as u64;
        match self.whole {
            Some(rows) if self.reader.is_exhausted() && self.read != rows => {
                let reason = format!("piece {} holds {} rows instead of {rows}", self.ordinal, self.read);
                Err(StoreError::Corrupt { reason })
            }
            _ => Ok(()),
        }
    }
}

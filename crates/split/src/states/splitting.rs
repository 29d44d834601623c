//! SPLITTING: reads the span once more and writes each row into its piece, packed, from checkpoint to checkpoint.

use std::collections::{BTreeMap, VecDeque};

use anabranch_model::{Position, Row};
use anabranch_store::{
    After, PartitionBatch, StoreError,
    block::{PackError, Packer},
};

use crate::{
    SplitError,
    form::Form,
    record::{Checking, Copying, Piece, State, Stored, Strategy, WidePartition},
    records::Loaded,
    spread::piece_of,
    work::{Breath, Tenure, Work},
};

pub(crate) async fn next(work: &Work, loaded: &Loaded, copying: &Copying) -> Result<Loaded, SplitError> {
    let after = copying.copied.clone().map(After::Event);
    let mut source = work.source(&loaded.row, copying.plan.target.span, after);
    let mut copier = Copier::new(work, loaded, copying);
    let mut tenure = Tenure::of(work, loaded);
    let mut since_checkpoint = 0;
    let mut breath = Breath::default();
    loop {
        while let Some(row) = source.take() {
            let due = since_checkpoint >= work.options.checkpoint_bytes || tenure.is_checkpoint_due();
            // Whether an event is over only the next row tells, and that may come with another fetch: it is read again (S5).
            if due && copier.is_over_before(&row) && copier.has_moved() {
                return copier.checkpoint(&tenure.loaded).await;
            }
            let bytes = row.bytes();
            since_checkpoint += bytes as u64;
            copier.take(row).await?;
            breath.after(bytes).await;
        }
        if source.is_exhausted() {
            return copier.conclude(&tenure.loaded).await;
        }
        work.fetch(&mut source).await?;
        tenure.keep().await?;
    }
}

/// Rows on their way into the piece that they belong to.
struct Copier<'a> {
    work: &'a Work,
    partition: &'a WidePartition,
    copying: &'a Copying,
    /// The piece that is being filled.
    piece: usize,
    packing: Packing,
    /// Ready to be written, by piece.
    ready: BTreeMap<usize, Vec<Row>>,
    ready_bytes: usize,
    /// The last row that came in.
    last: Option<Position>,
    /// Bytes of what is packed.
    bytes: u64,
    /// Bytes of events that came in and aren't packed yet: after a checkpoint they come in once more.
    unpacked: VecDeque<(Position, u64)>,
}

enum Packing {
    Rows,
    Blocks(Box<Packer>),
}

impl<'a> Copier<'a> {
    fn new(work: &'a Work, loaded: &'a Loaded, copying: &'a Copying) -> Self {
        let packing = match copying.plan.target.form {
            Form::Rows => Packing::Rows,
            Form::Blocks { codec, block_bytes } => {
                let packer = Packer::new(block_bytes as usize, codec.into()).resume(copying.copied.clone());
                Packing::Blocks(Box::new(packer))
            }
        };
        let (bytes, unpacked) = (copying.bytes, VecDeque::new());
        let (partition, ready) = (&loaded.row.partition, BTreeMap::new());
        Copier { work, partition, copying, piece: 0, packing, ready, ready_bytes: 0, last: None, bytes, unpacked }
    }

    async fn take(&mut self, row: Row) -> Result<(), SplitError> {
        let pieces = &self.copying.plan.pieces;
        match self.copying.plan.target.strategy {
            Strategy::TimeRange => {
                while pieces.get(self.piece).is_some_and(|piece| row.position < piece.oldest) {
                    self.end_piece()?;
                    self.piece += 1;
                }
            }
            Strategy::EventBucket { pieces: count, first_ordinal, event_buckets } => {
                let ordinal = first_ordinal + piece_of(&row.position, event_buckets, count);
                let found = pieces.binary_search_by_key(&ordinal, |piece| piece.ordinal);
                self.piece = found.unwrap_or(pieces.len());
            }
        }
        let planned = |piece: &Piece| piece.oldest <= row.position && row.position <= piece.newest;
        if !pieces.get(self.piece).is_some_and(planned) {
            let reason = format!("{:?} came into the original after it was planned", row.position);
            return Err(SplitError::Mismatch { reason });
        }
        if self.last.as_ref() != Some(&row.position) {
            self.last = Some(row.position.clone());
        }
        let bytes = row.bytes() as u64;
        match self.unpacked.back_mut() {
            Some((event, unpacked)) if *event == row.position => *unpacked += bytes,
            _ => self.unpacked.push_back((row.position.clone(), bytes)),
        }
        self.hand_out(|packing, ready| match packing {
            Packing::Rows => {
                ready.push(row);
                Ok(())
            }
            Packing::Blocks(packer) => packer.push(row, ready),
        })?;
        self.note_packed();
        if self.ready_bytes >= self.work.options.batch_bytes { self.write().await } else { Ok(()) }
    }

    /// Counts what is packed by now.
    fn note_packed(&mut self) {
        let packed_until = match &self.packing {
            Packing::Rows => self.last.as_ref(), // a checkpoint comes only between events
            Packing::Blocks(packer) => packer.packed_until(),
        };
        while let Some((event, bytes)) = self.unpacked.front()
            && packed_until.is_some_and(|until| event >= until)
        {
            self.bytes += bytes;
            self.unpacked.pop_front();
        }
    }

    fn end_piece(&mut self) -> Result<(), SplitError> {
        self.hand_out(|packing, ready| match packing {
            Packing::Rows => Ok(()),
            Packing::Blocks(packer) => packer.finish(ready),
        })
    }

    /// Lets more become ready for the present piece.
    fn hand_out(
        &mut self,
        more: impl FnOnce(&mut Packing, &mut Vec<Row>) -> Result<(), PackError>,
    ) -> Result<(), SplitError> {
        let ready = self.ready.entry(self.piece).or_default();
        let before = ready.len();
        more(&mut self.packing, ready).map_err(|error| mismatch(&error))?;
        self.ready_bytes += ready[before..].iter().map(Row::bytes).sum::<usize>();
        Ok(())
    }

    /// Writes what is ready. The same again changes nothing, so an unknown outcome is simply tried again later.
    async fn write(&mut self) -> Result<(), SplitError> {
        let (partition, target) = (self.partition, &self.copying.plan.target);
        let ready = std::mem::take(&mut self.ready).into_iter().filter(|(_, rows)| !rows.is_empty());
        let batches: Vec<PartitionBatch> = ready
            .map(|(piece, rows)| PartitionBatch {
                table: target.generation.table(&partition.namespace, &partition.time_slice),
                partition: partition.piece(self.copying.plan.pieces[piece].ordinal),
                rows,
                write_time_micros: target.begun.nanos() / 1000,
            })
            .collect();
        if batches.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.ready_bytes);
        let timeout = self.work.options.call_timeout;
        let written = self.work.env.timeout(timeout, self.work.everywhere.write(batches, timeout)).await;
        match written {
            Ok(results) => results.into_iter().collect::<Result<(), StoreError>>()?,
            Err(_) => return Err(StoreError::Unknown { reason: "a write timed out".to_owned() }.into()),
        }
        self.work.pace(bytes as u64).await;
        Ok(())
    }

    /// A checkpoint while the first block still grows would say nothing new, and the same work would begin again for ever.
    fn has_moved(&self) -> bool {
        match &self.packing {
            Packing::Blocks(packer) => packer.packed_until() != self.copying.copied.as_ref(),
            _ => true,
        }
    }

    /// Whether the event that came in last is complete when this row comes next.
    fn is_over_before(&self, next: &Row) -> bool {
        self.last.as_ref().is_some_and(|last| *last != next.position)
    }

    /// Everything that has been handed out is written first: a checkpoint never promises more than is stored.
    async fn checkpoint(mut self, loaded: &Loaded) -> Result<Loaded, SplitError> {
        self.write().await?;
        let copied = match &self.packing {
            Packing::Rows => self.last,
            Packing::Blocks(packer) => packer.packed_until().cloned(),
        };
        let copied = copied.or_else(|| self.copying.copied.clone());
        let copying = Copying { plan: self.copying.plan.clone(), copied, bytes: self.bytes };
        self.work.step(loaded, State::Splitting(copying)).await
    }

    async fn conclude(mut self, loaded: &Loaded) -> Result<Loaded, SplitError> {
        self.end_piece()?;
        self.write().await?;
        let plan = self.copying.plan.clone();
        self.work.step(loaded, State::Verifying(Checking { plan, proven: 0, stored: Stored::default() })).await
    }
}

fn mismatch(error: &dyn ToString) -> SplitError {
    SplitError::Mismatch { reason: error.to_string() }
}

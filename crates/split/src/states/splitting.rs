//! SPLITTING: reads the span once more and writes each row into its piece, packed, from checkpoint to checkpoint.

use anabranch_model::{Position, Row};
use anabranch_store::{After, PartitionBatch, PartitionReader, StoreError, block::Packer};

use crate::{
    SplitError,
    form::Form,
    record::{Checking, Copying, State, Stored},
    records::Loaded,
    work::Work,
};

pub(crate) async fn next(work: &Work, loaded: &Loaded, copying: &Copying) -> Result<Loaded, SplitError> {
    let after = copying.copied.clone().map(After::Event);
    let mut source = work.source(&loaded.row, copying.plan.target.span, after);
    let mut copier = Copier::new(work, loaded, copying);
    let mut since_checkpoint = 0;
    loop {
        while let Some(row) = source.take() {
            since_checkpoint += row.bytes() as u64;
            copier.take(row).await?;
            if since_checkpoint >= work.options.checkpoint_bytes && copier.is_between_events(&source) {
                return copier.checkpoint().await;
            }
        }
        if source.is_exhausted() {
            return copier.conclude().await;
        }
        work.fetch(&mut source).await?;
    }
}

/// Rows on their way into the piece that they belong to.
struct Copier<'a> {
    work: &'a Work,
    loaded: &'a Loaded,
    copying: &'a Copying,
    /// The piece that is being filled.
    piece: usize,
    packing: Packing,
    /// Ready to be written into that piece.
    ready: Vec<Row>,
    ready_bytes: usize,
    /// The last row that came in.
    last: Option<Position>,
    bytes: u64,
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
        let bytes = copying.bytes;
        Copier { work, loaded, copying, piece: 0, packing, ready: Vec::new(), ready_bytes: 0, last: None, bytes }
    }

    async fn take(&mut self, row: Row) -> Result<(), SplitError> {
        let pieces = &self.copying.plan.pieces;
        while pieces.get(self.piece).is_some_and(|piece| row.position < piece.oldest) {
            self.end_piece().await?;
            self.piece += 1;
        }
        if pieces.get(self.piece).is_none_or(|piece| row.position > piece.newest) {
            let reason = format!("{:?} came into the original after it was planned", row.position);
            return Err(SplitError::Mismatch { reason });
        }
        if self.last.as_ref() != Some(&row.position) {
            self.last = Some(row.position.clone());
        }
        self.bytes += row.bytes() as u64;
        let before = self.ready.len();
        match &mut self.packing {
            Packing::Rows => self.ready.push(row),
            Packing::Blocks(packer) => packer.push(row, &mut self.ready).map_err(|error| mismatch(&error))?,
        }
        self.ready_bytes += self.ready[before..].iter().map(Row::bytes).sum::<usize>();
        if self.ready_bytes >= self.work.options.batch_bytes { self.write().await } else { Ok(()) }
    }

    async fn end_piece(&mut self) -> Result<(), SplitError> {
        if let Packing::Blocks(packer) = &mut self.packing {
            packer.finish(&mut self.ready).map_err(|error| mismatch(&error))?;
        }
        self.write().await
    }

    /// Writes what is ready. The same again changes nothing, so an unknown outcome is simply tried again later.
    async fn write(&mut self) -> Result<(), SplitError> {
        if self.ready.is_empty() {
            return Ok(());
        }
        let (partition, target) = (&self.loaded.row.partition, &self.copying.plan.target);
        let batch = PartitionBatch {
            table: target.generation.table(&partition.namespace, &partition.time_slice),
            partition: partition.piece(self.copying.plan.pieces[self.piece].ordinal),
            rows: std::mem::take(&mut self.ready),
            write_time_micros: target.begun.nanos() / 1000,
        };
        let bytes = std::mem::take(&mut self.ready_bytes);
        let timeout = self.work.options.call_timeout;
        let written = self.work.env.timeout(timeout, self.work.store.write(vec![batch], timeout)).await;
        match written {
            Ok(results) => results.into_iter().collect::<Result<(), StoreError>>()?,
            Err(_) => return Err(StoreError::Unknown { reason: "a write timed out".to_owned() }.into()),
        }
        self.work.pace(bytes as u64).await;
        Ok(())
    }

    fn is_between_events(&self, source: &PartitionReader) -> bool {
        source.peek().is_some_and(|next| Some(&next.position) != self.last.as_ref())
    }

    /// Everything that has been handed out is written first: a checkpoint never promises more than is stored.
    async fn checkpoint(mut self) -> Result<Loaded, SplitError> {
        self.write().await?;
        let copied = match &self.packing {
            Packing::Rows => self.last,
            Packing::Blocks(packer) => packer.packed_until().cloned(),
        };
        let copied = copied.or_else(|| self.copying.copied.clone());
        let copying = Copying { plan: self.copying.plan.clone(), copied, bytes: self.bytes };
        self.work.step(self.loaded, State::Splitting(copying)).await
    }

    async fn conclude(mut self) -> Result<Loaded, SplitError> {
        self.end_piece().await?;
        let plan = self.copying.plan.clone();
        self.work.step(self.loaded, State::Verifying(Checking { plan, proven: 0, stored: Stored::default() })).await
    }
}

fn mismatch(error: &dyn ToString) -> SplitError {
    SplitError::Mismatch { reason: error.to_string() }
}

//! Planted bugs on the way of rows into pieces and back.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anabranch_model::{EventBucket, Interval, PartitionKey, Position, Row, TableName};
use anabranch_store::{After, PartitionBatch, Scan, ScanPage, ScanSpan};

use crate::{dice::Dice, plant::Plant};

type Written = BTreeMap<(TableName, PartitionKey), BTreeMap<(std::cmp::Reverse<Position>, String), Row>>;

/// What planted bugs remember of pieces; nothing when none is planted.
#[derive(Clone, Default)]
pub(crate) struct PieceBugs {
    /// Everything that was ever sent to pieces, by all servers.
    written: Arc<Mutex<Written>>,
    /// Batches of one server that wait for the next checkpoint.
    held: Arc<Mutex<Vec<PartitionBatch>>>,
}

impl PieceBugs {
    /// The same for another server: what was sent is known to all, what waits is not.
    pub(crate) fn of_server(&self) -> Self {
        PieceBugs { written: self.written.clone(), held: Arc::default() }
    }

    /// Alters batches on their way; may add some.
    pub(crate) fn alter(&self, plant: Plant, batches: Vec<PartitionBatch>, dice: &Dice) -> Vec<PartitionBatch> {
        let mut extra = Vec::new();
        let mut altered = Vec::with_capacity(batches.len());
        for mut batch in batches {
            if batch.table.pieces_of().is_some() {
                match plant {
                    Plant::VerifiesWrites => self.remember_and_lose(&mut batch, dice),
                    Plant::MovesRow if dice.percent(20) => extra.extend(move_row(&mut batch)),
                    Plant::ChecksBeforeRows => {
                        let rows = std::mem::take(&mut batch.rows);
                        let held = PartitionBatch { rows, ..batch.clone() };
                        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(held);
                    }
                    _ => {}
                }
            }
            altered.push(batch);
        }
        altered.extend(extra);
        altered
    }

    fn remember_and_lose(&self, batch: &mut PartitionBatch, dice: &Dice) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = written.entry((batch.table.clone(), batch.partition.clone())).or_default();
        for row in &batch.rows {
            let key = (std::cmp::Reverse(row.position.clone()), row.item.key.as_str().to_owned());
            piece.insert(key, row.clone());
        }
        if dice.percent(20) {
            batch.rows.pop();
        }
    }

    /// What waits for a checkpoint.
    pub(crate) fn take_held(&self) -> Vec<PartitionBatch> {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a verifier sees that looks at what was sent instead of what is stored. Only it reads pieces whole.
    pub(crate) fn recall(&self, plant: Option<Plant>, scan: &Scan) -> Option<ScanPage> {
        let whole = matches!(&scan.span, ScanSpan::Interval { interval, .. } if *interval == Interval::ALL);
        if plant != Some(Plant::VerifiesWrites) || !whole || scan.table.pieces_of().is_none() {
            return None;
        }
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = written.get(&(scan.table.clone(), scan.partition.clone()));
        let behind = |row: &&Row| match &scan.span {
            ScanSpan::Interval { after: Some(After::Row(last)), .. } => {
                (std::cmp::Reverse(&row.position), &row.item.key) > (std::cmp::Reverse(&last.position), &last.item_key)
            }
            _ => true,
        };
        let rows = rows.into_iter().flat_map(BTreeMap::values).filter(behind).cloned();
        Some(ScanPage { rows: rows.collect(), more: false })
    }
}

/// The last row of a batch goes into the next piece.
fn move_row(batch: &mut PartitionBatch) -> Option<PartitionBatch> {
    let row = batch.rows.pop()?;
    let partition =
        PartitionKey { event_bucket: EventBucket(batch.partition.event_bucket.0 + 1), ..batch.partition.clone() };
    Some(PartitionBatch { partition, rows: vec![row], ..batch.clone() })
}

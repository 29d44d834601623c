//! What some replicas of the shared store have and others don't: rows of writes that were never acknowledged, and conditional
//! writes that nobody has finished. Such rows are seen by some scans and not by others until they are repaired; whether such a
//! conditional write was made is decided when somebody looks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_store::{After, CasOutcome, MemoryStore, MetaKey, PartitionBatch, Scan, ScanSpan, StoreError};

use crate::{dice::Dice, faults::AsyncChange, metadata::CompareAndSet, reached::Tally};

/// What replicas don't agree on; all servers share it.
#[derive(Default)]
pub(crate) struct Replicas {
    torn: Mutex<Torn>,
    undecided: Mutex<BTreeMap<MetaKey, CompareAndSet>>,
}

#[derive(Default)]
struct Torn {
    last: u64,
    batches: BTreeMap<u64, PartitionBatch>,
}

impl Replicas {
    fn torn(&self) -> MutexGuard<'_, Torn> {
        self.torn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn undecided(&self) -> MutexGuard<'_, BTreeMap<MetaKey, CompareAndSet>> {
        self.undecided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only some replicas get this batch. Answers its number.
    pub(crate) fn tear(&self, batch: PartitionBatch) -> u64 {
        let mut torn = self.torn();
        torn.last += 1;
        let number = torn.last;
        torn.batches.insert(number, batch);
        number
    }

    /// A torn batch that is about to be repaired, unless it was.
    pub(crate) fn take(&self, number: u64) -> Option<PartitionBatch> {
        self.torn().batches.remove(&number)
    }

    /// Torn batches of the partition that a scan reads.
    pub(crate) fn of(&self, scan: &Scan) -> Vec<u64> {
        let torn = self.torn();
        let same = |batch: &PartitionBatch| batch.table == scan.table && batch.partition == scan.partition;
        torn.batches.iter().filter(|(_, batch)| same(batch)).map(|(number, _)| *number).collect()
    }

    /// Those of them that a scan happens to see. A read that is within an event stays with the replica that it began with.
    pub(crate) fn seen_by(&self, scan: &Scan, dice: &Dice, tally: &Tally) -> Vec<PartitionBatch> {
        let numbers = self.of(scan);
        if numbers.is_empty() {
            return Vec::new();
        }
        let inside = match &scan.span {
            ScanSpan::Interval { after: Some(After::Row(row)), .. } => Some(&row.position),
            ScanSpan::Event { position, .. } => Some(position),
            ScanSpan::Interval { .. } => None,
        };
        let torn = self.torn();
        let mut seen = Vec::new();
        for batch in numbers.iter().filter_map(|number| torn.batches.get(number)) {
            let begun = inside.is_some_and(|at| batch.rows.iter().any(|row| row.position == *at));
            if begun || dice.percent(50) {
                tally.count(|reached| reached.torn_seen += 1);
                seen.push(batch.clone());
            } else {
                tally.count(|reached| reached.torn_missed += 1);
            }
        }
        seen
    }

    /// A conditional write that nobody has finished.
    pub(crate) fn leave_undecided(&self, set: CompareAndSet) {
        self.undecided().insert(set.key.clone(), set);
    }

    /// Somebody looks at a document: whether an unfinished write of it was made is decided now, one way or the other.
    pub(crate) async fn decide(&self, store: &Arc<MemoryStore>, key: &MetaKey, dice: &Dice, tally: &Tally) {
        let set = self.undecided().remove(key);
        if let Some(set) = set.filter(|_| dice.percent(50)) {
            let made = set.run(store.clone()).await;
            if matches!(made, Ok(CasOutcome::Applied(_))) {
                tally.count(|reached| reached.decided_sets += 1);
            }
        }
    }

    /// Somebody lists documents: of unfinished writes some are seen, and made thereby; others are not, and stay as they are.
    pub(crate) async fn list(
        &self,
        store: &Arc<MemoryStore>,
        scope: &str,
        dice: &Dice,
        tally: &Tally,
    ) -> Result<(), StoreError> {
        let keys: Vec<MetaKey> = self.undecided().keys().filter(|key| key.scope == scope).cloned().collect();
        for key in keys {
            let seen = dice.percent(50).then(|| self.undecided().remove(&key)).flatten();
            if let Some(set) = seen
                && let CasOutcome::Applied(_) = set.run(store.clone()).await?
            {
                tally.count(|reached| reached.decided_sets += 1);
            }
        }
        Ok(())
    }
}

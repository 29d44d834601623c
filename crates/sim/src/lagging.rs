//! Acknowledged rows that one replica hasn't got yet. Whoever asks as many replicas as it should never notices, so they are taken
//! down only where a bug is planted that asks a single one.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_model::{PartitionKey, Row, RowKey, TableName};
use anabranch_runtime::Env;
use anabranch_store::{After, MemoryStore, PartitionBatch, Scan, ScanPage, ScanSpan, Store, StoreError};

use crate::{dice::Dice, plant::Plant};

/// How many replicas hold each row.
const REPLICAS: u64 = 3;
/// Of acknowledged batches, those that one replica gets late.
const PERCENT: u64 = 10;
/// How late at most: it was down, and what it missed comes when it is repaired.
const LATEST: Duration = Duration::from_secs(60);

/// What a replica lacks, of one batch.
struct Lag {
    replica: u64,
    until: Duration,
    table: TableName,
    partition: PartitionKey,
    keys: Vec<RowKey>,
}

/// What replicas lack; all servers share it.
#[derive(Clone, Default)]
pub(crate) struct Lagging(Arc<Mutex<Vec<Lag>>>);

impl Lagging {
    fn lags(&self) -> MutexGuard<'_, Vec<Lag>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch goes into the store; perhaps one replica gets it later.
    pub(crate) fn note(&self, plant: Option<Plant>, batch: &PartitionBatch, world: &Env, dice: &Dice) {
        if plant != Some(Plant::PlansFromOneReplica) || batch.table.pieces_of().is_some() || !dice.percent(PERCENT) {
            return;
        }
        let now = world.monotonic();
        let mut lags = self.lags();
        lags.retain(|lag| lag.until > now);
        lags.push(Lag {
            replica: dice.below(REPLICAS),
            until: now + dice.millis(0, LATEST.as_millis() as u64),
            table: batch.table.clone(),
            partition: batch.partition.clone(),
            keys: batch.rows.iter().map(Row::key).collect(),
        });
    }

    /// What one replica, whichever comes first, answers to a scan.
    pub(crate) async fn scan_one(
        &self,
        store: &MemoryStore,
        scan: &Scan,
        world: &Env,
        dice: &Dice,
    ) -> Result<ScanPage, StoreError> {
        let (replica, now) = (dice.below(REPLICAS), world.monotonic());
        let mut scan = scan.clone();
        loop {
            let mut page = store.scan(&scan).await?;
            let last = page.rows.last().map(Row::key);
            {
                let lags = self.lags();
                let here = |lag: &&Lag| {
                    (lag.replica, &lag.table, &lag.partition) == (replica, &scan.table, &scan.partition)
                        && lag.until > now
                };
                let missing: Vec<&RowKey> = lags.iter().filter(here).flat_map(|lag| &lag.keys).collect();
                page.rows.retain(|row| !missing.contains(&&row.key()));
            }
            match (&mut scan.span, last) {
                // A page without rows doesn't say where to go on.
                (ScanSpan::Interval { after, .. }, Some(last)) if page.more && page.rows.is_empty() => {
                    *after = Some(After::Row(last));
                }
                _ => return Ok(page),
            }
        }
    }
}

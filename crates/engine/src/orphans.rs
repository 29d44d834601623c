//! Drops tables without a live slice: what a worker made after its slice was dropped, or a server that died between making a table
//! and recording its slice. A table is made before its slice is recorded, so one counts as left over only when nothing has claimed it
//! for long.

use std::{collections::BTreeMap, time::Duration};

use anabranch_model::{NamespaceName, Slice, TableName};

use crate::{EngineError, NamespaceRecord, engine::Engine, tasks::INTERVAL};

/// How soon to look again whether somebody has claimed a table that was dropped.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Tables that no slice claims, and since when, by the monotonic clock.
type Unclaimed = BTreeMap<TableName, Duration>;

impl Engine {
    /// Sweeps until the engine stops.
    pub(crate) async fn run_orphans(&self) {
        let mut unclaimed = Unclaimed::new();
        let mut waits_for = INTERVAL.to_owned();
        while !self.is_stopping() {
            self.pause("orphans", &waits_for, self.options.orphans_after / 4).await;
            match self.sweep_orphans(&mut unclaimed).await {
                Ok(Some(dropped)) => {
                    let did =
                        format!("dropped {dropped} tables that no slice claims; {} more are watched", unclaimed.len());
                    self.tasks.ended("orphans", &did, self.env.now());
                    INTERVAL.clone_into(&mut waits_for);
                }
                Ok(None) => {
                    self.tasks.ended("orphans", "left it to another server", self.env.now());
                    waits_for = self.orphans.waits_for();
                }
                Err(error) => self.task_failed("orphans", &error),
            }
        }
    }

    /// One look at all tables; answers how many were dropped. `None` where another server does it.
    async fn sweep_orphans(&self, unclaimed: &mut Unclaimed) -> Result<Option<usize>, EngineError> {
        self.check_ready()?;
        if !self.orphans.take().await? {
            unclaimed.clear();
            return Ok(None);
        }
        let now = self.env.monotonic();
        let tables = self.store.tables().await?;
        self.registry.refresh().await?;
        let left_over: Vec<TableName> = tables.into_iter().filter(|table| !self.is_claimed(table)).collect();
        unclaimed.retain(|table, _| left_over.contains(table));
        let mut dropped = 0;
        for table in left_over {
            let since = *unclaimed.entry(table.clone()).or_insert(now);
            if now.saturating_sub(since) >= self.options.orphans_after {
                self.drop_orphan(&table).await?;
                unclaimed.remove(&table);
                dropped += 1;
            }
        }
        Ok(Some(dropped))
    }

    async fn drop_orphan(&self, table: &TableName) -> Result<(), EngineError> {
        tracing::info!(%table, "drops a table without a slice");
        let dropped = self.lifecycle.drop_table(table).await;
        // Somebody who claimed it at this very moment gets it back before anything can be written to it: also when nobody knows
        // whether it was dropped, and as soon as the store answers again.
        while let Err(error) = self.make_claimed(table).await {
            if self.is_stopping() {
                return Err(error);
            }
            tracing::warn!(%table, %error, "whether a table that was dropped is needed will be looked at again");
            self.env.sleep(LOOK_AGAIN).await;
        }
        dropped?;
        self.metrics.slice_changes.with_label_values(&["swept"]).inc();
        Ok(())
    }

    /// Makes a table, if it isn't there, that a slice has claimed.
    async fn make_claimed(&self, table: &TableName) -> Result<(), EngineError> {
        self.registry.refresh().await?;
        if self.is_claimed(table) {
            self.lifecycle.make_table(table).await?;
        }
        Ok(())
    }

    /// Whether a slice has this table, or a namespace that is going away will take it along.
    fn is_claimed(&self, table: &TableName) -> bool {
        let namespace = self.registry.snapshot().get(&table.namespace).cloned();
        namespace.is_some_and(|namespace| claims(&namespace.name, &namespace.record, table))
    }
}

fn claims(name: &NamespaceName, record: &NamespaceRecord, table: &TableName) -> bool {
    let of_slice = |slice: &Slice| {
        let original = slice.table(name).table;
        table.table == original || table.pieces_of() == Some(&original)
    };
    record.deleting || record.slices.iter().any(of_slice)
}

#[cfg(test)]
mod tests {
    use anabranch_model::{Interval, NamespaceConfig, PartitionSettings, SliceState, Timestamp};

    use super::*;

    #[test]
    fn a_slice_claims_its_table_and_its_pieces_and_no_others() {
        let name = NamespaceName::new("plays").unwrap();
        let mut record = NamespaceRecord::new(1, Timestamp::from_seconds(0), NamespaceConfig::default());
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let interval = Interval::new(time("2026-03-28T00:00:00Z"), time("2026-03-29T00:00:00Z"));
        let settings = PartitionSettings { seconds_per_bucket: 60, event_buckets: 1 };
        record.slices.insert(Slice { interval, settings, state: SliceState::Open }).unwrap();
        let claimed =
            |text: &str| claims(&name, &record, &TableName { namespace: name.clone(), table: text.to_owned() });
        assert!(claimed("data_20260328") && claimed("wide_data_20260328_0") && claimed("wide_data_20260328_12"));
        for other in ["data_20260329", "wide_data_20260329_0", "data_20260328t0400", "wide_data_20260328t0400_0"] {
            assert!(!claimed(other), "{other}");
        }
    }
}

//! Beside reads of split partitions both sides are read once more, off the request's path: their costs are kept, and their bytes
//! compared.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_model::{Interval, NamespaceName, Order, Position, ReadMode, Timestamp};
use anabranch_split::{Comparison, Doubt, Served, WidePartition};
use tokio::sync::Notify;

use crate::{
    EngineError,
    engine::Engine,
    splits::{
        payment::TOO_SLOW,
        verdict::{FoundBy, Suspect},
    },
};

/// What is done beside a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    CostsOnly,
    Compare,
}

/// A read that went, or could have gone, to pieces.
#[derive(Clone, Debug)]
pub(crate) struct DoubtedRead {
    pub(crate) partition: WidePartition,
    pub(crate) slice_start: Timestamp,
    pub(crate) interval: Interval,
    pub(crate) order: Order,
    pub(crate) after: Option<Position>,
    pub(crate) rows: u64,
    pub(crate) beside: Beside,
}

/// Comparisons without a difference since the mode began, as this server saw them.
#[derive(Clone, Copy, Debug)]
struct Clean {
    mode_since: Timestamp,
    first: Timestamp,
    count: u32,
}

pub(crate) struct Doubts {
    capacity: usize,
    waiting: Mutex<VecDeque<DoubtedRead>>,
    arrived: Notify,
    clean: Mutex<BTreeMap<NamespaceName, Clean>>,
}

impl Doubts {
    pub(crate) fn new(capacity: usize) -> Self {
        Doubts { capacity, waiting: Mutex::default(), arrived: Notify::new(), clean: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<DoubtedRead>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether there was room.
    pub(crate) fn push(&self, doubted: DoubtedRead) -> bool {
        let mut waiting = self.waiting();
        if waiting.len() >= self.capacity {
            return false;
        }
        waiting.push_back(doubted);
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    async fn next(&self) -> DoubtedRead {
        loop {
            let arrived = self.arrived.notified();
            if let Some(doubted) = self.waiting().pop_front() {
                return doubted;
            }
            arrived.await;
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Clean comparisons of a namespace in its present mode, and since when.
    pub(crate) fn clean(&self, namespace: &NamespaceName) -> Option<(u32, Timestamp)> {
        let clean = self.clean.lock().unwrap_or_else(PoisonError::into_inner);
        clean.get(namespace).map(|clean| (clean.count, clean.first))
    }

    fn note_clean(&self, namespace: &NamespaceName, mode_since: Timestamp, now: Timestamp) -> Clean {
        let mut all = self.clean.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Clean { mode_since, first: now, count: 0 };
        let clean = all.entry(namespace.clone()).or_insert(fresh);
        if clean.mode_since != mode_since {
            *clean = fresh;
        }
        clean.count = clean.count.saturating_add(1);
        *clean
    }

    pub(crate) fn forget_clean(&self, namespace: &NamespaceName) {
        self.clean.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
    }
}

impl Engine {
    /// Compares until the engine stops.
    pub(crate) async fn run_doubts(&self) {
        loop {
            self.tasks.waits("comparisons", "the next read of a split", None);
            let doubted = self.splits.doubts.next().await;
            self.tasks.begins("comparisons");
            if self.is_stopping() {
                return;
            }
            let compared = self.compare_beside(&doubted).await;
            let did = format!("compared a read of {}", doubted.partition.time_series_id);
            self.tasks.ended("comparisons", &did, self.env.now());
            if let Err(error) = compared {
                self.metrics.comparisons.with_label_values(&["inconclusive"]).inc();
                tracing::debug!(partition = ?doubted.partition, %error, "a comparison came to nothing");
            }
        }
    }

    async fn compare_beside(&self, doubted: &DoubtedRead) -> Result<(), EngineError> {
        let namespace = self.registry.get(doubted.partition.namespace.as_str())?;
        self.check_ready()?;
        let Some(row) = self.splits.router.record(&doubted.partition).await? else { return Ok(()) };
        let reopened = namespace.record.splits.reopened(doubted.slice_start);
        let Some(served) = Served::of(row, reopened).map(Arc::new) else { return Ok(()) };
        let doubt = Doubt {
            served: served.clone(),
            interval: doubted.interval,
            order: doubted.order,
            after: doubted.after.clone(),
            max_rows: doubted.rows,
            original_first: self.env.random_below(2) == 0,
            // As reads are, so that its cost is theirs.
            beyond_bounds: false,
        };
        let comparison = self.splits.scrubber.compare(&doubt).await?;
        if comparison.original.calls == 0 {
            return Ok(()); // nothing of it lies in pieces
        }
        self.note_costs(&doubted.partition, &comparison).await?;
        if doubted.beside == Beside::CostsOnly {
            self.metrics.comparisons.with_label_values(&["costs_only"]).inc();
            return Ok(());
        }
        if comparison.difference.is_some() {
            let suspect = Suspect { doubt, found_by: FoundBy::Comparison };
            return self.confirm(suspect).await.map(drop);
        }
        self.metrics.comparisons.with_label_values(&["same"]).inc();
        self.perhaps_promote(&doubted.partition.namespace).await
    }

    /// A split must pay.
    async fn note_costs(&self, partition: &WidePartition, comparison: &Comparison) -> Result<(), EngineError> {
        let side = |name: &str| self.metrics.side_seconds.with_label_values(&[name]);
        side("original").observe(comparison.original.time.as_secs_f64());
        side("split").observe(comparison.split.time.as_secs_f64());
        let Some(median) = self.splits.payments.add(partition, comparison) else { return Ok(()) };
        let namespace = self.registry.get(partition.namespace.as_str())?;
        if median <= TOO_SLOW || !namespace.record.config_at(self.env.now()).split.must_pay {
            return Ok(());
        }
        let reason = format!("its reads took {median:.2} times as long as those of the original (median)");
        let set_aside = |row: &mut anabranch_split::WideRow| {
            let due = row.set_aside.is_none() && !row.served.is_empty();
            if due {
                row.set_aside = Some(reason.clone());
            }
            due
        };
        self.splits.records.change(partition, set_aside).await?;
        self.splits.router.forget(partition);
        self.splits.payments.forget(partition);
        self.metrics.splits_set_aside.inc();
        tracing::warn!(?partition, %reason, "a split is set aside");
        Ok(())
    }

    /// From COMPARISON to EXEC, once enough was compared for long enough without a difference.
    async fn perhaps_promote(&self, name: &NamespaceName) -> Result<(), EngineError> {
        let now = self.env.now();
        let namespace = self.registry.get(name.as_str())?;
        let splits = &namespace.record.splits;
        let clean = self.splits.doubts.note_clean(name, splits.since, now);
        let settings = namespace.record.config_at(now).split;
        let proven = clean.count >= settings.promote_comparisons && now.since(clean.first) >= settings.promote_over;
        if !settings.promote || !proven || splits.mode != ReadMode::Comparison {
            return Ok(());
        }
        let reason = format!("{} comparisons since {} without a difference", clean.count, clean.first);
        let since = splits.since;
        let promoted = self
            .registry
            .change(name, |record| {
                let same = record.splits.since == since && record.splits.mode == ReadMode::Comparison;
                Ok(same && record.splits.change_mode(ReadMode::Exec, "rule", &reason, now))
            })
            .await?;
        if promoted {
            self.metrics.mode_changes.with_label_values(&[name.as_str(), "EXEC"]).inc();
            tracing::info!(namespace = %name, %reason, "reads are served from splits now");
        }
        Ok(())
    }
}

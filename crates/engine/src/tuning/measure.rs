//! Measures the partitions of slices: those that take events now and then, every one once more when it is sealed, and then never
//! again unless a backfill opens it.

use std::collections::BTreeMap;

use anabranch_model::{NamespaceName, Slice, SliceState, Timestamp};
use anabranch_store::{CasOutcome, ReadClass, StoreError, TableEstimate, Version};
use bytes::Bytes;

use crate::{
    EngineError, NamespaceRecord,
    engine::Engine,
    tuning::{
        sizes::{self, SliceSizes},
        table::TableCount,
    },
};

const LIST_PAGE: usize = 256;

/// What is stored of a namespace's slices, by their names.
type Stored = BTreeMap<String, (Version, Option<SliceSizes>)>;

impl Engine {
    /// Measures until the engine stops.
    pub(crate) async fn run_measure(&self) {
        while !self.is_stopping() {
            let mut waits_for = "its interval, in which slices may become due".to_owned();
            match self.measure().await {
                Ok(Some(slices)) => {
                    let slices = if slices == 1 { "1 slice".to_owned() } else { format!("{slices} slices") };
                    self.tasks.ended("measure", &format!("measured {slices}"), self.env.now());
                }
                Ok(None) => {
                    self.tasks.ended("measure", "left it to another server", self.env.now());
                    waits_for = self.tuning.measuring.waits_for();
                }
                Err(error) => self.task_failed("measure", &error),
            }
            self.pause("measure", &waits_for, self.look_interval()).await;
        }
    }

    /// Slices become due in between, so they are looked at more often than one is measured.
    fn look_interval(&self) -> std::time::Duration {
        (self.tuning.options.measure_interval / 4).max(std::time::Duration::from_millis(100))
    }

    /// Measures all slices that are due; answers how many. `None` where another server does it.
    async fn measure(&self) -> Result<Option<usize>, EngineError> {
        self.check_ready()?;
        if !self.tuning.measuring.take().await? {
            return Ok(None);
        }
        let mut measured = 0;
        for (name, namespace) in self.registry.snapshot().iter().filter(|(_, known)| !known.record.deleting) {
            let stored = self.stored_sizes(name, None).await?;
            for slice in namespace.record.slices.iter() {
                let before = stored.get(&slice.name());
                let known = before.and_then(|(_, sizes)| sizes.as_ref());
                if !self.is_measuring_due(&namespace.record, slice, known) {
                    continue;
                }
                let version = before.map(|(version, _)| *version);
                if self.measure_slice(name, &namespace.record, slice, known, version).await? {
                    measured += 1;
                }
            }
        }
        Ok(Some(measured))
    }

    fn is_measuring_due(&self, record: &NamespaceRecord, slice: &Slice, known: Option<&SliceSizes>) -> bool {
        let now = self.env.now();
        if slice.state != SliceState::Open || slice.interval.start > now {
            return false;
        }
        let Some(known) = known.filter(|known| known.incarnation == record.incarnation) else { return true };
        let reopened = record.splits.reopened(slice.interval.start);
        if known.settled && known.reopened == reopened {
            return false;
        }
        let old = now.since(known.measured) >= self.tuning.options.measure_interval;
        old || self.is_settled(record, slice, now)
    }

    /// Whether nothing will be written to a slice any more.
    fn is_settled(&self, record: &NamespaceRecord, slice: &Slice, now: Timestamp) -> bool {
        record.sealable_until(now) >= slice.interval.end
            && !record.may_be_backfilled(slice.interval, now, self.registry.notice())
    }

    /// Says whether there is a new measurement.
    async fn measure_slice(
        &self,
        name: &NamespaceName,
        record: &NamespaceRecord,
        slice: &Slice,
        known: Option<&SliceSizes>,
        version: Option<Version>,
    ) -> Result<bool, EngineError> {
        let begun = self.env.now();
        let counting = TableCount {
            store: self.admission.store(ReadClass::Background).as_ref(),
            env: &self.env,
            table: &slice.table(name),
            percent: self.tuning.options.measure_percent,
            lease: &self.tuning.measuring,
            is_stopping: &|| self.is_stopping(),
        };
        let counted = match Box::pin(counting.count()).await {
            Ok(Some(counted)) => counted,
            Ok(None) => return Ok(false),
            Err(StoreError::NoSuchTable { .. }) => return Ok(false), // it was dropped meanwhile
            Err(error) => return Err(error.into()),
        };
        let by_backfill = record.backfills.iter().any(|window| !window.interval.intersect(&slice.interval).is_empty());
        let reopened = record.splits.reopened(slice.interval.start);
        let sizes = SliceSizes {
            incarnation: record.incarnation,
            settings: slice.settings,
            measured: self.env.now(),
            // As it was when the counting began: what came later is in the next one.
            settled: self.is_settled(record, slice, begun),
            reopened,
            backfilled: by_backfill || reopened > 0 || known.is_some_and(|known| known.backfilled),
            counted,
        };
        let value = Bytes::from(serde_json::to_vec(&sizes).expect("sizes are plain data"));
        let key = sizes::key(name, &slice.name());
        let kept = self.store.compare_and_set(&key, version, Some(value)).await?;
        if let CasOutcome::Applied(version) = kept
            && !self.is_there(name, record.incarnation, slice)
        {
            // Dropped while it was measured: nothing is left behind (L1).
            self.store.compare_and_set(&key, Some(version), None).await?;
        }
        Ok(matches!(kept, CasOutcome::Applied(_)))
    }

    fn is_there(&self, name: &NamespaceName, incarnation: u64, slice: &Slice) -> bool {
        let namespace = self.registry.snapshot().get(name).cloned();
        namespace.is_some_and(|namespace| {
            let record = &namespace.record;
            record.incarnation == incarnation && record.slices.iter().any(|known| known.interval == slice.interval)
        })
    }

    async fn stored_sizes(&self, name: &NamespaceName, mut after: Option<String>) -> Result<Stored, EngineError> {
        let scope = sizes::scope(name);
        let mut stored = Stored::new();
        loop {
            let page = self.store.list(&scope, after.as_deref(), LIST_PAGE).await?;
            let last = page.len() < LIST_PAGE;
            for (slice, document) in page {
                // What another version wrote is measured anew.
                let sizes = serde_json::from_slice::<SliceSizes>(&document.value).ok();
                stored.insert(slice, (document.version, sizes));
            }
            if last {
                return Ok(stored);
            }
            after = stored.last_key_value().map(|(name, _)| name.clone());
        }
    }

    /// What the store itself reckons of a slice, where it does.
    pub async fn slice_estimate(&self, namespace: &str, slice: &Slice) -> Result<Option<TableEstimate>, EngineError> {
        let namespace = self.registry.get(namespace)?;
        let table = slice.table(&namespace.name);
        let estimate = self.env.timeout(self.options.meta_timeout, self.store.estimate(&table));
        let late = |_| EngineError::DeadlineExceeded { what: "asking the nodes" };
        Ok(estimate.await.map_err(late)??)
    }

    /// The slices of a namespace, oldest first, with what was measured of each: all of them, or only so many of the latest of those
    /// whose time has begun.
    pub async fn slice_sizes(
        &self,
        namespace: &str,
        latest: Option<usize>,
    ) -> Result<Vec<(Slice, Option<SliceSizes>)>, EngineError> {
        let namespace = self.registry.get(namespace)?;
        let record = &namespace.record;
        let mut slices: Vec<Slice> = record.slices.iter().cloned().collect();
        let mut before = None;
        if let Some(latest) = latest {
            slices.retain(|slice| slice.interval.start <= self.env.now());
            let shown = slices.split_off(slices.len().saturating_sub(latest));
            // Names of slices are ordered as their times are.
            before = slices.last().map(Slice::name);
            slices = shown;
        }
        let mut stored = self.stored_sizes(&namespace.name, before).await?;
        let with_sizes = |slice: Slice| {
            let sizes = stored.remove(&slice.name()).and_then(|(_, sizes)| sizes);
            (slice, sizes.filter(|sizes| sizes.incarnation == record.incarnation))
        };
        Ok(slices.into_iter().map(with_sizes).collect())
    }

    /// How big 99 of 100 partitions should be: at least and at most so many bytes.
    pub fn density_target(&self) -> (u64, u64) {
        (self.tuning.options.rules.low_bytes, self.tuning.options.rules.high_bytes)
    }
}

//! Carries slices through their life: made ahead of need, closed and dropped by age. One idempotent step per namespace,
//! run by a timer, at a namespace's creation and when a write finds no slice.

use std::{sync::Arc, time::Duration};

use anabranch_model::{NamespaceName, Slice, SliceState, TableName, Timestamp, config::MAX_SLICES, slice::doublings};
use anabranch_store::{MetaKey, Store, StoreError};

use crate::{EngineError, NamespaceRecord, engine::Engine, metrics::Metrics, namespace::SliceFate, registry::Registry};

/// Slices of a namespace that are dropped in one step: dropping a table costs the store something.
const DROPS_PER_STEP: usize = 4;

pub(crate) struct Lifecycle {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) records: anabranch_split::Records,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) env: anabranch_runtime::Env,
    /// How long making or dropping a table may take.
    pub(crate) timeout: Duration,
    pub(crate) max_clock_skew: Duration,
}

impl Engine {
    /// One server of many looks after the slices; one whose settings were just changed does so once, whoever the other is.
    pub(crate) async fn run_lifecycle(&self) {
        let mut asked = false;
        while !self.is_stopping() {
            self.tasks.begins("lifecycle");
            let mut waits_for = "its interval, or a change of settings".to_owned();
            let mut wait = self.options.lifecycle_interval;
            match self.look_after_slices(asked).await {
                Ok(true) => self.tasks.ended("lifecycle", "looked after the slices of all namespaces", self.env.now()),
                Ok(false) => {
                    self.tasks.ended("lifecycle", "left it to another server", self.env.now());
                    waits_for = self.slices.waits_for();
                }
                Err(retry_after) => wait = retry_after,
            }
            self.task_waits("lifecycle", &waits_for, wait);
            asked = self.env.timeout(wait, self.wake_lifecycle.notified()).await.is_ok();
        }
    }

    /// A step for every namespace. `false` where another server does it; an error says when to try again.
    async fn look_after_slices(&self, asked: bool) -> Result<bool, Duration> {
        // Whoever can't rely on its clock would close and drop slices too early (W1), and must not hold the lease either.
        let vouched = || {
            self.heartbeat.check_vouched().map_err(|error| {
                self.task_failed("lifecycle", &error);
                self.registry.refresh_interval()
            })
        };
        vouched()?;
        let held = match self.slices.take().await {
            Ok(held) => held,
            Err(error) => {
                self.task_failed("lifecycle", &error);
                return Err(self.options.lifecycle_interval);
            }
        };
        let mut failed = false;
        for name in self.registry.snapshot().keys() {
            vouched()?; // a step looks at the clock once, at its beginning
            let done = match held || asked {
                true => self.lifecycle.step(name).await,
                false => self.lifecycle.settle(name, self.env.now()).await,
            };
            if let Err(error) = done {
                failed = true;
                self.task_failed("lifecycle", &error);
                tracing::warn!(namespace = %name, %error, "the lifecycle of slices will be tried again");
            }
        }
        if failed { Err(self.options.lifecycle_interval) } else { Ok(held || asked) }
    }
}

impl Lifecycle {
    /// Everything that is due for one namespace now.
    pub(crate) async fn step(&self, name: &NamespaceName) -> Result<(), EngineError> {
        let Some(namespace) = self.registry.snapshot().get(name).cloned() else { return Ok(()) };
        if namespace.record.deleting {
            return self.finish_delete(name).await;
        }
        let now = self.env.now(); // once, for a clock may be set while it waits
        self.settle(name, now).await?;
        self.make_ahead(name, now).await?;
        self.close_and_drop(name, now).await
    }

    /// Takes over settings whose moment has come, which concerns no table. Until somebody has, less can be sealed.
    pub(crate) async fn settle(&self, name: &NamespaceName, now: Timestamp) -> Result<(), EngineError> {
        let Some(namespace) = self.registry.snapshot().get(name).cloned() else { return Ok(()) };
        if !namespace.record.deleting && namespace.record.next.as_ref().is_some_and(|next| next.at <= now) {
            self.registry.change(name, |record| Ok(record.settle(now))).await?;
        }
        Ok(())
    }

    /// Makes the current slice and those ahead of it.
    pub(crate) async fn make_ahead(&self, name: &NamespaceName, now: Timestamp) -> Result<(), EngineError> {
        let namespace = self.registry.get(name.as_str())?;
        let ahead = namespace.record.config_at(now).slices_ahead;
        let mut time = now;
        for _ in 0..=ahead {
            self.ensure(name, time).await?;
            let namespace = self.registry.get(name.as_str())?;
            let Some(slice) = namespace.record.slices.at(time) else { break };
            time = slice.interval.end;
            if time >= Timestamp::LATEST {
                break;
            }
        }
        Ok(())
    }

    /// Sees to it that `time` has a slice. The table is made before the slice is recorded, so that a slice that can be
    /// seen can be used.
    pub(crate) async fn ensure(&self, name: &NamespaceName, time: Timestamp) -> Result<(), EngineError> {
        let namespace = self.registry.get(name.as_str())?;
        if namespace.record.slices.at(time).is_some() {
            return Ok(());
        }
        let now = self.env.now();
        let slice = self.plan(&namespace.record, time, now)?;
        self.make_table(&slice.table(name)).await?;
        let made = self
            .registry
            .change(name, |record| {
                let fits = record.slices.overlapping(slice.interval).is_empty();
                if record.deleting || !fits {
                    return Ok(false); // somebody was quicker, perhaps with other settings
                }
                record.slices.insert(slice.clone())?;
                Ok(true)
            })
            .await?;
        if made {
            self.metrics.slice_changes.with_label_values(&["made"]).inc();
            tracing::info!(namespace = %name, slice = slice.name(), interval = %slice.interval, "made a slice");
        }
        // Whoever was quicker made it around this very time, or another call makes it anew.
        let there = self.registry.get(name.as_str())?.record.slices.at(time).is_some();
        if there { Ok(()) } else { Err(EngineError::Contended { name: name.clone() }) }
    }

    /// The slice to make for `time`: longer than configured where slices or tables run short, or where a backfill
    /// window spans so much time.
    fn plan(&self, record: &NamespaceRecord, time: Timestamp, now: Timestamp) -> Result<Slice, EngineError> {
        let (tables, max_tables) = self.check_room()?;
        let backfill = record.backfills.iter().rfind(|window| window.interval.contains(time));
        let ordinary = record.accepts(now).contains(time);
        let for_window = backfill.filter(|_| !ordinary).map_or(0, |window| window.slice_doublings);
        let doublings = doublings(record.slices.len(), MAX_SLICES).max(doublings(tables, max_tables)).max(for_window);
        let config = record.config_at(now);
        let settings = config.partition_settings();
        Ok(record.slices.plan(time, config.seconds_per_slice, settings, MAX_SLICES, doublings)?)
    }

    /// How many tables there are and may be; refuses when there is no room for one more.
    pub(crate) fn check_room(&self) -> Result<(usize, usize), EngineError> {
        let tables = self.registry.slice_count();
        let max_tables = self.store.capabilities().max_tables;
        if tables < max_tables {
            return Ok((tables, max_tables));
        }
        let what = format!("the store holds {tables} tables, the most it should: delete namespaces or lengthen slices");
        Err(EngineError::Overloaded { what })
    }

    /// Closes what is past `close_after`; drops what is past `delete_after`.
    async fn close_and_drop(&self, name: &NamespaceName, now: Timestamp) -> Result<(), EngineError> {
        let namespace = self.registry.get(name.as_str())?;
        let due = |slice: &Slice| match (slice.state, namespace.record.fate(slice, now)) {
            // Even what is to be dropped is closed first, and dropped by a later step: whoever reads it now may finish.
            (SliceState::Open, fate) => fate.is_some(),
            (SliceState::Closed | SliceState::Dropping, fate) => fate == Some(SliceFate::Drops),
        };
        let mut drops = 0;
        for slice in namespace.record.slices.iter().filter(|slice| due(slice)) {
            match slice.state {
                SliceState::Open => self.close(name, slice).await?,
                SliceState::Closed | SliceState::Dropping if drops < DROPS_PER_STEP => {
                    self.drop_slice(name, slice).await?;
                    drops += 1;
                }
                SliceState::Closed | SliceState::Dropping => {}
            }
        }
        Ok(())
    }

    async fn close(&self, name: &NamespaceName, slice: &Slice) -> Result<(), EngineError> {
        let closed = self
            .registry
            .change(name, |record| {
                // Others may have gone on with it, or even made another that begins where it did: a slice never goes back.
                let is_open =
                    record.slices.exactly(slice.interval).is_some_and(|slice| slice.state == SliceState::Open);
                if is_open {
                    record.slices.set_state(slice.interval, SliceState::Closed);
                    record.closed_until = record.closed_until.max(slice.interval.end);
                }
                Ok(is_open)
            })
            .await?;
        if closed {
            self.metrics.slice_changes.with_label_values(&["closed"]).inc();
            tracing::info!(namespace = %name, slice = slice.name(), "closed a slice");
        }
        Ok(())
    }

    async fn drop_slice(&self, name: &NamespaceName, slice: &Slice) -> Result<(), EngineError> {
        let dropping = |record: &mut NamespaceRecord| {
            // L1: others may have dropped it, and made another since that begins where it did: its table has the same name.
            let is_due = record.slices.exactly(slice.interval).is_some_and(|slice| slice.state != SliceState::Open);
            if is_due {
                record.slices.set_state(slice.interval, SliceState::Dropping);
            }
            Ok(is_due)
        };
        if !self.registry.change(name, dropping).await? {
            return Ok(());
        }
        self.timed(self.store.drop_table(&slice.table(name))).await?;
        self.drop_splits(name, slice).await?;
        let gone = |record: &mut NamespaceRecord| {
            let is_dropped =
                record.slices.exactly(slice.interval).is_some_and(|slice| slice.state == SliceState::Dropping);
            if is_dropped {
                record.slices.remove(slice.interval);
            }
            Ok((is_dropped, record.slices.iter().any(|other| other.name() == slice.name())))
        };
        let (dropped, claimed) = self.registry.change(name, gone).await?;
        if dropped {
            self.metrics.slice_changes.with_label_values(&["dropped"]).inc();
            tracing::info!(namespace = %name, slice = slice.name(), "dropped a slice");
        }
        // Whoever made another of this name while the table was dropped gets it back.
        if claimed { self.make_table(&slice.table(name)).await } else { Ok(()) }
    }

    /// Drops the pieces and the split records of a slice (L1). A worker that still held one finds neither table nor record.
    async fn drop_splits(&self, name: &NamespaceName, slice: &Slice) -> Result<(), EngineError> {
        let slice_name = slice.name();
        for table in self.timed(self.store.tables()).await? {
            if table.namespace == *name && table.pieces_of() == Some(&slice_name) {
                self.timed(self.store.drop_table(&table)).await?;
            }
        }
        self.records.remove_slice(name, &slice_name).await?;
        self.forget(crate::tuning::sizes::key(name, &slice_name)).await
    }

    /// Takes a document away, whatever it says.
    async fn forget(&self, key: MetaKey) -> Result<(), EngineError> {
        while let Some(document) = self.timed(self.store.load(&key)).await? {
            self.timed(self.store.compare_and_set(&key, Some(document.version), None)).await?;
        }
        Ok(())
    }

    /// Drops every table of a namespace that is marked as going, then its record. Another namespace that has got the
    /// same name meanwhile is left alone.
    pub(crate) async fn finish_delete(&self, name: &NamespaceName) -> Result<(), EngineError> {
        let Some(going) = self.registry.snapshot().get(name).cloned() else { return Ok(()) };
        // Others may still restore it by clocks that are behind.
        let due = going.record.drop_at.map(|drop_at| drop_at.saturating_add(self.max_clock_skew));
        if due.is_some_and(|due| self.env.now() < due) {
            return Ok(());
        }
        let incarnation = going.record.incarnation;
        for table in self.timed(self.store.tables()).await?.into_iter().filter(|table| table.namespace == *name) {
            if !self.registry.is_going(name, incarnation).await? {
                return Ok(());
            }
            self.timed(self.store.drop_table(&table)).await?;
            self.metrics.slice_changes.with_label_values(&["dropped"]).inc();
        }
        for slice in going.record.slices.iter() {
            self.records.remove_slice(name, &slice.name()).await?;
        }
        for scope in
            [crate::splits::verdict::scope(name), crate::tuning::sizes::scope(name), crate::tuning::scope(name)]
        {
            for (document, versioned) in self.timed(self.store.list(&scope, None, usize::MAX)).await? {
                let key = MetaKey::new(scope.clone(), document);
                self.timed(self.store.compare_and_set(&key, Some(versioned.version), None)).await?;
            }
        }
        self.registry.remove(name, incarnation).await
    }

    /// Makes a table, or leaves the one that is there.
    pub(crate) async fn make_table(&self, table: &TableName) -> Result<(), EngineError> {
        self.timed(self.store.create_table(table)).await
    }

    /// Drops a table with all its rows.
    pub(crate) async fn drop_table(&self, table: &TableName) -> Result<(), EngineError> {
        self.timed(self.store.drop_table(table)).await
    }

    async fn timed<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, EngineError> {
        match self.env.timeout(self.timeout, call).await {
            Ok(result) => result.map_err(EngineError::Store),
            Err(_) => Err(StoreError::Unknown { reason: "a change of tables timed out".to_owned() }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use anabranch_model::{Interval, NamespaceConfig, PartitionSettings};
    use anabranch_runtime::run_simulated;
    use anabranch_store::MemoryStore;

    use super::*;
    use crate::EngineOptions;

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Lifecycle, NamespaceName) -> F) {
        run_simulated(5, Timestamp::from_seconds(1_774_656_000), |env| async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
            let options = EngineOptions::default();
            let registry = Arc::new(Registry::new(store.clone(), env.clone(), &options));
            let name = NamespaceName::new("plays").unwrap();
            let record = NamespaceRecord::new(1, env.now(), NamespaceConfig::default());
            registry.create(&name, record).await.unwrap();
            let lifecycle = Lifecycle {
                records: anabranch_split::Records::new(store.clone(), env.clone(), options.meta_timeout),
                metrics: Arc::new(Metrics::new()),
                timeout: options.table_timeout,
                max_clock_skew: options.max_clock_skew,
                store,
                registry,
                env,
            };
            test(lifecycle, name).await;
        });
    }

    fn slice(hours: i64, state: SliceState) -> Slice {
        let start = 1_774_656_000;
        let interval = Interval::new(Timestamp::from_seconds(start), Timestamp::from_seconds(start + hours * 3600));
        Slice { interval, settings: PartitionSettings { seconds_per_bucket: 600, event_buckets: 1 }, state }
    }

    async fn insert(lifecycle: &Lifecycle, name: &NamespaceName, slice: &Slice) {
        lifecycle.make_table(&slice.table(name)).await.unwrap();
        let insert = |record: &mut NamespaceRecord| Ok(record.slices.insert(slice.clone())?);
        lifecycle.registry.change(name, insert).await.unwrap();
    }

    /// L1, W1: a server that comes late with the end of a slice finds another that begins where that did, and leaves it alone.
    #[test]
    fn a_late_step_touches_no_slice_that_begins_where_an_old_one_did_l1() {
        run(|lifecycle, name| async move {
            let (gone, longer) = (slice(1, SliceState::Closed), slice(4, SliceState::Open));
            insert(&lifecycle, &name, &longer).await;
            assert_eq!(gone.table(&name), longer.table(&name));
            for state in [SliceState::Open, SliceState::Closed, SliceState::Dropping] {
                let late = Slice { state, ..gone.clone() };
                lifecycle.close(&name, &late).await.unwrap();
                lifecycle.drop_slice(&name, &late).await.unwrap();
            }
            let record = lifecycle.registry.get(name.as_str()).unwrap().record.clone();
            assert_eq!(record.slices.iter().collect::<Vec<_>>(), [&longer]);
            assert_eq!(record.closed_until, Timestamp::EARLIEST);
            assert_eq!(lifecycle.store.tables().await.unwrap(), [longer.table(&name)]);
            // Nor is one dropped that nobody has closed.
            lifecycle.drop_slice(&name, &longer).await.unwrap();
            assert_eq!(lifecycle.store.tables().await.unwrap(), [longer.table(&name)]);
        });
    }

    /// L1
    #[test]
    fn a_slice_goes_once_it_is_closed_l1() {
        run(|lifecycle, name| async move {
            let slice = slice(1, SliceState::Open);
            insert(&lifecycle, &name, &slice).await;
            lifecycle.close(&name, &slice).await.unwrap();
            assert_eq!(lifecycle.registry.get(name.as_str()).unwrap().record.closed_until, slice.interval.end);
            lifecycle.drop_slice(&name, &slice).await.unwrap();
            assert!(lifecycle.registry.get(name.as_str()).unwrap().record.slices.is_empty());
            assert_eq!(lifecycle.store.tables().await.unwrap(), []);
        });
    }

    /// W1: a slice that begins where one did that is gone is as new to the other servers as any.
    #[test]
    fn a_slice_that_begins_where_another_did_is_waited_for_w1() {
        run(|lifecycle, name| async move {
            let (old, new) = (slice(1, SliceState::Open), slice(4, SliceState::Open));
            insert(&lifecycle, &name, &old).await;
            lifecycle.env.sleep(Duration::from_secs(60)).await;
            let replace = |record: &mut NamespaceRecord| {
                record.slices.remove(old.interval);
                Ok(record.slices.insert(new.clone())?)
            };
            lifecycle.registry.change(&name, replace).await.unwrap();
            let namespace = lifecycle.registry.get(name.as_str()).unwrap();
            assert_eq!(lifecycle.registry.wait_for_slice(&namespace, new.interval), lifecycle.registry.notice());
        });
    }
}

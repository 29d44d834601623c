//! Looks at all records of open slices now and then: what was left over by a worker that died, what is to be tried again, what has
//! grown, what was opened again, what was not looked at for long. Filters are built anew on the way. A slice in which everything rests
//! and nothing was changed is not listed again.

use std::collections::BTreeMap;

use anabranch_model::{NamespaceName, Slice, SliceState, TableName, Timestamp};
use anabranch_split::{Loaded, State, WidePartition, WideRow};

use crate::{
    EngineError, NamespaceRecord,
    engine::Engine,
    splits::{due::Errand, ground::bucket, looks::Look, summary::SplitSummary, waiting::Waiting},
};

/// Slices whose filters are counted one by one.
const NAMED_SLICES: usize = 200;

impl Engine {
    /// Sweeps until the engine stops.
    pub(crate) async fn run_sweep(&self) {
        while !self.is_stopping() {
            let begun = self.env.now();
            self.tasks.begins("sweep");
            match self.sweep().await {
                Ok(records) => self.tasks.ended("sweep", &format!("looked at {records} split records"), begun),
                Err(error) => self.task_failed("sweep", &error),
            }
            self.task_waits("sweep", "its interval, or an operator", self.splits.options.sweep_interval);
            let wake = self.wake_sweep.notified();
            let _ = self.env.timeout(self.splits.options.sweep_interval, wake).await;
        }
    }

    /// One look at everything; answers how many records there are.
    pub(crate) async fn sweep(&self) -> Result<u64, EngineError> {
        self.check_ready()?;
        let snapshot = self.registry.snapshot();
        let mut looks = self.splits.looks.lock().await;
        let mut due = Vec::new();
        let mut summaries = BTreeMap::new();
        let mut waiting = Waiting::default();
        for (name, namespace) in snapshot.iter().filter(|(_, namespace)| !namespace.record.deleting) {
            // Before any record is listed: what changes later is told of later.
            let changes = self.splits.records.changes(name).await?;
            let mut summary = SplitSummary::new(self.env.now());
            for slice in namespace.record.slices.iter().filter(|slice| slice.state == SliceState::Open) {
                let table = slice.table(name);
                let reopened = namespace.record.splits.reopened(slice.interval.start);
                let (changes, now) = (changes.get(&slice.name()).copied(), self.env.monotonic());
                summary.resting += u64::from(self.splits.router.rests(&table));
                let interval = self.splits.options.sweep_interval;
                if let Some(known) = looks.still(&table, changes, reopened, now, interval) {
                    summary.merge(known);
                    self.metrics.slices_swept.with_label_values(&["unchanged"]).inc();
                    continue;
                }
                let (found, busy) = self.list_slice(&namespace.record, name, slice, &mut due, &mut waiting).await?;
                summary.merge(&found);
                looks.note(table, Look { changes, reopened, busy, at: now, summary: found });
                self.metrics.slices_swept.with_label_values(&["listed"]).inc();
            }
            summaries.insert(name.clone(), summary);
        }
        let is_there = |table: &TableName| {
            let namespace = snapshot.get(&table.namespace);
            namespace.is_some_and(|namespace| namespace.record.slices.iter().any(|slice| slice.name() == table.table))
        };
        looks.retain(is_there);
        self.splits.router.retain(is_there);
        let mut states = BTreeMap::<&'static str, i64>::new();
        for (state, count) in summaries.values().flat_map(|summary| &summary.states) {
            *states.entry(state).or_default() += i64::try_from(*count).unwrap_or(i64::MAX);
        }
        // Those wait for nobody.
        let given_up = summaries.values().map(|summary| summary.given_up).sum::<u64>() as i64;
        if given_up > 0 {
            *states.entry("PARKED").or_default() -= given_up;
            states.insert("GIVEN_UP", given_up);
        }
        let records = summaries.values().flat_map(|summary| summary.states.values()).sum();
        self.traffic.retain(|name| snapshot.contains_key(name));
        self.splits.summaries.replace(summaries);
        self.splits.waiting.replace(waiting);
        self.queue(due);
        self.note_gauges(&states);
        Ok(records)
    }

    /// Looks at all records of a slice. Says also whether anything may come of them without anybody changing one.
    async fn list_slice(
        &self,
        record: &NamespaceRecord,
        name: &NamespaceName,
        slice: &Slice,
        due: &mut Vec<(Errand, WidePartition)>,
        waiting: &mut Waiting,
    ) -> Result<(SplitSummary, bool), EngineError> {
        let reopened = record.splits.reopened(slice.interval.start);
        let mut summary = SplitSummary::new(self.env.now());
        let mut busy = false;
        for Loaded { row, .. } in self.splits.router.rebuild(name, &slice.name()).await? {
            summary.add(&row);
            self.note_waiting(waiting, record, slice, &row);
            let errand = self.errand(record, slice, &row);
            let grows = bucket(record, &row.partition)
                .is_some_and(|bucket| row.served_until().max(Some(row.looked_until)) < Some(bucket.end));
            busy |= errand.is_some()
                || row.lease.is_some()
                // It is compared anew when the backfill that opened it has ended.
                || row.served.iter().any(|segment| segment.as_of < reopened)
                || match row.state {
                    State::Completed { .. } => grows,
                    State::NotWide { .. } | State::Parked { .. } => false,
                    _ => true,
                };
            if let Some(errand) = errand.filter(|_| self.splits.options.concurrent > 0) {
                due.push((errand, row.partition));
            }
        }
        Ok((summary, busy))
    }

    /// What is urgent comes first, and nobody is always last: where not all fit, none waits for ever (S5).
    fn queue(&self, mut due: Vec<(Errand, WidePartition)>) {
        let first = self.env.random_below(due.len().max(1) as u64) as usize;
        due.rotate_left(first);
        due.sort_by_key(|(errand, _)| *errand);
        for (errand, partition) in due {
            if !self.splits.due.push(partition, errand) {
                self.metrics.split_work_dropped.inc();
            }
        }
    }

    /// What there is to do for a record, if anything.
    fn errand(&self, record: &NamespaceRecord, slice: &Slice, row: &WideRow) -> Option<Errand> {
        let now = self.env.now();
        if self.is_held_elsewhere(row, now) {
            return None;
        }
        if !self.splits.scrubber.rests(row) {
            return Some(Errand::Advance);
        }
        let reopened = record.splits.reopened(slice.interval.start);
        let bucket = bucket(record, &row.partition)?;
        let settled = !record.may_be_backfilled(bucket, now, self.registry.notice());
        if settled && row.served.iter().any(|segment| segment.as_of < reopened) {
            return Some(Errand::Recheck);
        }
        if settled && self.is_extension_due(record, row, bucket.end, now) {
            return Some(Errand::Extend);
        }
        let old = |segment: &anabranch_split::Segment| now.since(segment.checked) >= self.splits.options.scrub_interval;
        (settled && row.served.iter().any(old)).then_some(Errand::Recheck)
    }

    /// Whether a worker of another server has the lease.
    fn is_held_elsewhere(&self, row: &WideRow, now: Timestamp) -> bool {
        row.lease.as_ref().is_some_and(|lease| {
            let ours = self.splits.workers.iter().any(|work| work.name() == lease.worker);
            lease.holds(now, self.splits.options.work.lease) && !ours
        })
    }

    fn note_waiting(&self, waiting: &mut Waiting, record: &NamespaceRecord, slice: &Slice, row: &WideRow) {
        let now = self.env.now();
        let Some(bucket) = bucket(record, &row.partition) else { return };
        let settled = !record.may_be_backfilled(bucket, now, self.registry.notice());
        let reopened = record.splits.reopened(slice.interval.start);
        let is_stale = row.served.iter().any(|segment| segment.as_of < reopened);
        waiting.add(row, is_stale, settled, self.is_held_elsewhere(row, now), now);
    }

    /// Whether time has sealed enough of a tail: probably a piece, or all of it, or a little for long.
    pub(crate) fn is_extension_due(
        &self,
        record: &NamespaceRecord,
        row: &WideRow,
        end: Timestamp,
        now: Timestamp,
    ) -> bool {
        let (State::Completed { .. }, Some(last)) = (&row.state, row.served.last()) else { return false };
        let sealed = record.sealable_until(now).min(end);
        let looked = row.looked_until.max(last.span.end);
        if sealed <= looked {
            return false;
        }
        let bytes: u64 = row.served.iter().map(|segment| segment.pre_split_data.bytes).sum();
        let length = row.served.iter().map(|segment| segment.span.length().as_secs_f64()).sum::<f64>().max(1.0);
        let tail = sealed.since(last.span.end).as_secs_f64() * bytes as f64 / length;
        let target = record.config_at(now).split.target_piece_bytes as f64;
        sealed == end
            || (tail >= target && sealed.since(looked).as_secs_f64() * bytes as f64 / length >= target / 4.0)
            || sealed.since(looked) >= self.splits.options.extend_interval
    }

    fn note_gauges(&self, states: &BTreeMap<&'static str, i64>) {
        self.metrics.split_records.reset();
        for (state, count) in states {
            self.metrics.split_records.with_label_values(&[state]).set(*count);
        }
        let now = self.env.now();
        let filters = self.splits.router.filters();
        let (mut elements, mut bits, mut oldest) = (0, 0, 0);
        self.metrics.slice_filter_elements.reset();
        for (index, (table, filter)) in filters.iter().enumerate() {
            if index < NAMED_SLICES {
                let labels = [table.namespace.as_str(), &table.table];
                self.metrics.slice_filter_elements.with_label_values(&labels).set(filter.elements() as i64);
            }
            elements += filter.elements();
            bits += filter.bits();
            oldest = oldest.max(now.since(filter.built()).as_secs());
        }
        self.metrics.filter_elements.set(elements as i64);
        self.metrics.filter_bytes.set((bits / 8) as i64);
        self.metrics.filter_age_seconds.set(oldest as i64);
        let (hits, misses) = self.splits.router.hits_and_misses();
        self.metrics.router_hits.set(hits as i64);
        self.metrics.router_misses.set(misses as i64);
        if let Some(blocks) = &self.splits.blocks {
            let (hits, misses) = blocks.hits_and_misses();
            self.metrics.block_cache_hits.set(hits as i64);
            self.metrics.block_cache_misses.set(misses as i64);
            self.metrics.block_cache_bytes.set(blocks.bytes() as i64);
        }
        let (waiting, busy) = self.splits.due.size();
        self.metrics.split_work_waiting.set(waiting as i64);
        self.metrics.splits_running.set(busy as i64);
        self.metrics.doubts_waiting.set(self.splits.doubts.len() as i64);
        self.metrics.split_slowed.set(self.splits.pace.times_slowed() as i64);
    }
}

//! Takes detections from the bus and brings records forward, a few at a time. Everything it does can be done again: a worker that
//! dies leaves a lease that runs out, and a record to go on from (S5).

use std::{fmt::Display, sync::Arc};

use anabranch_bus::Detection;
use anabranch_model::{Order, Timestamp};
use anabranch_split::{Doubt, Effort, Loaded, Served, State, WidePartition, Work};

use tracing::{Instrument as _, field::Empty};

use crate::{
    EngineError, ErrorKind, NamespaceRecord, TRACE,
    engine::Engine,
    splits::{
        due::Errand,
        ground::{bucket, is_nowhere},
        verdict::{FoundBy, KeptDifference, Suspect},
    },
    tasks::INTERVAL,
};

/// What a recheck of a partition came to.
pub(crate) enum Rechecked {
    /// All of it is the same as the original.
    Same { segments: usize },
    /// It isn't, and is not used any more.
    Differs(Box<KeptDifference>),
    /// Nothing of it is served any more, so that there is nothing to compare.
    NotServed,
    /// Nothing can be said, and why.
    Skipped(String),
}

/// Whether the same may succeed later.
fn passes(error: &EngineError) -> bool {
    use ErrorKind::{Aborted, DeadlineExceeded, ResourceExhausted, Unavailable};
    matches!(error.kind(), Aborted | DeadlineExceeded | ResourceExhausted | Unavailable)
}

impl Engine {
    /// Takes detections down until the engine stops. One is acknowledged once its record exists; one for which that fails is given
    /// back, never held on to: a bus that isn't asked for the next one takes its receiver for dead.
    pub(crate) async fn run_bus(&self) {
        while !self.is_stopping() {
            self.tasks.waits("bus", "the next suspicion of a wide partition", None);
            let delivery = match self.splits.bus.receive().await {
                Ok(delivery) => delivery,
                Err(error) => {
                    self.bus_failed(&error).await;
                    continue;
                }
            };
            self.tasks.begins("bus");
            match self.take_down(&delivery.detection).await {
                Ok(()) => {}
                Err(error) if passes(&error) => {
                    self.splits.bus.give_back(delivery);
                    self.bus_failed(&error).await;
                    continue;
                }
                // A read that sees the partition again says so again.
                Err(error) => {
                    self.task_failed("bus", &error);
                    tracing::error!(detection = ?delivery.detection, %error, "a wide partition can't be noted, and is passed over");
                }
            }
            if let Err(error) = self.splits.bus.acknowledge(&delivery).await {
                self.splits.bus.give_back(delivery);
                self.bus_failed(&error).await;
                continue;
            }
            let did = format!("noted that {} looks wide", delivery.detection.time_series_id);
            self.tasks.ended("bus", &did, self.env.now());
        }
    }

    /// Waits after a failure.
    async fn bus_failed(&self, error: &(dyn Display + Sync)) {
        self.task_failed("bus", error);
        self.pause("bus", INTERVAL, self.options.refresh_interval).await;
    }

    async fn take_down(&self, detection: &Detection) -> Result<(), EngineError> {
        let partition =
            WidePartition::new(detection.namespace.clone(), detection.time_slice.clone(), detection.partition());
        let namespace = match self.registry.get(partition.namespace.as_str()) {
            Ok(namespace) => namespace,
            Err(error) if passes(&error) => return Err(error),
            Err(_) => return Ok(()), // it is gone
        };
        let Some(bucket) = bucket(&namespace.record, &partition) else {
            // Its slice is closed or gone, unless this server has lost touch and can't know it.
            return self.registry.check_fresh();
        };
        // What is split, and has nothing new that is sealed, is looked after by the sweep.
        if let Some(known) = self.splits.records.load(&partition).await?
            && matches!(known.row.state, State::Completed { .. })
            && !self.is_extension_due(&namespace.record, &known.row, bucket.end, self.env.now())
        {
            self.splits.router.learn(&known.row);
            return Ok(());
        }
        let loaded = self.splits.records.detect(&partition, detection.bytes_seen).await?;
        // Without workers here, those elsewhere find the record.
        let works = !self.splits.workers.is_empty() && !self.splits.scrubber.rests(&loaded.row);
        if works && !self.splits.due.push(partition, Errand::Advance) {
            self.metrics.split_work_dropped.inc();
        }
        Ok(())
    }

    /// Works until the engine stops.
    pub(crate) async fn run_worker(&self, at: usize) {
        self.tasks.begins("splits");
        loop {
            let (partition, errand) = self.splits.due.next().await;
            if self.is_stopping() {
                return;
            }
            let work = &self.splits.workers[at];
            let done = match errand {
                Errand::Advance => self.advance(work, &partition).await,
                Errand::Extend => self.extend(work, &partition).await,
                Errand::Recheck => self.recheck(&partition).await.map(drop),
            };
            self.splits.due.done(&partition);
            match done {
                Ok(()) => {
                    let series = &partition.time_series_id;
                    let did = match errand {
                        Errand::Advance => format!("brought a split of {series} forward"),
                        Errand::Extend => format!("looked at what was sealed of {series} since"),
                        Errand::Recheck => format!("compared a split of {series} with its original"),
                    };
                    self.tasks.ended("splits", &did, self.env.now());
                }
                Err(error) => {
                    self.task_failed("splits", &error);
                    tracing::warn!(?partition, %error, "work on a split will be tried again");
                }
            }
        }
    }

    async fn extend(&self, work: &Work, partition: &WidePartition) -> Result<(), EngineError> {
        self.splits.records.detect(partition, None).await?;
        self.advance(work, partition).await
    }

    /// Brings a record to where it rests.
    pub(crate) async fn advance(&self, work: &Work, partition: &WidePartition) -> Result<(), EngineError> {
        let Some(loaded) = self.splits.records.load(partition).await? else { return Ok(()) };
        if work.rests(&loaded.row) {
            return Ok(());
        }
        let Some(ground) = self.ground(partition).await? else { return self.forget_if_nowhere(&loaded).await };
        let span = tracing::trace_span!(
            target: TRACE,
            "split",
            namespace = %partition.namespace,
            slice = partition.time_slice,
            series = %partition.time_series_id,
            state = Empty
        );
        let effort = work.advance(&loaded, &ground).instrument(span.clone()).await;
        if let Ok(Effort::Rests(rests)) = &effort {
            span.record("state", rests.row.state.name());
        }
        self.metrics.checksum_mismatches.with_label_values(&["verifier"]).inc_by(work.take_mismatches());
        let effort = effort?;
        if let Effort::Rests(rests) = &effort {
            self.note_rest(&loaded, rests);
        }
        Ok(())
    }

    /// A slice that was made ahead may have got other settings (T1): the record of a partition that it doesn't have any more tells
    /// of nothing, and would never come to rest (S5).
    async fn forget_if_nowhere(&self, loaded: &Loaded) -> Result<(), EngineError> {
        let row = &loaded.row;
        let namespace = self.registry.get(row.partition.namespace.as_str())?;
        if row.served.is_empty() && row.lease.is_none() && is_nowhere(&namespace.record, &row.partition) {
            self.splits.records.remove(loaded).await?;
        }
        Ok(())
    }

    fn note_rest(&self, before: &Loaded, rests: &Loaded) {
        let row = &rests.row;
        self.splits.router.learn(row);
        self.splits.summaries.changed(&before.row, row);
        self.metrics.splits_ended.with_label_values(&[row.state.name()]).inc();
        let partition = &row.partition;
        match &row.state {
            State::Completed { .. } if row.served.len() > before.row.served.len() => {
                self.splits.payments.forget(partition);
                let Some(segment) = row.served.last() else { return };
                self.metrics.split_seconds.observe(segment.took.as_secs_f64());
                if before.row.state == State::Detected {
                    let lag = self.env.now().since(before.row.updated);
                    self.metrics.split_lag_seconds.observe(lag.as_secs_f64());
                }
                let (from, to) = (segment.pre_split_data.bytes, segment.post_split_data.bytes);
                self.metrics.split_bytes.with_label_values(&["before"]).inc_by(from);
                self.metrics.split_bytes.with_label_values(&["after"]).inc_by(to);
                let sizes = |side: &str| self.metrics.partition_bytes.with_label_values(&[side]);
                sizes("before").observe(from as f64);
                segment.pieces.iter().for_each(|piece| sizes("after").observe(piece.content.bytes as f64));
                let pieces = segment.pieces.len();
                tracing::info!(?partition, pieces, from, to, took = ?segment.took, "a segment is served from pieces");
            }
            State::Failed(failure) => {
                tracing::warn!(?partition, reason = failure.reason, retry_after = %failure.retry_after, "a split failed");
            }
            State::Parked { reason, .. } => {
                tracing::error!(?partition, reason, "a split is parked: `anabranch split show` tells more");
            }
            _ => {}
        }
    }

    /// Compares every segment of a partition with its original, whole. Those that are the same count as of now; the first that
    /// isn't ends the use of all.
    pub(crate) async fn recheck(&self, partition: &WidePartition) -> Result<Rechecked, EngineError> {
        self.check_ready()?;
        let namespace = self.registry.get(partition.namespace.as_str())?;
        let now = self.env.now();
        if bucket(&namespace.record, partition).is_none() {
            return Ok(Rechecked::NotServed); // its slice is closed or gone
        }
        if let Some(reason) = self.why_not_rechecked(&namespace.record, partition) {
            return Ok(Rechecked::Skipped(reason));
        }
        let as_of = namespace.record.splits.reopenings;
        let Some(loaded) = self.splits.records.load(partition).await? else { return Ok(Rechecked::NotServed) };
        let served = Served::since(Arc::new(loaded.row.clone()), 0).map(Arc::new);
        let Some(served) = served else { return self.why_unserved(partition).await };
        for segment in &loaded.row.served {
            let doubt = Doubt {
                served: served.clone(),
                interval: segment.span,
                order: Order::LatestFirst,
                after: None,
                max_rows: u64::MAX,
                original_first: true,
                beyond_bounds: true,
            };
            let comparison = self.splits.scrubber.compare_everywhere(&doubt).await?;
            if comparison.difference.is_some() {
                return Ok(match self.confirm(Suspect { doubt, found_by: FoundBy::Recheck }).await? {
                    Some(difference) => Rechecked::Differs(Box::new(difference)),
                    None => self.why_unserved(partition).await?,
                });
            }
            self.metrics.comparisons.with_label_values(&["rechecked"]).inc();
            self.vouch(partition, segment, as_of, now).await?;
        }
        Ok(Rechecked::Same { segments: loaded.row.served.len() })
    }

    /// What to say of a split that was served a moment ago and couldn't be compared to its end. Only where it was given up there
    /// is nothing left to say: otherwise somebody may have found that it differs.
    async fn why_unserved(&self, partition: &WidePartition) -> Result<Rechecked, EngineError> {
        let Some(loaded) = self.splits.records.load(partition).await? else { return Ok(Rechecked::NotServed) };
        Ok(match &loaded.row.state {
            state if state.is_given_up() => Rechecked::NotServed,
            State::Invalidated { reason } => Rechecked::Skipped(format!("it isn't used any more: {reason}")),
            _ => Rechecked::Skipped("it changed while it was compared: compare it again".to_owned()),
        })
    }

    /// Why a comparison with the original would mean nothing now, if it would.
    pub(crate) fn why_not_rechecked(&self, record: &NamespaceRecord, partition: &WidePartition) -> Option<String> {
        let Some(bucket) = bucket(record, partition) else { return Some("its slice is closed".to_owned()) };
        let changing = record.may_be_backfilled(bucket, self.env.now(), self.registry.notice());
        changing.then(|| "a backfill window may still bring events; it is compared when that is over".to_owned())
    }

    /// A segment was found the same as its original.
    async fn vouch(
        &self,
        partition: &WidePartition,
        proven: &anabranch_split::Segment,
        as_of: u64,
        checked: Timestamp,
    ) -> Result<(), EngineError> {
        let vouch = |row: &mut anabranch_split::WideRow| {
            let same = |segment: &&mut anabranch_split::Segment| {
                segment.span == proven.span && segment.generation == proven.generation
            };
            let Some(segment) = row.served.iter_mut().find(same) else { return false };
            segment.as_of = segment.as_of.max(as_of);
            segment.checked = checked;
            true
        };
        self.splits.records.change(partition, vouch).await?;
        self.splits.router.forget(partition);
        Ok(())
    }
}

//! How much time pages cover: counted here, stored now and then so that the tuner sees the reads of all servers.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anabranch_model::{Interval, NamespaceName, Order, PageToken, Progress, Timestamp};
use anabranch_provision::{SizeHistogram, tuner::ReadEvidence};
use anabranch_store::{CasOutcome, MetaKey, Store, StoreError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::read::Plan;

/// What is older than this counts no more, or than twice this at most.
const REMEMBERED: Duration = Duration::from_secs(7 * 86_400);

/// Pages of this server that aren't stored yet, by namespace.
#[derive(Default)]
pub(crate) struct Reads(Mutex<BTreeMap<NamespaceName, SizeHistogram>>);

/// The document: lengths of time in seconds, of this stretch of time and of the one before.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReads {
    incarnation: u64,
    since: Timestamp,
    seconds: SizeHistogram,
    before: SizeHistogram,
}

impl Reads {
    /// Counts the time that a page has gone through, of that which can hold anything.
    pub(crate) fn note(&self, plan: &Plan, next: Option<&PageToken>, now: Timestamp) {
        let record = &plan.namespace.record;
        let Some(first) = record.slices.iter().next() else { return };
        let mut covered = plan.interval.intersect(&Interval::new(first.interval.start, record.accepts(now).end));
        if let Some(token) = next {
            let at = match &token.progress {
                Progress::Time(time) => *time,
                Progress::Event(position) | Progress::Item(position, _) => position.time,
            };
            match plan.order {
                Order::LatestFirst => covered.start = covered.start.max(at),
                Order::OldestFirst => covered.end = covered.end.min(at),
            }
        }
        let seconds = if covered.is_empty() { 0 } else { covered.length().as_secs() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(plan.namespace.name.clone()).or_default().add(seconds.max(1));
    }

    /// Adds what was counted to what is stored, and answers how the namespace is read.
    pub(crate) async fn store(
        &self,
        store: &dyn Store,
        name: &NamespaceName,
        incarnation: u64,
        now: Timestamp,
    ) -> Result<Option<ReadEvidence>, StoreError> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let key = MetaKey::new(super::scope(name), "reads");
        let found = store.load(&key).await?;
        let stored = found.as_ref().and_then(|document| serde_json::from_slice::<StoredReads>(&document.value).ok());
        let stored = stored.filter(|stored| stored.incarnation == incarnation);
        let mut stored = stored.unwrap_or(StoredReads { incarnation, since: now, ..StoredReads::default() });
        if let Some(counted) = counted {
            if now.since(stored.since) >= REMEMBERED {
                stored.before = std::mem::take(&mut stored.seconds);
                stored.since = now;
            }
            stored.seconds.merge(&counted);
            let value = Bytes::from(serde_json::to_vec(&stored).expect("histograms are plain data"));
            let kept = store.compare_and_set(&key, found.map(|document| document.version), Some(value)).await?;
            if !matches!(kept, CasOutcome::Applied(_)) {
                // Another server was quicker; ours come with the next ones.
                let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                all.entry(name.clone()).or_default().merge(&counted);
            }
        }
        let mut all = stored.before;
        all.merge(&stored.seconds);
        let seconds = |share| all.percentile(share).map(|seconds| seconds as f64);
        Ok(seconds(0.5).zip(seconds(0.99)).map(|(typical_seconds, longest_seconds)| ReadEvidence {
            reads: all.counted(),
            typical_seconds,
            longest_seconds,
        }))
    }
}

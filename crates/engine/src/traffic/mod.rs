//! What goes through this server, for people who look: rates and latencies of the last ten minutes, and where ids were busy in
//! the last half hour. Fixed in size however long it runs, and kept of so many namespaces only. Metrics are elsewhere.
//!
//! | file | what it keeps |
//! |---|---|
//! | `steps` | a ring of time steps |
//! | [`rates`] | events, pages, bytes and latencies, ten seconds a step |
//! | [`heat`] | ranges of hashed ids, fifteen seconds a step |
//! | `busiest` | the few ids of a range that are read and written most |

mod busiest;
pub mod heat;
pub mod rates;
mod steps;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use anabranch_model::{NamespaceName, Timestamp};
use anabranch_store::PartitionBatch;

use crate::{
    EngineError, Page,
    engine::Engine,
    traffic::{
        heat::{Heat, HeatMap},
        rates::{Rates, RecentTraffic},
    },
};

/// Namespaces of which traffic is kept; about 150 KiB each.
const MOST_NAMESPACES: usize = 256;

/// What is kept of one namespace.
struct Kept {
    rates: Rates,
    heat: Heat,
}

/// The traffic of all namespaces.
#[derive(Default)]
pub(crate) struct Traffic(RwLock<BTreeMap<NamespaceName, Arc<Mutex<Kept>>>>);

impl Traffic {
    /// Batches that are about to go to the store.
    pub(crate) fn sending(&self, namespace: &NamespaceName, batches: &[PartitionBatch], now: Timestamp) {
        self.with(namespace, now, |kept| {
            for batch in batches {
                let bytes: u64 = batch.rows.iter().map(|row| row.bytes() as u64).sum();
                let mut rows = batch.rows.iter().map(|row| &row.position);
                let mut last = rows.next();
                let mut events = u64::from(last.is_some());
                for position in rows {
                    events += u64::from(last != Some(position));
                    last = Some(position);
                }
                kept.heat.wrote(batch.partition.series.as_str(), events, bytes, now);
            }
        });
    }

    /// Events that are stored.
    pub(crate) fn stored(&self, namespace: &NamespaceName, events: u64, bytes: u64, now: Timestamp) {
        self.with(namespace, now, |kept| kept.rates.stored(events, bytes, now));
    }

    /// A page that was answered, or wasn't.
    pub(crate) fn read(
        &self,
        namespace: &NamespaceName,
        series: &str,
        took: Duration,
        result: &Result<Page, EngineError>,
        now: Timestamp,
    ) {
        self.with(namespace, now, |kept| match result {
            Ok(page) => {
                kept.rates.answered(took, page.bytes_read, now);
                kept.heat.read(series, page.bytes_read, now);
            }
            Err(_) => kept.rates.failed(now),
        });
    }

    fn with(&self, namespace: &NamespaceName, now: Timestamp, work: impl FnOnce(&mut Kept)) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned();
        let kept = match known {
            Some(kept) => kept,
            None => {
                let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
                if all.len() >= MOST_NAMESPACES && !all.contains_key(namespace) {
                    return;
                }
                let fresh = || Arc::new(Mutex::new(Kept { rates: Rates::new(now), heat: Heat::new() }));
                all.entry(namespace.clone()).or_insert_with(fresh).clone()
            }
        };
        work(&mut lock(&kept));
    }

    fn look<T>(&self, namespace: &NamespaceName, look: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned()?;
        Some(look(&mut lock(&kept)))
    }

    /// Whether a namespace has or would get a place.
    fn has_room(&self, namespace: &NamespaceName) -> bool {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.len() < MOST_NAMESPACES || all.contains_key(namespace)
    }

    /// Gives the places of namespaces that are gone to others.
    pub(crate) fn retain(&self, is_there: impl Fn(&NamespaceName) -> bool) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|name, _| is_there(name));
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// What went through this server for a namespace in the last `window`; `None` where it isn't recorded.
    pub fn recent_traffic(&self, name: &str, window: Duration) -> Result<Option<RecentTraffic>, EngineError> {
        let name = &self.registry.get(name)?.name;
        let now = self.env.now();
        let seen = self.traffic.look(name, |kept| kept.rates.recent(window, now));
        Ok(seen.or_else(|| self.traffic.has_room(name).then(|| Rates::new(now).recent(window, now))))
    }

    /// Where the ids of a namespace were busy in the last half hour; `None` where it isn't recorded.
    pub fn heat_map(&self, name: &str) -> Result<Option<HeatMap>, EngineError> {
        let name = &self.registry.get(name)?.name;
        let now = self.env.now();
        let seen = self.traffic.look(name, |kept| kept.heat.map(now));
        Ok(seen.or_else(|| self.traffic.has_room(name).then(|| Heat::new().map(now))))
    }
}

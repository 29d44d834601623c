//! How many split records a namespace has by state, as the last sweep found them and this server's workers left them since: to be
//! shown without reading them all again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use anabranch_model::{NamespaceName, TimeSeriesId, Timestamp};
use anabranch_split::{State, WideRow};

use crate::{EngineError, engine::Engine};

/// Wide series that are remembered by name.
const NAMED: usize = 1000;

/// The split records of a namespace, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitSummary {
    /// When they were counted.
    pub at: Timestamp,
    /// How many there are in each state, by its name.
    pub states: BTreeMap<&'static str, u64>,
    /// Of how many reads may use segments.
    pub served: u64,
    /// How many of the parked ones an operator gave up.
    pub given_up: u64,
    /// How many are set aside because they don't pay.
    pub set_aside: u64,
    /// Slices whose splits rest after too many fallbacks.
    pub resting: u64,
    /// Series with a partition that was found wide; the first thousand of them.
    pub wide: BTreeSet<TimeSeriesId>,
}

impl SplitSummary {
    pub(crate) fn new(at: Timestamp) -> Self {
        let (states, wide) = (BTreeMap::new(), BTreeSet::new());
        SplitSummary { at, states, served: 0, given_up: 0, set_aside: 0, resting: 0, wide }
    }

    pub(crate) fn add(&mut self, row: &WideRow) {
        *self.states.entry(row.state.name()).or_default() += 1;
        self.served += u64::from(!row.served.is_empty());
        self.given_up += u64::from(row.state.is_given_up());
        self.set_aside += u64::from(row.set_aside.is_some());
        if !matches!(row.state, State::NotWide { .. }) && self.wide.len() < NAMED {
            self.wide.insert(row.partition.time_series_id.clone());
        }
    }

    pub(crate) fn merge(&mut self, other: &SplitSummary) {
        for (state, count) in &other.states {
            *self.states.entry(state).or_default() += count;
        }
        self.served += other.served;
        self.given_up += other.given_up;
        self.set_aside += other.set_aside;
        self.resting += other.resting;
        let room = NAMED.saturating_sub(self.wide.len());
        self.wide.extend(other.wide.iter().take(room).cloned());
    }

    fn subtract(&mut self, row: &WideRow) {
        let state = row.state.name();
        match self.states.get_mut(state) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.states.remove(state)),
        }
        self.served = self.served.saturating_sub(u64::from(!row.served.is_empty()));
        self.given_up = self.given_up.saturating_sub(u64::from(row.state.is_given_up()));
        self.set_aside = self.set_aside.saturating_sub(u64::from(row.set_aside.is_some()));
    }

    /// Partitions that were found wide.
    pub fn wide_partitions(&self) -> u64 {
        self.states.iter().filter(|(state, _)| **state != "NOT_WIDE").map(|(_, count)| count).sum()
    }
}

/// Those of all namespaces.
#[derive(Default)]
pub(crate) struct Summaries(Mutex<BTreeMap<NamespaceName, SplitSummary>>);

impl Summaries {
    pub(crate) fn replace(&self, all: BTreeMap<NamespaceName, SplitSummary>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// A worker of this server has changed a record. Seen at once; what other servers do is found by the next sweep, as is a record
    /// that none has counted yet.
    pub(crate) fn changed(&self, before: &WideRow, after: &WideRow) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(summary) = all.get_mut(&after.partition.namespace) {
            summary.subtract(before);
            summary.add(after);
        }
    }
}

impl Engine {
    /// The split records of a namespace, counted; `None` before the first sweep.
    pub fn split_summary(&self, name: &str) -> Result<Option<SplitSummary>, EngineError> {
        let name = &self.registry.get(name)?.name;
        Ok(self.splits.summaries.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned())
    }

    /// Splits that wait for a worker of this server, and those that it works on.
    pub fn split_work(&self) -> (usize, usize) {
        self.splits.due.size()
    }

    /// Events that wait in the queue of unsynced writes.
    pub fn queued_events(&self) -> usize {
        self.queue.size().0
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{EventBucket, PartitionKey, TimeBucket};
    use anabranch_split::WidePartition;

    use super::*;

    #[test]
    fn what_a_worker_did_is_counted_before_the_next_sweep() {
        let name = NamespaceName::new("plays").unwrap();
        let found = |series: &str| {
            let series = TimeSeriesId::new(series).unwrap();
            let partition = PartitionKey { series, time_bucket: TimeBucket(2), event_bucket: EventBucket(0) };
            let wide = WidePartition::new(name.clone(), "data_20260328".to_owned(), partition);
            WideRow::detected(wide, Timestamp::from_seconds(1))
        };
        let mut summary = SplitSummary::new(Timestamp::from_seconds(1));
        summary.add(&found("a"));
        summary.add(&found("b"));
        let summaries = Summaries::default();
        summaries.replace(BTreeMap::from([(name.clone(), summary)]));
        let states = || summaries.0.lock().unwrap()[&name].states.clone().into_iter().collect::<Vec<_>>();

        let parked = |row: WideRow| WideRow { state: State::parked("no room".to_owned()), ..row };
        summaries.changed(&found("a"), &parked(found("a")));
        assert_eq!(states(), [("DETECTED", 1), ("PARKED", 1)]);
        summaries.changed(&found("b"), &parked(found("b")));
        assert_eq!(states(), [("PARKED", 2)]);
        // One that no sweep has seen yet.
        summaries.changed(&found("c"), &parked(found("c")));
        assert_eq!(states(), [("PARKED", 3)]);

        // What an operator gave up is told apart from what parked by itself.
        let given_up = || summaries.0.lock().unwrap()[&name].given_up;
        assert_eq!(given_up(), 0);
        let left = WideRow { state: State::given_up("not wanted"), ..found("a") };
        summaries.changed(&parked(found("a")), &left);
        assert_eq!((states(), given_up()), (vec![("PARKED", 3)], 1));
        summaries.changed(&left, &found("a"));
        assert_eq!(given_up(), 0);
    }
}

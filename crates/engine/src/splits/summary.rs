//! How many split records a namespace has by state, as the last sweep found them: to be shown without reading them all again.

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
    /// How many are set aside because they don't pay.
    pub set_aside: u64,
    /// Slices whose splits rest after too many fallbacks.
    pub resting: u64,
    /// Series with a partition that was found wide; the first thousand of them.
    pub wide: BTreeSet<TimeSeriesId>,
}

impl SplitSummary {
    pub(crate) fn new(at: Timestamp) -> Self {
        SplitSummary { at, states: BTreeMap::new(), served: 0, set_aside: 0, resting: 0, wide: BTreeSet::new() }
    }

    pub(crate) fn add(&mut self, row: &WideRow) {
        *self.states.entry(row.state.name()).or_default() += 1;
        self.served += u64::from(!row.served.is_empty());
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
        self.set_aside += other.set_aside;
        self.resting += other.resting;
        let room = NAMED.saturating_sub(self.wide.len());
        self.wide.extend(other.wide.iter().take(room).cloned());
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

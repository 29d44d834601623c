//! How often a run met what it is there for: a fault that never happens proves nothing.

use std::sync::{Mutex, PoisonError};

/// What was met in a run, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Clocks that went further wrong than they may.
    pub wrong_clocks: u64,
    /// Writes that a server refused because it could not rely on its clock.
    pub refused_by_clock: u64,
    /// Batches that only some replicas got.
    pub torn_batches: u64,
    /// Scans that saw one of them.
    pub torn_seen: u64,
    /// Scans that missed one of them.
    pub torn_missed: u64,
    /// Batches that a look at all replicas mended.
    pub torn_mended: u64,
    /// Conditional writes of which nobody knew whether they were made, until somebody looked.
    pub undecided_sets: u64,
    /// Of these, those that turned out to be made.
    pub decided_sets: u64,
    /// Pages that came from bulk reads.
    pub bulk_pages: u64,
    /// Bulk reads that were broken off and gone on with elsewhere.
    pub bulk_broken_off: u64,
    /// Pages that came from searches.
    pub search_pages: u64,
    /// Searches that came to their end over several pages.
    pub long_searches: u64,
}

impl Reached {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Reached) -> Reached {
        Reached {
            wrong_clocks: self.wrong_clocks + other.wrong_clocks,
            refused_by_clock: self.refused_by_clock + other.refused_by_clock,
            torn_batches: self.torn_batches + other.torn_batches,
            torn_seen: self.torn_seen + other.torn_seen,
            torn_missed: self.torn_missed + other.torn_missed,
            torn_mended: self.torn_mended + other.torn_mended,
            undecided_sets: self.undecided_sets + other.undecided_sets,
            decided_sets: self.decided_sets + other.decided_sets,
            bulk_pages: self.bulk_pages + other.bulk_pages,
            bulk_broken_off: self.bulk_broken_off + other.bulk_broken_off,
            search_pages: self.search_pages + other.search_pages,
            long_searches: self.long_searches + other.long_searches,
        }
    }
}

/// Counts what a run meets.
#[derive(Default)]
pub(crate) struct Tally(Mutex<Reached>);

impl Tally {
    pub(crate) fn count(&self, count: impl FnOnce(&mut Reached)) {
        count(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn reached(&self) -> Reached {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

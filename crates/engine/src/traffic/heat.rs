//! Where the ids of a namespace are busy: 64 ranges of their hash by the last half hour, and the busiest few ids of each range.
//! By hash, because that is how a cluster spreads ids over its nodes, and because it needs to know nothing of ids before.

use std::time::Duration;

use anabranch_model::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

use crate::traffic::{busiest::Busiest, steps::Steps};

/// How many ranges there are.
pub const RANGES: usize = 64;
/// How long a step is.
pub const STEP: Duration = Duration::from_secs(15);
/// Steps that are kept.
pub const STEPS: usize = 120;

/// What happened to a range in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeatCell {
    /// Pages read.
    pub reads: u32,
    /// Events sent to the store.
    pub writes: u32,
    /// Bytes read and written.
    pub bytes: u64,
}

/// A range of hashed ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatRange {
    /// One for each step, oldest first.
    pub cells: Vec<HeatCell>,
    /// Ids and about how many bytes each moved lately, the busiest first.
    pub busiest: Vec<(String, u64)>,
}

/// Where the ids of a namespace were busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatMap {
    /// When the first step began.
    pub start: Timestamp,
    /// One for each range.
    pub ranges: Vec<HeatRange>,
}

/// The range that an id lies in.
pub fn range_of(series: &str) -> usize {
    (xxh3_64(series.as_bytes()) >> (u64::BITS - RANGES.trailing_zeros())) as usize
}

pub(crate) struct Heat {
    steps: Steps<[HeatCell; RANGES]>,
    busiest: Vec<Busiest>,
}

/// What an answer without any bytes counts for among the busiest.
const LEAST_BYTES: u64 = 64;

impl Heat {
    pub(crate) fn new() -> Self {
        Heat {
            steps: Steps::new(STEPS, STEP, [HeatCell::default(); RANGES]),
            busiest: vec![Busiest::default(); RANGES],
        }
    }

    pub(crate) fn wrote(&mut self, series: &str, events: u64, bytes: u64, now: Timestamp) {
        let range = range_of(series);
        let cell = &mut self.steps.at(now)[range];
        cell.writes = cell.writes.saturating_add(u32::try_from(events).unwrap_or(u32::MAX));
        cell.bytes += bytes;
        self.busiest[range].add(series, bytes, now);
    }

    pub(crate) fn read(&mut self, series: &str, bytes: u64, now: Timestamp) {
        let range = range_of(series);
        let cell = &mut self.steps.at(now)[range];
        cell.reads = cell.reads.saturating_add(1);
        cell.bytes += bytes;
        self.busiest[range].add(series, bytes.max(LEAST_BYTES), now);
    }

    pub(crate) fn map(&mut self, now: Timestamp) -> HeatMap {
        let start = self.steps.start(now);
        let mut ranges: Vec<HeatRange> = self
            .busiest
            .iter_mut()
            .map(|busiest| HeatRange { cells: Vec::with_capacity(STEPS), busiest: busiest.all(now) })
            .collect();
        for step in self.steps.until(now) {
            ranges.iter_mut().zip(step).for_each(|(range, cell)| range.cells.push(*cell));
        }
        HeatMap { start, ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_and_written_is_found_in_its_range_and_step() {
        let now = Timestamp::from_seconds(1_000_000);
        let mut heat = Heat::new();
        heat.wrote("profile:1", 3, 300, now);
        heat.read("profile:1", 50, now.saturating_add(STEP));
        let map = heat.map(now.saturating_add(STEP));
        let range = &map.ranges[range_of("profile:1")];
        assert_eq!(range.cells[STEPS - 2], HeatCell { reads: 0, writes: 3, bytes: 300 });
        assert_eq!(range.cells[STEPS - 1], HeatCell { reads: 1, writes: 0, bytes: 50 });
        assert_eq!(range.busiest[0].0, "profile:1");
        let total: u64 = map.ranges.iter().flat_map(|range| &range.cells).map(|cell| cell.bytes).sum();
        assert_eq!(total, 350);
        assert_eq!(map.start.saturating_add(STEP * (STEPS as u32 - 1)), Timestamp::from_seconds(1_000_005));
    }

    #[test]
    fn ids_are_spread_over_all_ranges() {
        let mut seen = [0; RANGES];
        (0..6400).for_each(|id| seen[range_of(&format!("profile:{id}"))] += 1);
        assert!(seen.iter().all(|count| (50..200).contains(count)), "{seen:?}");
    }
}

//! A split must pay: what reads of pieces cost beside the same reads of the original, kept per partition and kind of read.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use anabranch_split::{Comparison, WidePartition};

/// Pairs needed before anything is concluded.
pub(crate) const LEAST_PAIRS: usize = 50;
/// A split whose median read takes this much of the original's is too slow.
pub(crate) const TOO_SLOW: f64 = 1.2;
const KEPT_PAIRS: usize = 101;
const KEPT_PARTITIONS: usize = 1000;

/// Reads of about the same size are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Few,
    Page,
    Bulk,
}

impl Kind {
    pub(crate) fn of(rows: u64) -> Kind {
        match rows {
            0..=50 => Kind::Few,
            51..=2000 => Kind::Page,
            _ => Kind::Bulk,
        }
    }
}

type Ratios = VecDeque<f64>;

/// What splits cost, as a share of their originals.
#[derive(Default)]
pub(crate) struct Payments(Mutex<BTreeMap<(WidePartition, Kind), Ratios>>);

impl Payments {
    /// Takes a pair down. Answers the median once there are enough.
    pub(crate) fn add(&self, partition: &WidePartition, comparison: &Comparison) -> Option<f64> {
        let original = comparison.original.time.as_secs_f64();
        if comparison.rows == 0 || original <= 0.0 {
            return None;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT_PARTITIONS {
            all.clear();
        }
        let ratios = all.entry((partition.clone(), Kind::of(comparison.rows))).or_default();
        ratios.push_back(comparison.split.time.as_secs_f64() / original);
        if ratios.len() > KEPT_PAIRS {
            ratios.pop_front();
        }
        (ratios.len() >= LEAST_PAIRS).then(|| median(ratios))
    }

    pub(crate) fn forget(&self, partition: &WidePartition) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _), _| known != partition);
    }
}

fn median(ratios: &Ratios) -> f64 {
    let mut sorted: Vec<f64> = ratios.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

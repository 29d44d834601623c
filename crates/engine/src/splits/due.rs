//! Partitions that wait for a worker: each at most once, and never two workers of this process on one.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anabranch_split::WidePartition;
use tokio::sync::Notify;

/// What is to be done for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Errand {
    /// Its record isn't where it rests.
    Advance,
    /// Time has sealed more of it.
    Extend,
    /// Its segments are to be compared with the original.
    Recheck,
}

#[derive(Default)]
struct Inside {
    queue: VecDeque<WidePartition>,
    errands: BTreeMap<WidePartition, Errand>,
    busy: BTreeSet<WidePartition>,
}

pub(crate) struct DueQueue {
    capacity: usize,
    inside: Mutex<Inside>,
    arrived: Notify,
}

impl DueQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        DueQueue { capacity, inside: Mutex::default(), arrived: Notify::new() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether there was room. What doesn't fit is found again by the next sweep.
    pub(crate) fn push(&self, partition: WidePartition, errand: Errand) -> bool {
        let mut inside = self.inside();
        if let Some(known) = inside.errands.get_mut(&partition) {
            *known = errand.min(*known);
            return true;
        }
        if inside.busy.contains(&partition) {
            return true; // the next sweep looks at it again
        }
        if inside.queue.len() >= self.capacity {
            return false;
        }
        inside.queue.push_back(partition.clone());
        inside.errands.insert(partition, errand);
        drop(inside);
        self.arrived.notify_one();
        true
    }

    /// The next partition, which is this worker's alone until [`DueQueue::done`].
    pub(crate) async fn next(&self) -> (WidePartition, Errand) {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut inside = self.inside();
                if let Some(partition) = inside.queue.pop_front() {
                    let errand = inside.errands.remove(&partition).unwrap_or(Errand::Advance);
                    inside.busy.insert(partition.clone());
                    if !inside.queue.is_empty() {
                        self.arrived.notify_one();
                    }
                    return (partition, errand);
                }
            }
            arrived.await;
        }
    }

    pub(crate) fn done(&self, partition: &WidePartition) {
        self.inside().busy.remove(partition);
    }

    /// How many wait, and how many are worked on.
    pub(crate) fn size(&self) -> (usize, usize) {
        let inside = self.inside();
        (inside.queue.len(), inside.busy.len())
    }
}

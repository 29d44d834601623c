//! What was received and not acknowledged. Kafka knows one number per partition, below which everything is done: it
//! may never pass a detection that is still being worked on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Delivery;

/// Everything received and not acknowledged, of all partitions.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    next_tag: u64,
    tags: BTreeMap<u64, Place>,
    partitions: BTreeMap<i32, Progress>,
    /// Given back, to come again.
    returned: VecDeque<Delivery>,
}

/// Where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) partition: i32,
    pub(super) offset: i64,
}

#[derive(Debug, Default)]
struct Progress {
    open: BTreeSet<i64>,
    /// Everything received lies below.
    end: i64,
    /// What was committed last.
    committed: i64,
}

impl Outstanding {
    /// Takes note of a message. Its tag, never given twice.
    pub(super) fn received(&mut self, place: Place) -> u64 {
        let progress = self.partitions.entry(place.partition).or_default();
        progress.open.insert(place.offset);
        progress.end = progress.end.max(place.offset + 1);
        self.next_tag += 1;
        self.tags.insert(self.next_tag, place);
        self.next_tag
    }

    /// A message is done. The place below which everything of its partition is done, when that has moved: it is to be
    /// committed, and how that went is to be told.
    pub(super) fn acknowledged(&mut self, tag: u64) -> Option<Place> {
        let place = *self.tags.get(&tag)?;
        let progress = self.partitions.get_mut(&place.partition)?;
        progress.open.remove(&place.offset);
        let done = progress.open.first().copied().unwrap_or(progress.end);
        if done <= progress.committed {
            self.committed(tag);
            return None;
        }
        progress.committed = done;
        Some(Place { partition: place.partition, offset: done })
    }

    /// All that this message's acknowledgement asked for is committed.
    pub(super) fn committed(&mut self, tag: u64) {
        self.tags.remove(&tag);
    }

    /// A commit failed: the same acknowledgement once more, or the next one, tries again.
    pub(super) fn not_committed(&mut self, place: Place) {
        if let Some(progress) = self.partitions.get_mut(&place.partition) {
            progress.committed = progress.committed.min(place.offset - 1);
        }
    }

    /// Partitions went to another worker, which will get what is open once more. Acknowledging that here does nothing.
    pub(super) fn revoked(&mut self, partitions: impl IntoIterator<Item = i32>) {
        for partition in partitions {
            self.partitions.remove(&partition);
            self.tags.retain(|_, place| place.partition != partition);
        }
        self.returned.retain(|delivery| self.tags.contains_key(&delivery.tag));
    }

    /// Whether a message is still to be acknowledged from here.
    pub(super) fn is_open(&self, tag: u64) -> bool {
        self.tags.contains_key(&tag)
    }

    /// A delivery is to come again, unless its partition went to another worker.
    pub(super) fn give_back(&mut self, delivery: Delivery) {
        if self.is_open(delivery.tag) {
            self.returned.push_back(delivery);
        }
    }

    /// The delivery that was given back first.
    pub(super) fn take_returned(&mut self) -> Option<Delivery> {
        self.returned.pop_front()
    }

    /// Of which partitions something was given back.
    pub(super) fn returned_from(&self) -> BTreeSet<i32> {
        self.returned.iter().filter_map(|delivery| self.tags.get(&delivery.tag)).map(|place| place.partition).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(partition: i32, offset: i64) -> Place {
        Place { partition, offset }
    }

    #[test]
    fn nothing_that_is_still_open_is_committed() {
        let mut outstanding = Outstanding::default();
        let tags: Vec<u64> = (10..14).map(|offset| outstanding.received(place(0, offset))).collect();
        assert_eq!(outstanding.acknowledged(tags[2]), Some(place(0, 10)), "10 is open: the commit stays below it");
        assert_eq!(outstanding.acknowledged(tags[1]), None);
        assert_eq!(outstanding.acknowledged(tags[0]), Some(place(0, 13)));
        outstanding.committed(tags[0]);
        assert_eq!(outstanding.acknowledged(tags[0]), None, "once is enough");
        assert_eq!(outstanding.acknowledged(tags[3]), Some(place(0, 14)));
    }

    #[test]
    fn partitions_are_counted_apart() {
        let mut outstanding = Outstanding::default();
        let (one, other) = (outstanding.received(place(0, 5)), outstanding.received(place(1, 5)));
        assert_eq!(outstanding.acknowledged(other), Some(place(1, 6)));
        assert_eq!(outstanding.acknowledged(one), Some(place(0, 6)));
    }

    #[test]
    fn what_went_to_another_worker_is_not_committed_here() {
        let mut outstanding = Outstanding::default();
        let tag = outstanding.received(place(0, 5));
        outstanding.revoked([0]);
        assert_eq!(outstanding.acknowledged(tag), None);
        let again = outstanding.received(place(0, 5));
        assert_eq!(outstanding.acknowledged(again), Some(place(0, 6)));
    }

    #[test]
    fn what_is_given_back_comes_again_unless_it_went_to_another_worker() {
        let text = r#"{"namespace":"plays","time_slice":"data_20260328","time_series_id":"a","time_bucket":1,"event_bucket":0,"immutable":true,"version":"0"}"#;
        let detection = crate::Detection::from_json(text.as_bytes()).unwrap();
        let mut outstanding = Outstanding::default();
        let [stays, goes] = [0, 1]
            .map(|partition| Delivery { detection: detection.clone(), tag: outstanding.received(place(partition, 5)) });
        outstanding.give_back(goes.clone());
        outstanding.give_back(stays.clone());
        assert_eq!(outstanding.returned_from(), BTreeSet::from([0, 1]));
        outstanding.revoked([1]);
        outstanding.give_back(goes);
        assert_eq!(outstanding.returned_from(), BTreeSet::from([0]));
        assert_eq!(outstanding.take_returned(), Some(stays.clone()));
        assert_eq!(outstanding.take_returned(), None);
        assert_eq!(outstanding.acknowledged(stays.tag), Some(place(0, 6)));
        outstanding.not_committed(place(0, 6));
        outstanding.give_back(stays.clone());
        assert_eq!(outstanding.take_returned(), Some(stays.clone()), "it isn't committed");
        assert_eq!(outstanding.acknowledged(stays.tag), Some(place(0, 6)));
    }

    #[test]
    fn a_commit_that_failed_is_tried_with_the_same_or_the_next_acknowledgement() {
        let mut outstanding = Outstanding::default();
        let tags: Vec<u64> = (0..2).map(|offset| outstanding.received(place(0, offset))).collect();
        for _ in 0..2 {
            let failed = outstanding.acknowledged(tags[0]).unwrap();
            assert_eq!(failed, place(0, 1));
            outstanding.not_committed(failed);
        }
        assert_eq!(outstanding.acknowledged(tags[1]), Some(place(0, 2)));
    }
}

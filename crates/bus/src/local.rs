//! A bus within one process: bounded, and one entry for a partition however often it is seen. A crash loses what is on
//! its way; the next read of a wide partition sees it again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::{Bus, BusError, Delivery, Detection, Published};

/// Detections within one process.
pub struct LocalBus {
    capacity: usize,
    inside: Mutex<Inside>,
    arrived: Notify,
}

#[derive(Default)]
struct Inside {
    next_tag: u64,
    waiting: BTreeMap<u64, Detection>,
    /// Received and not acknowledged.
    delivered: BTreeMap<u64, Detection>,
    known: BTreeSet<Detection>,
}

impl LocalBus {
    /// Holds at most `capacity` detections.
    pub fn new(capacity: usize) -> Self {
        LocalBus { capacity, inside: Mutex::default(), arrived: Notify::new() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are on their way.
    pub fn len(&self) -> usize {
        self.inside().known.len()
    }

    /// Whether none is on its way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Brings back what was received and not acknowledged: its receiver is gone.
    pub fn redeliver(&self) {
        let mut inside = self.inside();
        let delivered = std::mem::take(&mut inside.delivered);
        inside.waiting.extend(delivered);
        drop(inside);
        self.arrived.notify_waiters();
    }
}

#[async_trait]
impl Bus for LocalBus {
    fn publish(&self, detection: Detection) -> Published {
        let mut inside = self.inside();
        let suspect = detection.suspect();
        if inside.known.contains(&suspect) {
            return Published::Merged;
        }
        if inside.known.len() >= self.capacity {
            return Published::Dropped;
        }
        inside.next_tag += 1;
        let tag = inside.next_tag;
        inside.known.insert(suspect);
        inside.waiting.insert(tag, detection);
        drop(inside);
        self.arrived.notify_one();
        Published::Accepted
    }

    async fn receive(&self) -> Result<Delivery, BusError> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut inside = self.inside();
                if let Some((tag, detection)) = inside.waiting.pop_first() {
                    inside.delivered.insert(tag, detection.clone());
                    if !inside.waiting.is_empty() {
                        self.arrived.notify_one();
                    }
                    return Ok(Delivery { detection, tag });
                }
            }
            arrived.await;
        }
    }

    async fn acknowledge(&self, delivery: &Delivery) -> Result<(), BusError> {
        let mut inside = self.inside();
        inside.delivered.remove(&delivery.tag);
        inside.known.remove(&delivery.detection.suspect());
        Ok(())
    }

    fn give_back(&self, delivery: Delivery) {
        let mut inside = self.inside();
        let Some(detection) = inside.delivered.remove(&delivery.tag) else { return };
        // Behind those that wait: one that fails again and again doesn't hold them up.
        inside.next_tag += 1;
        let tag = inside.next_tag;
        inside.waiting.insert(tag, detection);
        drop(inside);
        self.arrived.notify_one();
    }

    async fn waiting(&self) -> Result<u64, BusError> {
        Ok(self.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::NamespaceName;

    use super::*;

    fn detection(bucket: u32) -> Detection {
        let text = format!(
            r#"{{"namespace":"plays","time_slice":"data_20260328","time_series_id":"a","time_bucket":{bucket},"event_bucket":0,"immutable":true,"version":"0"}}"#
        );
        let detection = Detection::from_json(text.as_bytes()).unwrap();
        assert_eq!(detection.namespace, NamespaceName::new("plays").unwrap());
        detection
    }

    #[tokio::test]
    async fn a_detection_comes_again_until_it_is_acknowledged() {
        let bus = LocalBus::new(10);
        assert_eq!(bus.publish(detection(1)), Published::Accepted);
        assert_eq!(bus.publish(Detection { bytes_seen: Some(9), ..detection(1) }), Published::Merged);
        let first = bus.receive().await.unwrap();
        bus.redeliver();
        let again = bus.receive().await.unwrap();
        assert_eq!(first, again);
        bus.acknowledge(&again).await.unwrap();
        assert!(bus.is_empty());
        assert_eq!(bus.publish(detection(1)), Published::Accepted);
    }

    #[tokio::test]
    async fn what_is_given_back_comes_again_behind_what_waits() {
        let bus = LocalBus::new(10);
        bus.publish(detection(1));
        bus.publish(detection(2));
        bus.give_back(bus.receive().await.unwrap());
        assert_eq!(bus.publish(detection(1)), Published::Merged);
        for bucket in [2, 1] {
            let delivery = bus.receive().await.unwrap();
            assert_eq!(delivery.detection, detection(bucket));
            bus.acknowledge(&delivery).await.unwrap();
            bus.give_back(delivery);
        }
        assert!(bus.is_empty(), "what is acknowledged can't be given back");
    }

    #[tokio::test]
    async fn what_does_not_fit_is_dropped_at_once() {
        let bus = LocalBus::new(2);
        assert_eq!(bus.publish(detection(1)), Published::Accepted);
        assert_eq!(bus.publish(detection(2)), Published::Accepted);
        assert_eq!(bus.publish(detection(3)), Published::Dropped);
        assert_eq!(bus.len(), 2);
    }
}

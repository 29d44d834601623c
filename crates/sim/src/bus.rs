//! The bus as one server sees it: it loses detections, delivers them late or twice, and fails now and then. Underneath lies the
//! one that all servers share.

use std::{sync::Arc, time::Duration};

use anabranch_bus::{Bus, BusError, Delivery, Detection, LocalBus, Published};
use anabranch_runtime::Env;
use async_trait::async_trait;

use crate::{dice::Dice, faults::Sky};

/// The shared bus with the faults that one server meets.
pub(crate) struct FaultyBus {
    pub(crate) inner: Arc<LocalBus>,
    /// For what is on its way when the server is dead.
    pub(crate) world: Env,
    pub(crate) sky: Arc<Sky>,
    pub(crate) dice: Dice,
}

fn unavailable() -> BusError {
    BusError { reason: "simulated".to_owned() }
}

impl FaultyBus {
    fn publish_later(&self, detection: Detection) {
        let (world, inner) = (self.world.clone(), self.inner.clone());
        let delay = self.dice.millis(10, 20_000);
        self.world.spawn(async move {
            world.sleep(delay).await;
            inner.publish(detection);
        });
    }
}

#[async_trait]
impl Bus for FaultyBus {
    fn publish(&self, detection: Detection) -> Published {
        if self.dice.chance(self.sky.weather().bus) {
            match self.dice.below(3) {
                0 => return Published::Accepted, // and lost
                1 => {
                    self.publish_later(detection);
                    return Published::Accepted;
                }
                _ => self.publish_later(detection.clone()),
            }
        }
        self.inner.publish(detection)
    }

    async fn receive(&self) -> Result<Delivery, BusError> {
        if self.dice.chance(self.sky.weather().bus) {
            return Err(unavailable());
        }
        let delivery = self.inner.receive().await?;
        if self.dice.chance(self.sky.weather().bus) {
            self.world.sleep(Duration::from_millis(self.dice.below(3000))).await;
        }
        Ok(delivery)
    }

    async fn acknowledge(&self, delivery: &Delivery) -> Result<(), BusError> {
        if self.dice.chance(self.sky.weather().bus) {
            return Err(unavailable()); // it comes again
        }
        self.inner.acknowledge(delivery).await
    }

    fn give_back(&self, delivery: Delivery) {
        self.inner.give_back(delivery);
    }
}

//! What a bus must do.

use async_trait::async_trait;
use thiserror::Error;

use crate::Detection;

/// Carries detections at least once, in any order. Publishing never waits and never fails a read.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Hands a detection over, or drops it; never waits.
    fn publish(&self, detection: Detection) -> Published;

    /// Waits for the next detection. It comes again, to this or another receiver, unless it is [acknowledged](Bus::acknowledge).
    async fn receive(&self) -> Result<Delivery, BusError>;

    /// The work that a delivery asked for is recorded: it needn't come again. When this fails, it may be called again.
    async fn acknowledge(&self, delivery: &Delivery) -> Result<(), BusError>;

    /// What a delivery asked for couldn't be recorded, or acknowledged, for now: it comes again. Whoever holds on to it and
    /// doesn't [receive](Bus::receive) for long may lose its place among the receivers.
    fn give_back(&self, delivery: Delivery);

    /// Whether it brings detections to other processes too. One that doesn't is heard by its own process or by nobody.
    fn reaches_others(&self) -> bool {
        false
    }

    /// Detections on their way that nobody has acknowledged, or why it can't be reached.
    async fn waiting(&self) -> Result<u64, BusError> {
        Ok(0)
    }

    /// What didn't get through so far, whether it can be reached or not.
    fn losses(&self) -> BusLosses {
        BusLosses::default()
    }

    /// Lets go of what was published, as far as there is somebody to take it.
    async fn close(&self) {}
}

/// What didn't get through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusLosses {
    /// Detections that were accepted and dropped later, since nobody took them in time.
    pub dropped: u64,
    /// Messages that couldn't be read, and were put aside.
    pub dead_letters: u64,
}

/// What became of a detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// On its way.
    Accepted,
    /// The same is on its way already.
    Merged,
    /// There was no room; a later read will see the partition again.
    Dropped,
}

/// A detection that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// What it says.
    pub detection: Detection,
    /// Names it to the bus.
    pub tag: u64,
}

/// The bus can't be reached; try again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the bus is not available: {reason}")]
pub struct BusError {
    /// What it said.
    pub reason: String,
}

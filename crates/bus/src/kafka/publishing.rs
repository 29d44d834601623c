//! What became of messages of ours, as the broker's answers tell.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rdkafka::{ClientContext, error::KafkaError, message::DeliveryResult, producer::ProducerContext};
use tokio::sync::oneshot;

use crate::Detection;

/// What a message of ours was.
#[derive(Debug)]
pub(super) enum Sent {
    Detection(Detection),
    /// A dead letter, and who wants to know whether the broker has it.
    Letter(oneshot::Sender<Result<(), KafkaError>>),
}

/// The publishing side, told by the broker's answers.
#[derive(Clone, Default)]
pub(super) struct Publishing {
    pub(super) counts: Arc<PublishCounts>,
    under_way: Arc<Mutex<BTreeSet<Detection>>>,
}

#[derive(Default)]
pub(super) struct PublishCounts {
    pub(super) published: AtomicU64,
    pub(super) dropped: AtomicU64,
}

impl Publishing {
    fn under_way(&self) -> MutexGuard<'_, BTreeSet<Detection>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A detection is to go out. `false`: one of the same partition is under way.
    pub(super) fn begins(&self, detection: &Detection) -> bool {
        self.under_way().insert(detection.suspect())
    }

    /// A message of ours got there, or didn't.
    pub(super) fn ended(&self, sent: Sent, outcome: Result<(), KafkaError>) {
        match sent {
            Sent::Detection(detection) => {
                self.under_way().remove(&detection.suspect());
                let counter = if outcome.is_ok() { &self.counts.published } else { &self.counts.dropped };
                counter.fetch_add(1, Ordering::Relaxed);
            }
            Sent::Letter(told) => {
                // Nobody asks any more: it went to another worker meanwhile.
                let _ = told.send(outcome);
            }
        }
    }
}

impl ClientContext for Publishing {}

impl ProducerContext for Publishing {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let outcome = result.as_ref().map(|_| ()).map_err(|(error, _)| error.clone());
        self.ended(*sent, outcome);
    }
}

//! Stops the tasks of one simulated server for a while, as a suspended process stops. Timers that come due meanwhile and answers
//! that arrive are all found at once when it goes on.
#![allow(clippy::disallowed_methods)] // part of the door that the rest of the house has to use

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use tokio::time::Instant;

/// When the tasks of a server go on. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Pause(Arc<Mutex<Option<Instant>>>);

impl Pause {
    fn state(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on.
    pub(crate) fn begin(&self, duration: Duration) {
        let until = Instant::now() + duration;
        let mut state = self.state();
        *state = (*state).max(Some(until));
    }

    /// When the latest pause ends or ended.
    pub(crate) fn until(&self) -> Option<Instant> {
        *self.state()
    }

    /// The end of the pause that holds now.
    fn holds(&self) -> Option<Instant> {
        self.until().filter(|until| *until > Instant::now())
    }

    /// `future`, which does nothing during pauses.
    pub(crate) fn over<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let pause = self.clone();
        let mut work = Box::pin(future);
        let mut waiting = None;
        std::future::poll_fn(move |context| {
            while let Some(until) = pause.holds() {
                let sleep = waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
                if sleep.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                waiting = None;
            }
            work.as_mut().poll(context)
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::Timestamp;

    use super::*;
    use crate::run_simulated;

    #[test]
    fn a_paused_server_goes_on_later_and_finds_everything_due() {
        run_simulated(1, Timestamp::from_seconds(1), |env| async move {
            let node = env.node(0);
            let inner = node.clone();
            let task = node.spawn(async move {
                let timely = inner.timeout(Duration::from_secs(2), inner.sleep(Duration::from_secs(1))).await;
                (timely.is_ok(), inner.monotonic())
            });
            env.sleep(Duration::from_millis(500)).await;
            node.pause(Duration::from_secs(10));
            // The timer that came due first counts, though both have.
            assert_eq!(task.await, Some((true, Duration::from_millis(10_500))));
            assert!(node.was_paused_since(Duration::from_secs(2)) && !node.was_paused_since(Duration::from_secs(11)));
        });
    }
}

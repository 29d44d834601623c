//! The hedge: a read that takes much longer than others is sent to another replica too, and the first answer counts.
//! Within a budget, so that a cluster that is slow everywhere isn't asked twice for everything.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use scylla::{
    errors::{RequestAttemptError, RequestError},
    observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId},
    policies::{
        retry::RetryDecision,
        speculative_execution::{Context, SpeculativeExecutionPolicy},
    },
};

/// One read's worth, in the budget's thousandths.
const ONE: u32 = 1000;
/// The most that can be saved up: reads that may be doubled at one moment.
const MOST: u32 = 16 * ONE;
/// A read is slow when it takes so many times the mean.
const SLOW: u64 = 4;

/// Who may send a read twice, and when.
#[derive(Debug)]
pub(crate) struct Hedge {
    permille: u32,
    least: Duration,
    budget: AtomicU32,
    mean_micros: AtomicU64,
}

impl Hedge {
    pub(crate) fn new(permille: u32, least: Duration) -> Self {
        let budget = if permille == 0 { 0 } else { MOST };
        Hedge { permille, least, budget: AtomicU32::new(budget), mean_micros: AtomicU64::new(0) }
    }

    /// Pays for a second read ahead; `None` when the budget is spent.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<Arc<Reservation>> {
        let taken = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some((left + self.permille).min(MOST)).filter(|left| *left >= ONE).map(|left| left - ONE)
        });
        if taken.is_err() {
            self.earn(self.permille);
            return None;
        }
        Some(Arc::new(Reservation { hedge: self.clone(), used: AtomicBool::new(false) }))
    }

    /// Takes note of how long a read took.
    pub(crate) fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let _ = self.mean_micros.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |mean| {
            Some(if mean == 0 { micros } else { mean - mean / 16 + micros / 16 })
        });
    }

    fn earn(&self, amount: u32) {
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some((left + amount).min(MOST)));
    }
}

impl SpeculativeExecutionPolicy for Hedge {
    fn max_retry_count(&self, _: &Context) -> usize {
        1
    }

    fn retry_interval(&self, _: &Context) -> Duration {
        self.least.max(Duration::from_micros(self.mean_micros.load(Ordering::Relaxed).saturating_mul(SLOW)))
    }
}

/// The right of one read to be sent twice; given back when it wasn't.
#[derive(Debug)]
pub(crate) struct Reservation {
    hedge: Arc<Hedge>,
    used: AtomicBool,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.used.load(Ordering::Relaxed) {
            self.hedge.earn(ONE);
        }
    }
}

/// The driver tells here when it sends the second one.
impl HistoryListener for Reservation {
    fn log_request_start(&self) -> RequestId {
        RequestId(0)
    }

    fn log_request_success(&self, _: RequestId) {}

    fn log_request_error(&self, _: RequestId, _: &RequestError) {}

    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        self.used.store(true, Ordering::Relaxed);
        SpeculativeId(0)
    }

    fn log_attempt_start(&self, _: RequestId, _: Option<SpeculativeId>, _: SocketAddr) -> AttemptId {
        AttemptId(0)
    }

    fn log_attempt_success(&self, _: AttemptId) {}

    fn log_attempt_error(&self, _: AttemptId, _: &RequestAttemptError, _: &RetryDecision) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_were_sent_twice_stay_within_their_share() {
        let hedge = Arc::new(Hedge::new(50, Duration::ZERO));
        let mut doubled = 0;
        for _ in 0..10_000 {
            if let Some(reservation) = hedge.reserve() {
                reservation.log_new_speculative_fiber(RequestId(0));
                doubled += 1;
            }
        }
        assert!((500..=520).contains(&doubled), "{doubled} of 10000 at 50 in a thousand");
    }

    #[test]
    fn what_was_not_used_is_given_back() {
        let hedge = Arc::new(Hedge::new(1, Duration::ZERO));
        for _ in 0..1000 {
            let held: Vec<_> = std::iter::from_fn(|| hedge.reserve()).collect();
            assert_eq!(held.len(), 16);
        }
        assert!(Arc::new(Hedge::new(0, Duration::ZERO)).reserve().is_none());
    }
}

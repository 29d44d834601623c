//! When a slow read is worth being sent a second time, to another replica: after the time that 95 of 100 reads don't exceed, and
//! for no more than a share of all reads, so that a store that is slow everywhere isn't asked twice for everything.
//!
//! The second read itself is the back end's: only there can another replica be named. Whichever answers first counts, at the same
//! level, so that answers don't depend on it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// One read's worth, in the budget's thousandths.
const ONE: u32 = 1000;
/// The most that can be saved up: reads that may be doubled at one moment.
const MOST: u32 = 16 * ONE;
/// Before so many reads nothing is known.
const LEAST_READS: u64 = 100;
/// How far one read moves what is taken for the 95th percentile, at most.
const STEP: f64 = 1.0 / 32.0;

/// Who may send a read twice, and when.
#[derive(Debug)]
pub struct Hedge {
    permille: u32,
    least: Duration,
    budget: AtomicU32,
    reads: AtomicU64,
    doubled: AtomicU64,
    p95_nanos: AtomicU64,
}

/// What became of reads since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HedgeCount {
    /// Reads that were answered.
    pub reads: u64,
    /// Reads that were sent twice.
    pub doubled: u64,
    /// After which time a read is sent twice.
    pub after: Duration,
}

impl Hedge {
    /// Of a thousand reads so many may be sent twice, none of them before `least`.
    pub fn new(permille: u32, least: Duration) -> Self {
        Hedge {
            permille,
            least,
            budget: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            doubled: AtomicU64::new(0),
            p95_nanos: AtomicU64::new(0),
        }
    }

    /// Pays for a second read ahead; `None` when the budget is spent, or nothing is known yet.
    pub fn reserve(self: &Arc<Self>) -> Option<Arc<Reservation>> {
        self.earn(self.permille);
        if self.reads.load(Ordering::Relaxed) < LEAST_READS {
            return None;
        }
        let pay = |left: u32| left.checked_sub(ONE);
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).ok()?;
        Some(Arc::new(Reservation { hedge: self.clone(), used: AtomicBool::new(false) }))
    }

    /// How long the first read is waited for before the second is sent.
    pub fn after(&self) -> Duration {
        self.least.max(Duration::from_nanos(self.p95_nanos.load(Ordering::Relaxed)))
    }

    /// Takes note of how long a read took.
    pub fn took(&self, time: Duration) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let nanos = time.as_nanos() as f64;
        // Up by 19 parts when a read took longer, down by one when it didn't: at rest where 19 of 20 don't.
        let _ = self.p95_nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| {
            let known = known as f64;
            let moved = if known == 0.0 {
                nanos
            } else if nanos > known {
                (known * (1.0 + 0.95 * STEP)).min(nanos)
            } else {
                known * (1.0 - 0.05 * STEP)
            };
            Some(moved.max(1.0) as u64)
        });
    }

    /// What was counted.
    pub fn count(&self) -> HedgeCount {
        HedgeCount {
            reads: self.reads.load(Ordering::Relaxed),
            doubled: self.doubled.load(Ordering::Relaxed),
            after: self.after(),
        }
    }

    fn earn(&self, amount: u32) {
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some((left + amount).min(MOST)));
    }
}

/// The right of one read to be sent twice; given back when it wasn't.
#[derive(Debug)]
pub struct Reservation {
    hedge: Arc<Hedge>,
    used: AtomicBool,
}

impl Reservation {
    /// The second read is sent.
    pub fn spend(&self) {
        if !self.used.swap(true, Ordering::Relaxed) {
            self.hedge.doubled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.used.load(Ordering::Relaxed) {
            self.hedge.earn(ONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::Timestamp;
    use anabranch_runtime::{Env, run_simulated};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A replica answers after 1 to 3 ms; of a hundred answers so many take 200 ms.
    async fn replica(env: &Env, slow_percent: u64) {
        let slow = env.random_below(100) < slow_percent;
        let usual = MS + Duration::from_micros(env.random_below(2000));
        env.sleep(if slow { 200 * MS } else { usual }).await;
    }

    /// One read, as a back end sends it: the second one beside the first, whichever answers first ends both.
    async fn read(env: &Env, hedge: &Arc<Hedge>, slow_percent: u64) -> Duration {
        let begun = env.monotonic();
        let reservation = hedge.reserve();
        let mut first = std::pin::pin!(replica(env, slow_percent));
        match &reservation {
            None => first.await,
            Some(reservation) => {
                if env.timeout(hedge.after(), &mut first).await.is_err() {
                    reservation.spend();
                    futures_util::future::select(first, std::pin::pin!(replica(env, slow_percent))).await;
                }
            }
        }
        let took = env.monotonic() - begun;
        hedge.took(took);
        took
    }

    /// What the slowest hundredth of reads took, and which share was sent twice.
    fn run(permille: u32, slow_percent: u64) -> (Duration, f64) {
        const READS: usize = 20_000;
        run_simulated(7, Timestamp::from_seconds(0), |env| async move {
            let hedge = Arc::new(Hedge::new(permille, MS));
            let mut took = Vec::with_capacity(READS);
            for _ in 0..READS {
                took.push(read(&env, &hedge, slow_percent).await);
            }
            took.sort();
            let count = hedge.count();
            assert_eq!(count.reads, READS as u64);
            (took[READS * 99 / 100], count.doubled as f64 / READS as f64)
        })
    }

    #[test]
    fn a_few_slow_reads_are_overtaken_and_the_extra_load_is_at_most_a_twentieth() {
        let (alone, none) = run(0, 2);
        assert_eq!((alone, none), (200 * MS, 0.0));
        let (hedged, doubled) = run(50, 2);
        assert!(hedged <= 10 * MS, "{hedged:?}");
        assert!(doubled > 0.01 && doubled <= 0.05, "{doubled}");
    }

    #[test]
    fn a_store_that_is_slow_everywhere_is_not_asked_twice_for_everything() {
        for slow_percent in [30, 60, 100] {
            let (_, doubled) = run(50, slow_percent);
            assert!(doubled <= 0.05, "{slow_percent}: {doubled}");
        }
    }

    #[test]
    fn the_time_to_wait_is_what_95_of_100_reads_do_not_exceed() {
        run_simulated(3, Timestamp::from_seconds(0), |env| async move {
            let hedge = Hedge::new(50, Duration::ZERO);
            for scale in [1, 20, 3] {
                (0..20_000).for_each(|_| hedge.took(Duration::from_micros(env.random_below(1000) * scale)));
                let after = hedge.after().as_micros() as f64 / scale as f64;
                assert!((850.0..1000.0).contains(&after), "{scale}: {after}");
            }
        });
    }

    #[test]
    fn what_was_not_used_is_given_back() {
        let hedge = Arc::new(Hedge::new(1, Duration::ZERO));
        (0..LEAST_READS).for_each(|_| hedge.took(MS));
        (0..16_000).for_each(|_| drop(hedge.reserve()));
        for _ in 0..1000 {
            let held: Vec<_> = std::iter::from_fn(|| hedge.reserve()).collect();
            assert_eq!(held.len(), 16);
        }
        assert_eq!(hedge.count().doubled, 0);
    }
}

//! How fast splits may read and write: so many bytes per second over all of them, and less while reads are slow.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_runtime::Env;

/// Waits shorter than this aren't worth a timer.
const LEAST_WAIT: Duration = Duration::from_micros(500);
/// What may be taken at once after a pause.
const BURST: Duration = Duration::from_millis(50);
/// While serving is slow, splits go this much slower.
const SLOWED: u64 = 8;
/// How much of the latest read counts in the average, as a shift.
const WEIGHT: u32 = 4;

/// One pace for all splits of a process.
pub struct Pace {
    bytes_per_second: u64,
    /// When everything that was taken so far may have been done, by the monotonic clock.
    busy_until: Mutex<Duration>,
    /// Moving average of what reads take, in thousandths of what they should take.
    load: AtomicU64,
    slowed: AtomicU64,
}

impl Pace {
    /// So many bytes per second, read and written together.
    pub fn new(bytes_per_second: u64) -> Self {
        Pace {
            bytes_per_second: bytes_per_second.max(1),
            busy_until: Mutex::default(),
            load: AtomicU64::new(0),
            slowed: AtomicU64::new(0),
        }
    }

    /// A read was served: in `took`, where it should take `target`.
    pub fn observe(&self, took: Duration, target: Duration) {
        let now = (took.as_nanos() * 1000 / target.as_nanos().max(1)).min(1_000_000) as u64;
        let before = self.load.load(Ordering::Relaxed);
        self.load.store(before - (before >> WEIGHT) + (now >> WEIGHT), Ordering::Relaxed);
    }

    /// Whether reads take longer than they should.
    pub fn is_slowed(&self) -> bool {
        self.load.load(Ordering::Relaxed) > 1000
    }

    /// How often a wait was lengthened because reads were slow.
    pub fn times_slowed(&self) -> u64 {
        self.slowed.load(Ordering::Relaxed)
    }

    /// Waits until this many bytes more may be read or written.
    pub(crate) async fn take(&self, env: &Env, bytes: u64) {
        let now = env.monotonic();
        let mut rate = self.bytes_per_second;
        if self.is_slowed() {
            rate = (rate / SLOWED).max(1);
            self.slowed.fetch_add(1, Ordering::Relaxed);
        }
        let takes = Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64);
        let wait = {
            let mut busy_until = self.busy_until.lock().unwrap_or_else(PoisonError::into_inner);
            *busy_until = (*busy_until).max(now.saturating_sub(BURST)) + takes;
            busy_until.saturating_sub(now)
        };
        if wait >= LEAST_WAIT {
            env.sleep(wait).await;
        }
    }
}

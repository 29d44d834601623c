//! How many bulk and background reads may be in flight, from what small reads observe of the store.
//!
//! What a small read usually takes is learnt, by size, while no heavy read is in flight; beside heavy ones it is compared with
//! that. When small reads are slower than is tolerated, the number goes down by a quarter; when they aren't, it goes up by one
//! after some heavy reads. A step up that had to be taken back makes the next one wait twice as long, so that small reads pay
//! for few attempts. Where nobody else reads, it goes up with every read.

use std::time::Duration;

/// Sizes of reads that are told apart: each twice the one before, from 256 bytes on.
const SIZES: usize = 20;
/// Small reads may take so many times what they usually take.
const TOLERATED: f64 = 1.4;
/// Small reads between two steps down.
const READS_PER_STEP: u32 = 4;
/// Heavy reads between two steps up: at first, and at most.
const FIRST_PATIENCE: u32 = 16;
const LONGEST_PATIENCE: u32 = 4096;
/// Without a small read for so long, nobody is slowed down.
const QUIET: Duration = Duration::from_secs(1);
/// One read says no more than this, however slow it was.
const MOST_SLOW: f64 = 16.0;

pub(super) struct BulkLimit {
    least: usize,
    most: usize,
    now: usize,
    /// In nanoseconds, by size; 0 where nothing is known.
    usual: [f64; SIZES],
    /// How much slower small reads are beside heavy ones, on average.
    slowness: f64,
    small_since_step: u32,
    heavy_since_step: u32,
    /// Heavy reads before the next step up.
    patience: u32,
    /// Whether the last step went up.
    rose: bool,
    last_small: Option<Duration>,
}

impl BulkLimit {
    pub(super) fn new(least: usize, most: usize) -> Self {
        BulkLimit {
            least: least.clamp(1, most),
            most,
            now: most,
            usual: [0.0; SIZES],
            slowness: 1.0,
            small_since_step: 0,
            heavy_since_step: 0,
            patience: FIRST_PATIENCE,
            rose: false,
            last_small: None,
        }
    }

    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// Whether nobody is slowed down.
    pub(super) fn is_quiet(&self, at: Duration) -> bool {
        self.last_small.is_none_or(|last| at.saturating_sub(last) >= QUIET)
    }

    /// A small read took this long; `alone` when no heavy one was in flight meanwhile.
    pub(super) fn small_done(&mut self, at: Duration, took: Duration, bytes: u64, alone: bool) {
        self.last_small = Some(at);
        let size = ((bytes >> 8) + 1).ilog2() as usize;
        let usual = &mut self.usual[size.min(SIZES - 1)];
        let took = (took.as_nanos() as f64).max(1.0);
        if *usual == 0.0 {
            *usual = took;
        } else if alone || took < *usual {
            *usual += (took - *usual) / 16.0;
        }
        if alone {
            return;
        }
        let slow = (took / *usual).min(MOST_SLOW);
        self.slowness += (slow - self.slowness) / 8.0;
        self.small_since_step += 1;
        if self.slowness > TOLERATED && self.small_since_step >= READS_PER_STEP {
            self.small_since_step = 0;
            self.heavy_since_step = 0;
            if std::mem::take(&mut self.rose) {
                self.patience = (self.patience * 2).min(LONGEST_PATIENCE);
            }
            self.now = (self.now - self.now.div_ceil(4)).max(self.least);
        }
    }

    /// A heavy read is done; `wanted` when another one waits.
    pub(super) fn heavy_done(&mut self, at: Duration, wanted: bool) {
        let quiet = self.is_quiet(at);
        if !wanted || self.now >= self.most || (self.slowness > TOLERATED && !quiet) {
            return;
        }
        self.heavy_since_step += 1;
        if quiet {
            (self.slowness, self.patience) = (1.0, FIRST_PATIENCE);
        } else if self.heavy_since_step < self.patience {
            return;
        } else if self.rose {
            self.patience = (self.patience / 2).max(FIRST_PATIENCE); // the last step did no harm
        }
        (self.small_since_step, self.heavy_since_step) = (0, 0);
        self.rose = true;
        self.now += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A store whose small reads take 1 ms, and 1 ms more for each heavy read in flight beyond `free`.
    fn settle(limit: &mut BulkLimit, free: usize, from: Duration) -> Vec<usize> {
        (0..4000)
            .map(|at| {
                let now = from + MS * at;
                let beside = limit.now().saturating_sub(free) as u32;
                limit.small_done(now, MS + MS * beside, 1000, false);
                limit.heavy_done(now, true);
                limit.now()
            })
            .collect()
    }

    #[test]
    fn the_number_follows_the_latency_that_small_reads_observe() {
        for free in [1, 4, 9] {
            let mut limit = BulkLimit::new(1, 16);
            (0..64).for_each(|at| limit.small_done(MS * at, MS, 1000, true));
            let found = settle(&mut limit, free, Duration::from_secs(1));
            let mean = found[1000..].iter().sum::<usize>() as f64 / 3000.0;
            assert!((free as f64 * 0.6..free as f64 + 1.5).contains(&mean), "{free}: {mean}");
        }
    }

    #[test]
    fn it_never_falls_below_the_least_and_comes_back_when_nobody_else_reads() {
        for (least, most, floor) in [(1, 16, 1), (2, 16, 2), (0, 16, 1), (4, 2, 2)] {
            let mut limit = BulkLimit::new(least, most);
            (0..64).for_each(|at| limit.small_done(MS * at, MS, 1000, true));
            (0..1000).for_each(|at| limit.small_done(MS * (64 + at), 50 * MS, 1000, false));
            assert_eq!(limit.now(), floor);
            limit.heavy_done(MS * 1100, true);
            assert_eq!(limit.now(), floor, "small reads are slow, and there are some");
            (0..15).for_each(|at| limit.heavy_done(Duration::from_secs(3) + MS * at, true));
            assert_eq!(limit.now(), most);
        }
    }

    #[test]
    fn large_small_reads_are_not_slow_ones() {
        let mut limit = BulkLimit::new(1, 16);
        for at in 0..64 {
            limit.small_done(MS * at, MS, 1000, true);
            limit.small_done(MS * at, 20 * MS, 1 << 20, true);
        }
        for at in 0..1000 {
            limit.small_done(MS * (64 + at), 20 * MS, 1 << 20, false);
        }
        assert_eq!(limit.now(), 16);
    }
}

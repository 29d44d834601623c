//! A ring of time steps: the newest is written to, the oldest forgotten.

use std::time::Duration;

use anabranch_model::Timestamp;

/// So many steps of equal length.
pub(crate) struct Steps<T> {
    length: Duration,
    /// The number of the newest step, counted from the epoch.
    newest: i64,
    /// Step `n` lies at `n % len`.
    kept: Box<[T]>,
    /// What a step begins with.
    empty: T,
}

impl<T: Copy> Steps<T> {
    pub(crate) fn new(count: usize, length: Duration, empty: T) -> Self {
        Steps { length, newest: 0, kept: vec![empty; count].into_boxed_slice(), empty }
    }

    /// The step of `now`. A clock that goes back writes to the newest.
    pub(crate) fn at(&mut self, now: Timestamp) -> &mut T {
        self.move_to(now);
        &mut self.kept[self.newest as usize % self.kept.len()]
    }

    /// All steps up to `now`, oldest first.
    pub(crate) fn until(&mut self, now: Timestamp) -> impl DoubleEndedIterator<Item = &T> {
        self.move_to(now);
        let (newer, older) = self.kept.split_at((self.newest as usize + 1) % self.kept.len());
        older.iter().chain(newer)
    }

    /// When the oldest step that is kept began, if the newest is that of `now`.
    pub(crate) fn start(&self, now: Timestamp) -> Timestamp {
        let newest = self.number(now).max(self.newest);
        let oldest = newest - self.kept.len() as i64 + 1;
        Timestamp::from_nanos(oldest.saturating_mul(self.length.as_nanos() as i64))
    }

    fn number(&self, now: Timestamp) -> i64 {
        now.nanos().max(0) / self.length.as_nanos() as i64
    }

    fn move_to(&mut self, now: Timestamp) {
        let number = self.number(now);
        let ahead = number.saturating_sub(self.newest);
        if ahead <= 0 {
            return;
        }
        for next in 0..ahead.min(self.kept.len() as i64) {
            self.kept[(number - next) as usize % self.kept.len()] = self.empty;
        }
        self.newest = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn all(steps: &mut Steps<u32>, now: i64) -> Vec<u32> {
        steps.until(at(now)).copied().collect()
    }

    #[test]
    fn what_is_older_than_the_ring_is_forgotten() {
        let mut steps = Steps::new(3, Duration::from_secs(10), 0);
        *steps.at(at(1000)) += 1;
        *steps.at(at(1009)) += 1;
        *steps.at(at(1010)) += 5;
        assert_eq!(all(&mut steps, 1019), [0, 2, 5]);
        assert_eq!(steps.start(at(1019)), at(990));
        assert_eq!(all(&mut steps, 1025), [2, 5, 0]);
        assert_eq!(all(&mut steps, 1031), [5, 0, 0]);
        assert_eq!(all(&mut steps, 9999), [0, 0, 0]);
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let mut steps = Steps::new(3, Duration::from_secs(10), 0);
        *steps.at(at(1010)) += 1;
        *steps.at(at(500)) += 1;
        assert_eq!(all(&mut steps, 1010), [0, 0, 2]);
    }
}

//! How much may be read, how fast, and how much of that has been.

use std::time::Duration;

use anabranch_runtime::Env;

/// How much of a cluster's work a look at a table may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of rows that are read at most.
    pub bytes: u64,
    /// Rows that are read at most.
    pub rows: u64,
    /// How long it takes at most, but for the page under way.
    pub time: Duration,
    /// Bytes of rows that are read in a second at most, on average.
    pub bytes_per_second: u64,
    /// Wide partitions that are told of one by one.
    pub widest: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bytes: 512 << 20,
            rows: 2_000_000,
            time: Duration::from_secs(60),
            bytes_per_second: 32 << 20,
            widest: 5,
        }
    }
}

/// What ended a look before the table did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpentBy {
    /// The limit of bytes.
    Bytes,
    /// The limit of rows.
    Rows,
    /// The limit of time.
    Time,
}

/// Which part of the budget may be spent by whom: what comes later needs some, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Steps through the table.
    Walk,
    /// Looking at the other ends of those that were cut off.
    Ends,
    /// Reading on in the widest.
    Deepen,
    /// Measuring what the widest cost.
    All,
}

impl Part {
    fn percent(self) -> u64 {
        match self {
            Part::Walk => 60,
            Part::Ends => 75,
            Part::Deepen => 90,
            Part::All => 100,
        }
    }
}

pub(crate) struct Budget {
    env: Env,
    limits: Limits,
    begun: Duration,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
}

impl Budget {
    pub(crate) fn new(env: Env, limits: Limits) -> Self {
        let begun = env.monotonic();
        Budget { env, limits, begun, bytes: 0, rows: 0 }
    }

    /// Takes note of what was read, and waits until that much may have been.
    pub(crate) async fn spend(&mut self, rows: u64, bytes: u64) {
        self.rows += rows;
        self.bytes += bytes;
        let least = Duration::from_secs_f64(self.bytes as f64 / self.limits.bytes_per_second.max(1) as f64);
        let early = least.saturating_sub(self.took()).min(self.limits.time.saturating_sub(self.took()));
        if !early.is_zero() {
            self.env.sleep(early).await;
        }
    }

    pub(crate) fn took(&self) -> Duration {
        self.env.monotonic().saturating_sub(self.begun)
    }

    pub(crate) fn is_spent(&self, part: Part) -> bool {
        self.over(part.percent()).is_some()
    }

    /// What has run out, for the steps that could have needed more of it.
    pub(crate) fn spent_by(&self) -> Option<SpentBy> {
        self.over(Part::Walk.percent())
    }

    fn over(&self, percent: u64) -> Option<SpentBy> {
        let part = |whole: u64| (u128::from(whole) * u128::from(percent) / 100) as u64;
        if self.bytes >= part(self.limits.bytes) {
            return Some(SpentBy::Bytes);
        }
        if self.rows >= part(self.limits.rows) {
            return Some(SpentBy::Rows);
        }
        (self.took() >= self.limits.time * percent as u32 / 100).then_some(SpentBy::Time)
    }

    /// Bytes after which the first read of a partition is cut off: a few wide ones may not eat what finds the others.
    pub(crate) fn first_cap(&self) -> u64 {
        (self.limits.bytes / 64).max(1)
    }

    /// Rows of a page of rows that have this many bytes on average, so that no answer is large.
    pub(crate) fn page_rows(&self) -> usize {
        const PAGE_BYTES: u64 = 1 << 20;
        const UNSEEN_ROW_BYTES: u64 = 16 << 10;
        let row = self.bytes.checked_div(self.rows).unwrap_or(UNSEEN_ROW_BYTES).max(1);
        usize::try_from(PAGE_BYTES / row).unwrap_or(usize::MAX).clamp(10, 5000)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::Timestamp;
    use anabranch_runtime::run_simulated;

    use super::*;

    #[test]
    fn reading_is_held_to_its_pace_and_ends_at_its_limits() {
        let limits = Limits { bytes: 1000, rows: 50, time: Duration::from_secs(60), bytes_per_second: 100, widest: 1 };
        run_simulated(1, Timestamp::from_nanos(0), |env| async move {
            let mut budget = Budget::new(env.clone(), limits);
            budget.spend(1, 500).await;
            assert!(budget.took() >= Duration::from_secs(5), "{:?}", budget.took());
            assert!(!budget.is_spent(Part::Walk));
            budget.spend(1, 100).await;
            assert!(budget.is_spent(Part::Walk) && !budget.is_spent(Part::Deepen));
            assert_eq!(budget.spent_by(), Some(SpentBy::Bytes));
            let mut budget = Budget::new(env.clone(), limits);
            budget.spend(50, 0).await;
            assert_eq!(budget.spent_by(), Some(SpentBy::Rows));
            let mut budget = Budget::new(env, Limits { bytes: u64::MAX, bytes_per_second: 1, ..limits });
            budget.spend(1, 1 << 40).await;
            assert!(budget.took() <= Duration::from_secs(61), "the pace may not outlast the limit of time");
            assert_eq!(budget.spent_by(), Some(SpentBy::Time));
        });
    }
}

//! Latencies of one side in one run.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use hdrhistogram::Histogram;

use crate::machine::Ticks;

const SHORTEST_NANOS: u64 = 1_000;
const LONGEST_NANOS: u64 = 60_000_000_000;
/// Latencies count, or are left out, those of such a moment together.
const MOMENT: Duration = Duration::from_millis(50);
/// Enough to tell a p99.
const ENOUGH: u64 = 1000;
/// A host that is busy makes a phase so many times as long.
const MOST_TIMES: u32 = 4;

/// All latencies since they were last asked for, and those of them that were left out.
static ALL: AtomicU64 = AtomicU64::new(0);
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Collected latencies, to three digits. Where this machine is a virtual one, its host takes processors away for milliseconds at a
/// time; latencies of such a moment tell of the host, and are left out as long as enough others are there. The kernel counts what the
/// host took by ten milliseconds, so that it may have begun in the moment before: that one is left out, too.
pub(crate) struct Latencies {
    none: Moments,
    /// The moment that lasts, and when it began.
    moment: Moments,
    began: Option<(Instant, Option<Ticks>)>,
    /// The moment before, if it looked undisturbed.
    before: Moments,
    undisturbed: Moments,
    disturbed: Moments,
}

/// Latencies, and how long the moments lasted in which they were.
#[derive(Clone)]
struct Moments {
    latencies: Histogram<u64>,
    time: Duration,
}

impl Moments {
    fn add(&mut self, others: &Moments) {
        self.latencies += &others.latencies;
        self.time += others.time;
    }
}

impl Latencies {
    pub(crate) fn new() -> Result<Latencies> {
        let latencies = Histogram::new_with_bounds(SHORTEST_NANOS, LONGEST_NANOS, 3)?;
        let none = Moments { latencies, time: Duration::ZERO };
        let [moment, before, undisturbed, disturbed] = std::array::from_fn(|_| none.clone());
        Ok(Latencies { none, moment, began: None, before, undisturbed, disturbed })
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NANOS);
        self.moment.latencies.saturating_record(nanos.clamp(SHORTEST_NANOS, LONGEST_NANOS));
        let (began, then) = *self.began.get_or_insert_with(|| (Instant::now(), Ticks::now()));
        let lasted = began.elapsed();
        if lasted >= MOMENT {
            let now = Ticks::now();
            self.moment.time = lasted;
            self.end_moment(then.zip(now).is_some_and(|(then, now)| now.stolen_since(then) > 0.0));
            self.began = Some((Instant::now(), now));
        }
    }

    fn end_moment(&mut self, disturbed: bool) {
        let moment = std::mem::replace(&mut self.moment, self.none.clone());
        let before = std::mem::replace(&mut self.before, self.none.clone());
        if disturbed {
            self.disturbed.add(&before);
            self.disturbed.add(&moment);
        } else {
            self.undisturbed.add(&before);
            self.before = moment;
        }
    }

    /// Whether a phase of this length isn't over: it lasts until so much of it was undisturbed, but not for ever.
    pub(crate) fn lasts(&self, length: Duration) -> bool {
        self.undisturbed.time < length && self.undisturbed.time + self.disturbed.time < length * MOST_TIMES
    }

    /// Whether so many undisturbed latencies are still wanting, after `turns` of at least `least`.
    pub(crate) fn wants(&self, wanted: u32, turns: u32, least: u32) -> bool {
        turns < least || (self.undisturbed.latencies.len() < u64::from(wanted) && turns < least * MOST_TIMES)
    }

    /// The latency that this share of calls stayed within, in milliseconds.
    pub(crate) fn millis(&self, share: f64) -> f64 {
        self.counted().value_at_quantile(share) as f64 / 1e6
    }

    fn counted(&self) -> Histogram<u64> {
        let mut counted = self.undisturbed.latencies.clone();
        counted += &self.before.latencies;
        counted += &self.moment.latencies;
        if counted.len() < ENOUGH {
            counted += &self.disturbed.latencies;
        }
        counted
    }
}

impl Drop for Latencies {
    fn drop(&mut self) {
        let kinds = [&self.undisturbed, &self.before, &self.moment, &self.disturbed];
        let all: u64 = kinds.iter().map(|kind| kind.latencies.len()).sum();
        ALL.fetch_add(all, Ordering::Relaxed);
        LEFT_OUT.fetch_add(all - self.counted().len(), Ordering::Relaxed);
    }
}

/// The share of latencies that was left out since this was last asked, in percent; none where there were none.
pub(crate) fn left_out_percent() -> Option<f64> {
    let (all, left_out) = (ALL.swap(0, Ordering::Relaxed), LEFT_OUT.swap(0, Ordering::Relaxed));
    (all > 0).then(|| 100.0 * left_out as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(latencies: &mut Latencies, times: u64, millis: u64, disturbed: bool) {
        for _ in 0..times {
            latencies.moment.latencies.saturating_record(millis * 1_000_000);
        }
        latencies.moment.time = Duration::from_secs(1);
        latencies.end_moment(disturbed);
    }

    #[test]
    fn disturbed_moments_are_left_out_where_enough_others_are_there() {
        let mut latencies = Latencies::new().unwrap();
        moment(&mut latencies, ENOUGH - 1, 1, false);
        moment(&mut latencies, ENOUGH, 9, false);
        moment(&mut latencies, 2 * ENOUGH, 9, true);
        assert_eq!((latencies.counted().len(), latencies.millis(0.5).round()), (4 * ENOUGH - 1, 9.0));
        moment(&mut latencies, 1, 1, false);
        assert_eq!((latencies.counted().len(), latencies.millis(0.99).round()), (ENOUGH, 1.0));
    }

    #[test]
    fn a_phase_lasts_until_enough_of_it_was_undisturbed_but_not_for_ever() {
        let seconds = Duration::from_secs;
        let mut latencies = Latencies::new().unwrap();
        moment(&mut latencies, 1, 1, true);
        moment(&mut latencies, 1, 1, false);
        moment(&mut latencies, 1, 1, false);
        assert!(latencies.lasts(seconds(2)) && !latencies.lasts(seconds(1)));
        assert!(latencies.wants(2, 10, 10) && !latencies.wants(1, 10, 10) && !latencies.wants(2, 40, 10));
        for _ in 0..7 {
            moment(&mut latencies, 1, 1, true);
        }
        assert!(!latencies.lasts(seconds(2)), "ten seconds of a phase of two");
    }
}

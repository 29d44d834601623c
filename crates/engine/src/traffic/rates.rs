//! Events, pages, bytes and latencies of one namespace: the last ten minutes, ten seconds a step.

use std::time::Duration;

use anabranch_model::Timestamp;

use crate::traffic::steps::Steps;

/// How long a step is.
pub const STEP: Duration = Duration::from_secs(10);
/// Steps that are kept.
pub const STEPS: usize = 60;

/// Latencies are counted in so many classes, each a quarter longer than the one before.
const CLASSES: usize = 64;
const SHORTEST_SECONDS: f64 = 50e-6;
const GROWTH: f64 = 1.25;

#[derive(Clone, Copy)]
struct Step {
    events: u64,
    written_bytes: u64,
    pages: u64,
    read_bytes: u64,
    failed: u64,
    latencies: [u32; CLASSES],
}

impl Default for Step {
    fn default() -> Self {
        Step { events: 0, written_bytes: 0, pages: 0, read_bytes: 0, failed: 0, latencies: [0; CLASSES] }
    }
}

/// What went through in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficStep {
    /// Events stored.
    pub events: u64,
    /// Bytes stored.
    pub written_bytes: u64,
    /// Pages answered.
    pub pages: u64,
    /// Bytes that reads took from the store.
    pub read_bytes: u64,
}

/// What went through lately.
#[derive(Clone, Debug, PartialEq)]
pub struct RecentTraffic {
    /// In the window.
    pub total: TrafficStep,
    /// Reads refused or failed in the window.
    pub failed_reads: u64,
    /// What the totals are to be divided by to get rates.
    pub seconds: f64,
    /// Half of the pages took at most this.
    pub read_p50: Option<Duration>,
    /// 99 in a hundred took at most this.
    pub read_p99: Option<Duration>,
    /// Everything that is kept, oldest first.
    pub steps: Vec<TrafficStep>,
    /// When the first of them began.
    pub start: Timestamp,
}

pub(crate) struct Rates {
    steps: Steps<Step>,
    /// Nothing was recorded before.
    begun: Timestamp,
}

impl Rates {
    pub(crate) fn new(now: Timestamp) -> Self {
        Rates { steps: Steps::new(STEPS, STEP, Step::default()), begun: now }
    }

    pub(crate) fn stored(&mut self, events: u64, bytes: u64, now: Timestamp) {
        let step = self.steps.at(now);
        step.events += events;
        step.written_bytes += bytes;
    }

    pub(crate) fn answered(&mut self, took: Duration, bytes: u64, now: Timestamp) {
        let step = self.steps.at(now);
        step.pages += 1;
        step.read_bytes += bytes;
        step.latencies[class(took)] += 1;
    }

    pub(crate) fn failed(&mut self, now: Timestamp) {
        self.steps.at(now).failed += 1;
    }

    /// The steps of the last `window`, the one under way included.
    pub(crate) fn recent(&mut self, window: Duration, now: Timestamp) -> RecentTraffic {
        let wanted = (window.as_secs_f64() / STEP.as_secs_f64()).ceil().clamp(1.0, STEPS as f64) as usize;
        let start = self.steps.start(now);
        let mut sum = Step::default();
        for step in self.steps.until(now).rev().take(wanted) {
            sum.events += step.events;
            sum.written_bytes += step.written_bytes;
            sum.pages += step.pages;
            sum.read_bytes += step.read_bytes;
            sum.failed += step.failed;
            sum.latencies.iter_mut().zip(step.latencies).for_each(|(sum, count)| *sum += count);
        }
        let first = start.saturating_add(STEP * (STEPS - wanted) as u32).max(self.begun);
        RecentTraffic {
            total: shown(&sum),
            failed_reads: sum.failed,
            // What came within the first second is not many times as much a second.
            seconds: now.since(first).as_secs_f64().max(1.0),
            read_p50: percentile(&sum.latencies, 0.50),
            read_p99: percentile(&sum.latencies, 0.99),
            steps: self.steps.until(now).map(shown).collect(),
            start,
        }
    }
}

fn shown(step: &Step) -> TrafficStep {
    let Step { events, written_bytes, pages, read_bytes, .. } = *step;
    TrafficStep { events, written_bytes, pages, read_bytes }
}

fn class(took: Duration) -> usize {
    let times = took.as_secs_f64() / SHORTEST_SECONDS;
    if times <= 1.0 { 0 } else { (times.ln() / GROWTH.ln()).ceil().min((CLASSES - 1) as f64) as usize }
}

/// The upper bound of the class that holds this share of all.
fn percentile(latencies: &[u32; CLASSES], share: f64) -> Option<Duration> {
    let all: u64 = latencies.iter().copied().map(u64::from).sum();
    let rank = (all as f64 * share).ceil() as u64;
    let mut seen = 0;
    for (class, count) in latencies.iter().enumerate() {
        seen += u64::from(*count);
        if *count > 0 && seen >= rank {
            return Some(Duration::from_secs_f64(SHORTEST_SECONDS * GROWTH.powi(class as i32)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_000_000 + seconds)
    }

    #[test]
    fn rates_are_of_the_window_and_of_no_longer_than_was_recorded() {
        let mut rates = Rates::new(at(0));
        rates.stored(100, 1000, at(1));
        let young = rates.recent(Duration::from_secs(60), at(10));
        assert_eq!((young.total.events, young.seconds), (100, 10.0));
        rates.stored(60, 600, at(100));
        let later = rates.recent(Duration::from_secs(60), at(109));
        assert_eq!(later.total, TrafficStep { events: 60, written_bytes: 600, ..TrafficStep::default() });
        assert!((50.0..=60.0).contains(&later.seconds), "{}", later.seconds);
        assert_eq!(later.steps.iter().map(|step| step.events).sum::<u64>(), 160);
        assert_eq!(rates.recent(Duration::from_secs(60), at(2000)).total, TrafficStep::default());
    }

    #[test]
    fn percentiles_are_no_more_than_a_class_off() {
        let mut rates = Rates::new(at(0));
        for millis in 1..=100 {
            rates.answered(Duration::from_millis(millis), 0, at(1));
        }
        let recent = rates.recent(Duration::from_secs(60), at(2));
        let seconds = |found: Option<Duration>| found.unwrap().as_secs_f64();
        assert!((0.050..=0.0625).contains(&seconds(recent.read_p50)), "{recent:?}");
        assert!((0.099..=0.1240).contains(&seconds(recent.read_p99)), "{recent:?}");
        assert_eq!(Rates::new(at(0)).recent(Duration::from_secs(60), at(1)).read_p50, None);
    }

    #[test]
    fn the_shortest_and_the_longest_have_a_class() {
        assert_eq!(class(Duration::ZERO), 0);
        assert_eq!(class(Duration::from_secs(100_000)), CLASSES - 1);
    }
}

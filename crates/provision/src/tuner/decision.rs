//! Whether slices to come should have other settings, and which.

use anabranch_model::PartitionSettings;
use serde::{Deserialize, Serialize};

use super::{Direction, Proposal, ReadEvidence, Rules, SliceEvidence, Uncounted};
use crate::{
    candidate::{BUCKET_STEPS, EVENT_BUCKET_STEPS, SLICE_STEPS},
    quantity::{show_bytes, show_count, show_seconds},
};

/// How far below the upper end of the target an expected size must stay, for slices that differ a little.
const AIM_SHARE: f64 = 0.8;
/// A slice may be at most this share of the retention.
const MOST_SLICE_SHARE: f64 = 0.5;

/// What new slices have now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Current {
    /// Length of slices.
    pub seconds_per_slice: u32,
    /// How they are divided.
    pub settings: PartitionSettings,
    /// How long events are kept at least; `None` where there is no end.
    pub retention_seconds: Option<u64>,
    /// Where the latest change went, if there was one.
    pub latest_change: Option<Direction>,
    /// How many changes in a row went there since sizes were last near enough to the target.
    pub changes_in_a_row: u32,
}

/// What was decided, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The outcome.
    pub verdict: Verdict,
    /// Slices that counted, oldest first.
    pub counted: Vec<SliceEvidence>,
    /// Names of slices that didn't count, and why.
    pub uncounted: Vec<(String, Uncounted)>,
    /// How the namespace is read, where it is known well enough.
    pub reads: Option<ReadEvidence>,
}

impl Decision {
    /// Whether all slices that counted were near enough to the target.
    pub fn is_near_target(&self, rules: &Rules) -> bool {
        let least = rules.low_bytes as f64 / rules.hysteresis;
        let most = rules.high_bytes as f64 * rules.hysteresis;
        let near = |slice: &SliceEvidence| (least..=most).contains(&(slice.p99_bytes as f64));
        !self.counted.is_empty() && self.counted.iter().all(near)
    }
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// Nothing should change.
    Keep {
        /// Why, in a sentence.
        reason: String,
    },
    /// Something should.
    Propose(Proposal),
}

/// Compares slices, oldest first, with the density target. The same evidence gives the same decision.
pub fn decide(current: &Current, slices: &[SliceEvidence], reads: Option<ReadEvidence>, rules: &Rules) -> Decision {
    let reads = reads.filter(|reads| reads.reads >= rules.least_reads);
    let (mut counted, mut uncounted) = (Vec::new(), Vec::new());
    for slice in slices {
        match slice.uncounted(current, rules) {
            None => counted.push(slice.clone()),
            Some(why) => uncounted.push((slice.slice.clone(), why)),
        }
    }
    counted.drain(..counted.len().saturating_sub(rules.least_slices));
    let verdict = Attempt { current, rules, reads, counted: &counted }.verdict();
    let verdict = verdict.map_or_else(|reason| Verdict::Keep { reason }, Verdict::Propose);
    Decision { verdict, counted, uncounted, reads }
}

struct Attempt<'a> {
    current: &'a Current,
    rules: &'a Rules,
    reads: Option<ReadEvidence>,
    counted: &'a [SliceEvidence],
}

/// A direction in which all counted slices agree.
struct Agreement {
    direction: Direction,
    /// The one of the counted slices that is nearest to the target.
    p99: f64,
    /// The most that partitions may grow or shrink, times.
    most_step: f64,
}

impl Attempt<'_> {
    /// `Err` holds the reason to keep what is.
    fn verdict(&self) -> Result<Proposal, String> {
        let agreement = self.agreement()?;
        match agreement.direction {
            Direction::Bigger => self.bigger(&agreement),
            Direction::Smaller => self.smaller(&agreement),
        }
    }

    fn agreement(&self) -> Result<Agreement, String> {
        let rules = self.rules;
        let sizes = || self.counted.iter().map(|slice| slice.p99_bytes as f64);
        let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let times_below = rules.low_bytes as f64 / most.max(1.0);
        let times_above = least / rules.high_bytes as f64;
        let (direction, p99, times) = if times_below > times_above {
            (Direction::Bigger, most, times_below)
        } else {
            (Direction::Smaller, least, times_above)
        };
        let overwhelming = times >= rules.overwhelming;
        let goes_on = self.current.latest_change == Some(direction);
        let turns_back = self.current.latest_change.is_some() && !goes_on;
        let needed = if overwhelming || goes_on { rules.least_slices_when_clear } else { rules.least_slices };
        if self.counted.len() < needed.max(1) {
            return Err(format!("{} of {needed} slices that are needed can be counted", self.counted.len()));
        }
        let hysteresis = if turns_back { rules.hysteresis_of_reversal } else { rules.hysteresis };
        if times < hysteresis {
            return Err(format!(
                "p99 partitions of {} to {} are near enough to the target of {} to {}",
                show_bytes(least),
                show_bytes(most),
                show_bytes(rules.low_bytes as f64),
                show_bytes(rules.high_bytes as f64)
            ));
        }
        if goes_on && self.current.changes_in_a_row >= rules.most_changes_in_a_row {
            return Err(format!(
                "p99 partitions of {} are still off the target after {} changes in a row: longer or shorter buckets \
                 don't cure that",
                show_bytes(p99),
                self.current.changes_in_a_row
            ));
        }
        Ok(Agreement { direction, p99, most_step: if overwhelming { f64::INFINITY } else { rules.most_step } })
    }

    fn bigger(&self, agreement: &Agreement) -> Result<Proposal, String> {
        let current = self.current;
        let bucket = f64::from(current.settings.seconds_per_bucket);
        let longest_read = self.reads.map(|reads| reads.longest_seconds);
        if current.settings.event_buckets == 1 && longest_read.is_some_and(|longest| longest <= bucket) {
            return Err("partitions are small, but even the longest reads ask for no more than two".to_owned());
        }
        let mut room = (self.aim() / agreement.p99).min(agreement.most_step);
        // Event buckets make every page slower: they go first.
        let event_buckets = fewest_event_buckets(current.settings.event_buckets, room);
        room /= f64::from(current.settings.event_buckets) / f64::from(event_buckets);
        let limit = (bucket * room).min(f64::from(self.longest_slice(agreement)));
        // Longer than the longest reads brings nothing.
        let enough = |step: u32| longest_read.is_some_and(|longest| longest <= f64::from(step));
        let steps = BUCKET_STEPS.into_iter().chain([current.seconds_per_slice]);
        let longer = steps.filter(|step| f64::from(*step) > bucket && f64::from(*step) <= limit);
        let mut longer: Vec<u32> = longer.collect();
        longer.sort_unstable();
        let first_enough = longer.iter().copied().find(|step| enough(*step));
        let chosen = first_enough.or(longer.last().copied()).filter(|_| !enough(current.settings.seconds_per_bucket));
        let seconds_per_bucket = chosen.unwrap_or(current.settings.seconds_per_bucket);
        let settings = PartitionSettings { seconds_per_bucket, event_buckets };
        if settings == current.settings {
            return Err(format!(
                "p99 partitions of {} are small, but buckets are as long as the retention lets slices be",
                show_bytes(agreement.p99)
            ));
        }
        Ok(self.proposal(agreement, self.slice_for(seconds_per_bucket), settings))
    }

    fn smaller(&self, agreement: &Agreement) -> Result<Proposal, String> {
        let current = self.current;
        let bucket = f64::from(current.settings.seconds_per_bucket);
        let shrink = self.aim() / agreement.p99;
        let least = bucket / agreement.most_step;
        let fan_out = |step: f64| {
            self.reads
                .map_or(0.0, |reads| (reads.typical_seconds / step + 1.0) * f64::from(current.settings.event_buckets))
        };
        let bearable = |step: &u32| fan_out(f64::from(*step)) <= self.rules.most_fan_out;
        let shorter: Vec<u32> = BUCKET_STEPS.into_iter().filter(|step| f64::from(*step) < bucket).collect();
        // The longest that is short enough, or else the shortest that reads can bear.
        let small_enough = shorter.iter().rev().copied().find(|step| f64::from(*step) <= bucket * shrink);
        let wanted = small_enough.filter(|step| f64::from(*step) >= least);
        let wanted = wanted.or(shorter.iter().copied().find(|step| f64::from(*step) >= least));
        let chosen = wanted.and_then(|wanted| shorter.iter().copied().find(|step| *step >= wanted && bearable(step)));
        match (wanted, chosen) {
            (_, Some(seconds_per_bucket)) => {
                let settings = PartitionSettings { seconds_per_bucket, ..current.settings };
                Ok(self.proposal(agreement, current.seconds_per_slice, settings))
            }
            (Some(wanted), None) => Err(format!(
                "p99 partitions of {} are big, but with buckets of {} a usual read would ask for {} partitions: they are \
                 split instead",
                show_bytes(agreement.p99),
                show_seconds(f64::from(wanted)),
                show_count(fan_out(f64::from(wanted)))
            )),
            (None, None) => self.more_event_buckets(agreement, (1.0 / shrink).min(agreement.most_step)),
        }
    }

    /// Buckets can't get shorter any more.
    fn more_event_buckets(&self, agreement: &Agreement, times: f64) -> Result<Proposal, String> {
        let now = self.current.settings.event_buckets;
        let mut more = EVENT_BUCKET_STEPS.into_iter().filter(|step| *step > now);
        let enough = more.clone().find(|step| f64::from(*step) >= f64::from(now) * times);
        let Some(event_buckets) = enough.or_else(|| more.next_back()) else {
            return Err("partitions are big, but there are as many buckets as there may be: they are split".to_owned());
        };
        let settings = PartitionSettings { event_buckets, ..self.current.settings };
        Ok(self.proposal(agreement, self.current.seconds_per_slice, settings))
    }

    /// The size that is aimed at.
    fn aim(&self) -> f64 {
        self.rules.high_bytes as f64 * AIM_SHARE
    }

    /// The longest that slices may become: the next step, or the one after it where the evidence is overwhelming, if
    /// the retention leaves room for it; else what they are now.
    fn longest_slice(&self, agreement: &Agreement) -> u32 {
        let current = self.current.seconds_per_slice;
        let steps = if agreement.most_step.is_finite() { 1 } else { 2 };
        let room = self.current.retention_seconds.map_or(f64::INFINITY, |kept| kept as f64 * MOST_SLICE_SHARE);
        let longer = SLICE_STEPS.into_iter().filter(|step| *step > current).take(steps);
        longer.filter(|step| f64::from(*step) <= room).last().unwrap_or(current)
    }

    /// The shortest slice that holds such a bucket.
    fn slice_for(&self, seconds_per_bucket: u32) -> u32 {
        let current = self.current.seconds_per_slice;
        if seconds_per_bucket <= current {
            return current;
        }
        SLICE_STEPS.into_iter().find(|step| *step >= seconds_per_bucket).unwrap_or(seconds_per_bucket)
    }

    fn proposal(&self, agreement: &Agreement, seconds_per_slice: u32, settings: PartitionSettings) -> Proposal {
        let old = self.current.settings;
        let per =
            |settings: &PartitionSettings| f64::from(settings.seconds_per_bucket) / f64::from(settings.event_buckets);
        Proposal {
            direction: agreement.direction,
            target_bytes: self.rules.high_bytes,
            observed_p99_bytes: agreement.p99 as u64,
            expected_p99_bytes: (agreement.p99 * per(&settings) / per(&old)) as u64,
            old_seconds_per_slice: self.current.seconds_per_slice,
            new_seconds_per_slice: seconds_per_slice,
            old_settings: old,
            new_settings: settings,
            retention_seconds: self.current.retention_seconds,
        }
    }
}

/// The fewest event buckets that let partitions grow at most `room` times.
fn fewest_event_buckets(now: u32, room: f64) -> u32 {
    let fewer = EVENT_BUCKET_STEPS.into_iter().filter(|step| *step < now);
    fewer.clone().find(|step| f64::from(now) / f64::from(*step) <= room).unwrap_or(now)
}

//! What is stored of a namespace: one document, changed only as a whole by compare-and-set, so that configuration,
//! slices and backfill windows are always seen together.

use std::time::Duration;

use anabranch_model::{
    BlockedSeries, Interval, NamespaceConfig, ReadMode, Slice, SliceMap, SliceState, TimeSeriesId, Timestamp,
};
use serde::{Deserialize, Serialize};

/// Closed backfill windows that are kept to be shown.
const KEPT_BACKFILLS: usize = 20;
/// Changes of the read mode that are kept to be shown.
const KEPT_MODE_CHANGES: usize = 50;

/// The stored document of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceRecord {
    /// Tells apart namespaces that had the same name one after the other.
    pub incarnation: u64,
    /// Of the last change: tells its maker whether it was done, after an answer was lost.
    pub nonce: u64,
    /// When it was made.
    pub created: Timestamp,
    /// The settings in force.
    pub config: NamespaceConfig,
    /// Settings on their way.
    pub next: Option<NextConfig>,
    /// What writes under way may have been checked against, when settings have just changed.
    pub former: Option<FormerReach>,
    /// No write under settings that are over had a later time than this (T1). Only rises.
    #[serde(default = "earliest")]
    pub reached_until: Timestamp,
    /// All slices that aren't dropped.
    pub slices: SliceMap,
    /// Everything before this has been closed: the newest end of a slice that ever was.
    pub closed_until: Timestamp,
    /// Everything before this is sealed: ordinary writes are refused, whatever the accept limit says (S3). Only rises.
    pub sealed_until: Timestamp,
    /// Windows for old events, oldest first.
    pub backfills: Vec<Backfill>,
    /// How splits are used.
    pub splits: SplitUse,
    /// Set when the namespace is being deleted: nothing is written or read any more.
    pub deleting: bool,
    /// Until when a namespace that is being deleted can still be restored; absent, it goes at once.
    #[serde(default)]
    pub drop_at: Option<Timestamp>,
    /// The description of the workload that it was planned for, in TOML; empty where nobody gave one.
    #[serde(default)]
    pub workload: String,
}

/// Settings that come into force at a stated moment, when every server knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextConfig {
    /// When.
    pub at: Timestamp,
    /// What.
    pub config: NamespaceConfig,
}

/// How far writes could reach under settings that are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormerReach {
    /// When the last of them ended.
    pub ended: Timestamp,
    /// Until then a write may be under way that was accepted under them.
    pub until: Timestamp,
    /// Their accept limit and seal margin.
    pub reach: Duration,
}

/// A window in which old events are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backfill {
    /// Unique in its namespace.
    pub id: String,
    /// Which events.
    pub interval: Interval,
    /// When it was opened.
    pub created: Timestamp,
    /// Accepted from here on.
    pub effective: Timestamp,
    /// Accepted until here; closing brings it forward.
    pub expires: Timestamp,
    /// How often the length of slices made for it is doubled, so that all of it fits the namespace.
    pub slice_doublings: u32,
    /// Why, in the words of whoever opened it.
    pub reason: String,
}

/// How the splits of a namespace are used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitUse {
    /// How far reads trust splits.
    pub mode: ReadMode,
    /// Since when.
    pub since: Timestamp,
    /// How the mode changed, oldest first.
    pub history: Vec<ModeChange>,
    /// How often sealed time was opened again.
    pub reopenings: u64,
    /// The slices in which it was, with the count at the time. Segments that were compared with the original earlier than that
    /// aren't used: they may hold less.
    pub reopened: Vec<Reopened>,
}

/// A change of the read mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeChange {
    /// When.
    pub at: Timestamp,
    /// From which mode.
    pub from: ReadMode,
    /// To which.
    pub to: ReadMode,
    /// Who did it: an operator, or a rule.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A slice in which sealed time was opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reopened {
    /// The slice's start.
    pub slice: Timestamp,
    /// The count of reopenings when it last was.
    pub count: u64,
}

impl SplitUse {
    /// New namespaces compare: they trust splits once those have proven themselves.
    fn new(since: Timestamp) -> Self {
        let mode = ReadMode::Comparison;
        SplitUse { mode, since, history: Vec::new(), reopenings: 0, reopened: Vec::new() }
    }

    /// Changes the mode and takes down who did it and why. Says whether it was another one.
    pub fn change_mode(&mut self, to: ReadMode, by: &str, reason: &str, at: Timestamp) -> bool {
        if self.mode == to {
            return false;
        }
        self.history.push(ModeChange { at, from: self.mode, to, by: by.to_owned(), reason: reason.to_owned() });
        let surplus = self.history.len().saturating_sub(KEPT_MODE_CHANGES);
        self.history.drain(..surplus);
        self.mode = to;
        self.since = at;
        true
    }

    /// Segments of this slice count only if they were compared with the original at this count or later.
    pub fn reopened(&self, slice_start: Timestamp) -> u64 {
        let found = self.reopened.iter().find(|reopened| reopened.slice == slice_start);
        found.map_or(0, |reopened| reopened.count)
    }

    fn reopen(&mut self, slices: impl Iterator<Item = Timestamp>) {
        self.reopenings += 1;
        for slice in slices {
            self.reopened.retain(|reopened| reopened.slice != slice);
            self.reopened.push(Reopened { slice, count: self.reopenings });
        }
    }
}

/// What retention does to a slice as soon as it is looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceFate {
    /// It isn't read any more.
    Closes,
    /// It goes, with all its events.
    Drops,
}

/// Where a backfill window is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillState {
    /// Recorded, but not yet in force on every server.
    Opening,
    /// Old events are accepted.
    Open,
    /// Over.
    Closed,
}

impl Backfill {
    /// Where it is in its life.
    pub fn state(&self, now: Timestamp) -> BackfillState {
        if now >= self.expires {
            BackfillState::Closed
        } else if now < self.effective {
            BackfillState::Opening
        } else {
            BackfillState::Open
        }
    }
}

impl NamespaceRecord {
    /// A new namespace without slices.
    pub fn new(incarnation: u64, created: Timestamp, config: NamespaceConfig) -> Self {
        NamespaceRecord {
            incarnation,
            nonce: 0,
            created,
            config,
            next: None,
            former: None,
            reached_until: Timestamp::EARLIEST,
            slices: SliceMap::default(),
            closed_until: Timestamp::EARLIEST,
            sealed_until: Timestamp::EARLIEST,
            backfills: Vec::new(),
            splits: SplitUse::new(created),
            deleting: false,
            drop_at: None,
            workload: String::new(),
        }
    }

    /// The settings in force at `now`.
    pub fn config_at(&self, now: Timestamp) -> &NamespaceConfig {
        match &self.next {
            Some(next) if next.at <= now => &next.config,
            _ => &self.config,
        }
    }

    /// Takes over settings whose moment has come. Says whether anything changed.
    pub fn settle(&mut self, now: Timestamp) -> bool {
        let Some(next) = self.next.take_if(|next| next.at <= now) else { return false };
        self.replace_config(next.config, next.at);
        true
    }

    /// Other settings are in force from `at` on. Writes that were accepted under the old ones may still be under way for as long
    /// as their seal margin: until then nothing is sealed that they can reach (S3).
    pub fn replace_config(&mut self, config: NamespaceConfig, at: Timestamp) {
        let reach = |config: &NamespaceConfig| config.accept_limit + config.seal_margin;
        let mut former = self.former.filter(|former| former.until > at);
        if reach(&self.config) > reach(&config) || self.config.seal_margin > config.seal_margin {
            let until = at.saturating_add(self.config.seal_margin);
            let before = former.unwrap_or(FormerReach { ended: at, until, reach: Duration::ZERO });
            let reach = reach(&self.config).max(before.reach);
            former = Some(FormerReach { ended: at, until: until.max(before.until), reach });
        }
        // The seal margin is more than the clocks of servers differ by.
        let reached = at.saturating_add(self.config.drift_limit + self.config.seal_margin);
        self.reached_until = self.reached_until.max(reached);
        self.former = former;
        self.config = config;
    }

    /// What retention does to a slice at `now`, if anything.
    pub fn fate(&self, slice: &Slice, now: Timestamp) -> Option<SliceFate> {
        let config = self.config_at(now);
        let past = |after: Option<Duration>| after.is_some_and(|after| slice.interval.end.saturating_add(after) <= now);
        if slice.state == SliceState::Dropping || past(config.delete_after) {
            return Some(SliceFate::Drops);
        }
        (slice.state == SliceState::Open && past(config.close_after)).then_some(SliceFate::Closes)
    }

    /// What is written before this at `now` lies in slices that retention closes as soon as it looks after them.
    pub fn kept_from(&self, now: Timestamp) -> Timestamp {
        let config = self.config_at(now);
        let Some(close_after) = config.close_after else { return self.closed_until };
        let edge = now.saturating_sub(close_after);
        let length = i64::from(config.seconds_per_slice.max(1));
        let aligned = || Timestamp::from_seconds(edge.seconds().div_euclid(length) * length);
        self.slices.at(edge).map_or_else(aligned, |slice| slice.interval.start).max(self.closed_until)
    }

    /// Whether it was deleted and can be brought back at `now`.
    pub fn can_be_restored(&self, now: Timestamp) -> bool {
        self.deleting && self.drop_at.is_some_and(|drop_at| now < drop_at)
    }

    /// The window of times that ordinary writes may have at `now`.
    pub fn accepts(&self, now: Timestamp) -> Interval {
        let config = self.config_at(now);
        // Half-open, so that an event exactly `drift_limit` ahead is still taken.
        let end = now.saturating_add(config.drift_limit).saturating_add(Duration::from_nanos(1));
        Interval::new(now.saturating_sub(config.accept_limit).max(self.sealed_until), end)
    }

    /// Moves [`sealed_until`](Self::sealed_until) to what no write can reach any more, also under settings on their way.
    pub fn seal(&mut self, now: Timestamp) {
        self.sealed_until = self.sealable_until(now);
    }

    /// Where [`sealed_until`](Self::sealed_until) would stand if it were moved now.
    pub fn sealable_until(&self, now: Timestamp) -> Timestamp {
        let configs = [Some(&self.config), self.next.as_ref().map(|next| &next.config)];
        let former = self.former.filter(|former| now < former.until).map(|former| former.reach);
        let reaches = configs.into_iter().flatten().map(|config| config.accept_limit + config.seal_margin);
        let reach = reaches.chain(former).max();
        #[cfg(feature = "plant")]
        let reach = if anabranch_split::plant::is_planted(anabranch_split::plant::Bug::SealsEarly) {
            Some(self.config.accept_limit)
        } else {
            reach
        };
        self.sealed_until.max(now.saturating_sub(reach.unwrap_or_default()))
    }

    /// From here on no write can have reached anything yet, nor will before `notice` has passed (T1): settings of slices that begin
    /// later may still change.
    pub fn reachable_until(&self, now: Timestamp, notice: Duration, max_clock_skew: Duration) -> Timestamp {
        let configs = [Some(&self.config), self.next.as_ref().map(|next| &next.config)];
        let configs = || configs.iter().flatten();
        let drift = configs().map(|config| config.drift_limit).max().unwrap_or_default();
        let deadline = configs().map(|config| config.write_slo.max).max().unwrap_or_default();
        now.saturating_add(drift + deadline + notice + max_clock_skew).max(self.reached_until)
    }

    /// Opens sealed time again. Splits of the slices in it count only once they were compared with the original anew.
    pub fn reopen(&mut self, backfill: Backfill) {
        let slices: Vec<Timestamp> =
            self.slices.overlapping(backfill.interval).iter().map(|slice| slice.interval.start).collect();
        self.splits.reopen(slices.into_iter());
        self.splits.reopened.retain(|reopened| self.slices.at(reopened.slice).is_some());
        self.backfills.push(backfill);
    }

    /// Whether a window may still bring events into this span: from its opening until every server has seen its end and the
    /// last write has been answered.
    pub fn may_be_backfilled(&self, span: Interval, now: Timestamp, notice: Duration) -> bool {
        let brings = |window: &&Backfill| !self.is_past(window, now, notice);
        self.backfills.iter().filter(brings).any(|window| !window.interval.intersect(&span).is_empty())
    }

    /// Whether every server has seen a window's end, and every write that was accepted in it has been answered: also those that were
    /// accepted under settings which gave them more time.
    fn is_past(&self, window: &Backfill, now: Timestamp, notice: Duration) -> bool {
        let next = self.next.as_ref();
        // Settings that were over before the window took effect have accepted nothing in it.
        let current = next.is_none_or(|next| window.effective < next.at).then_some(&self.config);
        let configs = current.into_iter().chain(next.map(|next| &next.config));
        let margin = configs.map(|config| config.seal_margin).max().unwrap_or_default();
        let straggling = self.former.is_some_and(|former| window.effective < former.ended && now < former.until);
        now >= window.expires.saturating_add(notice).saturating_add(margin) && !straggling
    }

    /// Whether an event of this time may be written at `now`: in the ordinary window or an open backfill.
    pub fn accepts_time(&self, time: Timestamp, now: Timestamp) -> bool {
        let open = |backfill: &Backfill| backfill.state(now) == BackfillState::Open && backfill.interval.contains(time);
        time >= self.closed_until && (self.accepts(now).contains(time) || self.backfills.iter().any(open))
    }

    /// Why a series is refused at `now`, if it is.
    pub fn blocked(
        &self,
        series: &TimeSeriesId,
        now: Timestamp,
        which: fn(&BlockedSeries) -> bool,
    ) -> Option<&BlockedSeries> {
        let in_force = |blocked: &&BlockedSeries| blocked.expires.is_none_or(|expires| now < expires) && which(blocked);
        self.config_at(now).block_list.iter().filter(in_force).find(|blocked| blocked.series == *series)
    }

    /// Keeps all windows that may still bring events and the latest of the others. One that has just ended is no less needed than one
    /// that is open: nothing may be planned in it yet (S3).
    pub fn forget_old_backfills(&mut self, now: Timestamp, notice: Duration) {
        let past: Vec<bool> = self.backfills.iter().map(|window| self.is_past(window, now, notice)).collect();
        let mut surplus = past.iter().filter(|past| **past).count().saturating_sub(KEPT_BACKFILLS);
        let mut past = past.into_iter();
        self.backfills.retain(|_| {
            let forget = past.next().unwrap_or(false) && surplus > 0;
            surplus -= usize::from(forget);
            !forget
        });
    }
}

/// Of records that were stored before it was counted.
fn earliest() -> Timestamp {
    Timestamp::EARLIEST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(id: usize, seconds: std::ops::Range<i64>, expires: i64) -> Backfill {
        let at = Timestamp::from_seconds;
        Backfill {
            id: id.to_string(),
            interval: Interval::new(at(seconds.start), at(seconds.end)),
            created: at(0),
            effective: at(0),
            expires: at(expires),
            slice_doublings: 0,
            reason: String::new(),
        }
    }

    /// S3: a window that was opened before all others and has just ended may still bring events, however many others have ended.
    #[test]
    fn a_window_that_has_just_ended_is_not_forgotten_for_many_others_s3() {
        let (at, notice) = (Timestamp::from_seconds, Duration::from_secs(2));
        let mut record = NamespaceRecord::new(1, at(0), NamespaceConfig::default());
        let margin = record.config.seal_margin.as_secs() as i64;
        record.reopen(window(0, 100..200, 10_000));
        (1..40).for_each(|id| record.reopen(window(id, 300..400, 1000)));
        let span = Interval::new(at(150), at(160));
        for now in [9_999, 10_000, 10_001 + margin] {
            record.forget_old_backfills(at(now), notice);
            assert!(record.may_be_backfilled(span, at(now), notice), "at {now}");
            assert_eq!(record.backfills.len(), KEPT_BACKFILLS + 1, "the latest of those that are past");
        }
        assert!(!record.may_be_backfilled(span, at(10_002 + margin), notice));
        record.forget_old_backfills(at(10_002 + margin), notice);
        assert_eq!(record.backfills.len(), KEPT_BACKFILLS);
    }

    /// S3: a write that was accepted in a window, under settings which gave it much time, keeps that time when the window ends and the
    /// settings change.
    #[test]
    fn a_shorter_seal_margin_does_not_cut_short_what_a_window_has_accepted_s3() {
        let (at, notice) = (Timestamp::from_seconds, Duration::from_secs(2));
        let (seconds, span) = (Duration::from_secs, Interval::new(at(150), at(160)));
        let patient = NamespaceConfig { seal_margin: seconds(60), ..NamespaceConfig::default() };
        for accept_limit in [patient.accept_limit, patient.accept_limit * 2] {
            let mut record = NamespaceRecord::new(1, at(0), patient.clone());
            record.reopen(window(0, 100..200, 1001));
            let quick = NamespaceConfig { seal_margin: seconds(5), accept_limit, ..patient.clone() };
            record.next = Some(NextConfig { at: at(1000), config: quick });
            assert!(record.may_be_backfilled(span, at(1059), notice), "before anybody has taken the new settings over");
            assert!(record.settle(at(1010)));
            assert!(record.may_be_backfilled(span, at(1059), notice), "and after that");
            assert!(!record.may_be_backfilled(span, at(1061), notice));
            let later = Backfill { effective: at(1010), ..window(1, 100..200, 1020) };
            record.backfills = vec![later];
            assert!(!record.may_be_backfilled(span, at(1028), notice), "a window under the new settings needs no more");
        }
    }

    /// T1: a write that was far ahead when it was accepted has reached its slice, whatever the drift limit is since.
    #[test]
    fn lowering_the_drift_limit_does_not_forget_how_far_writes_have_reached_t1() {
        let at = Timestamp::from_seconds;
        let far = NamespaceConfig { drift_limit: Duration::from_secs(600), ..NamespaceConfig::default() };
        let mut record = NamespaceRecord::new(1, at(0), far.clone());
        record.replace_config(NamespaceConfig { drift_limit: Duration::ZERO, ..far }, at(1000));
        for now in [1000, 1100, 1400] {
            let reachable = record.reachable_until(at(now), Duration::ZERO, Duration::ZERO);
            assert!(reachable >= at(1600), "at {now}: a write of 1600 was taken just before 1000");
        }
        assert!(record.reachable_until(at(2000), Duration::ZERO, Duration::ZERO) < at(2100));
    }

    #[test]
    fn what_retention_would_close_at_once_is_known_beforehand() {
        let at = Timestamp::from_seconds;
        let day = Duration::from_secs(86_400);
        let config = NamespaceConfig { seconds_per_slice: 86_400, ..NamespaceConfig::default() };
        let mut record = NamespaceRecord::new(1, at(0), config);
        let now = at(100 * 86_400 + 3600);
        assert_eq!(record.kept_from(now), Timestamp::EARLIEST, "without a retention everything is kept");
        record.config.close_after = Some(10 * day);
        assert_eq!(record.kept_from(now), at(90 * 86_400), "the day that ended less than ten days ago");
        let settings = record.config.partition_settings();
        for (days, state) in [(80..92, None), (89..90, Some(SliceFate::Closes)), (90..91, None)] {
            let interval = Interval::new(at(days.start * 86_400), at(days.end * 86_400));
            let slice = Slice { interval, settings, state: SliceState::Open };
            assert_eq!(record.fate(&slice, now), state, "{interval}");
        }
        let interval = Interval::new(at(80 * 86_400), at(92 * 86_400));
        record.slices.insert(Slice { interval, settings, state: SliceState::Open }).unwrap();
        assert_eq!(record.kept_from(now), at(80 * 86_400), "a longer slice stays as a whole");
    }
}

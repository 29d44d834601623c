//! What is stored of a namespace: one document, changed only as a whole by compare-and-set, so that configuration,
//! slices and backfill windows are always seen together.

use std::time::Duration;

use anabranch_model::{BlockedSeries, Interval, NamespaceConfig, SliceMap, TimeSeriesId, Timestamp};
use serde::{Deserialize, Serialize};

/// Closed backfill windows that are kept to be shown.
const KEPT_BACKFILLS: usize = 20;

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
    /// All slices that aren't dropped.
    pub slices: SliceMap,
    /// Everything before this has been closed: the newest end of a slice that ever was.
    pub closed_until: Timestamp,
    /// Windows for old events, oldest first.
    pub backfills: Vec<Backfill>,
    /// Set when the namespace is being deleted: nothing is written or read any more.
    pub deleting: bool,
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
            slices: SliceMap::default(),
            closed_until: Timestamp::EARLIEST,
            backfills: Vec::new(),
            deleting: false,
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
        self.config = next.config;
        true
    }

    /// The window of times that ordinary writes may have at `now`.
    pub fn accepts(&self, now: Timestamp) -> Interval {
        let config = self.config_at(now);
        // Half-open, so that an event exactly `drift_limit` ahead is still taken.
        let end = now.saturating_add(config.drift_limit).saturating_add(Duration::from_nanos(1));
        Interval::new(now.saturating_sub(config.accept_limit), end)
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

    /// Keeps all windows that aren't over and the latest of those that are.
    pub fn forget_old_backfills(&mut self, now: Timestamp) {
        let over = self.backfills.iter().filter(|backfill| backfill.state(now) == BackfillState::Closed).count();
        let mut surplus = over.saturating_sub(KEPT_BACKFILLS);
        self.backfills.retain(|backfill| {
            let forget = surplus > 0 && backfill.state(now) == BackfillState::Closed;
            surplus -= usize::from(forget);
            !forget
        });
    }
}

//! What must be true: every event that was ever sent, what became of it, and whether a record that a server answers
//! can be explained by that.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_engine::{Filter, NamespaceRecord};
use anabranch_model::{Event, EventItemKey, Item, NamespaceConfig, Position, TimeSeriesId, Timestamp};

use crate::{faults::LATEST_CHANGE, plan::MAX_CLOCK_SKEW};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The ids of the invariants, as in the design: `W1, R1`; or `deadline`, `panic`, or `record`
    /// where a change of a namespace's record was acknowledged and lost.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Violation { invariant, what: what.into() }
    }
}

/// Which history: the namespace's number, and the series.
pub(crate) type SeriesKey = (usize, TimeSeriesId);

/// Moments in the order in which things happened; virtual time alone stands still too often.
pub(crate) type Moment = u64;

/// Everything that was sent, and what became of it.
#[derive(Default)]
pub(crate) struct Oracle {
    histories: BTreeMap<SeriesKey, BTreeMap<Position, EventState>>,
    /// All settings that were ever wanted for each namespace.
    wanted: Vec<Vec<NamespaceConfig>>,
    /// Backfill windows whose opening was acknowledged, oldest first.
    windows: Vec<(usize, String)>,
    moment: Moment,
    last_store_crash: Moment,
    violation: Option<Violation>,
}

/// What is known of one event.
#[derive(Default)]
pub(crate) struct EventState {
    versions: Vec<Version>,
    /// What a read has shown when no write was under way: it must stay.
    settled: BTreeMap<EventItemKey, Item>,
    last_attempt: Moment,
    unsettled_until: Timestamp,
    /// Some write's outcome is not known: a crash of the store may take it back.
    uncertain: bool,
}

/// One content that an event was sent with.
struct Version {
    items: Vec<Item>,
    acknowledged: Option<Moment>,
    /// Whether it may have been stored.
    possible: bool,
    pending: u32,
}

/// A write request under way.
pub(crate) struct Attempt(Vec<(SeriesKey, Position, usize)>);

/// What a client learnt of one event of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Durable.
    Acknowledged,
    /// Not stored, and won't be.
    NotStored,
    /// Perhaps.
    Unknown,
    /// Perhaps soon: it waits in a server's queue.
    Queued,
}

impl Oracle {
    pub(crate) fn new(configs: impl Iterator<Item = NamespaceConfig>) -> Self {
        Oracle { wanted: configs.map(|config| vec![config]).collect(), ..Oracle::default() }
    }

    /// The next moment.
    pub(crate) fn tick(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// Keeps the first violation.
    pub(crate) fn report(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Takes down that a namespace may get these settings from now on.
    pub(crate) fn want(&mut self, namespace: usize, config: NamespaceConfig) {
        self.wanted[namespace].push(config);
    }

    pub(crate) fn wanted(&self, namespace: usize) -> &[NamespaceConfig] {
        &self.wanted[namespace]
    }

    pub(crate) fn may_be_blocked(&self, namespace: usize, series: &TimeSeriesId) -> bool {
        self.wanted[namespace].iter().flat_map(|config| &config.block_list).any(|blocked| blocked.series == *series)
    }

    /// Takes down that a backfill window was opened.
    pub(crate) fn opened(&mut self, namespace: usize, id: String) {
        self.windows.push((namespace, id));
    }

    /// Whether changes of a namespace's record that were acknowledged are still in it. Old windows are forgotten.
    pub(crate) fn check_windows(&self, namespace: usize, record: &NamespaceRecord) -> Result<(), Violation> {
        const REMEMBERED: usize = 15;
        let opened = self.windows.iter().rev().filter(|(of, _)| *of == namespace).take(REMEMBERED);
        for (_, id) in opened {
            if !record.backfills.iter().any(|window| window.id == *id) {
                return Err(Violation::new("record", format!("the window {id} was opened and is not in the record")));
            }
        }
        Ok(())
    }

    /// Everything that wasn't synced is gone.
    pub(crate) fn store_crashed(&mut self) {
        self.last_store_crash = self.tick();
        let events = self.histories.values_mut().flat_map(BTreeMap::values_mut);
        events.filter(|event| event.uncertain).for_each(|event| event.settled.clear());
    }

    /// A request with these events goes out.
    pub(crate) fn begin(&mut self, namespace: usize, events: &[Event]) -> Attempt {
        let moment = self.tick();
        let mut entries = Vec::with_capacity(events.len());
        for event in events {
            let key = (namespace, event.series.clone());
            let state = self.histories.entry(key.clone()).or_default().entry(event.position.clone()).or_default();
            let mut items = event.items.clone();
            items.sort_by(|left, right| left.key.cmp(&right.key));
            let version = state.versions.iter().position(|version| version.items == items).unwrap_or_else(|| {
                state.versions.push(Version { items, acknowledged: None, possible: false, pending: 0 });
                state.versions.len() - 1
            });
            state.versions[version].pending += 1;
            state.last_attempt = moment;
            state.settled.clear();
            entries.push((key, event.position.clone(), version));
        }
        Attempt(entries)
    }

    /// Its answer came, or it is known that none will.
    pub(crate) fn end(&mut self, attempt: Attempt, now: Timestamp, outcome: impl Fn(usize) -> Outcome) {
        let moment = self.tick();
        for (at, (key, position, version)) in attempt.0.into_iter().enumerate() {
            let history = self.histories.get_mut(&key).expect("it was entered when the attempt began");
            let state = history.get_mut(&position).expect("it was entered when the attempt began");
            let version = &mut state.versions[version];
            version.pending -= 1;
            state.last_attempt = moment;
            match outcome(at) {
                Outcome::NotStored => {}
                Outcome::Acknowledged => {
                    version.possible = true;
                    version.acknowledged.get_or_insert(moment);
                }
                Outcome::Unknown => {
                    version.possible = true;
                    state.uncertain = true;
                    // It may surface in the original when a split is served already, and differ until that is noticed.
                    let late = now.saturating_add(LATEST_CHANGE * 2);
                    let until = if state.versions.len() > 1 { Timestamp::LATEST } else { late };
                    state.unsettled_until = state.unsettled_until.max(until);
                }
                Outcome::Queued => {
                    version.possible = true;
                    state.uncertain = true;
                    state.unsettled_until = Timestamp::LATEST;
                }
            }
        }
    }

    /// No write is under way any more, anywhere.
    pub(crate) fn settle_all(&mut self) {
        for event in self.histories.values_mut().flat_map(BTreeMap::values_mut) {
            event.unsettled_until = Timestamp::EARLIEST;
        }
    }

    pub(crate) fn history(&self, key: &SeriesKey) -> Option<&BTreeMap<Position, EventState>> {
        self.histories.get(key)
    }

    pub(crate) fn histories(&self) -> impl Iterator<Item = (&SeriesKey, &BTreeMap<Position, EventState>)> {
        self.histories.iter()
    }

    pub(crate) fn event(&self, key: &SeriesKey, position: &Position) -> Option<&EventState> {
        self.histories.get(key)?.get(position)
    }

    /// A read that began at `began` has shown these items of an event. W2: one of several values stays, the same for
    /// every reader.
    pub(crate) fn observe(
        &mut self,
        key: &SeriesKey,
        position: &Position,
        items: &[Item],
        began: (Moment, Timestamp),
    ) -> Result<(), Violation> {
        let crashed_since = self.last_store_crash > began.0;
        let Some(state) = self.histories.get_mut(key).and_then(|history| history.get_mut(position)) else {
            return Ok(());
        };
        let busy = state.versions.iter().any(|version| version.pending > 0) || state.last_attempt > began.0;
        if crashed_since || busy || state.unsettled_until >= began.1 {
            return Ok(());
        }
        for item in items {
            let settled = state.settled.entry(item.key.clone()).or_insert_with(|| item.clone());
            if settled != item {
                let what = format!(
                    "{key:?} {position:?}: `{}` was {:?} and is {:?} though nothing was written since",
                    item.key, settled.value, item.value
                );
                return Err(Violation::new("W2", what));
            }
        }
        Ok(())
    }

    /// Whether what is closed may be: no slice closes before its time.
    pub(crate) fn check_closed(
        &self,
        namespace: usize,
        record: &NamespaceRecord,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let earliest = self.wanted[namespace].iter().filter_map(|config| config.close_after).min();
        let latest = now.saturating_add(MAX_CLOCK_SKEW);
        let bound = earliest.map_or(Timestamp::EARLIEST, |earliest| latest.saturating_sub(earliest));
        if record.closed_until <= bound {
            return Ok(());
        }
        let what = format!(
            "namespace {namespace} is closed until {}, but at {now} at most {bound} may be",
            record.closed_until
        );
        Err(Violation::new("W1", what))
    }
}

impl EventState {
    fn possible(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(|version| version.possible || version.pending > 0)
    }

    pub(crate) fn may_be_stored(&self) -> bool {
        self.possible().next().is_some()
    }

    /// Whether it must be in every read that begins at `began`.
    pub(crate) fn is_acknowledged_before(&self, began: Moment) -> bool {
        self.versions.iter().any(|version| version.acknowledged.is_some_and(|at| at < began))
    }

    /// Whether a read that begins at `began` must find that it passes these filters.
    pub(crate) fn must_match(&self, filters: &[Filter], began: Moment) -> bool {
        let acknowledged = |version: &&Version| version.acknowledged.is_some_and(|at| at < began);
        filters.iter().all(|filter| {
            let has = |version: &Version| version.items.iter().any(|item| item.key.as_str() == filter.key);
            let there = self.versions.iter().filter(acknowledged).any(has);
            let values =
                self.possible().flat_map(|version| &version.items).filter(|item| item.key.as_str() == filter.key);
            there && values.into_iter().all(|item| filter.value.as_ref().is_none_or(|wanted| *wanted == item.value))
        })
    }

    /// Whether a write of it ended without an answer.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.uncertain || self.versions.iter().any(|version| version.pending > 0)
    }

    /// Whether only one content was ever sent.
    pub(crate) fn has_one_version(&self) -> bool {
        self.versions.len() == 1
    }

    /// The most recent content, to write it again.
    pub(crate) fn last_items(&self) -> Option<&[Item]> {
        self.versions.last().map(|version| version.items.as_slice())
    }

    /// Whether a whole record can be explained by what was sent; it was read by a scan that began at `began`.
    pub(crate) fn check_whole(&self, items: &[Item], began: Moment) -> Result<(), Violation> {
        self.check_items(items)?;
        let keys: BTreeSet<&EventItemKey> = items.iter().map(|item| &item.key).collect();
        let whole = |version: &Version| version.items.iter().all(|item| keys.contains(&item.key));
        if !self.possible().any(whole) {
            return Err(Violation::new("R1, W2", format!("an event in part only: keys {keys:?}")));
        }
        self.check_acknowledged(items, began)
    }

    /// Whether all items that were acknowledged before `began` are there.
    pub(crate) fn check_acknowledged(&self, items: &[Item], began: Moment) -> Result<(), Violation> {
        let acknowledged = self.versions.iter().filter(|version| version.acknowledged.is_some_and(|at| at < began));
        let missing = |wanted: &&Item| !items.iter().any(|item| item.key == wanted.key);
        match acknowledged.flat_map(|version| &version.items).find(missing) {
            Some(item) => Err(Violation::new("W1, R1", format!("the acknowledged item `{}` is missing", item.key))),
            None => Ok(()),
        }
    }

    /// Whether each of these items, a record or a part of one, was sent.
    pub(crate) fn check_items(&self, items: &[Item]) -> Result<(), Violation> {
        if !self.may_be_stored() {
            return Err(Violation::new("W3, R1", "an event that was refused, or said not to be stored"));
        }
        if items.is_empty() {
            return Err(Violation::new("R1", "a record without items"));
        }
        if let Some(pair) = items.windows(2).find(|pair| pair[0].key >= pair[1].key) {
            return Err(Violation::new("R1, W2", format!("items not in order: {} then {}", pair[0].key, pair[1].key)));
        }
        for item in items {
            if !self.possible().any(|version| version.items.contains(item)) {
                return Err(Violation::new("R1", format!("an item that was never sent: {item:?}")));
            }
        }
        Ok(())
    }
}

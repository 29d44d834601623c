//! Aggregates over named series: their histories are read as whole ones, and what they hold is counted, by group. An answer counts
//! what was read for it; where it ends early, the next goes on behind it, and groups of the same key add up.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch_model::{Order, Record, Timestamp};
use bytes::Bytes;

use crate::{
    EngineError, ErrorKind, Page, Partial, PartialReason, Query, ReadRequest,
    engine::Engine,
    read::search::{check_series, next_token, position},
};

/// Groups, and bytes of the values that tell them apart, after which an answer ends with the page that it has come to.
const MAX_GROUPS: usize = 10_000;
const MAX_GROUP_BYTES: usize = 2 << 20;

/// What to count, as it came in.
#[derive(Clone, Debug, Default)]
pub struct AggregateRequest {
    /// Where.
    pub namespace: String,
    /// In whose histories.
    pub series: Vec<String>,
    /// From when on; `None` from the beginning.
    pub start: Option<Timestamp>,
    /// Until when, not included; `None` to the end.
    pub end: Option<Timestamp>,
    /// What records must fulfil; `None` counts all.
    pub query: Option<Query>,
    /// What tells groups apart.
    pub group_by: GroupBy,
    /// From the answer before; empty for the first.
    pub page_token: String,
    /// How long the client will wait.
    pub timeout: Option<Duration>,
}

/// What tells groups apart; with nothing given there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    /// The series.
    pub series: bool,
    /// Steps of this length since 1970.
    pub step: Option<Duration>,
    /// The value of the item of this key.
    pub item_key: Option<String>,
}

/// What the records of a group have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// Where groups are told apart by series.
    pub series: Option<String>,
    /// The beginning of the step, where groups are told apart by time.
    pub start: Option<Timestamp>,
    /// Where groups are told apart by an item: its value, if a record has it.
    pub value: Option<Bytes>,
}

/// What a group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Records.
    pub records: u64,
    /// Their items.
    pub items: u64,
    /// Their bytes, as pages count them.
    pub bytes: u64,
    /// The time of the first.
    pub earliest: Timestamp,
    /// The time of the last.
    pub latest: Timestamp,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// In the order of their keys.
    pub groups: BTreeMap<GroupKey, Counts>,
    /// How to go on with what isn't counted yet; `None` at the end.
    pub next_page_token: Option<String>,
    /// Why the answer is short, if it is: of the history that the token stands in.
    pub partial: Option<Partial>,
    /// Partitions opened.
    pub partitions_read: u32,
    /// Bytes taken from the store.
    pub bytes_read: u64,
}

impl Engine {
    /// Counts what the histories of named series hold. At the deadline the answer holds what was counted, and how to go on.
    pub async fn aggregate(self: &Arc<Self>, request: &AggregateRequest) -> Result<Aggregate, EngineError> {
        check_series(&request.series)?;
        check_groups(&request.group_by)?;
        let slo = self.namespace(&request.namespace)?.config_at(self.env.now()).read_slo;
        let time = request.timeout.map_or(slo.max, |timeout| timeout.min(slo.max));
        let deadline = self.env.monotonic() + time;
        let (mut at, token) = position(&request.series, &request.page_token)?;
        let mut counting = Counting::new(request, token);
        while at < request.series.len() {
            let left = deadline.saturating_sub(self.env.monotonic());
            let mut history = self.bulk_read(&part(request, at, counting.token.clone(), left)).await?;
            let end = loop {
                let left = deadline.saturating_sub(self.env.monotonic());
                // An answer that counted something may end early; one that didn't has to try.
                if counting.moved && left <= time / 10 {
                    break End::OutOfTime;
                }
                match self.env.timeout(left, Box::pin(history.next())).await {
                    Ok(Some(Ok(page))) => counting.take(&request.series[at], page),
                    Ok(Some(Err(error))) if counting.moved && is_pressure(&error) => break End::OutOfTime,
                    Ok(Some(Err(error))) => return Err(error),
                    Ok(None) => break End::History,
                    Err(_) if counting.moved => break End::OutOfTime,
                    Err(_) => return Err(EngineError::DeadlineExceeded { what: "the aggregate" }),
                }
                if counting.finished {
                    break End::History;
                }
                if counting.is_full() {
                    break End::Full;
                }
            };
            match end {
                End::History => {
                    at += 1;
                    counting.begin_history();
                    // There is room for one reason: the next history may have another (R2).
                    if counting.answer.partial.is_some() {
                        break;
                    }
                }
                End::Full => break,
                End::OutOfTime => {
                    counting.fall_short();
                    break;
                }
            }
        }
        let (mut answer, token) = (counting.answer, counting.token);
        if at < request.series.len() {
            answer.next_page_token = Some(next_token(self, at, part(request, at, token, Duration::ZERO))?);
        }
        Ok(answer)
    }
}

/// Why reading of a history ended.
enum End {
    History,
    Full,
    OutOfTime,
}

/// An answer being made.
struct Counting<'a> {
    request: &'a AggregateRequest,
    answer: Aggregate,
    group_bytes: usize,
    /// Everything before it is counted.
    token: String,
    /// Records behind the token that can't be counted yet: the last goes on with the next page.
    held: Vec<Record>,
    /// How far the history is counted, from its latest record on.
    complete_until: Timestamp,
    /// Whether all of the history is.
    finished: bool,
    /// Whether anything was counted, of any history.
    moved: bool,
}

impl<'a> Counting<'a> {
    fn new(request: &'a AggregateRequest, token: String) -> Self {
        let complete_until = request.end.unwrap_or(Timestamp::LATEST);
        let (answer, held) = (Aggregate::default(), Vec::new());
        Counting { request, answer, group_bytes: 0, token, held, complete_until, finished: false, moved: false }
    }

    fn take(&mut self, series: &str, page: Page) {
        self.answer.partitions_read += page.partitions_read;
        self.answer.bytes_read += page.bytes_read;
        if page.partial.is_some_and(|partial| partial.reason == PartialReason::Retention) {
            self.answer.partial = page.partial;
        }
        self.held.extend(page.records);
        if self.held.last().is_some_and(|last| last.continued) {
            return;
        }
        if let Some(last) = self.held.last() {
            self.complete_until = last.position.time.saturating_add(Duration::from_nanos(1));
        }
        let held = std::mem::take(&mut self.held);
        for parts in held.chunk_by(|part, _| part.continued) {
            self.count(series, parts);
        }
        self.finished = page.next_page_token.is_none();
        self.token = page.next_page_token.unwrap_or_default();
        self.moved = true;
    }

    /// Counts one record, which may have come in parts.
    fn count(&mut self, series: &str, parts: &[Record]) {
        let GroupBy { series: by_series, step, item_key } = &self.request.group_by;
        let Some(time) = parts.first().map(|part| part.position.time) else { return };
        let mut items = parts.iter().flat_map(|part| &part.items);
        let value = item_key.as_ref().and_then(|key| items.find(|item| item.key.as_str() == key));
        let key = GroupKey {
            series: by_series.then(|| series.to_owned()),
            start: step.map(|step| beginning(time, step)),
            value: value.map(|item| item.value.clone()),
        };
        let one = Counts {
            records: 1,
            items: parts.iter().map(|part| part.items.len() as u64).sum(),
            bytes: parts.iter().map(|part| part.bytes() as u64).sum(),
            earliest: time,
            latest: time,
        };
        if let Some(known) = self.answer.groups.get_mut(&key) {
            return known.add(&one);
        }
        // A value is part of what was read with it, which must not be kept for as long as the group.
        let value = key.value.map(|value| Bytes::copy_from_slice(&value));
        self.group_bytes += value.as_ref().map_or(0, Bytes::len);
        self.answer.groups.insert(GroupKey { value, ..key }, one);
    }

    fn is_full(&self) -> bool {
        let full = self.answer.groups.len() >= MAX_GROUPS || self.group_bytes >= MAX_GROUP_BYTES;
        full && self.held.is_empty()
    }

    fn begin_history(&mut self) {
        (self.token, self.finished) = (String::new(), false);
        self.complete_until = self.request.end.unwrap_or(Timestamp::LATEST);
    }

    fn fall_short(&mut self) {
        self.answer.partial = Some(Partial { reason: PartialReason::Slo, complete_until: self.complete_until });
    }
}

impl Counts {
    /// Takes in what another answer, or another record, has for the same group.
    pub fn add(&mut self, other: &Counts) {
        self.records += other.records;
        self.items += other.items;
        self.bytes += other.bytes;
        self.earliest = self.earliest.min(other.earliest);
        self.latest = self.latest.max(other.latest);
    }
}

/// The beginning of the step that a time lies in.
fn beginning(time: Timestamp, step: Duration) -> Timestamp {
    let step = i64::try_from(step.as_nanos()).unwrap_or(i64::MAX).max(1);
    Timestamp::from_nanos(time.nanos().div_euclid(step).saturating_mul(step))
}

fn is_pressure(error: &EngineError) -> bool {
    matches!(error.kind(), ErrorKind::DeadlineExceeded | ErrorKind::ResourceExhausted)
}

fn check_groups(group_by: &GroupBy) -> Result<(), EngineError> {
    if group_by.step.is_some_and(|step| step.is_zero()) {
        return Err(EngineError::invalid("group_by.time_step", "must be longer than nothing".to_owned()));
    }
    if group_by.item_key.as_ref().is_some_and(String::is_empty) {
        return Err(EngineError::invalid("group_by.event_item_key", "must not be empty".to_owned()));
    }
    Ok(())
}

fn part(request: &AggregateRequest, at: usize, page_token: String, left: Duration) -> ReadRequest {
    ReadRequest {
        namespace: request.namespace.clone(),
        series: request.series[at].clone(),
        start: request.start,
        end: request.end,
        order: Order::LatestFirst,
        query: request.query.clone(),
        page_token,
        timeout: Some(left),
        ..ReadRequest::default()
    }
}

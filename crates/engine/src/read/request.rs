//! Checks a read request, opens its token, and says what is left to read.

use std::{sync::Arc, time::Duration};

use anabranch_model::{IdError, Interval, Order, PageToken, Progress, TimeSeriesId, Timestamp};
use anabranch_store::{After, ReadClass};
use xxhash_rust::xxh3::Xxh3Default;

use crate::{
    EngineError, ErrorKind, ReadRequest, Violation,
    engine::Engine,
    read::condition::{self, Condition},
    registry::Namespace,
};

/// Records, or bytes of one partition, after which a scan counts as bulk.
const SCAN_RECORDS: u64 = 8192;
const SCAN_BYTES: u64 = 4 << 20;

/// A checked request: what is left of it to read, and within which limits.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) series: TimeSeriesId,
    pub(crate) order: Order,
    pub(crate) condition: Condition,
    /// What is left of the interval; the first event in it may have been examined already, see `after`.
    pub(crate) interval: Interval,
    /// Where the page before ended.
    pub(crate) begun_at: Option<Progress>,
    pub(crate) page_size: usize,
    pub(crate) page_bytes: usize,
    pub(crate) max_record_bytes: usize,
    /// Records that may still be served.
    pub(crate) records_left: Option<u64>,
    pub(crate) records_served: u64,
    pub(crate) floor: Timestamp,
    pub(crate) partition_bytes: u64,
    pub(crate) fingerprint: u64,
    /// When its reads of the store have their turn.
    pub(crate) class: ReadClass,
    /// How long a page may take, and when this one must end, by the monotonic clock.
    pub(crate) time: Duration,
    pub(crate) deadline: Duration,
    /// When it should end once it holds something.
    pub(crate) soft_deadline: Duration,
}

impl Plan {
    pub(crate) fn check(engine: &Engine, request: &ReadRequest) -> Result<Plan, EngineError> {
        let begun = engine.env.monotonic();
        let now = engine.env.now();
        let namespace = engine.registry.get(&request.namespace)?;
        let config = namespace.record.config_at(now);
        let checked = check(request, config.write_limits.max_id_bytes as usize)?;
        if let Some(blocked) = namespace.record.blocked(&checked.series, now, |blocked| blocked.reads) {
            let (since, reason) = (blocked.since, blocked.reason.clone());
            return Err(EngineError::Blocked { series: checked.series.into_string(), since, reason });
        }
        let fingerprint = fingerprint(namespace.record.incarnation, request);
        let token = match request.page_token.as_str() {
            "" => None,
            text => Some(PageToken::open(text, &engine.token_key, fingerprint)?),
        };
        // A server that doesn't know yet what was closed when the scan began must not go below it either.
        let floor = token.as_ref().map_or(Timestamp::EARLIEST, |token| token.floor);
        let closed_until = namespace.record.closed_until.max(floor);
        let open = checked.interval.intersect(&Interval::new(closed_until, Timestamp::LATEST));
        let records_served = token.as_ref().map_or(0, |token| token.records_served);
        let limit = Some(request.total_record_limit).filter(|limit| *limit > 0);
        let pages = config.page_limits;
        let or_default = |asked: u64, default: u64, most: u64| if asked == 0 { default } else { asked.min(most) };
        let page_size = or_default(
            u64::from(request.page_size),
            u64::from(pages.default_page_size),
            u64::from(pages.max_page_size),
        );
        let page_bytes = or_default(request.page_bytes, pages.default_page_bytes, pages.max_page_bytes);
        let timeout = request.timeout.map_or(config.read_slo.max, |timeout| timeout.min(config.read_slo.max));
        let soft = if pages.partial_at_target { timeout.min(config.read_slo.target) } else { timeout };
        Ok(Plan {
            order: request.order,
            condition: checked.condition,
            interval: remaining(open, token.as_ref().map(|token| &token.progress), request.order),
            page_size: page_size as usize,
            page_bytes: page_bytes as usize,
            max_record_bytes: pages.max_record_bytes as usize,
            records_left: limit.map(|limit| limit.saturating_sub(records_served)),
            records_served,
            floor: token.as_ref().map_or(open.start, |token| token.floor),
            partition_bytes: token.as_ref().map_or(0, |token| token.partition_bytes),
            class: token.as_ref().map_or(ReadClass::Small, class_of),
            begun_at: token.map(|token| token.progress),
            fingerprint,
            time: time_to_read(timeout),
            deadline: begun + time_to_read(timeout),
            soft_deadline: begun + time_to_read(soft),
            series: checked.series,
            namespace,
        })
    }

    /// The next page of a part of what was left, as the namespace is now.
    pub(crate) fn page_of(
        &self,
        engine: &Engine,
        part: Interval,
        begun_at: Option<Progress>,
        partition_bytes: u64,
    ) -> Result<Plan, EngineError> {
        let namespace = engine.registry.get(self.namespace.name.as_str())?;
        let open = part.intersect(&Interval::new(namespace.record.closed_until, Timestamp::LATEST));
        let deadline = engine.env.monotonic() + self.time;
        Ok(Plan {
            interval: remaining(open, begun_at.as_ref(), self.order),
            begun_at,
            partition_bytes,
            deadline,
            soft_deadline: deadline,
            namespace,
            ..self.clone()
        })
    }

    /// Where readers of partitions in the first group go on.
    pub(crate) fn after(&self) -> Option<After> {
        match self.begun_at.as_ref()? {
            Progress::Time(_) => None,
            Progress::Event(position) | Progress::Item(position, _) => Some(After::Event(position.clone())),
        }
    }

    /// The token for what comes after `progress`.
    pub(crate) fn token(&self, progress: Progress, served: u64, partition_bytes: u64) -> PageToken {
        PageToken {
            fingerprint: self.fingerprint,
            progress,
            records_served: self.records_served + served,
            floor: self.floor,
            partition_bytes,
        }
    }
}

/// The token of a read that hasn't begun: for whoever reads several histories and ends between two. It belongs to its request as any
/// other does.
pub(crate) fn first_token(engine: &Engine, request: &ReadRequest) -> Result<String, EngineError> {
    let namespace = engine.registry.get(&request.namespace)?;
    let start = request.start.unwrap_or(Timestamp::EARLIEST).max(Timestamp::EARLIEST);
    let end = request.end.unwrap_or(Timestamp::LATEST).min(Timestamp::LATEST);
    let token = PageToken {
        fingerprint: fingerprint(namespace.record.incarnation, request),
        progress: Progress::Time(match request.order {
            Order::LatestFirst => end,
            Order::OldestFirst => start,
        }),
        records_served: 0,
        floor: start.max(namespace.record.closed_until),
        partition_bytes: 0,
    };
    Ok(token.seal(&engine.token_key))
}

/// A scan that has come so far goes through a whole history, whichever way it asks for its pages.
fn class_of(token: &PageToken) -> ReadClass {
    let far = token.records_served >= SCAN_RECORDS || token.partition_bytes >= SCAN_BYTES;
    if far { ReadClass::Bulk } else { ReadClass::Small }
}

/// A tenth of the time, at most 50 ms, is kept to send the answer.
pub(super) fn time_to_read(timeout: Duration) -> Duration {
    timeout - (timeout / 10).min(Duration::from_millis(50))
}

/// What is left of an interval once everything up to `progress` was examined.
fn remaining(interval: Interval, progress: Option<&Progress>, order: Order) -> Interval {
    let mut left = interval;
    match (order, progress) {
        (_, None) => {}
        (Order::LatestFirst, Some(Progress::Time(time))) => left.end = left.end.min(*time),
        (Order::LatestFirst, Some(Progress::Event(position) | Progress::Item(position, _))) => {
            left.end = left.end.min(position.time.saturating_add(Duration::from_nanos(1)));
        }
        (Order::OldestFirst, Some(Progress::Time(time))) => left.start = left.start.max(*time),
        (Order::OldestFirst, Some(Progress::Event(position) | Progress::Item(position, _))) => {
            left.start = left.start.max(position.time);
        }
    }
    left
}

struct Checked {
    series: TimeSeriesId,
    interval: Interval,
    condition: Condition,
}

fn check(request: &ReadRequest, max_id_bytes: usize) -> Result<Checked, EngineError> {
    let mut violations = Vec::new();
    let mut refuse = |field: String, reason: String| {
        violations.push(Violation { field, reason, kind: ErrorKind::InvalidArgument });
    };
    let series = match request.series.len() {
        bytes if bytes > max_id_bytes => Err(IdError::TooLong { bytes, limit: max_id_bytes }),
        _ => TimeSeriesId::new(request.series.clone()),
    };
    let series = series.map_err(|error| refuse("time_series_id".to_owned(), error.to_string())).ok();
    let start = request.start.unwrap_or(Timestamp::EARLIEST).max(Timestamp::EARLIEST);
    let end = request.end.unwrap_or(Timestamp::LATEST).min(Timestamp::LATEST);
    if let (Some(start), Some(end)) = (request.start, request.end)
        && start > end
    {
        refuse("time_interval".to_owned(), format!("the start {start} is after the end {end}"));
    }
    let condition = Condition::check(&request.filters, request.query.as_ref(), &mut refuse);
    match series {
        Some(series) if violations.is_empty() => Ok(Checked { series, interval: Interval::new(start, end), condition }),
        _ => Err(EngineError::Refused(violations)),
    }
}

/// Of everything that must stay the same from page to page: not of page size, page bytes or deadline.
fn fingerprint(incarnation: u64, request: &ReadRequest) -> u64 {
    let mut hasher = Xxh3Default::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    part(&incarnation.to_be_bytes());
    part(request.series.as_bytes());
    for bound in [request.start, request.end] {
        part(bound.map(|time| time.nanos().to_be_bytes()).as_ref().map_or(&[], |bytes| bytes));
    }
    part(&[request.order as u8]);
    part(&request.total_record_limit.to_be_bytes());
    for filter in &request.filters {
        part(filter.key.as_bytes());
        part(&[u8::from(filter.value.is_some())]);
        part(filter.value.as_deref().unwrap_or_default());
    }
    if let Some(query) = &request.query {
        condition::fingerprint(query, &mut hasher);
    }
    hasher.digest()
}

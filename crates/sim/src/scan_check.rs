//! Judges one scan: pages in order, whole, complete and within their limits (R1, R2, R3), nothing acknowledged missing
//! (W1), no row twice (W2).

use std::time::Duration;

use anabranch_engine::{Page, PartialReason};
use anabranch_model::{Item, Order, PageLimits, Position, Record, Timestamp};

use crate::{
    oracle::{Moment, Oracle, Violation},
    scans::ScanSpec,
};

/// Longer than any id that is sent.
const MOST_ID_BYTES: usize = 64;

/// What may change from page to page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) page_size: u32,
    pub(crate) page_bytes: u64,
    pub(crate) timeout: Option<Duration>,
}

/// What a page may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    records: usize,
    bytes: usize,
    record_bytes: usize,
}

impl Asked {
    /// The limits that hold under these settings.
    pub(crate) fn limits(&self, pages: PageLimits) -> Limits {
        let or_default = |asked: u64, default: u64, most: u64| if asked == 0 { default } else { asked.min(most) };
        let size =
            or_default(u64::from(self.page_size), u64::from(pages.default_page_size), u64::from(pages.max_page_size));
        let bytes = or_default(self.page_bytes, pages.default_page_bytes, pages.max_page_bytes);
        Limits { records: size as usize, bytes: bytes as usize, record_bytes: pages.max_record_bytes as usize }
    }
}

/// A scan as far as it has come.
pub(crate) struct ScanCheck {
    spec: ScanSpec,
    began: Moment,
    /// What was acknowledged before it began and lies in its interval, in its order.
    expected: Vec<Position>,
    /// How many of them are behind.
    passed: usize,
    last: Option<Position>,
    /// A record of which parts have come and parts are to come.
    parts: Option<(Position, Vec<Item>)>,
    served: u64,
    pages: u32,
    /// What was closed when the first page came.
    closed_at_first: Option<Timestamp>,
    /// What any server that answered since has known to be closed.
    closed_until: Timestamp,
    /// Expected and not there, because it was closed meanwhile.
    lost: Vec<Position>,
    /// Came in part, and all of it that was acknowledged.
    cut_off: Vec<Position>,
    retention: Vec<Timestamp>,
    /// Its pages are parts of a stream, or of a search: they may be short.
    pub(crate) streamed: bool,
}

impl ScanCheck {
    pub(crate) fn begin(oracle: &mut Oracle, spec: ScanSpec) -> Self {
        let began = oracle.tick();
        let inside = |position: &Position| {
            spec.start.is_none_or(|start| start <= position.time) && spec.end.is_none_or(|end| position.time < end)
        };
        let history = oracle.history(&spec.key).into_iter().flatten();
        let mut expected: Vec<Position> = history
            .filter(|(position, state)| inside(position) && state.is_acknowledged_before(began))
            .map(|(position, _)| position.clone())
            .collect();
        if spec.order == Order::LatestFirst {
            expected.reverse();
        }
        ScanCheck {
            spec,
            began,
            expected,
            passed: 0,
            last: None,
            parts: None,
            served: 0,
            pages: 0,
            closed_at_first: None,
            closed_until: Timestamp::EARLIEST,
            lost: Vec::new(),
            cut_off: Vec::new(),
            retention: Vec::new(),
            streamed: false,
        }
    }

    /// An answer that holds other histories too says that some of them left the retention.
    pub(crate) fn retention_until(&mut self, until: Timestamp) {
        self.retention.push(until);
    }

    pub(crate) fn namespace(&self) -> usize {
        self.spec.key.0
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// Takes the next page in. Any of the `limits` may have held when it was read.
    pub(crate) fn page(
        &mut self,
        oracle: &mut Oracle,
        page: &Page,
        limits: &[Limits],
        began: (Moment, Timestamp),
        closed_until: Timestamp,
    ) -> Result<(), Violation> {
        self.pages += 1;
        self.closed_at_first.get_or_insert(closed_until);
        self.closed_until = self.closed_until.max(closed_until);
        check_limits(page, limits)?;
        for record in &page.records {
            self.record(oracle, record)?;
            oracle.observe(&self.spec.key, &record.position, &record.items, began)?;
        }
        let total = self.spec.total_record_limit;
        if total > 0 && self.served > total {
            return Err(Violation::new("R3", format!("{} records served of at most {total}", self.served)));
        }
        if let Some(partial) = page.partial {
            if partial.reason == PartialReason::Retention {
                self.retention.push(partial.complete_until);
            }
            let complete = |position: &Position| match self.spec.order {
                Order::LatestFirst => position.time >= partial.complete_until,
                Order::OldestFirst => position.time < partial.complete_until,
            };
            let passed = self.expected.partition_point(complete);
            self.pass(oracle, passed, "R2, R1")?;
        }
        if page.next_page_token.is_some() && !self.streamed {
            self.check_short(page, limits)?;
        }
        Ok(())
    }

    /// R2: a page that isn't full says why.
    fn check_short(&self, page: &Page, limits: &[Limits]) -> Result<(), Violation> {
        let bytes: usize = page.records.iter().map(Record::bytes).sum();
        let full = |limits: &Limits| {
            page.records.len() >= limits.records || bytes + limits.record_bytes.max(1024) + MOST_ID_BYTES > limits.bytes
        };
        let is_full = !page.records.is_empty() && limits.iter().any(full);
        if page.partial.is_some() || is_full {
            return Ok(());
        }
        let what = format!("{} records and {bytes} bytes, more to come, and no reason given", page.records.len());
        Err(Violation::new("R2", what))
    }

    fn record(&mut self, oracle: &Oracle, record: &Record) -> Result<(), Violation> {
        let position = &record.position;
        let key = self.spec.key.clone();
        let context =
            |violation: Violation| Violation { what: format!("{key:?} {position:?}: {}", violation.what), ..violation };
        let inside = self.spec.start.is_none_or(|start| start <= position.time)
            && self.spec.end.is_none_or(|end| position.time < end);
        if !inside {
            return Err(context(Violation::new("R1", "outside of the interval")));
        }
        let state = oracle.event(&self.spec.key, position);
        let state = state.ok_or_else(|| context(Violation::new("R1", "an event that nobody sent")))?;
        state.check_items(&record.items).map_err(context)?;
        let mut items = match self.parts.take() {
            Some((of, items)) if of == *position => items,
            before => {
                if let Some((of, items)) = before {
                    self.cut_off(oracle, of, &items)?;
                }
                let order = self.spec.order;
                if self.last.as_ref().is_some_and(|last| order.compare(last, position).is_ge()) {
                    let what = format!("not in order, or twice: it comes after {:?}", self.last);
                    return Err(context(Violation::new("R1, W2", what)));
                }
                Vec::new()
            }
        };
        items.extend(record.items.iter().cloned());
        if record.continued {
            self.parts = Some((position.clone(), items));
            return Ok(());
        }
        state.check_whole(&items, self.began).map_err(context)?;
        let passes = |filter: &anabranch_engine::Filter| {
            let found = items.iter().find(|item| item.key.as_str() == filter.key);
            found.is_some_and(|item| filter.value.as_ref().is_none_or(|wanted| *wanted == item.value))
        };
        if state.has_one_version() && !self.spec.filters.iter().all(passes) {
            return Err(context(Violation::new("R1", "it doesn't pass the filters")));
        }
        self.served += 1;
        let order = self.spec.order;
        let before = self.expected.partition_point(|expected| order.compare(expected, position).is_lt());
        let there = self.expected.get(before) == Some(position);
        self.last = Some(position.clone());
        self.pass(oracle, before, "W1, R1")?;
        self.passed = self.passed.max(before + usize::from(there));
        Ok(())
    }

    /// The rest of a record in parts has not come: it was closed meanwhile; or it was never acknowledged, and a crash
    /// of the store has taken it back.
    fn cut_off(&mut self, oracle: &Oracle, position: Position, items: &[Item]) -> Result<(), Violation> {
        if position.time < self.closed_until {
            self.lost.push(position);
            return Ok(());
        }
        let state = oracle.event(&self.spec.key, &position);
        match state {
            Some(state) if state.is_uncertain() => {
                state.check_acknowledged(items, self.began)?;
                self.cut_off.push(position);
                Ok(())
            }
            _ => Err(Violation::new("R1", format!("{:?}: the rest of {position:?} is missing", self.spec.key))),
        }
    }

    /// Everything expected up to here had its chance: what hasn't come is missing.
    fn pass(&mut self, oracle: &Oracle, until: usize, invariant: &'static str) -> Result<(), Violation> {
        while self.passed < until {
            let position = &self.expected[self.passed];
            self.passed += 1;
            let in_parts = self.parts.as_ref().is_some_and(|(of, _)| of == position) || self.cut_off.contains(position);
            let state = oracle.event(&self.spec.key, position);
            let matches = state.is_some_and(|state| state.must_match(&self.spec.filters, self.began));
            let was_closed = self.closed_at_first.is_some_and(|closed| position.time < closed);
            if in_parts || !matches || was_closed {
                continue;
            }
            if position.time < self.closed_until {
                self.lost.push(position.clone());
                continue;
            }
            let what = format!("{:?} {position:?} is missing; it was acknowledged before", self.spec.key);
            return Err(Violation::new(invariant, what));
        }
        Ok(())
    }

    /// The last page has come.
    pub(crate) fn end(&mut self, oracle: &Oracle) -> Result<(), Violation> {
        let total = self.spec.total_record_limit;
        if total > 0 && self.served >= total {
            return Ok(());
        }
        if let Some((position, items)) = self.parts.take() {
            self.cut_off(oracle, position, &items)?;
        }
        self.pass(oracle, self.expected.len(), "W1, R1, R2")?;
        let told = |lost: &&Position| match self.spec.order {
            Order::LatestFirst => self.retention.iter().any(|until| lost.time < *until),
            Order::OldestFirst => self.retention.iter().any(|until| lost.time >= *until),
        };
        match self.lost.iter().find(|lost| !told(lost)) {
            Some(lost) => {
                let what = format!("{lost:?} left the retention during the scan, and no page said so");
                Err(Violation::new("R1, R2", what))
            }
            None => Ok(()),
        }
    }
}

/// R3: no page holds more than it may, one record excepted.
pub(crate) fn check_limits(page: &Page, limits: &[Limits]) -> Result<(), Violation> {
    let bytes: usize = page.records.iter().map(Record::bytes).sum();
    let fits = |limits: &Limits| {
        page.records.len() <= limits.records
            && (page.records.len() <= 1 || bytes <= limits.bytes)
            && page.records.iter().all(|record| {
                let items: usize = record.items.iter().map(Item::bytes).sum();
                record.items.len() <= 1 || items <= limits.record_bytes
            })
    };
    if limits.iter().any(fits) {
        return Ok(());
    }
    Err(Violation::new("R3", format!("{} records, {bytes} bytes; allowed are {limits:?}", page.records.len())))
}

//! Turns the rows of one partition into records: items ascend by key whichever way the scan goes, no record is cut in
//! two, and one that has grown past `max_record_bytes` comes in parts.

use std::{
    ops::{Bound, ControlFlow},
    time::Duration,
};

use anabranch_model::{EventItemKey, Items, Order, Position, Record, Row};
use anabranch_runtime::Env;
use anabranch_split::HistoryReader;
use anabranch_store::{ErrorKind as StoreErrorKind, ReadLimits, ScanPage, ScanSpan, StoreError};
use smallvec::smallvec;

use crate::{
    EngineError,
    metrics::Metrics,
    read::condition::{Condition, ItemFilter},
};

const RETRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Why reading has to stop.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The time ran out.
    Deadline,
    /// Nothing can be answered.
    Failed(EngineError),
}

/// What every fetch of a page shares.
#[derive(Clone, Copy)]
pub(crate) struct Fetching<'a> {
    pub(crate) env: &'a Env,
    pub(crate) metrics: &'a Metrics,
    /// By the monotonic clock.
    pub(crate) deadline: Duration,
}

impl Fetching<'_> {
    /// How long the next call may take.
    pub(crate) fn remaining(&self) -> Result<Duration, Stop> {
        let remaining = self.deadline.saturating_sub(self.env.monotonic());
        if remaining.is_zero() { Err(Stop::Deadline) } else { Ok(remaining) }
    }

    /// Runs a store call within the time that is left.
    pub(crate) async fn timed<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<Result<T, StoreError>, Stop> {
        self.env.timeout(self.remaining()?, call).await.map_err(|_| Stop::Deadline)
    }

    /// Waits before a call is tried again, or stops when that makes no sense.
    pub(crate) async fn again(&self, attempt: u32, error: StoreError) -> Result<(), Stop> {
        let may_pass = matches!(error.kind(), StoreErrorKind::Retry | StoreErrorKind::Unknown);
        if !may_pass || attempt >= RETRIES {
            return Err(Stop::Failed(error.into()));
        }
        self.metrics.read_retries.inc();
        self.env.sleep(FIRST_PAUSE * 2u32.pow(attempt)).await;
        Ok(())
    }
}

/// A record, or a part of one.
pub(crate) struct Head {
    pub(crate) record: Record,
    /// Whether this is the first of several parts: filters have to look at the store, not at the part.
    pub(crate) first_part: bool,
}

/// The records of one partition.
pub(crate) struct RecordReader {
    reader: HistoryReader,
    order: Order,
    max_record_bytes: usize,
    /// The record that is being delivered in parts, and the last item of it that was.
    parts: Option<(Position, Option<EventItemKey>)>,
    /// Items of the record that is being put together.
    gathered: Items,
    gathered_bytes: usize,
    gathered_position: Option<Position>,
}

impl RecordReader {
    pub(crate) fn new(reader: HistoryReader, order: Order, max_record_bytes: usize) -> Self {
        RecordReader {
            reader,
            order,
            max_record_bytes,
            parts: None,
            gathered: Items::new(),
            gathered_bytes: 0,
            gathered_position: None,
        }
    }

    /// Goes on within a record of which everything up to `key` was delivered.
    pub(crate) fn resume_within(&mut self, position: Position, key: EventItemKey) {
        self.parts = Some((position, Some(key)));
    }

    /// Why the original had to be opened instead of a piece, if it was.
    pub(crate) fn fallback(&self) -> Option<&StoreError> {
        self.reader.fallback()
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.reader.bytes_read()
    }

    /// Whether it is certain that there are no more records.
    pub(crate) fn is_done(&self) -> bool {
        self.reader.is_exhausted()
            && self.reader.fetched() == 0
            && self.parts.is_none()
            && self.gathered_position.is_none()
    }

    /// Rows that were fetched and not taken.
    pub(crate) fn fetched(&self) -> usize {
        self.reader.fetched()
    }

    /// Whether fetching now would spare waiting later.
    pub(crate) fn wants_fetch(&self, low_water: usize) -> bool {
        !self.reader.is_exhausted() && self.parts.is_none() && self.reader.fetched() <= low_water
    }

    pub(crate) async fn fetch(&mut self, fetching: Fetching<'_>, rows: usize, bytes: usize) -> Result<(), Stop> {
        let mut attempt = 0;
        loop {
            let limits = ReadLimits { rows, bytes, timeout: fetching.remaining()? };
            match fetching.timed(self.reader.fetch(limits)).await? {
                Ok(()) => return Ok(()),
                Err(error) => fetching.again(attempt, error).await?,
            }
            attempt += 1;
        }
    }

    /// The next record, or `None` at the end.
    pub(crate) async fn next(
        &mut self,
        fetching: Fetching<'_>,
        rows: usize,
        bytes: usize,
    ) -> Result<Option<Head>, Stop> {
        loop {
            if self.parts.is_some() {
                if let Some(head) = self.next_part(fetching).await? {
                    return Ok(Some(head));
                }
                continue;
            }
            match self.gather() {
                Gathered::Whole(record) => return Ok(Some(Head { record, first_part: false })),
                Gathered::End => return Ok(None),
                Gathered::TooBig(position) => {
                    self.reader.skip_to(position.clone());
                    self.parts = Some((position, None));
                }
                Gathered::NeedsRows => self.fetch(fetching, rows, bytes).await?,
            }
        }
    }

    /// Hands on the next records until one is refused, as long as they are certain without a look at the store: most have one
    /// item, and the row behind it shows that there is no other.
    #[inline]
    pub(crate) fn each_ready<B>(&mut self, mut take: impl FnMut(Record) -> ControlFlow<B>) -> ControlFlow<B> {
        if self.gathered_position.is_some() || self.parts.is_some() {
            return ControlFlow::Continue(());
        }
        let rows = self.reader.rows();
        while let (Some(first), Some(second)) = (rows.front(), rows.get(1))
            && first.position != second.position
            && let Some(Row { position, item }) = rows.pop_front()
        {
            take(Record { position, items: smallvec![item], continued: false })?;
        }
        ControlFlow::Continue(())
    }

    /// Takes fetched rows until a record is whole.
    fn gather(&mut self) -> Gathered {
        loop {
            match (self.reader.peek(), &self.gathered_position) {
                (Some(row), Some(position)) if row.position != *position => return self.whole(),
                (Some(_), _) => {}
                (None, Some(_)) if self.reader.is_exhausted() => return self.whole(),
                (None, None) if self.reader.is_exhausted() => return Gathered::End,
                (None, _) => return Gathered::NeedsRows,
            }
            let Some(row) = self.reader.take() else { return Gathered::NeedsRows };
            self.gathered_bytes += row.item.bytes();
            self.gathered_position = Some(row.position);
            self.gathered.push(row.item);
            if self.gathered_bytes > self.max_record_bytes && self.gathered.len() > 1 {
                self.gathered.clear();
                self.gathered_bytes = 0;
                let position = self.gathered_position.take().expect("it was just set");
                return Gathered::TooBig(position);
            }
        }
    }

    fn whole(&mut self) -> Gathered {
        let Some(position) = self.gathered_position.take() else { return Gathered::End };
        self.gathered_bytes = 0;
        let mut items = std::mem::take(&mut self.gathered);
        if self.order == Order::OldestFirst {
            items.reverse();
        }
        Gathered::Whole(Record { position, items, continued: false })
    }

    /// The next part of a record that is too big; `None` when there was nothing more of it.
    async fn next_part(&mut self, fetching: Fetching<'_>) -> Result<Option<Head>, Stop> {
        let Some((position, last)) = self.parts.take() else { return Ok(None) };
        let from = last.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut page = self.fetch_event(fetching, &position, from, usize::MAX, self.max_record_bytes).await?;
        let bytes: usize = page.rows.iter().map(|row| row.item.bytes()).sum();
        if bytes > self.max_record_bytes && page.rows.len() > 1 {
            page.rows.pop();
            page.more = true;
        }
        let items: Items = page.rows.into_iter().map(|row| row.item).collect();
        let Some(last_item) = items.last() else { return Ok(None) };
        if page.more {
            // A store may say more where nothing follows; a record that says so must go on.
            let behind = Bound::Excluded(last_item.key.clone());
            page.more = !self.fetch_event(fetching, &position, behind, 1, 1).await?.rows.is_empty();
        }
        if page.more {
            self.parts = Some((position.clone(), Some(last_item.key.clone())));
        }
        let record = Record { position, items, continued: page.more };
        Ok(Some(Head { record, first_part: last.is_none() }))
    }

    /// Whether a record that comes in parts is kept: looks each wanted item up.
    pub(crate) async fn parts_match(
        &mut self,
        fetching: Fetching<'_>,
        position: &Position,
        condition: &Condition,
    ) -> Result<bool, Stop> {
        let mut leaves = Vec::new();
        condition.leaves(&mut leaves);
        let mut answers = Vec::with_capacity(leaves.len());
        for filter in leaves {
            let from = Bound::Included(filter.key.clone());
            let page = self.fetch_event(fetching, position, from, 1, 1).await?;
            let found = page.rows.first().filter(|row| row.item.key == filter.key);
            let holds = found.is_some_and(|row| filter.accepts(&row.item.value));
            answers.push((filter, holds));
        }
        let known = |filter: &ItemFilter| {
            answers.iter().any(|(known, holds)| std::ptr::eq::<ItemFilter>(*known, filter) && *holds)
        };
        Ok(condition.holds(&mut |filter| known(filter)))
    }

    /// Leaves out what is left of the record that is being delivered in parts.
    pub(crate) fn skip_parts(&mut self) {
        self.parts = None;
    }

    async fn fetch_event(
        &mut self,
        fetching: Fetching<'_>,
        position: &Position,
        from: Bound<EventItemKey>,
        rows: usize,
        bytes: usize,
    ) -> Result<ScanPage, Stop> {
        let span = ScanSpan::Event { position: position.clone(), from };
        let mut attempt = 0;
        loop {
            let limits = ReadLimits { rows, bytes, timeout: fetching.remaining()? };
            match fetching.timed(self.reader.fetch_event(span.clone(), limits)).await? {
                Ok(page) => return Ok(page),
                Err(error) => fetching.again(attempt, error).await?,
            }
            attempt += 1;
        }
    }
}

enum Gathered {
    Whole(Record),
    TooBig(Position),
    NeedsRows,
    End,
}

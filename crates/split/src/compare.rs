//! Compares what is served with the original, row by row. One function serves whoever doubts: the comparison beside reads, the
//! scrubber, the end of a backfill, an operator.

use std::{sync::Arc, time::Duration};

use anabranch_model::{Interval, Order, Position, Row};
use anabranch_store::{ErrorKind, ReadLimits, Store, StoreError};

use crate::{
    history::{HistoryReader, Served},
    work::{Work, timed},
};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// What is served of the partition.
    pub served: Arc<Served>,
    /// Which time. Only what is served from pieces is looked at.
    pub interval: Interval,
    /// Which way it is read.
    pub order: Order,
    /// Behind which event it begins.
    pub after: Option<Position>,
    /// Nothing more is fetched after so many rows.
    pub max_rows: u64,
    /// Whether the original is read first.
    pub original_first: bool,
    /// Of segments that are compared whole: whether all that lies in the partitions of their pieces is looked at. A row outside of a
    /// piece's bounds is met by no read, but it is none that was proven to be there.
    pub beyond_bounds: bool,
}

/// What reading one side cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Waiting for the store, and unpacking.
    pub time: Duration,
    /// Calls of the store.
    pub calls: u32,
    /// Bytes, as stored.
    pub bytes: u64,
}

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Rows that are the same, of those that were asked for.
    pub rows: u64,
    /// What the original cost.
    pub original: Cost,
    /// What the pieces cost.
    pub split: Cost,
    /// The first thing that differs, if anything does.
    pub difference: Option<Difference>,
}

/// The first thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub position: Position,
    /// What the original holds there.
    pub original: Option<Row>,
    /// What the pieces hold there.
    pub split: Option<Row>,
    /// What is wrong with a piece, when it can't be read.
    pub damage: Option<String>,
}

impl Difference {
    /// Whether the original has a row that pieces don't, and nothing else is wrong: a write that surfaced late.
    pub fn only_in_original(&self) -> bool {
        self.original.is_some() && self.split.is_none() && self.damage.is_none()
    }
}

struct Side {
    reader: HistoryReader,
    cost: Cost,
}

impl Side {
    async fn fetch(&mut self, work: &Work) -> Result<(), StoreError> {
        let timeout = work.options.call_timeout;
        let limits = ReadLimits { rows: usize::MAX, bytes: work.options.fetch_bytes, timeout };
        let (begun, before) = (work.env.monotonic(), self.reader.bytes_read());
        let fetched = timed(&work.env, timeout, self.reader.fetch(limits)).await;
        let bytes = self.reader.bytes_read() - before;
        self.cost.time += work.env.monotonic().saturating_sub(begun);
        self.cost.calls += 1;
        self.cost.bytes += bytes;
        fetched?;
        work.pace(bytes).await;
        Ok(())
    }

    fn wants_fetch(&self) -> bool {
        self.reader.fetched() == 0 && !self.reader.is_exhausted()
    }
}

impl Work {
    /// Compares pieces with the original, both as ordinary reads see them. An error means that nothing is known, not that
    /// anything differs; a difference may be a replica that lags behind.
    pub async fn compare(&self, doubt: &Doubt) -> Result<Comparison, StoreError> {
        self.compare_on(&self.store, doubt).await
    }

    /// The same with everything that was acknowledged anywhere: what differs now does.
    pub async fn compare_everywhere(&self, doubt: &Doubt) -> Result<Comparison, StoreError> {
        self.compare_on(&self.everywhere, doubt).await
    }

    async fn compare_on(&self, store: &Arc<dyn Store>, doubt: &Doubt) -> Result<Comparison, StoreError> {
        let mut result = Comparison { rows: 0, original: Cost::default(), split: Cost::default(), difference: None };
        for (_, segment) in doubt.served.segments() {
            let interval = segment.span.intersect(&doubt.interval);
            if interval.is_empty() || result.rows >= doubt.max_rows {
                continue;
            }
            let whole = interval == segment.span && doubt.after.is_none() && doubt.max_rows == u64::MAX;
            self.compare_within(store, doubt, interval, doubt.beyond_bounds && whole, &mut result).await?;
            if result.difference.is_some() {
                break;
            }
        }
        result.rows = result.rows.min(doubt.max_rows);
        Ok(result)
    }

    async fn compare_within(
        &self,
        store: &Arc<dyn Store>,
        doubt: &Doubt,
        interval: Interval,
        beyond_bounds: bool,
        result: &mut Comparison,
    ) -> Result<(), StoreError> {
        let after = doubt.after.clone().map(anabranch_store::After::Event);
        let partition = &doubt.served.row().partition;
        let (store, env) = (store.clone(), self.env.clone());
        let original = HistoryReader::original(
            store.clone(),
            partition.table(),
            partition.key(),
            interval,
            doubt.order,
            after.clone(),
        );
        let split = HistoryReader::strict(store, env, doubt.served.clone(), interval, doubt.order, after);
        let split = if beyond_bounds { split.beyond_bounds() } else { split };
        let mut original = Side { reader: original, cost: result.original };
        let mut split = Side { reader: split, cost: result.split };
        let compared = self.rows(doubt, interval, &mut original, &mut split, &mut result.rows).await;
        (result.original, result.split) = (original.cost, split.cost);
        result.difference = compared?;
        Ok(())
    }

    async fn rows(
        &self,
        doubt: &Doubt,
        interval: Interval,
        original: &mut Side,
        split: &mut Side,
        rows: &mut u64,
    ) -> Result<Option<Difference>, StoreError> {
        loop {
            if doubt.original_first && original.wants_fetch() {
                original.fetch(self).await?;
            }
            if split.wants_fetch() {
                match split.fetch(self).await {
                    Ok(()) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NoSuchTable) => {
                        return Ok(Some(self.damage(interval, original, split, error).await?));
                    }
                    Err(error) => return Err(error),
                }
            }
            if original.wants_fetch() {
                original.fetch(self).await?;
            }
            // Whatever was fetched is compared: what pieces have more than the original may lie right behind the last row.
            loop {
                match (original.reader.peek(), split.reader.peek()) {
                    (Some(left), Some(right)) if left == right => {
                        original.reader.take();
                        split.reader.take();
                        *rows += 1;
                    }
                    (None, _) if !original.reader.is_exhausted() => break,
                    (_, None) if !split.reader.is_exhausted() => break,
                    (None, None) => return Ok(None),
                    (left, right) => return Ok(Some(difference(doubt.order, left, right))),
                }
            }
            if *rows >= doubt.max_rows {
                return Ok(None);
            }
        }
    }

    /// A piece can't be read: what the original holds where that begins.
    async fn damage(
        &self,
        interval: Interval,
        original: &mut Side,
        split: &Side,
        error: StoreError,
    ) -> Result<Difference, StoreError> {
        if original.wants_fetch() {
            original.fetch(self).await?;
        }
        let row = original.reader.peek().or_else(|| split.reader.peek()).cloned();
        let nowhere = || Position { time: interval.start, id: anabranch_model::EventId::new("-").expect("not empty") };
        let position = row.as_ref().map_or_else(nowhere, |row| row.position.clone());
        Ok(Difference { position, original: row, split: None, damage: Some(error.to_string()) })
    }
}

/// Two rows that aren't the same: one of them is missing on the other side, or they hold different bytes.
fn difference(order: Order, left: Option<&Row>, right: Option<&Row>) -> Difference {
    let key_order = |left: &Row, right: &Row| {
        let items = match order {
            Order::LatestFirst => left.item.key.cmp(&right.item.key),
            Order::OldestFirst => right.item.key.cmp(&left.item.key),
        };
        order.compare(&left.position, &right.position).then(items)
    };
    let (original, split) = match (left, right) {
        (Some(left), Some(right)) => match key_order(left, right) {
            std::cmp::Ordering::Less => (Some(left), None),
            std::cmp::Ordering::Greater => (None, Some(right)),
            std::cmp::Ordering::Equal => (Some(left), Some(right)),
        },
        sides => sides,
    };
    let position = original.or(split).map(|row| row.position.clone()).expect("one side has a row");
    Difference { position, original: original.cloned(), split: split.cloned(), damage: None }
}

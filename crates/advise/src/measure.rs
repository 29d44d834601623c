//! One partition, read page by page as far as may be.

use std::time::Duration;

use anabranch_model::Timestamp;
use anabranch_store_cassandra::{
    ForeignError, ForeignTable,
    foreign::{
        Begin, Cursor,
        rows::{ForeignKey, ForeignRow},
    },
};

use crate::{
    buckets::{Buckets, Runs},
    limits::{Budget, Part},
    span::Span,
};

/// Rows at the other end of a partition that are looked at.
const END_ROWS: usize = 100;

/// What is known of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) key: ForeignKey,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) oldest: Timestamp,
    pub(crate) newest: Timestamp,
    span: Span,
    /// Rows that it has last, of which it wasn't known when they were read what lies before them.
    end: Option<End>,
    /// How long the store took for its pages, one after another; zero when they weren't read by themselves.
    pub(crate) took: Duration,
    /// Whether this is all of it.
    pub(crate) whole: bool,
}

/// The other end of a partition.
#[derive(Clone, Copy, Debug)]
struct End {
    rows: u64,
    span: Span,
}

/// How much a partition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Measured {
    pub(crate) fn new(key: ForeignKey, first: Timestamp) -> Self {
        Measured {
            key,
            rows: 0,
            bytes: 0,
            oldest: first,
            newest: first,
            span: Span::default(),
            end: None,
            took: Duration::ZERO,
            whole: false,
        }
    }

    pub(crate) fn saw(&mut self, row: &ForeignRow) {
        self.rows += 1;
        self.bytes += row.bytes();
        self.oldest = self.oldest.min(row.time);
        self.newest = self.newest.max(row.time);
        self.span.saw(row.time);
    }

    pub(crate) fn saw_end(&mut self, times: impl Iterator<Item = Timestamp>) {
        let mut end = End { rows: 0, span: Span::default() };
        for time in times {
            end.rows += 1;
            end.span.saw(time);
        }
        self.end = (end.rows > 0).then_some(end);
    }

    /// How much it has, or likely has: what lies between the rows that were read and those at the other end is taken to
    /// be as dense in time as lies midway between the two, so that neither a burst nor a silence at one of them counts
    /// for all of it. `None` when there is nothing to go by.
    pub(crate) fn likely(&self) -> Option<Size> {
        if self.whole {
            return Some(Size { rows: self.rows, bytes: self.bytes });
        }
        let end = self.end?;
        let read_seconds = self.span.seconds().filter(|seconds| *seconds > 0.0)?;
        let mut all = self.span;
        all.join(end.span);
        let left_seconds = (all.seconds()? - read_seconds).max(0.0);
        let here = self.rows as f64 / read_seconds;
        let there = end.span.seconds().filter(|seconds| *seconds > 0.0).map_or(here, |it| end.rows as f64 / it);
        let rows = self.rows as f64 + left_seconds * (here * there).sqrt();
        let bytes = self.bytes as f64 / self.rows as f64 * rows;
        Some(Size { rows: rows as u64, bytes: bytes as u64 })
    }
}

/// A partition that is being read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) measured: Measured,
    /// Its first rows, until it is read by itself: should it come to that no more, they are what is known of it.
    head: Vec<ForeignRow>,
    runs: Runs,
    cursor: Option<Cursor>,
    /// Why it can't be read on.
    pub(crate) broken: Option<ForeignError>,
}

impl Reading {
    /// Of a partition with these first rows; `is_whole` when it has no others.
    pub(crate) fn new(head: Vec<ForeignRow>, is_whole: bool) -> Option<Self> {
        let first = head.first()?;
        let mut measured = Measured::new(first.key.clone(), first.time);
        measured.whole = is_whole;
        Some(Reading { measured, head, runs: Runs::default(), cursor: None, broken: None })
    }

    /// Looks at the other end of it.
    pub(crate) async fn look_at_end(&mut self, table: &ForeignTable, budget: &mut Budget) {
        // Without it less is known; if something is wrong, reading on will tell.
        let Ok(page) = table.partition(&self.measured.key, Begin::End, END_ROWS, None).await else { return };
        budget.spend(page.rows.len() as u64, page.rows.iter().map(ForeignRow::bytes).sum()).await;
        self.measured.saw_end(page.rows.iter().map(|row| row.time));
    }

    /// Reads on until the partition ends, has shown `cap` bytes, or the budget is spent.
    pub(crate) async fn read(
        &mut self,
        table: &ForeignTable,
        cap: u64,
        part: Part,
        budget: &mut Budget,
        seen: &mut Seen,
    ) {
        while !self.measured.whole && self.broken.is_none() && self.measured.bytes < cap && !budget.is_spent(part) {
            let page = table.partition(&self.measured.key, Begin::Start, budget.page_rows(), self.cursor.take()).await;
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    self.broken = Some(error);
                    return;
                }
            };
            if !page.rows.is_empty() || page.next.is_none() {
                self.head = Vec::new();
            }
            let before = self.measured.bytes;
            for row in &page.rows {
                self.measured.saw(row);
                seen.row(table.schema().time().index, &mut self.runs, row);
            }
            self.measured.took += page.took;
            self.measured.whole = page.next.is_none();
            self.cursor = page.next;
            budget.spend(page.rows.len() as u64, self.measured.bytes - before).await;
        }
    }

    /// Nothing more of it will be read.
    pub(crate) fn end(mut self, before_time: usize, seen: &mut Seen) -> Measured {
        for row in std::mem::take(&mut self.head) {
            self.measured.saw(&row);
            seen.row(before_time, &mut self.runs, &row);
        }
        seen.buckets.end(&mut self.runs);
        if let Some(end) = self.measured.end {
            seen.span.join(end.span);
        }
        self.measured
    }
}

/// What all rows that were read had in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) buckets: Buckets,
    pub(crate) rows: u64,
    /// Bytes of values, without those of keys.
    pub(crate) value_bytes: u64,
    /// Values that were there.
    pub(crate) values: u64,
    pub(crate) span: Span,
}

impl Seen {
    /// A row, with so many clustering columns before its time.
    pub(crate) fn row(&mut self, before_time: usize, runs: &mut Runs, row: &ForeignRow) {
        self.buckets.row(runs, &row.clustering[..before_time], row.time, row.bytes());
        self.rows += 1;
        for value in row.values.iter().flatten() {
            self.value_bytes += value.len() as u64;
            self.values += 1;
        }
        self.span.saw(row.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{BODY, NOON, at, key, row};

    /// A partition of which the rows of these seconds were read.
    fn read(seconds: impl Iterator<Item = i64>) -> Measured {
        let mut measured = Measured::new(key(), at(NOON));
        seconds.for_each(|seconds| measured.saw(&row(seconds, &[])));
        measured
    }

    #[test]
    fn an_even_partition_that_was_cut_off_is_likely_as_big_as_it_is() {
        // A row a second for a day, of which an hour was read.
        let mut measured = read((0..3600).map(|back| NOON - back));
        assert_eq!(measured.likely(), None, "nothing is known of the rest");
        measured.saw_end((0..100).map(|on| NOON - 86_400 + on).map(at));
        let likely = measured.likely().unwrap();
        assert!((likely.rows as f64 / 86_400.0 - 1.0).abs() < 0.02, "{likely:?}");
        assert!((likely.bytes as f64 / (86_400.0 * BODY.len() as f64) - 1.0).abs() < 0.02, "{likely:?}");
        measured.whole = true;
        assert_eq!(measured.likely(), Some(Size { rows: 3600, bytes: 3600 * BODY.len() as u64 }));
    }

    #[test]
    fn neither_a_burst_nor_a_zero_makes_a_partition_endless() {
        // A thousand rows a second for ten of them, after a year of one row an hour.
        let mut burst = read((0..10_000).map(|row| NOON - row / 1000));
        burst.saw_end((0..100).map(|on| NOON - 365 * 86_400 + on * 3600).map(at));
        let likely = burst.likely().unwrap();
        assert!(likely.rows < 20_000_000, "as dense as its burst it would have 30 billion rows: {likely:?}");
        // The last of its rows has no time.
        let mut zero = read((0..3600).map(|back| NOON - back));
        zero.saw_end(std::iter::once(0).chain((0..99).map(|on| NOON - 86_400 + on)).map(at));
        let likely = zero.likely().unwrap();
        assert!((likely.rows as f64 / 86_400.0 - 1.0).abs() < 0.02, "{likely:?}");
        // All of one time: nothing to go by.
        let mut instant = read((0..101).map(|_| NOON));
        instant.saw_end((0..100).map(|on| NOON - 86_400 + on).map(at));
        assert_eq!(instant.likely(), None);
    }

    #[test]
    fn of_a_partition_that_is_never_read_by_itself_the_first_rows_count() {
        let (mut seen, head) = (Seen::default(), (0..101).map(|back| row(NOON - back, &[])).collect());
        let measured = Reading::new(head, false).unwrap().end(0, &mut seen);
        assert_eq!((measured.rows, measured.whole, seen.rows), (101, false, 101));
        assert!(Reading::new(Vec::new(), true).is_none());
    }
}

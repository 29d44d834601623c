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
};

/// What is known of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) key: ForeignKey,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) oldest: Timestamp,
    pub(crate) newest: Timestamp,
    /// How long the store took for its pages, one after another; zero when they weren't read by themselves.
    pub(crate) took: Duration,
    /// Whether this is all of it.
    pub(crate) whole: bool,
}

impl Measured {
    pub(crate) fn new(key: ForeignKey, first: Timestamp) -> Self {
        Measured { key, rows: 0, bytes: 0, oldest: first, newest: first, took: Duration::ZERO, whole: false }
    }

    pub(crate) fn saw(&mut self, row: &ForeignRow) {
        self.rows += 1;
        self.bytes += row.bytes();
        self.oldest = self.oldest.min(row.time);
        self.newest = self.newest.max(row.time);
    }
}

/// A partition that is being read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) measured: Measured,
    runs: Runs,
    cursor: Option<Cursor>,
    /// Why it can't be read on.
    pub(crate) broken: Option<ForeignError>,
}

impl Reading {
    pub(crate) fn new(key: ForeignKey, first: Timestamp) -> Self {
        Reading { measured: Measured::new(key, first), runs: Runs::default(), cursor: None, broken: None }
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
            let before = self.measured.bytes;
            for row in &page.rows {
                self.measured.saw(row);
                seen.row(table, &mut self.runs, row);
            }
            self.measured.took += page.took;
            self.measured.whole = page.next.is_none();
            self.cursor = page.next;
            budget.spend(page.rows.len() as u64, self.measured.bytes - before).await;
        }
    }

    /// Nothing more of it will be read.
    pub(crate) fn end(mut self, seen: &mut Seen) -> Measured {
        seen.buckets.end(&mut self.runs);
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
    pub(crate) span: Option<(Timestamp, Timestamp)>,
}

impl Seen {
    pub(crate) fn row(&mut self, table: &ForeignTable, runs: &mut Runs, row: &ForeignRow) {
        let before_time = table.schema().time().index;
        self.buckets.row(runs, &row.clustering[..before_time], row.time, row.bytes());
        self.rows += 1;
        for value in row.values.iter().flatten() {
            self.value_bytes += value.len() as u64;
            self.values += 1;
        }
        let (oldest, newest) = self.span.unwrap_or((row.time, row.time));
        self.span = Some((oldest.min(row.time), newest.max(row.time)));
    }
}

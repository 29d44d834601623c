//! Fair steps through the tokens of a table, measuring partitions.

use anabranch_provision::SizeHistogram;
use anabranch_store_cassandra::{
    ForeignError, ForeignTable,
    foreign::{Cursor, rows::ForeignRow},
};

use crate::{
    buckets::Runs,
    limits::{Budget, Part},
    measure::{Measured, Reading, Seen},
    ranges::{Ranges, Reach},
};

/// Rows of a partition that are read together with those of its neighbours.
pub(crate) const HEAD_ROWS: usize = 100;
/// Partitions of one visit.
const VISIT: usize = 200;
/// Partitions that are cut off and remembered to be read on; more are left at what was seen of them.
const MOST_CUT: usize = 1000;
/// Reads in a row that may fail before the table counts as unreadable.
const PATIENCE: usize = 3;
/// Troubles that are told one by one.
const MOST_TROUBLES: usize = 5;

pub(crate) struct Walk<'a> {
    table: &'a ForeignTable,
    ranges: Ranges,
    cut: Vec<Reading>,
    found: Findings,
    fails: usize,
}

/// What a walk has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) bytes: SizeHistogram,
    pub(crate) rows: SizeHistogram,
    pub(crate) seen: Seen,
    /// The widest, widest first.
    pub(crate) widest: Vec<Measured>,
    /// Which share of the tokens was gone through.
    pub(crate) share: f64,
    /// Whether there was nothing that wasn't read.
    pub(crate) is_everything: bool,
    /// Partitions that weren't read to their end.
    pub(crate) cut: u64,
    pub(crate) troubles: Vec<String>,
    /// Troubles beyond those.
    pub(crate) more_troubles: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(table: &'a ForeignTable) -> Self {
        Walk { table, ranges: Ranges::new(), cut: Vec::new(), found: Findings::default(), fails: 0 }
    }

    /// Visits ranges, round after round, until all of them or the walk's part of the budget have ended.
    pub(crate) async fn run(&mut self, budget: &mut Budget) -> Result<(), ForeignError> {
        while !self.ranges.is_done() {
            for index in Ranges::order() {
                if budget.is_spent(Part::Walk) {
                    return Ok(());
                }
                if let Some((from, to)) = self.ranges.left(index) {
                    let reach = self.visit(from, to, budget).await?;
                    self.ranges.reached(index, reach);
                }
            }
        }
        Ok(())
    }

    /// Measures partitions from a token on.
    async fn visit(&mut self, from: i64, to: i64, budget: &mut Budget) -> Result<Reach, ForeignError> {
        let mut cursor: Option<Cursor> = None;
        let mut head: Vec<ForeignRow> = Vec::new();
        let mut measured = 0;
        loop {
            let page = match self.table.heads(from, to, budget.page_rows(), cursor.take()).await {
                Ok(page) => page,
                // What is wrong with one range may be wrong with all.
                Err(error) if self.fails + 1 >= PATIENCE => return Err(error),
                Err(error) => {
                    self.fails += 1;
                    // Of the last partition not all first rows are known: it isn't counted, and neither are its tokens.
                    let reached = head.first().map_or(from, |row| row.token);
                    self.trouble(format!("tokens {reached} to {to} were left out: {error}"));
                    return Ok(Reach::Broken(reached));
                }
            };
            self.fails = 0;
            budget.spend(page.rows.len() as u64, page.rows.iter().map(ForeignRow::bytes).sum()).await;
            for row in page.rows {
                if head.first().is_some_and(|first| first.key != row.key) {
                    self.partition(std::mem::take(&mut head), budget).await;
                    measured += 1;
                }
                head.push(row);
            }
            let Some(next) = page.next else { break };
            if measured >= VISIT || budget.is_spent(Part::Walk) {
                // Of the last partition not all first rows are known: the next visit begins with it.
                return Ok(Reach::Next(head.first().map_or(from, |row| row.token)));
            }
            cursor = Some(next);
        }
        if !head.is_empty() {
            self.partition(head, budget).await;
        }
        Ok(Reach::Ended)
    }

    /// A partition of which the first rows were read.
    async fn partition(&mut self, head: Vec<ForeignRow>, budget: &mut Budget) {
        let Some(first) = head.first() else { return };
        let (key, time) = (first.key.clone(), first.time);
        let is_whole = head.len() <= HEAD_ROWS;
        if is_whole || budget.is_spent(Part::Walk) {
            let mut measured = Measured::new(key, time);
            let mut runs = Runs::default();
            for row in &head {
                measured.saw(row);
                self.found.seen.row(self.table, &mut runs, row);
            }
            self.found.seen.buckets.end(&mut runs);
            measured.whole = is_whole;
            self.count(measured);
            return;
        }
        let mut reading = Reading::new(key, time);
        reading.read(self.table, budget.first_cap(), Part::Walk, budget, &mut self.found.seen).await;
        if reading.measured.whole || reading.broken.is_some() || self.cut.len() >= MOST_CUT {
            self.end(reading);
        } else {
            self.cut.push(reading);
        }
    }

    /// Reads on in the partitions that were cut off, each as far as the others.
    pub(crate) async fn deepen(&mut self, budget: &mut Budget) {
        let mut cap = budget.first_cap();
        let mut cut = std::mem::take(&mut self.cut);
        while !cut.is_empty() && !budget.is_spent(Part::Deepen) {
            cap = cap.saturating_mul(2);
            let mut still = Vec::new();
            for mut reading in cut {
                reading.read(self.table, cap, Part::Deepen, budget, &mut self.found.seen).await;
                if reading.measured.whole || reading.broken.is_some() {
                    self.end(reading);
                } else {
                    still.push(reading);
                }
            }
            cut = still;
        }
        cut.into_iter().for_each(|reading| self.end(reading));
    }

    fn end(&mut self, mut reading: Reading) {
        if let Some(error) = reading.broken.take() {
            let key = self.table.schema().condition(&reading.measured.key);
            self.trouble(format!("the partition {key} couldn't be read to its end: {error}"));
        }
        let measured = reading.end(&mut self.found.seen);
        // One that shows no row any more was deleted meanwhile.
        if measured.rows > 0 {
            self.count(measured);
        }
    }

    fn count(&mut self, measured: Measured) {
        let found = &mut self.found;
        found.bytes.add(measured.bytes);
        found.rows.add(measured.rows);
        found.cut += u64::from(!measured.whole);
        let at = found.widest.partition_point(|wider| wider.bytes >= measured.bytes);
        if at < MOST_WIDEST {
            found.widest.insert(at, measured);
            found.widest.truncate(MOST_WIDEST);
        }
    }

    fn trouble(&mut self, text: String) {
        if self.found.troubles.len() < MOST_TROUBLES {
            self.found.troubles.push(text);
        } else {
            self.found.more_troubles += 1;
        }
    }

    pub(crate) fn finish(mut self, widest: usize) -> Findings {
        self.found.share = self.ranges.share();
        self.found.is_everything = self.ranges.is_everything() && self.found.cut == 0 && self.found.troubles.is_empty();
        self.found.widest.truncate(widest);
        self.found
    }
}

/// The most partitions that can be told of one by one.
pub(crate) const MOST_WIDEST: usize = 100;

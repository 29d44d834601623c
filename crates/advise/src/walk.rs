//! Fair steps through the tokens of a table, measuring partitions.

use anabranch_store_cassandra::{
    ForeignError, ForeignTable,
    foreign::{Cursor, rows::ForeignRow},
};

use crate::{
    limits::{Budget, Part},
    measure::{Measured, Reading, Seen},
    ranges::{Ranges, Reach},
    sizes::Sizes,
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
    pub(crate) bytes: Sizes,
    pub(crate) rows: Sizes,
    pub(crate) seen: Seen,
    /// The widest by what they likely have, widest first.
    pub(crate) widest: Vec<Measured>,
    /// Which share of the tokens was gone through.
    pub(crate) share: f64,
    /// Whether there was nothing that wasn't read.
    pub(crate) is_everything: bool,
    /// Partitions that weren't read to their end.
    pub(crate) cut: u64,
    /// Those of them of which there is nothing to go by for the rest.
    pub(crate) unknown: u64,
    pub(crate) troubles: Vec<String>,
    /// Troubles beyond those.
    pub(crate) more_troubles: u64,
}

impl Findings {
    pub(crate) fn count(&mut self, measured: Measured) {
        let likely = measured.likely();
        self.bytes.add(measured.bytes, likely.map(|size| size.bytes), measured.whole);
        self.rows.add(measured.rows, likely.map(|size| size.rows), measured.whole);
        self.cut += u64::from(!measured.whole);
        self.unknown += u64::from(likely.is_none());
        let width = |it: &Measured| it.likely().map_or(it.bytes, |size| size.bytes);
        let at = self.widest.partition_point(|wider| width(wider) >= width(&measured));
        if at < MOST_WIDEST {
            self.widest.insert(at, measured);
            self.widest.truncate(MOST_WIDEST);
        }
    }
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
        let is_whole = head.len() <= HEAD_ROWS;
        let Some(mut reading) = Reading::new(head, is_whole) else { return };
        reading.read(self.table, budget.first_cap(), Part::Walk, budget, &mut self.found.seen).await;
        if reading.measured.whole || reading.broken.is_some() || self.cut.len() >= MOST_CUT {
            self.end(reading);
        } else {
            self.cut.push(reading);
        }
    }

    /// Looks at the other ends of the partitions that were cut off: what lies between can then be guessed.
    pub(crate) async fn look_at_ends(&mut self, budget: &mut Budget) {
        // Otherwise the end of a partition says nothing about when what lies before it happened.
        if self.table.schema().time().index > 0 {
            return;
        }
        for reading in &mut self.cut {
            if budget.is_spent(Part::Ends) {
                return;
            }
            reading.look_at_end(self.table, budget).await;
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
        let measured = reading.end(self.table.schema().time().index, &mut self.found.seen);
        // One that shows no row any more was deleted meanwhile.
        if measured.rows > 0 {
            self.found.count(measured);
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

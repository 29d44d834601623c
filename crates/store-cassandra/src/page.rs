//! Where a page ends: at its rows or at its bytes, and whether a row follows. Also how many rows to ask the server for,
//! which counts rows and knows nothing of bytes.

use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_model::Row;
use anabranch_store::ScanPage;

/// What one answer of the server should stay below: it is built in the server's memory.
const ANSWER_BYTES: usize = 4 << 20;
/// Rows of a table of which none has been seen are taken to be this large.
const UNSEEN_ROW_BYTES: usize = 64 << 10;
/// No answer has more rows.
const MAX_ANSWER_ROWS: usize = 50_000;
/// What the first answer of a read stays below also if all its rows are as large as the largest that the table ever had.
const SURPRISE_BYTES: usize = 64 << 20;
/// Each further answer of a read may have so many times the rows of the one before, since those were seen.
const TRUST: usize = 4;
/// But no more than this share of them as large as the largest.
const MAX_TRUST: usize = 16;
/// After an answer that came too late rows are taken to be so many times as large.
const LATE_FACTOR: usize = 8;

/// Collects rows up to the limits of a page.
#[derive(Debug)]
pub(crate) struct PageBuilder {
    rows: Vec<Row>,
    bytes: usize,
    max_rows: usize,
    max_bytes: usize,
    more: bool,
    /// How many times the rows of a first answer the next one may have.
    trust: usize,
}

impl PageBuilder {
    pub(crate) fn new(max_rows: usize, max_bytes: usize) -> Self {
        PageBuilder { rows: Vec::new(), bytes: 0, max_rows, max_bytes, more: false, trust: 1 }
    }

    /// Makes room for some rows more, as far as they can be taken.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.rows.reserve(rows.min(self.max_rows.saturating_sub(self.rows.len())));
    }

    /// Takes a row, unless the page is full; then the row shows that more follows, and `false` is answered.
    #[inline]
    pub(crate) fn offer(&mut self, row: Row) -> bool {
        if self.is_full() {
            self.more = true;
            return false;
        }
        self.bytes += row.bytes();
        self.rows.push(row);
        true
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= self.max_rows || (!self.rows.is_empty() && self.bytes >= self.max_bytes)
    }

    /// Takes note that rows may follow, of which none was seen.
    pub(crate) fn more_may_follow(&mut self) {
        self.more = true;
    }

    /// Rows to ask for: those that still fit. None beyond them only to see whether more follow: it may be a block.
    pub(crate) fn wanted(&mut self, size: &RowSize) -> usize {
        let bytes = self.max_bytes.saturating_sub(self.bytes).min(ANSWER_BYTES);
        let by_bytes = bytes.div_ceil(size.lately());
        let by_rows = self.max_rows.saturating_sub(self.rows.len());
        let by_trust = SURPRISE_BYTES / size.ever() * self.trust;
        self.trust = (self.trust * TRUST).min(MAX_TRUST);
        by_bytes.min(by_rows).min(by_trust).clamp(1, MAX_ANSWER_ROWS)
    }

    /// With the rows of a page that comes after this one, as far as there is room for them.
    pub(crate) fn followed_by(mut self, next: PageBuilder) -> PageBuilder {
        if self.more {
            return self;
        }
        self.reserve(next.rows.len());
        let all_taken = next.rows.into_iter().all(|row| self.offer(row));
        self.more |= all_taken && next.more;
        self
    }

    pub(crate) fn finish(self) -> ScanPage {
        ScanPage { rows: self.rows, more: self.more }
    }
}

/// How large the rows of a table may be.
#[derive(Debug)]
pub(crate) struct RowSize {
    /// The largest one seen, forgotten slowly.
    lately: AtomicUsize,
    /// The largest one ever seen: many small ones say nothing of a partition of large ones beside them.
    ever: AtomicUsize,
}

impl Default for RowSize {
    fn default() -> Self {
        RowSize { lately: AtomicUsize::new(UNSEEN_ROW_BYTES), ever: AtomicUsize::new(1) }
    }
}

impl RowSize {
    fn lately(&self) -> usize {
        self.lately.load(Ordering::Relaxed)
    }

    fn ever(&self) -> usize {
        self.ever.load(Ordering::Relaxed)
    }

    /// Takes note of the largest of some rows that were read or written together.
    pub(crate) fn saw(&self, largest: usize) {
        // Down by a sixteenth at a time: an answer of large rows after many small ones is what may not come as a surprise.
        self.update(|known| largest.max(known - known / 16));
        if largest > self.ever() {
            self.ever.fetch_max(largest, Ordering::Relaxed);
        }
    }

    /// An answer came too late. If that was because its rows are larger than any that were seen, the next one has fewer.
    pub(crate) fn came_too_late(&self) {
        self.update(|known| known.max((known * LATE_FACTOR).min(UNSEEN_ROW_BYTES)));
    }

    fn update(&self, change: impl Fn(usize) -> usize) {
        let _ = self.lately.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| Some(change(known).max(1)));
    }
}

#[cfg(test)]
mod tests {
    use anabranch_store::suite::fixture::row;

    use super::*;

    #[test]
    fn an_answer_stays_small_whatever_the_page_asks_for() {
        let wanted = |mut page: PageBuilder, bytes| page.wanted(&of_rows(bytes));
        let whole = || PageBuilder::new(1_000_000, usize::MAX);
        assert_eq!(wanted(whole(), 1 << 20), 4);
        assert_eq!(whole().wanted(&RowSize::default()), 64);
        assert_eq!(wanted(whole(), 1), MAX_ANSWER_ROWS);
        assert_eq!(wanted(PageBuilder::new(1000, 2 << 20), 300), 1000, "one answer for an ordinary page");
        assert_eq!(wanted(PageBuilder::new(1, 0), 300), 1);
    }

    /// The size of rows that have long been so large.
    fn of_rows(bytes: usize) -> RowSize {
        let size = RowSize::default();
        (0..300).for_each(|_| size.saw(bytes));
        size
    }

    /// Where one series of a table has large rows, those of all others don't say what its next answer will be.
    #[test]
    fn a_partition_of_large_rows_among_many_small_ones_comes_as_no_surprise() {
        let size = of_rows(1 << 20);
        (0..10_000).for_each(|_| size.saw(200));
        let mut read = PageBuilder::new(usize::MAX, usize::MAX);
        let answers: Vec<usize> = (0..4).map(|_| read.wanted(&size)).collect();
        assert_eq!(answers, [64, 256, 1024, 1024], "at most 64 MiB at first, and 1 GiB whatever follows what");
    }

    /// Asked for again as it was, it would come too late again.
    #[test]
    fn after_an_answer_that_came_too_late_the_next_one_has_fewer_rows() {
        let size = of_rows(250);
        let wanted = || PageBuilder::new(1000, 2 << 20).wanted(&size);
        assert_eq!(wanted(), 1000);
        (0..10).for_each(|_| size.came_too_late());
        assert_eq!(wanted(), 32);
        (0..300).for_each(|_| size.saw(250));
        assert_eq!(wanted(), 1000);
        let large = of_rows(1 << 20);
        large.came_too_late();
        assert_eq!(large.lately(), 1 << 20);
    }

    #[test]
    fn a_large_row_is_remembered_for_a_while() {
        let size = RowSize::default();
        size.saw(1 << 20);
        size.saw(100);
        assert!(size.lately() > 900_000);
        for _ in 0..300 {
            size.saw(100);
        }
        assert!(size.lately() < 200, "{}", size.lately());
    }

    #[test]
    fn a_row_that_does_not_fit_shows_that_more_follows() {
        let mut page = PageBuilder::new(2, usize::MAX);
        assert!(page.offer(row(3, "e", "k", "v")) && page.offer(row(2, "e", "k", "v")));
        assert!(!page.more);
        assert!(!page.offer(row(1, "e", "k", "v")));
        let page = page.finish();
        assert_eq!((page.rows.len(), page.more), (2, true));
    }
}

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

/// Collects rows up to the limits of a page.
#[derive(Debug)]
pub(crate) struct PageBuilder {
    rows: Vec<Row>,
    bytes: usize,
    max_rows: usize,
    max_bytes: usize,
    more: bool,
}

impl PageBuilder {
    pub(crate) fn new(max_rows: usize, max_bytes: usize) -> Self {
        PageBuilder { rows: Vec::new(), bytes: 0, max_rows, max_bytes, more: false }
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
    pub(crate) fn wanted(&self, row_bytes: usize) -> usize {
        let bytes = self.max_bytes.saturating_sub(self.bytes).min(ANSWER_BYTES);
        let by_bytes = bytes.div_ceil(row_bytes.max(1));
        let by_rows = self.max_rows.saturating_sub(self.rows.len());
        by_bytes.min(by_rows).clamp(1, MAX_ANSWER_ROWS)
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

/// How large the rows of a table may be: the largest one seen, forgotten slowly.
#[derive(Debug)]
pub(crate) struct RowSize(AtomicUsize);

impl Default for RowSize {
    fn default() -> Self {
        RowSize(AtomicUsize::new(UNSEEN_ROW_BYTES))
    }
}

impl RowSize {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes note of the largest of some rows that were read or written together.
    pub(crate) fn saw(&self, largest: usize) {
        // Down by a sixteenth at a time: an answer of large rows after many small ones is what may not come as a surprise.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| Some(largest.max(known - known / 16).max(1)));
    }
}

#[cfg(test)]
mod tests {
    use anabranch_store::suite::fixture::row;

    use super::*;

    #[test]
    fn an_answer_stays_small_whatever_the_page_asks_for() {
        let page = PageBuilder::new(1_000_000, usize::MAX);
        assert_eq!(page.wanted(1 << 20), 4);
        assert_eq!(page.wanted(UNSEEN_ROW_BYTES), 64);
        assert_eq!(page.wanted(1), MAX_ANSWER_ROWS);
        assert_eq!(PageBuilder::new(1000, 2 << 20).wanted(300), 1000, "one answer for an ordinary page");
        assert_eq!(PageBuilder::new(1, 0).wanted(300), 1);
    }

    #[test]
    fn a_large_row_is_remembered_for_a_while() {
        let size = RowSize::default();
        size.saw(1 << 20);
        size.saw(100);
        assert!(size.bytes() > 900_000);
        for _ in 0..300 {
            size.saw(100);
        }
        assert!(size.bytes() < 200, "{}", size.bytes());
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

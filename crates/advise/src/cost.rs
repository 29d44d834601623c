//! What the widest partitions cost to read, and what their rows would be packed to.

use std::time::Duration;

use anabranch_store_cassandra::{
    ForeignTable,
    foreign::{Begin, rows::ForeignRow},
};

use crate::{
    limits::{Budget, Part},
    measure::Measured,
    packing,
    report::{PageCost, Widest},
    walk::Findings,
};

/// Rows of the page whose cost is told.
pub(crate) const PAGE_ROWS: usize = 1000;
/// How often the page is read.
const REPEATS: usize = 5;
/// Bytes of rows that are packed, of each partition.
const PACKED_BYTES: u64 = 4 << 20;
/// Partitions whose rows are packed.
const PACKED_PARTITIONS: usize = 3;

pub(crate) async fn widest(table: &ForeignTable, found: &Findings, budget: &mut Budget) -> Vec<Widest> {
    let mut all = Vec::new();
    for (place, measured) in found.widest.iter().enumerate() {
        let newest_page = newest_page(table, measured, budget).await;
        let packed = match place < PACKED_PARTITIONS {
            true => packing::pack(table.schema(), &newest_rows(table, measured, budget).await),
            false => None,
        };
        let likely = measured.likely().filter(|_| !measured.whole);
        all.push(Widest {
            key: table.schema().condition(&measured.key),
            rows: measured.rows,
            bytes: measured.bytes,
            is_whole: measured.whole,
            likely_rows: likely.map(|size| size.rows),
            likely_bytes: likely.map(|size| size.bytes),
            oldest: measured.oldest.to_string(),
            newest: measured.newest.to_string(),
            newest_page,
            whole_history_seconds: (!measured.took.is_zero()).then_some(measured.took.as_secs_f64()),
            packed,
        });
    }
    all
}

/// Reads the newest page a few times.
async fn newest_page(table: &ForeignTable, measured: &Measured, budget: &mut Budget) -> Option<PageCost> {
    let mut took: Vec<Duration> = Vec::new();
    let mut rows = 0;
    for _ in 0..REPEATS {
        if budget.is_spent(Part::All) {
            break;
        }
        let page = table.partition(&measured.key, Begin::Newest, PAGE_ROWS, None).await.ok()?;
        budget.spend(page.rows.len() as u64, page.rows.iter().map(ForeignRow::bytes).sum()).await;
        rows = page.rows.len() as u64;
        took.push(page.took);
    }
    took.sort_unstable();
    let millis = |time: &Duration| time.as_secs_f64() * 1e3;
    Some(PageCost {
        rows,
        reads: took.len(),
        median_ms: millis(took.get(took.len() / 2)?),
        worst_ms: millis(took.last()?),
    })
}

/// As many of the newest rows as are packed.
async fn newest_rows(table: &ForeignTable, measured: &Measured, budget: &mut Budget) -> Vec<ForeignRow> {
    let (mut rows, mut bytes, mut cursor) = (Vec::new(), 0, None);
    while bytes < PACKED_BYTES && !budget.is_spent(Part::All) {
        let page = table.partition(&measured.key, Begin::Newest, budget.page_rows(), cursor.take()).await;
        let Ok(page) = page else { break };
        let of_page: u64 = page.rows.iter().map(ForeignRow::bytes).sum();
        budget.spend(page.rows.len() as u64, of_page).await;
        bytes += of_page;
        rows.extend(page.rows);
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    rows
}

//! Promises about the limits of a page: rows, bytes, and whether more follows.

use std::sync::Arc;

use anabranch_model::{Interval, Row};

use super::{
    fixture::{DIRECTIONS, EVER, interval, make_table, page, partition, row, scan, within, write},
    model::Rows,
};
use crate::{Direction, ErrorKind, ScanPage, ScanSpan, Store};

fn ten_rows() -> Vec<Row> {
    (0..10).map(|at| row(at / 3, "e", &format!("k{at}"), &"v".repeat(at as usize))).collect()
}

/// No page has more rows than asked for, and none has fewer while there are more.
pub async fn a_page_ends_at_its_row_limit(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let (partition, rows) = (partition("s", 0, 0), Rows::new(ten_rows()));
    write(&store, &table, &partition, rows.as_slice()).await;
    for direction in DIRECTIONS {
        let whole = rows.of_span(&within(EVER), direction);
        for max_rows in 1..=11 {
            let mut scan = scan(&table, &partition, within(EVER), direction);
            scan.max_rows = max_rows;
            let found = page(&store, &scan).await;
            assert_eq!(found.rows, whole[..max_rows.min(10)], "{direction:?} {max_rows}");
            rows.check(&scan, &found);
        }
    }
}

/// A page ends with the row that fills its bytes.
pub async fn a_page_ends_at_its_byte_limit(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let (partition, rows) = (partition("s", 0, 0), Rows::new(ten_rows()));
    write(&store, &table, &partition, rows.as_slice()).await;
    let all_bytes: usize = rows.as_slice().iter().map(Row::bytes).sum();
    for direction in DIRECTIONS {
        for max_bytes in 1..=all_bytes + 1 {
            let mut scan = scan(&table, &partition, within(EVER), direction);
            scan.max_bytes = max_bytes;
            rows.check(&scan, &page(&store, &scan).await);
        }
    }
}

/// At least one row is answered, however small the limit, so that a scan always moves on.
pub async fn a_row_above_the_byte_limit_is_answered_alone(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let rows = [row(2, "e", "k", &"x".repeat(10_000)), row(1, "e", "k", &"y".repeat(10_000))];
    write(&store, &table, &partition, &rows).await;
    for (direction, first) in DIRECTIONS.into_iter().zip(&rows) {
        for max_bytes in [0, 1, 9_999] {
            let mut scan = scan(&table, &partition, within(EVER), direction);
            scan.max_bytes = max_bytes;
            assert_eq!(page(&store, &scan).await, ScanPage { rows: vec![first.clone()], more: true });
        }
    }
}

/// A page says that more follows whenever it does, and that nothing does when it isn't full, also when rows lie behind the span
/// or in the next partition.
pub async fn a_page_says_when_more_follows(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let rows = Rows::new(ten_rows());
    for time_bucket in 0..3 {
        write(&store, &table, &partition("s", time_bucket, 0), rows.as_slice()).await;
    }
    for direction in DIRECTIONS {
        for within_times in [Interval::ALL, interval(1, 2), interval(1, 3)] {
            let span = ScanSpan::Interval { interval: within_times, after: None };
            let whole = rows.of_span(&span, direction);
            for (max_rows, more) in [(whole.len() - 1, Some(true)), (whole.len(), None), (whole.len() + 1, Some(false))]
            {
                let mut scan = scan(&table, &partition("s", 1, 0), span.clone(), direction);
                scan.max_rows = max_rows;
                let found = page(&store, &scan).await;
                assert_eq!(found.rows, whole[..max_rows.min(whole.len())]);
                assert!(more.is_none_or(|more| found.more == more), "{scan:?}: {}", found.more);
            }
        }
    }
}

/// A scan for no rows could never move on.
pub async fn a_scan_of_no_rows_is_refused(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let mut scan = scan(&table, &partition("s", 0, 0), within(EVER), Direction::Forward);
    scan.max_rows = 0;
    assert_eq!(store.scan(&scan).await.map_err(|error| error.kind()), Err(ErrorKind::Refused));
}

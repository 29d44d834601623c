//! What a scan must answer, computed from a list of rows with plain comparisons: no encoding, no index.

use std::{cmp::Reverse, collections::BTreeMap, ops::Bound};

use anabranch_model::{Row, RowKey, Timestamp};

use super::fixture::{self, Draw};
use crate::{After, Direction, Scan, ScanPage, ScanSpan};

const TEXTS: &[&str] = &[
    "a",
    "ab",
    "abc",
    "b",
    "a\u{1}",
    "\u{1}",
    "a\u{7f}",
    "é",
    "éa",
    "日",
    "日本",
    "z",
    "~",
    "\u{10FFFF}",
    "A b/c'\"%",
];

/// Rows as a partition may hold them.
pub struct Rows(Vec<Row>);

impl Rows {
    /// Takes rows with different keys and brings them into table order.
    pub fn new(mut rows: Vec<Row>) -> Self {
        rows.sort_by_key(|row| place(&row.key()));
        Rows(rows)
    }

    /// Up to `most` rows whose ids begin with each other, whose times are the same, negative and extreme, whose values
    /// are empty, and whose metadata is absent, empty or neither.
    pub fn drawn(draw: &mut Draw, most: usize) -> Self {
        let mut times = vec![Timestamp::EARLIEST.nanos(), Timestamp::LATEST.nanos() - 1, -1, 0, 1, -256, 255, 256];
        times.extend((0..3).map(|_| draw.number() as i64 / 2));
        let times: Vec<i64> = (0..4).map(|_| draw.pick(&times)).collect();
        let mut rows = BTreeMap::new();
        for _ in 0..most {
            let (time, id, key) = (draw.pick(&times), draw.pick(TEXTS), draw.pick(TEXTS));
            let mut row = fixture::row(time, id, key, "");
            row.item.value = draw.bytes(40);
            row.item.metadata = if draw.below(2) == 0 { None } else { Some(draw.bytes(2)) };
            rows.insert((time, id, key), row);
        }
        Rows::new(rows.into_values().collect())
    }

    /// In table order.
    pub fn as_slice(&self) -> &[Row] {
        &self.0
    }

    /// Those of a span, in a scan's direction.
    pub fn of_span(&self, span: &ScanSpan, direction: Direction) -> Vec<Row> {
        let covered = self.0.iter().filter(|row| covers(span, direction, row)).cloned();
        match direction {
            Direction::Forward => covered.collect(),
            Direction::Backward => covered.rev().collect(),
        }
    }

    /// Panics unless this answers a scan: with the right rows, and saying whether more follow. A full page may say so where nothing
    /// does.
    pub fn check(&self, scan: &Scan, found: &ScanPage) {
        let exact = self.answer(scan);
        assert_eq!(found.rows, exact.rows, "{scan:?}");
        let bytes: usize = found.rows.iter().map(Row::bytes).sum();
        let full = found.rows.len() == scan.max_rows || bytes >= scan.max_bytes;
        assert!(found.more == exact.more || (full && found.more), "{scan:?}: more is {}", found.more);
    }

    /// The exact answer to a scan.
    fn answer(&self, scan: &Scan) -> ScanPage {
        let mut rows = self.of_span(&scan.span, scan.direction);
        let mut bytes = 0;
        let mut taken = 0;
        for row in &rows {
            taken += 1;
            bytes += row.bytes();
            if taken == scan.max_rows || bytes >= scan.max_bytes {
                break;
            }
        }
        let more = taken < rows.len();
        rows.truncate(taken);
        ScanPage { rows, more }
    }
}

/// What sorts rows into table order.
fn place(key: &RowKey) -> (Reverse<(i64, String)>, String) {
    let position = (key.position.time.nanos(), key.position.id.as_str().to_owned());
    (Reverse(position), key.item_key.as_str().to_owned())
}

fn covers(span: &ScanSpan, direction: Direction, row: &Row) -> bool {
    let forward = direction == Direction::Forward;
    match span {
        ScanSpan::Interval { interval, after } => {
            let behind = match after {
                None => false,
                Some(After::Event(position)) if forward => row.position >= *position,
                Some(After::Event(position)) => row.position <= *position,
                Some(After::Row(key)) if forward => place(&row.key()) <= place(key),
                Some(After::Row(key)) => place(&row.key()) >= place(key),
            };
            interval.start <= row.position.time && row.position.time < interval.end && !behind
        }
        ScanSpan::Event { position, from } => {
            let wanted = match from {
                Bound::Unbounded => true,
                Bound::Included(first) if forward => row.item.key >= *first,
                Bound::Included(first) => row.item.key <= *first,
                Bound::Excluded(behind) if forward => row.item.key > *behind,
                Bound::Excluded(behind) => row.item.key < *behind,
            };
            row.position == *position && wanted
        }
    }
}

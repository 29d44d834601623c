//! Promises about scans: their order, their bounds, and where they go on.

use std::{ops::Bound, sync::Arc};

use anabranch_model::{Interval, PartitionKey, Row, TableName, Timestamp, ids::MAX_ID_BYTES};
use bytes::Bytes;

use super::{
    fixture::{
        DIRECTIONS, EVER, contents, interval, item_key, make_table, page, partition, position, row, row_key, scan,
        within, write,
    },
    model::Rows,
};
use crate::{After, Direction, ScanPage, ScanSpan, Store};

/// Events at times -2 to 2, two at each, with one to three items.
fn small_history() -> Rows {
    let mut rows = Vec::new();
    for time in -2i64..=2 {
        for id in ["a", "ab"] {
            for key in ["k", "ka", "l"].into_iter().take(1 + time.rem_euclid(3) as usize) {
                rows.push(row(time, id, key, &format!("{time} {id} {key}")));
            }
        }
    }
    Rows::new(rows)
}

struct Written {
    store: Arc<dyn Store>,
    table: TableName,
    partition: PartitionKey,
    rows: Rows,
}

impl Written {
    async fn new(store: Arc<dyn Store>, rows: Rows) -> Self {
        let table = make_table(&store, "data_20260328").await;
        let partition = partition("s", 7, 2);
        write(&store, &table, &partition, rows.as_slice()).await;
        Written { store, table, partition, rows }
    }

    /// Scans a span both ways and compares with what a list of the rows would answer.
    async fn check(&self, span: &ScanSpan) -> [Vec<Row>; 2] {
        let mut answers = [Vec::new(), Vec::new()];
        for (answer, direction) in answers.iter_mut().zip(DIRECTIONS) {
            let found = page(&self.store, &scan(&self.table, &self.partition, span.clone(), direction)).await;
            let rows = self.rows.of_span(span, direction);
            assert_eq!(found, ScanPage { rows: rows.clone(), more: false }, "{direction:?} {span:?}");
            *answer = rows;
        }
        answers
    }
}

/// Forward: latest first, items ascending. Backward: that list reversed, items too.
pub async fn a_scan_is_in_table_order_or_its_exact_reverse(store: Arc<dyn Store>) {
    let rows = [row(2, "a", "k", ""), row(1, "b", "k", ""), row(1, "a", "k", ""), row(1, "a", "l", "")];
    let shuffled = [&rows[2], &rows[0], &rows[3], &rows[1]].map(Clone::clone);
    let written = Written::new(store, Rows::new(shuffled.to_vec())).await;
    let [forward, mut backward] = written.check(&within(Interval::ALL)).await;
    assert_eq!(forward, rows);
    backward.reverse();
    assert_eq!(backward, rows);
}

/// An interval's start is inside, its end isn't; extreme bounds are bounds like others.
pub async fn interval_bounds_are_half_open(store: Arc<dyn Store>) {
    let mut rows = small_history().as_slice().to_vec();
    let (earliest, latest) = (Timestamp::EARLIEST.nanos(), Timestamp::LATEST.nanos());
    rows.extend([row(earliest, "a", "k", "first"), row(latest - 1, "a", "k", "last")]);
    let written = Written::new(store, Rows::new(rows)).await;
    let bounds = [i64::MIN, earliest, earliest + 1, -2, -1, 0, 1, 2, 3, latest - 1, latest, i64::MAX];
    for (at, start) in bounds.iter().enumerate() {
        for end in &bounds[at + 1..] {
            written.check(&within(interval(*start, *end))).await;
        }
    }
    let [one_instant, _] = written.check(&within(interval(0, 1))).await;
    assert!(!one_instant.is_empty() && one_instant.iter().all(|row| row.position.time.nanos() == 0));
}

/// An interval that ends where it starts, or before, has no rows.
pub async fn an_empty_interval_holds_nothing(store: Arc<dyn Store>) {
    let written = Written::new(store, small_history()).await;
    for (start, end) in [(0, 0), (1, -1), (i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (i64::MAX, i64::MIN)] {
        let [forward, backward] = written.check(&within(interval(start, end))).await;
        assert!(forward.is_empty() && backward.is_empty());
    }
}

/// After an event, none of its rows come again, whether it is there or not.
pub async fn a_scan_goes_on_after_an_event(store: Arc<dyn Store>) {
    let written = Written::new(store, small_history()).await;
    for time in -3..=3 {
        for id in ["a", "aa", "ab", "b"] {
            let after = Some(After::Event(position(time, id)));
            written.check(&ScanSpan::Interval { interval: Interval::ALL, after: after.clone() }).await;
            written.check(&ScanSpan::Interval { interval: interval(-1, 2), after }).await;
        }
    }
}

/// After a row, the rest of its event comes first, whether that row is there or not.
pub async fn a_scan_goes_on_after_a_row(store: Arc<dyn Store>) {
    let written = Written::new(store, small_history()).await;
    for time in -3..=3 {
        for id in ["a", "aa", "ab"] {
            for key in ["", "a", "k", "k\u{1}", "ka", "l", "z"] {
                let after = Some(After::Row(row_key(time, id, key)));
                written.check(&ScanSpan::Interval { interval: Interval::ALL, after: after.clone() }).await;
                written.check(&ScanSpan::Interval { interval: interval(-1, 2), after }).await;
            }
        }
    }
}

/// Going on after a place before the interval begins at the interval; after one behind it, nothing is left.
pub async fn a_place_outside_of_the_interval_does_not_widen_it(store: Arc<dyn Store>) {
    let written = Written::new(store, small_history()).await;
    for after in [After::Event(position(2, "ab")), After::Row(row_key(2, "ab", "k"))] {
        let span = ScanSpan::Interval { interval: interval(-1, 1), after: Some(after) };
        let [forward, backward] = written.check(&span).await;
        let [whole, _] = written.check(&within(interval(-1, 1))).await;
        assert_eq!(forward, whole);
        assert_eq!(backward, []);
    }
}

/// The items of one event, from the first, from a key on, or after a key, and no other event's.
pub async fn items_of_one_event_are_read_from_a_bound_on(store: Arc<dyn Store>) {
    let mut rows = small_history().as_slice().to_vec();
    rows.extend(["", "a", "é", "日本", "~"].map(|tail| row(9, "ab", &format!("k{tail}"), tail)));
    rows.push(row(9, "ab", "", "a block, before every item"));
    let written = Written::new(store, Rows::new(rows)).await;
    for event in [position(9, "ab"), position(0, "a"), position(0, "ab"), position(9, "a"), position(9, "abc")] {
        let span = |from| ScanSpan::Event { position: event.clone(), from };
        written.check(&span(Bound::Unbounded)).await;
        for key in ["", "A", "k", "k\u{1}", "ka", "ké", "k日本", "l", "z"] {
            written.check(&span(Bound::Included(item_key(key)))).await;
            written.check(&span(Bound::Excluded(item_key(key)))).await;
        }
    }
    let [forward, _] =
        written.check(&ScanSpan::Event { position: position(9, "ab"), from: Bound::Excluded(item_key("ka")) }).await;
    let keys: Vec<&str> = forward.iter().map(|row| row.item.key.as_str()).collect();
    assert_eq!(keys, ["k~", "ké", "k日本"]);
}

/// A partition that nothing was written to is empty, not missing.
pub async fn an_empty_partition_is_an_empty_page(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    for direction in DIRECTIONS {
        let found = page(&store, &scan(&table, &partition("s", 0, 0), within(EVER), direction)).await;
        assert_eq!(found, ScanPage::default());
    }
}

/// Empty values, absent and empty metadata, any bytes, ids of any UTF-8, short and as long as they may be.
pub async fn values_and_metadata_come_back_as_they_were_written(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let every_byte: Bytes = (0..=255).collect();
    let long = "x".repeat(MAX_ID_BYTES - "absent".len());
    let texts = ["k", "\u{1}", "é", "日本", "\u{10FFFF}", " ", long.as_str()];
    let mut rows = Vec::new();
    for (time, text) in texts.into_iter().enumerate() {
        for (key, value, metadata) in [
            ("absent", Bytes::new(), None),
            ("empty", Bytes::new(), Some(Bytes::new())),
            ("every", every_byte.clone(), Some(every_byte.clone())),
            ("zeroes", Bytes::from_static(&[0, 0]), Some(Bytes::from_static(&[0]))),
        ] {
            let mut row = row(time as i64, text, &format!("{key}{text}"), "");
            (row.item.value, row.item.metadata) = (value, metadata);
            rows.push(row);
        }
    }
    let rows = Rows::new(rows);
    for text in texts {
        let partition = partition(text, 0, 0);
        write(&store, &table, &partition, rows.as_slice()).await;
        assert_eq!(contents(&store, &table, &partition).await, rows.as_slice(), "{text}");
        let found = page(&store, &scan(&table, &partition, within(EVER), Direction::Backward)).await.rows;
        assert_eq!(found, rows.of_span(&within(EVER), Direction::Backward), "{text}");
    }
}

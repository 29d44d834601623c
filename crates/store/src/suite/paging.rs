//! Promises about scans of any shape over rows of any shape, drawn from seeds and compared with a plain list.

use std::{ops::Bound, sync::Arc};

use anabranch_model::{Interval, PartitionKey, Row, TableName, Timestamp};

use super::{
    fixture::{DIRECTIONS, Draw, EVER, batch, interval, item_key, make_table, page, partition, scan, within},
    model::Rows,
};
use crate::{After, Direction, ScanSpan, Store};

const SEEDS: u64 = 8;
const MAX_ROWS: usize = 40;

/// Writes drawn rows, a block's among them, as batches of drawn sizes, in drawn order, some of them twice (W2).
async fn write_drawn(store: &Arc<dyn Store>, table: &TableName, partition: &PartitionKey, draw: &mut Draw) -> Rows {
    let mut left = Rows::drawn(draw, MAX_ROWS).as_slice().to_vec();
    let mut block = draw.pick(&left);
    block.item.key = item_key("");
    left.push(block);
    let rows = Rows::new(left.clone());
    while !left.is_empty() {
        let wanted = 1 + draw.below(left.len());
        let part: Vec<Row> = (0..wanted).map(|_| left.swap_remove(draw.below(left.len()))).collect();
        let times = 1 + draw.below(2);
        let batches = (0..times).map(|_| batch(table, partition, &part)).collect();
        for answer in store.write(batches, super::fixture::TIMEOUT).await {
            answer.unwrap();
        }
    }
    rows
}

/// Pages of every size, each going on after the last row of the one before, joined, are the whole span.
pub async fn pages_of_every_size_join_to_the_whole(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    for seed in 0..SEEDS {
        let mut draw = Draw::new(seed);
        let partition = partition(&format!("s{seed}"), 0, 0);
        let rows = write_drawn(&store, &table, &partition, &mut draw).await;
        let spans = [EVER, drawn_interval(&mut draw, &rows)];
        for (direction, interval) in DIRECTIONS.into_iter().flat_map(|way| spans.map(|span| (way, span))) {
            let whole = rows.of_span(&within(interval), direction);
            for max_rows in 1..=whole.len() + 1 {
                let joined = joined_pages(&store, &table, &partition, interval, direction, max_rows).await;
                assert_eq!(joined, whole, "seed {seed}, {direction:?}, {interval}, pages of {max_rows}");
            }
        }
    }
}

async fn joined_pages(
    store: &Arc<dyn Store>,
    table: &TableName,
    partition: &PartitionKey,
    interval: Interval,
    direction: Direction,
    max_rows: usize,
) -> Vec<Row> {
    let mut joined: Vec<Row> = Vec::new();
    loop {
        let after = joined.last().map(|row| After::Row(row.key()));
        let mut scan = scan(table, partition, ScanSpan::Interval { interval, after }, direction);
        scan.max_rows = max_rows;
        let page = page(store, &scan).await;
        assert!(page.rows.len() <= max_rows);
        assert!(!page.more || !page.rows.is_empty(), "a page that says more must move on");
        joined.extend(page.rows);
        if !page.more {
            return joined;
        }
    }
}

/// Scans with drawn spans, places, directions and limits.
pub async fn any_scan_answers_what_a_list_would(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    for seed in SEEDS..2 * SEEDS {
        let mut draw = Draw::new(seed);
        let partition = partition(&format!("s{seed}"), 0, 0);
        let rows = write_drawn(&store, &table, &partition, &mut draw).await;
        for _ in 0..100 {
            let span = drawn_span(&mut draw, &rows);
            let mut scan = scan(&table, &partition, span, draw.pick(&DIRECTIONS));
            scan.max_rows = 1 + draw.below(2 * MAX_ROWS);
            scan.max_bytes = draw.below(2000);
            rows.check(&scan, &page(&store, &scan).await);
        }
    }
}

fn drawn_interval(draw: &mut Draw, rows: &Rows) -> Interval {
    let mut bound = || {
        let time = draw.pick(rows.as_slice()).position.time.nanos();
        time.saturating_add(draw.pick(&[-1, 0, 0, 1]))
    };
    let (left, right) = (bound(), bound());
    interval(left.min(right), left.max(right))
}

fn drawn_span(draw: &mut Draw, rows: &Rows) -> ScanSpan {
    // The parts of two rows make a place that often is none of them.
    let (one, other) = (draw.pick(rows.as_slice()), draw.pick(rows.as_slice()));
    let mut key = one.key();
    if draw.below(2) == 0 {
        key.item_key = other.item.key.clone();
    }
    if draw.below(4) == 0 {
        key.position.id = other.position.id.clone();
    }
    if draw.below(4) == 0 {
        let from = [Bound::Unbounded, Bound::Included(key.item_key.clone()), Bound::Excluded(key.item_key)];
        return ScanSpan::Event { position: key.position, from: draw.pick(&from) };
    }
    let after = [None, Some(After::Event(key.position.clone())), Some(After::Row(key))];
    let after = draw.pick(&after);
    let interval = match draw.below(3) {
        0 => Interval::ALL,
        1 => Interval::new(Timestamp::EARLIEST, other.position.time),
        _ => drawn_interval(draw, rows),
    };
    ScanSpan::Interval { interval, after }
}

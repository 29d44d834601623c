//! Promises about partitions: kept apart, found by series, sampled by token.

use std::{collections::BTreeSet, sync::Arc};

use anabranch_model::{EventBucket, PartitionKey, Row, TableName, TimeBucket};

use super::{
    fixture::{
        DIRECTIONS, Draw, EVER, contents, make_table, page, partition, position, row, scan, series, within, write,
    },
    model::Rows,
};
use crate::{Direction, ErrorKind, PartitionSize, ScanSpan, Store};

/// Series that begin with each other and buckets side by side, all with rows at the same positions.
pub async fn neighbours_do_not_leak_into_a_partition(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let mut partitions = Vec::new();
    for id in ["a", "ab", "a\u{1}", "aé", "b"] {
        for time_bucket in [0, 1, 255, 256, u32::MAX] {
            partitions.extend([0, 1, 256, u32::MAX].map(|event_bucket| partition(id, time_bucket, event_bucket)));
        }
    }
    let rows_of = |partition: &PartitionKey| {
        let value = format!("{partition:?}");
        let times = [i64::MIN + 1, -1, 0, i64::MAX - 1];
        Rows::new(times.into_iter().flat_map(|time| ["a", "ab"].map(|id| row(time, id, "k", &value))).collect())
    };
    for partition in &partitions {
        write(&store, &table, partition, rows_of(partition).as_slice()).await;
    }
    for partition in &partitions {
        let rows = rows_of(partition);
        for direction in DIRECTIONS {
            for from in [within(EVER), ScanSpan::Event { position: position(0, "a"), from: std::ops::Bound::Unbounded }]
            {
                let found = page(&store, &scan(&table, partition, from.clone(), direction)).await;
                assert_eq!(found.rows, rows.of_span(&from, direction), "{partition:?}");
                assert!(!found.more);
            }
        }
    }
    assert_eq!(contents(&store, &table, &partition("a", 2, 0)).await, []);
}

async fn occupied(
    store: &Arc<dyn Store>,
    table: &TableName,
    buckets: (u32, u32),
    direction: Direction,
    limit: usize,
) -> Vec<(u32, u32)> {
    let buckets = TimeBucket(buckets.0)..=TimeBucket(buckets.1);
    let found = store.occupied(table, &series("s"), buckets, direction, limit).await.unwrap();
    found.into_iter().map(|(TimeBucket(time_bucket), EventBucket(event_bucket))| (time_bucket, event_bucket)).collect()
}

/// Whether a store that doesn't keep partitions in order says so; then there is nothing else to check.
async fn refuses_occupied(store: &Arc<dyn Store>, table: &TableName) -> bool {
    if store.capabilities().ordered_partitions {
        return false;
    }
    let buckets = TimeBucket(0)..=TimeBucket(u32::MAX);
    let answer = store.occupied(table, &series("s"), buckets, Direction::Forward, 1).await;
    assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Refused));
    true
}

/// Every partition with a row, each once, in the order of buckets or its reverse, up to the limit. A store without
/// ordered partitions refuses.
pub async fn occupied_partitions_are_found_in_order(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    if refuses_occupied(&store, &table).await {
        return;
    }
    assert_eq!(occupied(&store, &table, (0, u32::MAX), Direction::Forward, 10).await, []);
    let filled = [(0, 0), (0, 3), (1, 1), (5, 0), (5, 1), (5, 256), (255, 7), (256, 7), (u32::MAX, u32::MAX)];
    for (time_bucket, event_bucket) in filled.into_iter().rev() {
        let rows = [row(1, "a", "k", ""), row(1, "a", "l", ""), row(2, "b", "k", "")];
        write(&store, &table, &partition("s", time_bucket, event_bucket), &rows).await;
    }
    let bounds = [0, 1, 2, 5, 255, 256, u32::MAX];
    for (start, end) in bounds.into_iter().flat_map(|start| bounds.map(|end| (start, end))) {
        let mut expected: Vec<_> = filled.into_iter().filter(|(time, _)| (start..=end).contains(time)).collect();
        for direction in DIRECTIONS {
            for limit in [0, 1, 2, expected.len(), 100] {
                let found = occupied(&store, &table, (start, end), direction, limit).await;
                let wanted = &expected[..limit.min(expected.len())];
                assert_eq!(found, wanted, "{start} to {end}, {direction:?}, at most {limit}");
            }
            expected.reverse();
        }
    }
}

/// Series whose names begin with each other don't show up in each other's answers.
pub async fn occupied_partitions_of_other_series_are_not_found(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    if refuses_occupied(&store, &table).await {
        return;
    }
    for (time_bucket, id) in ["", "s\u{1}", "ss", "t", "r"].into_iter().enumerate() {
        let other = partition(if id.is_empty() { "S" } else { id }, time_bucket as u32, 0);
        write(&store, &table, &other, &[row(1, "e", "k", "")]).await;
    }
    for direction in DIRECTIONS {
        assert_eq!(occupied(&store, &table, (0, u32::MAX), direction, 10).await, []);
    }
    write(&store, &table, &partition("s", 3, 2), &[row(1, "e", "k", "")]).await;
    for direction in DIRECTIONS {
        assert_eq!(occupied(&store, &table, (0, u32::MAX), direction, 10).await, [(3, 2)]);
    }
}

/// Partitions of many series with known sizes.
async fn fill(store: &Arc<dyn Store>, table: &TableName) -> Vec<PartitionSize> {
    let mut draw = Draw::new(1);
    let mut sizes = Vec::new();
    for id in 0..30 {
        for time_bucket in 0..1 + draw.below(3) {
            for event_bucket in 0..1 + draw.below(3) {
                let partition = partition(&format!("s{id}"), time_bucket as u32, event_bucket as u32);
                let rows = Rows::drawn(&mut draw, 10);
                write(store, table, &partition, rows.as_slice()).await;
                write(store, table, &partition, &rows.as_slice()[..1]).await;
                let bytes = rows.as_slice().iter().map(|row| Row::bytes(row) as u64).sum();
                sizes.push(PartitionSize { partition, rows: rows.as_slice().len() as u64, bytes });
            }
        }
    }
    sizes.sort_by(|left, right| left.partition.cmp(&right.partition));
    sizes
}

/// Follows a sample from a place to the table's end.
async fn follow(store: &Arc<dyn Store>, table: &TableName, from: u64, limit: usize) -> Vec<PartitionSize> {
    let mut found = Vec::new();
    let mut place = from;
    loop {
        let sample = store.sample(table, place, limit).await.unwrap();
        assert!(sample.partitions.len() <= limit);
        found.extend(sample.partitions);
        match sample.next {
            Some(next) => assert!(next > place, "a sample must move on: {place} to {next}"),
            None => return found,
        }
        place = sample.next.unwrap();
    }
}

/// From 0 to the end every partition comes once, with its exact size, however many are asked for at a time.
pub async fn a_sample_followed_to_its_end_holds_every_partition_once(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    let empty = store.sample(&table, 0, 10).await.unwrap();
    assert!(empty.partitions.is_empty() && empty.next.is_none());
    let sizes = fill(&store, &table).await;
    let in_order = follow(&store, &table, 0, 1000).await;
    let mut sorted = in_order.clone();
    sorted.sort_by(|left, right| left.partition.cmp(&right.partition));
    assert_eq!(sorted, sizes);
    for limit in [1, 2, 3, 7, sizes.len() - 1, sizes.len()] {
        assert_eq!(follow(&store, &table, 0, limit).await, in_order, "{limit} at a time");
    }
}

/// From any place on, what follows is a tail of the whole, and the shorter the further the place; places spread over
/// the whole range reach different partitions.
pub async fn a_sample_begins_at_the_place_it_was_asked_for(store: Arc<dyn Store>) {
    let table = make_table(&store, "data_20260328").await;
    fill(&store, &table).await;
    let whole = follow(&store, &table, 0, 1000).await;
    let mut last = whole.len();
    let mut reached = BTreeSet::new();
    for step in 0..64 {
        let tail = follow(&store, &table, step << 58, 5).await;
        assert!(whole.ends_with(&tail), "step {step}");
        assert!(tail.len() <= last, "step {step}");
        last = tail.len();
        reached.extend(tail.first().map(|first| first.partition.clone()));
    }
    assert!(reached.len() >= 10, "64 fair steps reached only {} of {} partitions", reached.len(), whole.len());
}

//! Which encoded row keys of a partition a scan covers.

use std::ops::{Bound, Range};

use anabranch_model::{EventItemKey, Interval, Position, RowKey, Timestamp, key};

use crate::{After, Direction, ScanSpan};

/// The keys of a span, or `None` when it holds none. Keys ascend in table order, which is [`Direction::Forward`].
pub(super) fn of_span(span: &ScanSpan, direction: Direction) -> Option<Range<Vec<u8>>> {
    let range = match span {
        ScanSpan::Interval { interval, .. } if interval.is_empty() => return None,
        ScanSpan::Interval { interval, after } => {
            let whole = of_interval(interval);
            match after {
                Some(after) => narrowed(whole, after, direction),
                None => whole,
            }
        }
        ScanSpan::Event { position, from } => of_event(position, from.as_ref(), direction),
    };
    (range.start < range.end).then_some(range)
}

/// Latest first, so the interval's end is where its keys start.
fn of_interval(interval: &Interval) -> Range<Vec<u8>> {
    let start = time_key(interval.end.nanos() - 1); // not empty, so its end isn't the least number
    let end = match interval.start.nanos().checked_sub(1) {
        Some(before) => time_key(before),
        None => vec![0xFF; 9], // above the key of every time: those have eight bytes
    };
    start..end
}

fn narrowed(range: Range<Vec<u8>>, after: &After, direction: Direction) -> Range<Vec<u8>> {
    let Range { start, end } = range;
    match (direction, after) {
        (Direction::Forward, After::Event(position)) => start.max(event_end(position))..end,
        (Direction::Forward, After::Row(row)) => start.max(next(row_key(row)))..end,
        (Direction::Backward, After::Event(position)) => start..end.min(event_start(position)),
        (Direction::Backward, After::Row(row)) => start..end.min(row_key(row)),
    }
}

fn of_event(position: &Position, from: Bound<&EventItemKey>, direction: Direction) -> Range<Vec<u8>> {
    let (start, end) = (event_start(position), event_end(position));
    let item = |item_key: &EventItemKey| row_key(&RowKey { position: position.clone(), item_key: item_key.clone() });
    match (direction, from) {
        (_, Bound::Unbounded) => start..end,
        (Direction::Forward, Bound::Included(first)) => item(first)..end,
        (Direction::Forward, Bound::Excluded(behind)) => next(item(behind))..end,
        (Direction::Backward, Bound::Included(first)) => start..next(item(first)),
        (Direction::Backward, Bound::Excluded(behind)) => start..item(behind),
    }
}

fn time_key(nanos: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::encode_time(Timestamp::from_nanos(nanos), &mut bytes);
    bytes
}

fn event_start(position: &Position) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::encode_position(position, &mut bytes);
    bytes
}

/// Above all items of an event: no byte of an item key, which is UTF-8, is 0xFF.
fn event_end(position: &Position) -> Vec<u8> {
    let mut bytes = event_start(position);
    bytes.push(0xFF);
    bytes
}

/// The key of a row within its partition.
pub(super) fn row_key(row: &RowKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::encode_row(row, &mut bytes);
    bytes
}

/// The least key above another.
fn next(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.push(0);
    bytes
}

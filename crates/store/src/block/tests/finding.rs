//! Where a read begins: at every position and between any two, in both directions.

use std::ops::{Bound, Range};

use anabranch_model::{Position, RowKey};

use super::*;
use crate::{
    After, ScanSpan,
    suite::fixture::{DIRECTIONS, Draw, EVER, interval, row},
};

/// What a search must answer, by plain comparison with every row.
fn expected(rows: &[Row], from: Bound<&Position>, direction: Direction) -> Vec<Row> {
    let wanted = |row: &&Row| match (from, direction) {
        (Bound::Unbounded, _) => true,
        (Bound::Included(from), Direction::Forward) => row.position <= *from,
        (Bound::Excluded(from), Direction::Forward) => row.position < *from,
        (Bound::Included(from), Direction::Backward) => row.position >= *from,
        (Bound::Excluded(from), Direction::Backward) => row.position > *from,
    };
    rows.iter().filter(wanted).cloned().collect()
}

#[test]
fn every_position_is_found_and_every_gap_between_two() {
    let times = [-7, 0, 0, 3, 3, 3, 10];
    let ids = ["b", "a", "b", "a", "aa", "b", "é"];
    let events = times.iter().zip(ids).rev();
    let rows: Vec<Row> = events.flat_map(|(time, id)| ["i", "j", "k"].map(|key| row(*time, id, key, "v"))).collect();
    let rows = Rows::new(rows.into_iter().enumerate().filter(|(at, _)| at % 4 != 1).map(|(_, row)| row).collect());
    let rows = rows.as_slice();
    let block = Block::open(&packed(rows, Codec::Lz4)).unwrap();
    let mut places = 0;
    for time in -8..12 {
        for id in ["a", "a\u{1}", "aa", "aaa", "b", "c", "é", "\u{10FFFF}"] {
            let place = position(time, id);
            for direction in DIRECTIONS {
                for from in [Bound::Included(&place), Bound::Excluded(&place), Bound::Unbounded] {
                    let found: Range<usize> = block.find(from, direction).unwrap();
                    let answer = rows.get(found).unwrap();
                    assert_eq!(answer, expected(rows, from, direction), "{from:?} {direction:?}");
                    places += usize::from(!answer.is_empty());
                }
            }
        }
    }
    assert!(places > 500);
}

#[test]
fn positions_are_listed_without_the_rest() {
    let rows = [row(3, "b", "k", "v"), row(3, "b", "l", "v"), row(3, "a", "k", "v"), row(-2, "z", "k", "v")];
    let block = Block::open(&packed(&rows, Codec::Lz4)).unwrap();
    let positions = block.positions().unwrap();
    let listed: Vec<Position> = positions.iter().collect();
    assert_eq!(listed, [position(3, "b"), position(3, "a"), position(-2, "z")]);
    assert_eq!((positions.newest(), positions.oldest()), (position(3, "b"), position(-2, "z")));
    assert_eq!((0..4).map(|event| positions.rows_of(event)).collect::<Vec<_>>(), [0..2, 2..3, 3..4, 4..4]);
    assert_eq!((positions.time(2).nanos(), positions.id(2)), (-2, "z"));
    assert_eq!((block.row_count(), block.event_count(), positions.len()), (4, 3, 3));
}

fn spans(draw: &mut Draw, rows: &[Row]) -> Vec<ScanSpan> {
    let mut spans = Vec::new();
    for _ in 0..30 {
        let (here, there) = (draw.pick(rows), draw.pick(rows));
        let (position, key) = (here.position.clone(), there.item.key.clone());
        let bounds = [here.position.time.nanos(), there.position.time.nanos()];
        let interval = if draw.below(3) == 0 { EVER } else { interval(bounds[0], bounds[1].saturating_add(1)) };
        let after = [
            None,
            Some(After::Event(position.clone())),
            Some(After::Row(here.key())),
            Some(After::Row(RowKey { position: position.clone(), item_key: key.clone() })),
        ];
        spans.extend(after.map(|after| ScanSpan::Interval { interval, after }));
        let from = [Bound::Unbounded, Bound::Included(key.clone()), Bound::Excluded(key)];
        spans.extend(from.map(|from| ScanSpan::Event { position: position.clone(), from }));
    }
    spans
}

#[test]
fn a_span_of_a_block_is_what_a_store_would_answer_for_its_rows() {
    for seed in 0..40 {
        let mut draw = Draw::new(seed);
        let rows = Rows::drawn(&mut draw, 40);
        let block = Block::open(&packed(rows.as_slice(), Codec::Lz4)).unwrap();
        // One that holds the newer part only: places below it are asked for too.
        let all = rows.as_slice();
        let cut = &all[all.len() / 2].position;
        let part = Rows::new(all.iter().filter(|row| row.position >= *cut).cloned().collect());
        let half = Block::open(&packed(part.as_slice(), Codec::None)).unwrap();
        for span in spans(&mut draw, rows.as_slice()) {
            for direction in DIRECTIONS {
                for (block, rows) in [(&block, &rows), (&half, &part)] {
                    let found = block.rows(block.span(&span, direction).unwrap(), direction).unwrap();
                    let found: Vec<Row> = found.collect();
                    assert_eq!(found, rows.of_span(&span, direction), "seed {seed}: {span:?} {direction:?}");
                }
            }
        }
    }
}

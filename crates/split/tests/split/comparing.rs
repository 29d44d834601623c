//! Comparing the pieces of a segment with the original: whatever lies in a piece's partition is looked at, wherever it lies there.

use std::{sync::Arc, time::Duration};

use anabranch_model::{EventItemKey, Order, Position, Row, Timestamp};
use anabranch_split::{Comparison, Compression, Doubt, Effort, Form, Ground, Served, Strategy, WideRow, Work};
use anabranch_store::{PartitionBatch, Store};

use crate::fixture::{World, ground, run};

const NANOSECOND: Duration = Duration::from_nanos(1);

/// Where a row lies that doesn't belong there.
#[derive(Clone, Copy, Debug)]
enum Stray {
    /// A row of an older piece, in a newer one.
    OlderInNewer,
    /// A row of a newer piece, in an older one.
    NewerInOlder,
    /// Of the older piece, the very row that lies where the newer one ends, and the other way round.
    AtTheSeam,
    /// Older than anything in the partition.
    BelowTheOldest,
    /// Where the segment ends.
    AtTheEnd,
    /// Long after the segment's end.
    AboveTheEnd,
    /// Another item of the piece's oldest event.
    BesideTheOldest,
    /// Another item of the piece's newest event.
    BesideTheNewest,
}

const STRAYS: [Stray; 8] = [
    Stray::OlderInNewer,
    Stray::NewerInOlder,
    Stray::AtTheSeam,
    Stray::BelowTheOldest,
    Stray::AtTheEnd,
    Stray::AboveTheEnd,
    Stray::BesideTheOldest,
    Stray::BesideTheNewest,
];

/// In every form that pieces have.
fn grounds() -> [Ground; 4] {
    let spread = Strategy::EventBucket { pieces: 0, first_ordinal: 0, event_buckets: 4 };
    let zstd = Form::Blocks { codec: Compression::Zstd, block_bytes: 3000 };
    [
        ground(),
        Ground { form: zstd, ..ground() },
        Ground { form: Form::Rows, ..ground() },
        Ground { strategy: spread, form: Form::Rows, ..ground() },
    ]
}

async fn split(world: &World, work: &Work, ground: &Ground) -> Arc<WideRow> {
    world.fill(0, 500).await;
    let detected = world.detect(work).await;
    let Effort::Rests(loaded) = work.advance(&detected, ground).await.unwrap() else { panic!("somebody else works") };
    assert!(loaded.row.served[0].pieces.len() > 4, "{:?}", loaded.row.state);
    Arc::new(loaded.row)
}

async fn compare(work: &Work, row: &Arc<WideRow>, order: Order) -> Comparison {
    let doubt = Doubt {
        served: Arc::new(Served::of(row.clone(), 0).unwrap()),
        interval: row.served[0].span,
        order,
        after: None,
        max_rows: u64::MAX,
        original_first: true,
        beyond_bounds: true,
    };
    work.compare_everywhere(&doubt).await.unwrap()
}

/// Plants a stray row in the piece of this number, or for some beside it.
async fn plant(world: &World, row: &WideRow, at: usize, stray: Stray) {
    let segment = &row.served[0];
    let originals = world.original().await;
    // A piece is told by where it begins; of a spread one, others have rows between.
    let lying = |position: &Position| originals.iter().find(|row| row.position == *position).unwrap().clone();
    let (newer, older) = (&segment.pieces[at], &segment.pieces[at + 1]);
    let moved = |time: Timestamp| Row { position: Position { time, ..newer.newest.clone() }, ..lying(&newer.newest) };
    let beside = |position: &Position| {
        let mut row = lying(position);
        row.item.key = EventItemKey::new("zz").unwrap();
        row
    };
    let (piece, row) = match stray {
        Stray::OlderInNewer => (newer, lying(&older.oldest)),
        Stray::NewerInOlder => (older, lying(&newer.newest)),
        Stray::AtTheSeam => {
            put(world, &row.served[0], newer.ordinal, lying(&older.newest)).await;
            (older, lying(&newer.oldest))
        }
        Stray::BelowTheOldest => (newer, moved(Timestamp::from_seconds(1))),
        Stray::AtTheEnd => (newer, moved(segment.span.end)),
        Stray::AboveTheEnd => (newer, moved(segment.span.end.saturating_add(Duration::from_secs(1 << 20)))),
        Stray::BesideTheOldest => (newer, beside(&newer.oldest)),
        Stray::BesideTheNewest => (newer, beside(&newer.newest)),
    };
    put(world, segment, piece.ordinal, row).await;
}

async fn put(world: &World, segment: &anabranch_split::Segment, ordinal: u32, row: Row) {
    let table = segment.generation.table(&world.partition.namespace, &world.partition.time_slice);
    let partition = world.partition.piece(ordinal);
    let batch = PartitionBatch { table, partition, rows: vec![row], write_time_micros: i64::MAX };
    world.store.write(vec![batch], Duration::from_secs(1)).await.remove(0).unwrap();
}

/// S2: whatever lies in a piece's partition and doesn't belong there is a difference, and more than a late write, though no read meets
/// most of it.
#[test]
fn a_row_that_lies_outside_of_its_piece_is_found_in_every_form_wherever_it_lies() {
    for ground in grounds() {
        for stray in STRAYS {
            for at in [0, 2, 3] {
                run(|world| async move {
                    let work = world.worker("w");
                    let row = split(&world, &work, &ground).await;
                    plant(&world, &row, at.min(row.served[0].pieces.len() - 2), stray).await;
                    for order in [Order::LatestFirst, Order::OldestFirst] {
                        let found = compare(&work, &row, order).await;
                        let case = format!("{stray:?} at {at} {order:?} {:?} {:?}", ground.strategy, ground.form);
                        let difference = found.difference.unwrap_or_else(|| panic!("not found: {case}"));
                        assert!(!difference.only_in_original(), "{case}: {difference:?}");
                    }
                });
            }
        }
    }
}

/// S2: pieces that are as they were proven are the same, however much is looked at, and however little of it at once.
#[test]
fn pieces_that_hold_what_they_should_are_the_same_beyond_their_bounds_too() {
    for ground in grounds() {
        run(|world| async move {
            let work = world.worker("w");
            let row = split(&world, &work, &ground).await;
            let rows = row.served[0].pre_split_data.rows;
            for order in [Order::LatestFirst, Order::OldestFirst] {
                let found = compare(&work, &row, order).await;
                assert_eq!((found.rows, found.difference), (rows, None), "{order:?} {:?}", ground.form);
            }
        });
    }
}

/// A write that surfaced late is in the original alone, and told from everything else.
#[test]
fn a_row_that_only_the_original_has_is_told_from_one_that_lies_astray() {
    for ground in grounds() {
        run(|world| async move {
            let work = world.worker("w");
            let row = split(&world, &work, &ground).await;
            let mut late = world.original().await[100].clone();
            late.position.time = late.position.time.saturating_add(NANOSECOND);
            let (table, partition) = (world.partition.table(), world.partition.key());
            let batch = PartitionBatch { table, partition, rows: vec![late.clone()], write_time_micros: 1 };
            world.store.write(vec![batch], Duration::from_secs(1)).await.remove(0).unwrap();
            let found = compare(&work, &row, Order::LatestFirst).await.difference.unwrap();
            assert!(found.only_in_original() && found.original == Some(late), "{found:?}");
        });
    }
}

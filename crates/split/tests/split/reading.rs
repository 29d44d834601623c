//! Reading a split partition: pieces below the watermark, the original at it and above, one history in order (R1, R4).

use std::{sync::Arc, time::Duration};

use anabranch_model::{EventItemKey, Interval, Order, PartitionKey, Row, TableName, Timestamp};
use anabranch_split::{Effort, Form, Ground, HistoryReader, Piece, Served, Strategy, WideRow};
use anabranch_store::{After, PartitionBatch, ReadLimits, Store, StoreError};

use crate::fixture::{MIDNIGHT, World, ground, run};

const NANOSECOND: Duration = Duration::from_nanos(1);

fn spread() -> Ground {
    let strategy = Strategy::EventBucket { pieces: 0, first_ordinal: 0, event_buckets: 4 };
    Ground { strategy, form: Form::Rows, ..ground() }
}

async fn split(world: &World, ground: Ground) -> Arc<WideRow> {
    let work = world.worker("w");
    let detected = world.detect(&work).await;
    let Effort::Rests(loaded) = work.advance(&detected, &ground).await.unwrap() else { panic!("somebody else works") };
    assert_eq!(loaded.row.served.len(), 1, "{:?}", loaded.row.state);
    Arc::new(loaded.row)
}

struct Read {
    rows: Vec<Row>,
    fallback: Option<StoreError>,
}

/// Reads what a record serves, a few rows at a time.
async fn read(world: &World, row: &Arc<WideRow>, interval: Interval, order: Order, after: Option<After>) -> Read {
    let served = Arc::new(Served::of(row.clone(), 0).unwrap());
    let mut reader = HistoryReader::split(world.store.clone(), world.env.clone(), served, None, interval, order, after);
    let limits = ReadLimits { rows: 1, bytes: 1, timeout: Duration::from_secs(1) };
    let mut rows = Vec::new();
    while !reader.is_exhausted() {
        reader.fetch(limits).await.unwrap();
        rows.extend(std::iter::from_fn(|| reader.take()));
    }
    Read { rows, fallback: reader.fallback().cloned() }
}

/// The same of the original alone.
async fn original(world: &World, interval: Interval, order: Order, after: Option<After>) -> Vec<Row> {
    let (table, key) = (world.partition.table(), world.partition.key());
    let mut reader = HistoryReader::original(world.store.clone(), table, key, interval, order, after);
    while !reader.is_exhausted() {
        let limits = ReadLimits { rows: usize::MAX, bytes: usize::MAX, timeout: Duration::from_secs(1) };
        reader.fetch(limits).await.unwrap();
    }
    std::iter::from_fn(|| reader.take()).collect()
}

/// R1: pieces of a segment that was spread by hash come as one history, however little each of them shows at a time: a row comes out
/// only when every piece has shown its next one.
#[test]
fn pieces_spread_by_hash_are_merged_in_order_however_little_is_fetched_at_once() {
    run(|world| async move {
        world.fill(0, 600).await;
        let row = split(&world, spread()).await;
        assert!(row.served[0].pieces.len() > 4, "{}", row.served[0].pieces.len());
        let at = |seconds: i64| Timestamp::from_seconds(MIDNIGHT + seconds);
        let middle = world.original().await[300].clone();
        for order in [Order::LatestFirst, Order::OldestFirst] {
            for interval in [Interval::ALL, Interval::new(at(100), at(500)), Interval::new(at(599), at(600))] {
                for after in [None, Some(After::Event(middle.position.clone())), Some(After::Row(middle.key()))] {
                    let found = read(&world, &row, interval, order, after.clone()).await;
                    assert_eq!(found.fallback, None);
                    assert_eq!(
                        found.rows,
                        original(&world, interval, order, after.clone()).await,
                        "{order:?} {after:?}"
                    );
                }
            }
        }
    });
}

/// R1: events of one instant lie in several pieces, so where a read goes on is a position, never a time.
#[test]
fn a_read_goes_on_between_events_of_one_instant_that_lie_in_several_pieces() {
    for form in [Form::Rows, ground().form] {
        run(|world| async move {
            world.fill(0, 300).await;
            let mut rows = world.original().await;
            rows.iter_mut().for_each(|row| row.position.time = Timestamp::from_seconds(MIDNIGHT + 500));
            rows.sort_by(|left, right| right.position.cmp(&left.position).then(left.item.key.cmp(&right.item.key)));
            put(&world, world.partition.table(), world.partition.key(), rows.clone()).await;
            let row = split(&world, Ground { form, ..ground() }).await;
            let instant = row.served[0].pieces.iter().filter(|piece| piece.newest.time == rows[0].position.time);
            assert!(instant.count() > 4);
            let interval = Interval::new(rows[0].position.time, rows[0].position.time.saturating_add(NANOSECOND));
            for order in [Order::LatestFirst, Order::OldestFirst] {
                for last in rows.iter().step_by(9) {
                    let after = Some(After::Event(last.position.clone()));
                    let found = read(&world, &row, interval, order, after.clone()).await;
                    assert_eq!(found.fallback, None);
                    assert_eq!(found.rows, original(&world, interval, order, after).await, "{order:?} {last:?}");
                }
            }
        });
    }
}

/// R1: wherever pieces stop being readable, within an event too, the original goes on right behind the last row.
#[test]
fn a_fallback_goes_on_within_an_event() {
    for strategy in [ground().strategy, spread().strategy] {
        for order in [Order::LatestFirst, Order::OldestFirst] {
            for fetches in [1, 2, 3, 4, 20, 21, 22, 23] {
                run(|world| async move {
                    world.fill(0, 600).await;
                    let row = split(&world, Ground { strategy, form: Form::Rows, ..ground() }).await;
                    let served = Arc::new(Served::of(row.clone(), 0).unwrap());
                    let (store, env) = (world.store.clone(), world.env.clone());
                    let mut reader = HistoryReader::split(store, env, served, None, Interval::ALL, order, None);
                    let limits = ReadLimits { rows: 1, bytes: 1, timeout: Duration::from_secs(1) };
                    let mut rows = Vec::new();
                    while !reader.is_exhausted() {
                        reader.fetch(limits).await.unwrap();
                        rows.extend(std::iter::from_fn(|| reader.take()));
                        if rows.len() >= fetches && reader.fallback().is_none() {
                            let (namespace, slice) = (&world.partition.namespace, &world.partition.time_slice);
                            let _ = world.store.drop_table(&row.served[0].generation.table(namespace, slice)).await;
                        }
                    }
                    assert!(reader.fallback().is_some());
                    assert_eq!(rows, original(&world, Interval::ALL, order, None).await, "{order:?} {fetches}");
                });
            }
        }
    }
}

/// S2: a spread piece from which a row is missing doesn't pass for a whole one.
#[test]
fn a_row_missing_from_a_spread_piece_is_noticed_by_whoever_reads_all_of_it() {
    run(|world| async move {
        world.fill(0, 600).await;
        let row = split(&world, spread()).await;
        let segment = &row.served[0];
        let table = segment.generation.table(&world.partition.namespace, &world.partition.time_slice);
        let piece = world.partition.piece(segment.pieces[1].ordinal);
        let gone = world.raw(table.clone(), piece.clone()).await[7].clone();
        world.store.forget_row(&table, &piece, &gone.key());
        let found = read(&world, &row, Interval::ALL, Order::LatestFirst, None).await;
        assert!(found.fallback.is_some_and(|error| error.to_string().contains("rows instead of")));
    });
}

/// R4, S3: the instant of the watermark is the original's, the one right before it the pieces'.
#[test]
fn the_instant_of_the_watermark_is_read_from_the_original_and_none_twice() {
    for form in [Form::Rows, ground().form] {
        run(|world| async move {
            world.fill(0, 500).await;
            let watermark = Timestamp::from_seconds(MIDNIGHT + 400);
            let row = split(&world, Ground { sealed_until: watermark, form, ..ground() }).await;
            assert_eq!(row.served_until(), Some(watermark));
            // Events at the watermark, and on both sides of it.
            let template = world.original().await[50].clone();
            let beside = [-2, -1, 0, 1].map(|nanos| {
                let mut row = template.clone();
                row.position.time = Timestamp::from_nanos(watermark.nanos() + nanos);
                row
            });
            put(&world, world.partition.table(), world.partition.key(), beside[2..].to_vec()).await;
            let around = |from: i64, to: i64| {
                let at = |nanos: i64| Timestamp::from_nanos(watermark.nanos() + nanos);
                Interval::new(at(from), at(to))
            };
            for order in [Order::LatestFirst, Order::OldestFirst] {
                for interval in [
                    Interval::ALL,
                    around(-2_000_000_000, 0),
                    around(0, 1),
                    around(-1, 1),
                    around(0, 2_000_000_000),
                    around(-2_000_000_000, 2),
                ] {
                    for row_after in [None, Some(After::Event(beside[2].position.clone()))] {
                        let found = read(&world, &row, interval, order, row_after.clone()).await;
                        assert_eq!(found.fallback, None);
                        let expected = original(&world, interval, order, row_after).await;
                        assert_eq!(found.rows, expected, "{order:?} {interval:?}");
                    }
                }
            }
        });
    }
}

async fn put(world: &World, table: TableName, partition: PartitionKey, rows: Vec<Row>) {
    let batch = PartitionBatch { table, partition, rows, write_time_micros: i64::MAX };
    world.store.write(vec![batch], Duration::from_secs(1)).await.remove(0).unwrap();
}

/// R1, S2: a row that lies in a piece where its hash doesn't lead, moved there or a copy, is noticed by whoever reads, before it or
/// anything behind it comes out.
#[test]
fn a_row_in_a_piece_where_its_hash_does_not_lead_is_noticed_by_a_read_alone() {
    for moved in [true, false] {
        for order in [Order::LatestFirst, Order::OldestFirst] {
            run(|world| async move {
                world.fill(0, 600).await;
                let row = split(&world, spread()).await;
                let segment = &row.served[0];
                let table = segment.generation.table(&world.partition.namespace, &world.partition.time_slice);
                let piece = |at: usize| world.partition.piece(segment.pieces[at].ordinal);
                let stray = world.raw(table.clone(), piece(1)).await[30].clone();
                put(&world, table.clone(), piece(2), vec![stray.clone()]).await;
                if moved {
                    world.store.forget_row(&table, &piece(1), &stray.key());
                }
                // Not from the beginning, so that the number of rows tells nothing.
                let first = original(&world, Interval::ALL, order, None).await[0].clone();
                let after = Some(After::Event(first.position));
                let found = read(&world, &row, Interval::ALL, order, after.clone()).await;
                assert!(found.fallback.is_some_and(|error| error.to_string().contains("doesn't belong")));
                assert_eq!(found.rows, original(&world, Interval::ALL, order, after).await);
            });
        }
    }
}

/// S2: rows that aren't blocks have names; one without a name is nothing that a spread piece holds.
#[test]
fn a_block_in_a_spread_piece_is_never_handed_out_as_a_row() {
    run(|world| async move {
        world.fill(0, 600).await;
        let row = split(&world, spread()).await;
        let segment = &row.served[0];
        let table = segment.generation.table(&world.partition.namespace, &world.partition.time_slice);
        let piece = world.partition.piece(segment.pieces[0].ordinal);
        let mut stray = world.raw(table.clone(), piece.clone()).await[10].clone();
        stray.item.key = EventItemKey::block();
        put(&world, table, piece, vec![stray]).await;
        let found = read(&world, &row, Interval::ALL, Order::LatestFirst, None).await;
        assert!(found.fallback.is_some());
        assert_eq!(found.rows, world.original().await);
    });
}

/// R1, S2: whatever somebody does to the blocks of a piece, first, middle, last or all of them, nothing wrong is read, before anything was
/// compared, wherever the read begins and ends.
#[test]
fn harmed_blocks_are_never_read_wherever_a_read_begins_and_ends() {
    for (at, which) in [(0, "first"), (3, "middle"), (3, "all"), (usize::MAX, "last")] {
        for harm in ["altered", "moved", "removed", "copied"] {
            run(|world| async move {
                world.fill(0, 600).await;
                let row = split(&world, ground()).await;
                let segment = &row.served[0];
                let at = at.min(segment.pieces.len() - 1);
                let table = segment.generation.table(&world.partition.namespace, &world.partition.time_slice);
                let key = |at: usize| world.partition.piece(segment.pieces[at].ordinal);
                let (piece, other) = (key(at), key(if at == 0 { 1 } else { at - 1 }));
                let blocks = world.raw(table.clone(), piece.clone()).await;
                assert!(blocks.len() > 1 && blocks.iter().all(|row| row.item.key.is_block()), "{}", blocks.len());
                let harmed = match which {
                    "first" => &blocks[..1],
                    "middle" => &blocks[blocks.len() / 2..][..1],
                    "last" => &blocks[blocks.len() - 1..],
                    _ => &blocks[..],
                };
                match harm {
                    "altered" => put(&world, table.clone(), piece.clone(), harmed.iter().map(altered).collect()).await,
                    "removed" => {}
                    _ => put(&world, table.clone(), other, harmed.to_vec()).await,
                }
                if matches!(harm, "moved" | "removed") {
                    harmed.iter().for_each(|row| world.store.forget_row(&table, &piece, &row.key()));
                }
                for interval in around_piece(&segment.pieces[at]) {
                    for order in [Order::LatestFirst, Order::OldestFirst] {
                        let found = read(&world, &row, interval, order, None).await;
                        let expected = original(&world, interval, order, None).await;
                        assert_eq!(found.rows, expected, "{which} {harm} {order:?} {interval:?}");
                    }
                }
            });
        }
    }
}

fn altered(row: &Row) -> Row {
    let mut row = row.clone();
    let mut value = row.item.value.to_vec();
    let middle = value.len() / 2;
    value[middle] ^= 1;
    row.item.value = value.into();
    row
}

/// Intervals that begin and end at the bounds of a piece, inside of it, and beside it.
fn around_piece(piece: &Piece) -> Vec<Interval> {
    let (newest, oldest) = (piece.newest.time, piece.oldest.time);
    let middle = Timestamp::from_nanos(oldest.nanos() + newest.since(oldest).as_nanos() as i64 / 2);
    let bounds = [
        Timestamp::EARLIEST,
        oldest,
        oldest.saturating_add(Duration::from_nanos(1)),
        middle,
        newest,
        newest.saturating_add(Duration::from_nanos(1)),
        Timestamp::LATEST,
    ];
    let pairs =
        bounds.iter().enumerate().flat_map(|(at, start)| bounds[at + 1..].iter().map(move |end| (*start, *end)));
    pairs.map(|(start, end)| Interval::new(start, end)).collect()
}

//! Pieces that somebody alters, moves, copies or takes away behind everybody's back (S2, R4): noticed by COMPARISON, by EXEC, by the
//! scrubber and by an operator's verification, in every form that pieces have, wherever in a piece it is; and never served once noticed.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anabranch_engine::{Engine, EngineOptions, SplitOptions, SplitSelection};
use anabranch_model::{
    EventId, Interval, NamespaceConfig, Packing, PartitionKey, ReadMode, Record, Row, SplitSettings, SplitStrategy,
    TableName, Timestamp,
};
use anabranch_runtime::run_simulated;
use anabranch_split::{State, WideRow};
use anabranch_store::{Direction, MemoryStore, PartitionBatch, Scan, ScanSpan, Store};

use crate::{
    fixture::{START, World, event},
    slow_store::Slow,
    splits::config,
};

const EVENTS: i64 = 400;
const SCRUB: Duration = Duration::from_secs(300);

/// How rows lie in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Blocks,
    Rows,
    Spread,
}

/// Where in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The newest stored row of the first piece.
    First,
    /// One in the middle of a piece in the middle.
    Middle,
    /// The oldest stored row of the last piece.
    Last,
    /// All rows of a piece in the middle.
    Whole,
}

/// What is done to a stored row: of blocks, to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Altered,
    /// Into the next piece, or the one before the last.
    Moved,
    Removed,
    /// Into the next piece as well.
    CopiedElsewhere,
    /// Under another id, in the same piece.
    CopiedBeside,
}

const KINDS: [Kind; 3] = [Kind::Blocks, Kind::Rows, Kind::Spread];
const PLACES: [Place; 4] = [Place::First, Place::Middle, Place::Last, Place::Whole];
const HARMS: [Harm; 5] = [Harm::Altered, Harm::Moved, Harm::Removed, Harm::CopiedElsewhere, Harm::CopiedBeside];

/// Runs a test for every kind of piece, place and harm.
fn each<F: Future<Output = ()>>(test: impl Fn(World, Case) -> F) {
    each_where(|_, _| true, test);
}

/// The same of what reads can meet: where pieces follow each other in time, no read reaches a copy outside of a piece's bounds.
fn each_within_reach<F: Future<Output = ()>>(test: impl Fn(World, Case) -> F) {
    each_where(|kind, harm| harm != Harm::CopiedElsewhere || kind == Kind::Spread, test);
}

fn each_where<F: Future<Output = ()>>(meant: impl Fn(Kind, Harm) -> bool, test: impl Fn(World, Case) -> F) {
    for kind in KINDS {
        for place in PLACES {
            for harm in HARMS {
                if !meant(kind, harm) {
                    continue;
                }
                // What was kept of blocks before hides nothing.
                let caches: &[usize] = if kind == Kind::Blocks { &[0, 1 << 20] } else { &[0] };
                for &block_cache_bytes in caches {
                    run_simulated(7, Timestamp::from_seconds(START), |env| async {
                        let splits =
                            SplitOptions { scrub_interval: SCRUB, block_cache_bytes, ..SplitOptions::default() };
                        let options = EngineOptions { splits, ..EngineOptions::default() };
                        let store = Arc::new(MemoryStore::new(env.clone()));
                        let world = World::with(env, store, options).await;
                        let (before, row) = split(&world, kind).await;
                        test(world, Case { kind, place, harm, before, row }).await;
                    });
                }
            }
        }
    }
}

struct Case {
    kind: Kind,
    place: Place,
    harm: Harm,
    before: Vec<Record>,
    row: WideRow,
}

/// A history of some pieces, all of it sealed, split, read once from the pieces, then from the original.
async fn split(world: &World, kind: Kind) -> (Vec<Record>, WideRow) {
    let split = SplitSettings {
        threshold_bytes: 16 << 10,
        target_piece_bytes: 8 << 10,
        block_bytes: 1 << 10,
        packing: if kind == Kind::Rows { Packing::Rows } else { Packing::Lz4 },
        strategy: if kind == Kind::Spread { SplitStrategy::EventBucket } else { SplitStrategy::TimeRange },
        promote: false,
        ..config().split
    };
    world.namespace(NamespaceConfig { split, ..config() }).await;
    world.mode(ReadMode::Off).await;
    let now = world.now();
    let body = "water ".repeat(20);
    let second = 1_000_000_000;
    let events = (0..EVENTS).map(|at| event("wide", now - at * second, &format!("e{at:05}"), &[("body", &body)]));
    world.write(events.collect()).await.unwrap();
    world.env.sleep(Duration::from_secs(16 * 3600)).await;
    let before = world.all().await;
    assert_eq!(before.len() as i64, EVENTS);
    let row = world.until("completed", |row| !row.served.is_empty()).await;
    assert!(row.served[0].pieces.len() > 4, "{} pieces", row.served[0].pieces.len());
    world.mode(ReadMode::On).await;
    assert_eq!(world.all().await, before);
    world.mode(ReadMode::Off).await;
    (before, row)
}

impl Case {
    fn name(&self) -> String {
        format!("{:?} {:?} {:?}", self.kind, self.place, self.harm)
    }

    /// The table of the pieces, the piece that is harmed, and another.
    fn pieces(&self) -> (TableName, PartitionKey, PartitionKey) {
        let (segment, partition) = (&self.row.served[0], &self.row.partition);
        let count = segment.pieces.len();
        let (at, other) = match self.place {
            Place::First => (0, 1),
            Place::Middle | Place::Whole => (count / 2, count / 2 + 1),
            Place::Last => (count - 1, count - 2),
        };
        let table = segment.generation.table(&partition.namespace, &partition.time_slice);
        let piece = |at: usize| partition.piece(segment.pieces[at].ordinal);
        (table, piece(at), piece(other))
    }

    async fn harm(&self, store: &MemoryStore) {
        let (table, piece, other) = self.pieces();
        let rows = stored(store, &table, &piece).await;
        assert!(rows.len() > 4 || self.place == Place::Last, "{}: {} rows", self.name(), rows.len());
        let harmed = match self.place {
            Place::First => &rows[..1],
            Place::Middle => &rows[rows.len() / 2..][..1],
            Place::Last => &rows[rows.len() - 1..],
            Place::Whole => &rows[..],
        };
        match self.harm {
            Harm::Altered => put(store, &table, &piece, harmed.iter().map(altered).collect()).await,
            Harm::Removed => harmed.iter().for_each(|row| store.forget_row(&table, &piece, &row.key())),
            Harm::Moved => {
                put(store, &table, &other, harmed.to_vec()).await;
                harmed.iter().for_each(|row| store.forget_row(&table, &piece, &row.key()));
            }
            Harm::CopiedElsewhere => put(store, &table, &other, harmed.to_vec()).await,
            Harm::CopiedBeside => put(store, &table, &piece, harmed.iter().map(renamed).collect()).await,
        }
    }

    /// Nothing wrong is served any more, in whichever mode; it is split anew, and that is right, too.
    async fn check_healed(&self, world: &World) {
        let case = self.name();
        let noticed = world.until(&format!("noticed ({case})"), |row| row.generation.0 > 1).await;
        assert!(noticed.served.iter().all(|segment| segment.generation.0 > 1), "{case}");
        for mode in [ReadMode::On, ReadMode::Exec] {
            world.mode(mode).await;
            assert_eq!(world.all().await, self.before, "{case} {mode}");
        }
        let anew = world.until("split anew", |row| row.generation.0 > 1 && !row.served.is_empty()).await;
        assert!(matches!(anew.state, State::Completed { .. }), "{case}");
        world.mode(ReadMode::On).await;
        assert_eq!(world.all().await, self.before, "{case}");
        let kept = world.engine.split_differences("plays").await.unwrap();
        assert!(!kept.is_empty() && kept.iter().all(|kept| kept.partition == self.row.partition), "{case} {kept:?}");
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

fn renamed(row: &Row) -> Row {
    let mut row = row.clone();
    row.position.id = EventId::new(format!("{}x", row.position.id)).unwrap();
    row
}

async fn stored(store: &MemoryStore, table: &TableName, partition: &PartitionKey) -> Vec<Row> {
    let scan = Scan {
        table: table.clone(),
        partition: partition.clone(),
        span: ScanSpan::Interval { interval: Interval::ALL, after: None },
        direction: Direction::Forward,
        max_rows: usize::MAX,
        max_bytes: usize::MAX,
        timeout: Duration::from_secs(5),
    };
    store.scan(&scan).await.unwrap().rows
}

async fn put(store: &MemoryStore, table: &TableName, partition: &PartitionKey, rows: Vec<Row>) {
    let (table, partition) = (table.clone(), partition.clone());
    // Later than every write of a splitter, so that it stays.
    let batch = PartitionBatch { table, partition, rows, write_time_micros: i64::MAX };
    store.write(vec![batch], Duration::from_secs(5)).await.remove(0).unwrap();
}

#[test]
fn a_comparison_beside_reads_of_the_original_notices_whatever_was_done_to_a_piece() {
    each_within_reach(|world, case| async move {
        world.mode(ReadMode::Comparison).await;
        case.harm(&world.store).await;
        assert_eq!(world.all().await, case.before, "{}: it is read from the original", case.name());
        case.check_healed(&world).await;
    });
}

#[test]
fn a_comparison_beside_reads_of_pieces_notices_whatever_was_done_to_one() {
    each_within_reach(|world, case| async move {
        world.mode(ReadMode::Exec).await;
        case.harm(&world.store).await;
        let read = world.all().await;
        // Plain rows have no checksum of their own: only a comparison tells.
        assert!(case.kind != Kind::Blocks || read == case.before, "{}", case.name());
        case.check_healed(&world).await;
    });
}

#[test]
fn the_scrubber_notices_whatever_was_done_to_a_piece_that_nobody_reads() {
    each(|world, case| async move {
        case.harm(&world.store).await;
        world.env.sleep(SCRUB * 2).await;
        case.check_healed(&world).await;
    });
}

#[test]
fn a_verification_notices_whatever_was_done_to_a_piece() {
    each(|world, case| async move {
        world.mode(ReadMode::On).await;
        case.harm(&world.store).await;
        let verified = world.engine.verify_splits("plays", &SplitSelection::default()).await.unwrap();
        assert!(verified.len() == 1 && verified[0].difference.is_some(), "{}: {verified:?}", case.name());
        assert_eq!(world.all().await, case.before, "{}: it is not used any more", case.name());
        case.check_healed(&world).await;
    });
}

/// Whoever finds it second finds that the split isn't used any more: that is no "nothing to say", or a check would end well over a
/// split that differs.
#[test]
fn a_verification_that_another_one_was_quicker_than_does_not_say_nothing() {
    run_simulated(7, Timestamp::from_seconds(START), |env| async {
        let world = World::on(env.clone(), Arc::new(MemoryStore::new(env))).await;
        let (before, row) = split(&world, Kind::Blocks).await;
        let case = Case { kind: Kind::Blocks, place: Place::Middle, harm: Harm::Altered, before, row };
        world.mode(ReadMode::On).await;
        case.harm(&world.store).await;
        world.engine.shutdown().await.unwrap();
        let slow = Slow::new(world.store.clone(), world.env.clone());
        let engine = Engine::start(slow.clone(), world.env.node(0), EngineOptions::default()).await.unwrap();
        slow.scan_millis.store(200, Ordering::Relaxed);
        let both = [0, 1].map(|_| {
            let engine = engine.clone();
            world.env.spawn(async move { engine.verify_splits("plays", &SplitSelection::default()).await.unwrap() })
        });
        let mut differ = 0;
        for verified in both {
            let verified = verified.await.unwrap();
            assert_eq!(verified.len(), 1);
            assert!(verified[0].difference.is_some() || verified[0].skipped.is_some(), "{verified:?}");
            differ += usize::from(verified[0].difference.is_some());
        }
        assert!(differ >= 1);
    });
}

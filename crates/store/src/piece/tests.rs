//! What reading a piece promises: the same rows as the original, or an error before the first that is missing or wrong.

use anabranch_runtime::Env;
use proptest::prelude::*;

use super::*;
use crate::{
    MemoryStore,
    block::{
        Codec,
        tests::{any_history, stored},
    },
    suite::{
        fixture::{EVER, TIMEOUT, interval, make_table, partition, row, table, write},
        model::Rows,
    },
};

const PIECE: &str = "wide_data_20260328_1";

struct Case {
    store: Arc<dyn Store>,
    bounds: PieceBounds,
    density: Density,
    cache: Option<Arc<BlockCache>>,
}

impl Case {
    /// A piece that holds `stored` where `rows` are expected.
    async fn new(rows: &[Row], stored: &[Row]) -> Case {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Env::system()));
        let table = make_table(&store, PIECE).await;
        if !stored.is_empty() {
            write(&store, &table, &partition("s", 0, 7), stored).await;
        }
        let (newest, oldest) = (rows[0].position.clone(), rows[rows.len() - 1].position.clone());
        let bounds = PieceBounds { newest, oldest, rows: rows.len() as u64 };
        let density = Density { rows: rows.len() as f64 / stored.len().max(1) as f64, bytes: 0.5 };
        Case { store, bounds, density, cache: None }
    }

    fn cached(self, cache: &Arc<BlockCache>) -> Case {
        Case { cache: Some(cache.clone()), ..self }
    }

    fn open(&self, interval: Interval, order: Order, after: Option<Position>) -> PieceReader {
        let reader = PieceReader::new(
            self.store.clone(),
            table(PIECE),
            partition("s", 0, 7),
            self.bounds.clone(),
            self.density,
            interval,
            order,
            after,
        );
        match &self.cache {
            Some(cache) => reader.with_cache(cache.clone(), 1),
            None => reader,
        }
    }

    /// Everything up to the end or an error.
    async fn read(
        &self,
        interval: Interval,
        order: Order,
        after: Option<Position>,
        rows: usize,
    ) -> (Vec<Row>, Option<StoreError>) {
        let mut reader = self.open(interval, order, after);
        let mut found = Vec::new();
        while !reader.is_exhausted() {
            let fetched = reader.fetch(ReadLimits { rows, bytes: usize::MAX, timeout: TIMEOUT }).await;
            found.extend(reader.take_all());
            if let Err(error) = fetched {
                return (found, Some(error));
            }
        }
        (found, None)
    }
}

fn direction(order: Order) -> Direction {
    match order {
        Order::LatestFirst => Direction::Forward,
        Order::OldestFirst => Direction::Backward,
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn any_order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::LatestFirst), Just(Order::OldestFirst)]
}

/// Bounds that fall on, beside and between events.
fn any_bound(rows: &[Row], at: prop::sample::Index, shift: i64) -> Timestamp {
    let time = rows[at.index(rows.len())].position.time.nanos();
    Timestamp::from_nanos(time.saturating_add(shift))
}

#[test]
fn a_few_rows_from_the_middle_of_a_block_cost_that_block_and_no_other() {
    let rows: Vec<Row> = (0..200).rev().map(|time| row(time, "e", "k", "some value")).collect();
    let blocks = stored(&rows, 600, Codec::Lz4);
    assert!(blocks.len() > 4);
    block_on(async {
        for cache in [None, Some(Arc::new(BlockCache::new(1 << 20)))] {
            let case = Case { cache, ..Case::new(&rows, &blocks).await };
            // The oldest first: with a cache, blocks below are kept and are not what is looked for.
            for middle in blocks[1..blocks.len() - 1].iter().rev() {
                let at = middle.position.time.nanos() + 5;
                let orders = [(Order::OldestFirst, interval(at, 1000)), (Order::LatestFirst, interval(0, at))];
                for (order, within) in orders {
                    let mut reader = case.open(within, order, None);
                    reader.fetch(ReadLimits { rows: 2, bytes: usize::MAX, timeout: TIMEOUT }).await.unwrap();
                    assert!(reader.take_all().len() >= 2);
                    assert_eq!(reader.bytes_read(), middle.bytes() as u64, "{order:?} {at}");
                }
            }
        }
    });
}

/// What was read once needs no store: here there is nothing left in it. The same places are found as if it was all there.
#[test]
fn what_was_read_before_is_not_asked_for_again() {
    let rows: Vec<Row> = (0..200).rev().map(|time| row(time, "e", "k", "some value")).collect();
    let blocks = stored(&rows, 600, Codec::Lz4);
    block_on(async {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let warm = Case::new(&rows, &blocks).await.cached(&cache);
        assert_eq!(warm.read(EVER, Order::LatestFirst, None, 7).await.1, None);
        let empty = Case::new(&rows, &[]).await.cached(&cache);
        for order in [Order::LatestFirst, Order::OldestFirst] {
            for (start, end) in [(0, 200), (17, 200), (0, 93), (17, 93), (93, 94)] {
                let (found, error) = empty.read(interval(start, end), order, None, 7).await;
                assert_eq!((found.len(), error), ((end - start) as usize, None), "{order:?} {start} {end}");
            }
        }
        assert!(Case::new(&rows, &[]).await.read(EVER, Order::LatestFirst, None, 7).await.1.is_some());
    });
}

proptest! {
    /// R1, S2: whatever was read before and is kept, or was pushed out again, of pieces with blocks and plain rows: a read answers what
    /// the original holds.
    #[test]
    fn with_whatever_is_kept_a_piece_reads_like_the_original(
        rows in any_history(30), target in 1usize..1500, room in prop_oneof![Just(3000usize), Just(1 << 20)],
        reads in prop::collection::vec(
            (any_order(), 1usize..40, any::<(prop::sample::Index, prop::sample::Index)>(), (-1i64..2, -1i64..2),
                prop::option::of(any::<prop::sample::Index>()), any::<bool>()),
            1..6),
    ) {
        let outcome = block_on(async {
            let cache = Arc::new(BlockCache::new(room));
            let case = Case::new(&rows, &stored(&rows, target, Codec::Lz4)).await.cached(&cache);
            for (order, limit, ends, shifts, after, whole) in reads {
                let (a, b) = (any_bound(&rows, ends.0, shifts.0), any_bound(&rows, ends.1, shifts.1));
                let interval = if whole { EVER } else { Interval::new(a.min(b), a.max(b)) };
                let after = after.map(|at| rows[at.index(rows.len())].position.clone());
                let (found, error) = case.read(interval, order, after.clone(), limit).await;
                let span = ScanSpan::Interval { interval, after: after.map(After::Event) };
                prop_assert_eq!(error, None);
                prop_assert_eq!(found, Rows::new(rows.clone()).of_span(&span, direction(order)));
                prop_assert!(cache.bytes() <= room);
            }
            Ok(())
        });
        outcome?;
    }

    #[test]
    fn a_piece_reads_like_the_original(
        rows in any_history(30), target in 1usize..600, order in any_order(), limit in 1usize..40,
        ends in any::<(prop::sample::Index, prop::sample::Index)>(), shifts in (-1i64..2, -1i64..2),
        after in prop::option::of(any::<prop::sample::Index>()), whole in any::<bool>(),
    ) {
        let (a, b) = (any_bound(&rows, ends.0, shifts.0), any_bound(&rows, ends.1, shifts.1));
        let interval = if whole { EVER } else { Interval::new(a.min(b), a.max(b)) };
        let after = after.map(|at| rows[at.index(rows.len())].position.clone());
        let (found, error) = block_on(async {
            let case = Case::new(&rows, &stored(&rows, target, Codec::Lz4)).await;
            case.read(interval, order, after.clone(), limit).await
        });
        let span = ScanSpan::Interval { interval, after: after.map(After::Event) };
        prop_assert_eq!(error, None);
        prop_assert_eq!(found, Rows::new(rows).of_span(&span, direction(order)));
    }

    /// R1, S2: what is damaged, gone or in the wrong place is never jumped over.
    #[test]
    fn a_missing_or_altered_block_is_noticed_before_anything_behind_it_is_read(
        rows in any_history(60), target in 1100usize..1500, order in any_order(), limit in 1usize..40,
        victim in any::<prop::sample::Index>(), remove in any::<bool>(), byte in any::<prop::sample::Index>(),
    ) {
        let mut kept = stored(&rows, target, Codec::None);
        let victim = victim.index(kept.len());
        prop_assume!(kept[victim].item.key.is_block());
        // Plain rows don't tell what lies above them.
        prop_assume!(kept.iter().all(|row| row.item.key.is_block()));
        if remove {
            kept.remove(victim);
        } else {
            let mut value = kept[victim].item.value.to_vec();
            let at = byte.index(value.len());
            value[at] ^= 1;
            kept[victim].item.value = value.into();
        }
        let (found, error) = block_on(async {
            Case::new(&rows, &kept).await.read(EVER, order, None, limit).await
        });
        prop_assert!(error.is_some());
        let span = ScanSpan::Interval { interval: EVER, after: None };
        let all = Rows::new(rows).of_span(&span, direction(order));
        prop_assert_eq!(&found[..], &all[..found.len()]);
    }

    /// R1, S2: whatever is read of a piece, in whichever direction, from wherever: either it is what the original holds, or an error
    /// comes before the first row that isn't. Blocks may be gone, any of them or all, lie under another's key, or be altered; some
    /// may have been read before that.
    #[test]
    fn nothing_wrong_is_read_of_a_piece_whose_blocks_were_tampered_with(
        rows in any_history(60), target in 1100usize..1500, order in any_order(), limit in 1usize..40,
        ends in any::<(prop::sample::Index, prop::sample::Index)>(), shifts in (-1i64..2, -1i64..2), whole in any::<bool>(),
        after in prop::option::of(any::<prop::sample::Index>()), gone in prop::collection::vec(any::<bool>(), 60),
        how in 0..4, places in any::<(prop::sample::Index, prop::sample::Index)>(),
        read_before in prop::option::of((any_order(), prop::option::of(any::<prop::sample::Index>()))),
    ) {
        let mut kept = stored(&rows, target, Codec::None);
        prop_assume!(kept.iter().all(|row| row.item.key.is_block()));
        let (sound, cache) = (kept.clone(), Arc::new(BlockCache::new(1 << 20)));
        let (from, to) = (places.0.index(kept.len()), places.1.index(kept.len()));
        match how {
            0 => kept.clear(),
            1 => kept = kept.into_iter().zip(gone).filter(|(_, gone)| !gone).map(|(row, _)| row).collect(),
            2 => kept[to].item = kept[from].item.clone(),
            _ => {
                let mut value = kept[from].item.value.to_vec();
                let middle = value.len() / 2;
                value[middle] ^= 1;
                kept[from].item.value = value.into();
            }
        }
        let (a, b) = (any_bound(&rows, ends.0, shifts.0), any_bound(&rows, ends.1, shifts.1));
        let interval = if whole { EVER } else { Interval::new(a.min(b), a.max(b)) };
        let after = after.map(|at| rows[at.index(rows.len())].position.clone());
        let (found, error) = block_on(async {
            let mut case = Case::new(&rows, &kept).await;
            if let Some((order, after)) = read_before {
                let after = after.map(|at| rows[at.index(rows.len())].position.clone());
                Case::new(&rows, &sound).await.cached(&cache).read(EVER, order, after, limit).await;
                case = case.cached(&cache);
            }
            case.read(interval, order, after.clone(), limit).await
        });
        let span = ScanSpan::Interval { interval, after: after.map(After::Event) };
        let all = Rows::new(rows).of_span(&span, direction(order));
        prop_assert!(found.len() <= all.len());
        prop_assert_eq!(&found[..], &all[..found.len()]);
        prop_assert!(error.is_some() || found.len() == all.len(), "{} of {} rows, and no error", found.len(), all.len());
    }

    /// The page that would jump over a missing block notices it, wherever the page begins.
    #[test]
    fn a_page_that_begins_at_a_missing_block_notices_it(
        rows in any_history(60), target in 1100usize..1500, order in any_order(), victim in any::<prop::sample::Index>(),
        begin in any::<prop::sample::Index>(),
    ) {
        let all = stored(&rows, target, Codec::None);
        prop_assume!(all.iter().all(|row| row.item.key.is_block()));
        let victim = victim.index(all.len());
        let newest = Block::open(&all[victim]).unwrap().positions().unwrap().newest();
        let lost: Vec<&Row> = rows.iter().filter(|row| row.position <= newest && row.position >= all[victim].position).collect();
        let after = lost[begin.index(lost.len())].position.clone();
        let behind = match order {
            Order::LatestFirst => after == all[victim].position,
            Order::OldestFirst => after == newest,
        };
        let mut kept = all;
        kept.remove(victim);
        let (found, error) = block_on(async { Case::new(&rows, &kept).await.read(EVER, order, Some(after), 1000).await });
        prop_assert!(behind || (error.is_some() && found.is_empty()), "{found:?} {error:?}");
    }
}

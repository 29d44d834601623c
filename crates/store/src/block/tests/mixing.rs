//! Blocks and plain rows in one piece: cut the same way every time, found again in order through a store.

use std::sync::Arc;

use anabranch_model::Position;
use anabranch_runtime::Env;

use super::*;
use crate::{
    After, MemoryStore, PackError, ScanSpan, Store,
    block::PLAIN_FACTOR,
    suite::fixture::{DIRECTIONS, EVER, make_table, partition, row, scan, within, write},
};

proptest! {
    #[test]
    fn a_piece_holds_the_same_rows_packed_as_plain(history in any_history(40), target in 1usize..2000) {
        for codec in CODECS {
            let stored = stored(&history, target, codec);
            prop_assert_eq!(&unpacked(&stored), &history);
            prop_assert_eq!(checksum(&unpacked(&stored)), checksum(&history));
        }
    }

    #[test]
    fn no_event_is_in_two_blocks_and_none_is_larger_than_promised(history in any_history(40), target in 1usize..2000) {
        let stored = stored(&history, target, Codec::None);
        for pair in stored.windows(2) {
            let same_event = pair[0].position == pair[1].position;
            let plain = pair.iter().all(|row| !row.item.key.is_block());
            prop_assert!(pair[0].position > pair[1].position || same_event && plain);
        }
        for row in stored.iter().filter(|row| row.item.key.is_block()) {
            let bytes = unpacked(std::slice::from_ref(row)).iter().map(Row::bytes).sum::<usize>();
            prop_assert!(bytes <= PLAIN_FACTOR * target);
        }
    }

    #[test]
    fn work_done_again_from_where_it_was_handed_out_is_cut_the_same_way(
        history in any_history(40), target in 1usize..600, crash in any::<prop::sample::Index>(),
    ) {
        let rows = &history[..];
        let whole = stored(rows, target, Codec::Lz4);
        let (mut packer, mut out) = (Packer::new(target, Codec::Lz4), Vec::new());
        rows[..crash.index(rows.len())].iter().for_each(|row| packer.push(row.clone(), &mut out).unwrap());
        let until = packer.packed_until().cloned();
        let done = |position: &Position| until.as_ref().is_some_and(|until| position >= until);
        let rest: Vec<Row> = rows.iter().filter(|row| !done(&row.position)).cloned().collect();
        let mut again: Vec<Row> = out.into_iter().filter(|row| done(&row.position)).collect();
        let mut packer = Packer::new(target, Codec::Lz4).resume(until);
        rest.into_iter().for_each(|row| packer.push(row, &mut again).unwrap());
        packer.finish(&mut again).unwrap();
        prop_assert_eq!(again, whole);
    }
}

#[test]
fn an_event_larger_than_some_blocks_stays_as_plain_rows() {
    let item = "v".repeat(150);
    let mut rows = vec![row(9, "e", "k", "small")];
    rows.extend(["a", "b", "c", "d"].map(|key| row(8, "e", key, &item)));
    rows.extend([row(7, "e", "k", "small"), row(6, "e", "k", "small")]);
    let stored = stored(&rows, 100, Codec::Lz4);
    let shape: Vec<(i64, bool)> =
        stored.iter().map(|row| (row.position.time.nanos(), row.item.key.is_block())).collect();
    assert_eq!(shape, [(9, true), (8, false), (8, false), (8, false), (8, false), (6, true)]);
    assert_eq!(unpacked(&stored), rows);
}

#[test]
fn a_packer_refuses_what_is_not_in_table_order() {
    let (mut packer, mut out) = (Packer::new(50, Codec::Lz4), Vec::new());
    packer.push(row(5, "e", "k", &"v".repeat(100)), &mut out).unwrap();
    packer.push(row(4, "e", "k", "v"), &mut out).unwrap();
    assert_eq!((out.len(), packer.packed_until()), (1, Some(&position(5, "e"))));
    let refused = packer.push(row(4, "f", "k", "v"), &mut out);
    assert_eq!(refused, Err(PackError::OutOfOrder { position: position(4, "f") }));
    let block = out[0].clone();
    assert_eq!(packer.push(block, &mut out), Err(PackError::AlreadyPacked { position: position(5, "e") }));
}

#[tokio::test]
async fn below_any_position_a_store_finds_the_block_that_holds_it_first() {
    let rows: Vec<Row> =
        (0..60).rev().map(|time| row(time, "e", "k", &"v".repeat(20 + time as usize % 9 * 40))).collect();
    let pieces = stored(&rows, 250, Codec::Lz4);
    assert!(pieces.len() > 5 && pieces.len() < 40 && pieces.iter().all(|row| row.item.key.is_block()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Env::system()));
    let (table, partition) = (make_table(&store, "data_20260328").await, partition("s", 0, 0));
    write(&store, &table, &partition, &pieces).await;
    for direction in DIRECTIONS {
        let mut found = store.scan(&scan(&table, &partition, within(EVER), direction)).await.unwrap().rows;
        if direction == Direction::Backward {
            found.reverse();
        }
        assert_eq!(found, pieces);
    }
    for row in &rows {
        let above = position(row.position.time.nanos() + 1, "a");
        let span = ScanSpan::Interval { interval: EVER, after: Some(After::Event(above)) };
        let mut one = scan(&table, &partition, span, Direction::Forward);
        one.max_rows = 1;
        let found = store.scan(&one).await.unwrap().rows;
        assert!(unpacked(&found).contains(row), "{:?}", row.position);
    }
}

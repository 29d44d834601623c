//! What is packed comes back, in both directions, to the byte.

use super::*;
use crate::{
    block::{FORMAT_VERSION, PackError, header_of},
    suite::fixture::{Draw, row},
};

proptest! {
    #[test]
    fn rows_come_back_as_they_were(history in any_history(30)) {
        for codec in CODECS {
            let block_row = packed(&history, codec);
            let block = Block::open(&block_row).unwrap();
            let rows = all_rows(&block).unwrap();
            prop_assert_eq!(&rows, &history);
            prop_assert_eq!(checksum(&rows), checksum(&history));
            let mut backward: Vec<Row> = block.rows(0..rows.len(), Direction::Backward).unwrap().collect();
            backward.reverse();
            prop_assert_eq!(backward, rows);
        }
    }

    #[test]
    fn the_row_around_a_block_tells_its_bounds(history in any_history(30)) {
        let rows = &history[..];
        let block = packed(rows, Codec::Lz4);
        let header = header_of(block.item.metadata.as_ref().unwrap()).unwrap();
        prop_assert!(block.item.key.is_block());
        prop_assert_eq!(header.version, FORMAT_VERSION);
        prop_assert_eq!(header.rows as usize, rows.len());
        prop_assert_eq!(&header.newest, &rows[0].position);
        prop_assert_eq!(&block.position, &rows[rows.len() - 1].position);
    }

    #[test]
    fn any_part_of_the_rows_can_be_read_in_either_direction(
        history in any_history(20), cuts in any::<[prop::sample::Index; 2]>(),
    ) {
        let rows = &history[..];
        let [from, to] = cuts.map(|cut| cut.index(rows.len() + 1));
        for codec in CODECS {
            let value = packed(rows, codec).item.value;
            // A new one each time: what was decoded before must not matter.
            let open = || Block::open_value(value.clone()).unwrap();
            let wanted = rows.get(from..to).unwrap_or_default();
            let (forward, backward) = (open(), open());
            let forward = forward.rows(from..to, Direction::Forward).unwrap();
            prop_assert_eq!(forward.len(), wanted.len());
            prop_assert_eq!(&forward.collect::<Vec<_>>()[..], wanted);
            let backward = backward.rows(from..to, Direction::Backward).unwrap();
            prop_assert!(backward.eq(wanted.iter().rev().cloned()));
        }
    }

    #[test]
    fn a_key_is_known_without_the_rows(history in any_history(10), key in "[a-d\u{1}é]{1,3}") {
        let block = Block::open(&packed(&history, Codec::Lz4)).unwrap();
        let there = history.iter().any(|row| row.item.key == item_key(&key));
        prop_assert_eq!(block.matches_key(&item_key(&key)).unwrap(), there);
        for row in &history {
            prop_assert!(block.matches_key(&row.item.key).unwrap());
        }
    }
}

fn large(time: i64, length: usize, noise: bool) -> Row {
    let mut draw = Draw::new(time as u64);
    let mut large = row(time, "e", "k", "");
    large.item.value = (0..length).map(|_| if noise { draw.number() as u8 } else { b'v' }).collect();
    large
}

#[test]
fn large_values_survive() {
    let rows: Vec<Row> =
        [false, true, false].iter().zip((0..3).rev()).map(|(noise, time)| large(time, 1 << 20, *noise)).collect();
    for codec in CODECS {
        assert_eq!(all_rows(&Block::open(&packed(&rows, codec)).unwrap()).unwrap(), rows, "{codec}");
    }
}

#[test]
fn the_first_rows_are_the_same_whether_the_rest_is_decoded_or_not() {
    let rows: Vec<Row> =
        (0..200).rev().map(|time| row(time, "e", "k", &format!("{{\"position\":{time}}}").repeat(9))).collect();
    let block = Block::open(&packed(&rows, Codec::Lz4)).unwrap();
    let first = || block.rows(0..10, Direction::Forward).unwrap().collect::<Vec<_>>();
    assert_eq!(first(), rows[..10]);
    assert_eq!(all_rows(&block).unwrap(), rows);
    assert_eq!(first(), rows[..10]);
}

#[test]
fn a_builder_can_be_used_again() {
    let mut builder = BlockBuilder::new(100, Codec::Lz4);
    assert!(builder.is_empty() && !builder.is_full() && builder.finish(None).is_none());
    let mut with_metadata = row(9, "e", "a", "1");
    with_metadata.item.metadata = Some(Bytes::from_static(b"m"));
    for rows in [
        vec![with_metadata, row(9, "e", "b", "2")],
        vec![row(5, "e", "c", &"v".repeat(200))],
        vec![row(7, "e", "k", "v")],
    ] {
        builder.push(&rows).unwrap();
        assert_eq!(builder.bytes(), rows.iter().map(Row::bytes).sum::<usize>());
        assert_eq!(builder.is_full(), builder.bytes() >= 100);
        let block = builder.finish(None).unwrap();
        assert_eq!(block, packed(&rows, Codec::Lz4), "as a new builder makes it");
        assert_eq!(unpacked(&[block]), rows);
    }
}

#[test]
fn rows_out_of_order_are_refused_and_leave_the_builder_as_it_was() {
    let mut builder = BlockBuilder::new(1000, Codec::None);
    assert_eq!(builder.push(&[]), Err(PackError::NoRows));
    builder.push(&[row(5, "m", "a", "v")]).unwrap();
    let bytes = builder.bytes();
    for (time, id) in [(5, "m"), (5, "n"), (6, "a")] {
        let refused = builder.push(&[row(time, id, "a", "v")]);
        assert_eq!(refused, Err(PackError::OutOfOrder { position: position(time, id) }));
    }
    for keys in [["b", "a"], ["a", "a"]] {
        let refused = builder.push(&keys.map(|key| row(4, "e", key, "v")));
        assert_eq!(refused, Err(PackError::OutOfOrder { position: position(4, "e") }));
    }
    let refused = builder.push(&[row(4, "e", "a", "v"), row(3, "e", "b", "v")]);
    assert_eq!(refused, Err(PackError::SeveralEvents { position: position(4, "e") }));
    let block = packed(&[row(4, "e", "a", "v")], Codec::None);
    assert_eq!(builder.push(&[block]), Err(PackError::AlreadyPacked { position: position(4, "e") }));
    assert!(matches!(builder.push(&[large(4, 17 << 20, false)]), Err(PackError::TooLarge { .. })));
    assert_eq!(builder.bytes(), bytes);
    builder.push(&[row(5, "l", "a", "v")]).unwrap();
    assert_eq!(unpacked(&[builder.finish(None).unwrap()]).len(), 2);
}

//! Blocks that were cut, changed or made up: refused, and never a panic or a large allocation.

use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::{
    ErrorKind, StoreError,
    block::{Section, header_of},
    suite::fixture::{Draw, row},
};

/// Asks for everything that a block can be asked for.
fn read_all(value: &[u8]) -> Result<Vec<Row>, BlockError> {
    let block = Block::open_value(Bytes::copy_from_slice(value))?;
    let first: Vec<Row> = block.rows(0..1, Direction::Forward)?.collect();
    let mut rows: Vec<Row> = block.rows(0..usize::MAX, Direction::Backward)?.collect();
    rows.reverse();
    assert_eq!(first, rows[..1]);
    let positions = block.positions()?;
    assert_eq!(positions.len(), block.event_count());
    assert!(block.matches_key(&rows[0].item.key)?);
    Ok(rows)
}

/// Makes the checksum right again, so that what lies behind it is reached.
fn reseal(value: &mut [u8]) {
    if let Some((body, checksum)) = value.split_last_chunk_mut::<8>() {
        *checksum = xxh3_64(body).to_be_bytes();
    }
}

fn history(seed: u64, most: usize) -> Rows {
    Rows::drawn(&mut Draw::new(seed), most)
}

fn in_table_order(rows: &[Row]) -> bool {
    rows.is_sorted_by(|left, right| {
        left.position > right.position || left.position == right.position && left.item.key < right.item.key
    })
}

proptest! {
    #[test]
    fn random_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), seal: bool, version: bool) {
        if version && !bytes.is_empty() {
            bytes[0] = 1;
        }
        if seal {
            reseal(&mut bytes);
        }
        prop_assert!(read_all(&bytes).is_err());
        let _ = header_of(&bytes);
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for codec in CODECS {
        let value = packed(history(1, 12).as_slice(), codec).item.value;
        for bit in 0..value.len() * 8 {
            let mut damaged = value.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Block::open_value(Bytes::from(damaged)).is_err(), "{codec}, bit {bit}");
        }
    }
}

#[test]
fn every_missing_end_and_every_added_byte_is_noticed() {
    for codec in CODECS {
        let value = packed(history(2, 12).as_slice(), codec).item.value.to_vec();
        for length in 0..value.len() {
            assert!(read_all(&value[..length]).is_err(), "{codec}, {length}");
            let mut sealed = value[..length].to_vec();
            reseal(&mut sealed);
            assert!(read_all(&sealed).is_err(), "{codec}, {length}, sealed");
        }
        let mut longer = value.clone();
        longer.extend([0; 8]);
        reseal(&mut longer);
        let length = value.len() as u64;
        assert_eq!(read_all(&longer), Err(BlockError::Length { expected: length, found: length + 8 }));
    }
}

/// What passes the checksum may still be anything. It is refused, or else it is a block in table order.
#[test]
fn a_hundred_thousand_forged_blocks_are_survived() {
    let repeated: Vec<Row> = (0..30).rev().map(|time| row(time, "event", "key", &"value ".repeat(4))).collect();
    let originals: Vec<Vec<u8>> = CODECS
        .into_iter()
        .flat_map(|codec| {
            let drawn = (0..6).map(move |seed| packed(history(seed, 4 + 3 * seed as usize).as_slice(), codec));
            drawn.chain([packed(&repeated, codec)]).map(|block| block.item.value.to_vec())
        })
        .collect();
    let mut draw = Draw::new(4);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..100_000 {
        let mut forged = originals[draw.below(originals.len())].clone();
        for _ in 0..=draw.below(3) {
            // Mostly where lengths and counts are, at the beginning of the block and of its sections.
            let reach = if draw.below(2) == 0 { forged.len() } else { forged.len().min(90) };
            let at = draw.below(reach);
            forged[at] = match draw.below(4) {
                0 => forged[at] ^ (1 << draw.below(8)),
                1 => forged[at].wrapping_add(1),
                2 => draw.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
                _ => draw.number() as u8,
            };
        }
        reseal(&mut forged);
        match read_all(&forged) {
            Ok(rows) => {
                assert!(in_table_order(&rows));
                read += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 20_000 && read > 5_000, "{refused} refused, {read} read: both ways must be tried");
}

fn section_lengths(value: &mut [u8], section: Section, stored: u32, raw: u32) {
    let at = 10 + 8 * section as usize;
    value[at..at + 4].copy_from_slice(&stored.to_be_bytes());
    value[at + 4..at + 8].copy_from_slice(&raw.to_be_bytes());
    reseal(value);
}

#[test]
fn lengths_past_every_limit_are_refused_before_anything_is_decoded() {
    let rows: Vec<Row> = (0..30).rev().map(|time| row(time, "event", "key", &"value ".repeat(4))).collect();
    for codec in [Codec::Lz4, Codec::Zstd { level: 1 }] {
        let value = packed(&rows, codec).item.value;
        let at = 10 + 8 * Section::Values as usize;
        let stored = u32::from_be_bytes(value[at..at + 4].try_into().unwrap());
        let with_raw = |raw| {
            let mut forged = value.to_vec();
            section_lengths(&mut forged, Section::Values, stored, raw);
            Block::open_value(Bytes::from(forged)).and_then(|block| all_rows(&block))
        };
        assert!(matches!(with_raw(u32::MAX), Err(BlockError::TooLarge { .. })));
        assert!(matches!(with_raw(64 << 20), Err(BlockError::TooLarge { .. })), "together with the others");
        assert!(matches!(with_raw(63 << 20), Err(BlockError::Malformed { .. })));
    }
}

#[test]
fn prefixes_can_not_make_endless_ids() {
    // 20,000 events whose ids each take three bytes here and 4,000 when decoded.
    let long = "x".repeat(3_999);
    let events = 20_000;
    let mut positions = [0i64.to_be_bytes().as_slice(), &[1]].concat();
    positions.extend(vec![1; events - 1]);
    positions.push(0);
    (1..events).for_each(|_| crate::block::varint::put(&mut positions, 3_999));
    crate::block::varint::put(&mut positions, 4_000);
    positions.extend(vec![1; events - 1]);
    positions.extend(long.bytes().chain([b'a'; 20_000]));
    let sizes = vec![0; events];
    let mut value = Vec::new();
    let mut encoder = crate::block::codec::Encoder::new(Codec::None);
    let sections = [&positions[..], b"\x01\x01k", &sizes, b"", b""];
    crate::block::layout::assemble(&mut encoder, events as u32, events as u32, sections, &mut value);
    let refused = read_all(&value).unwrap_err();
    assert_eq!(refused, BlockError::Malformed { section: Section::Positions, reason: "an id is empty or too long" });
}

#[test]
fn a_block_under_another_row_is_noticed() {
    let block = packed(&[row(9, "e", "k", "v"), row(7, "e", "k", "v")], Codec::Lz4);
    let other = packed(&[row(8, "e", "k", "v"), row(7, "e", "k", "v")], Codec::Lz4);
    let read = |row: &Row| Block::open(row).and_then(|block| all_rows(&block));
    assert!(read(&block).is_ok());

    let mut moved = block.clone();
    moved.position = position(6, "e");
    assert_eq!(read(&moved), Err(BlockError::Misplaced { what: "oldest position" }));
    let mut swapped = block.clone();
    swapped.item.value = other.item.value;
    assert_eq!(read(&swapped), Err(BlockError::Misplaced { what: "newest position" }));
    let mut shorter = block.clone();
    shorter.item.metadata = packed(&[row(9, "e", "k", "v")], Codec::Lz4).item.metadata;
    assert_eq!(read(&shorter), Err(BlockError::Misplaced { what: "number of rows" }));

    let mut bare = block.clone();
    bare.item.metadata = None;
    assert_eq!(read(&bare), Err(BlockError::NotABlock { reason: "it has no header" }));
    assert_eq!(read(&row(9, "e", "k", "v")), Err(BlockError::NotABlock { reason: "it has an item key" }));
}

#[test]
fn other_versions_and_codecs_are_named() {
    let block = packed(&[row(9, "e", "k", "v")], Codec::None);
    let forged = |at: usize, byte: u8| {
        let mut value = block.item.value.to_vec();
        value[at] = byte;
        reseal(&mut value);
        read_all(&value)
    };
    assert_eq!(forged(0, 2), Err(BlockError::Version { found: 2 }));
    assert_eq!(forged(1, 3), Err(BlockError::Codec { found: 3 }));
    assert_eq!(header_of(&[2, 0]), Err(BlockError::Version { found: 2 }));
    let error = StoreError::from(BlockError::Version { found: 2 });
    assert_eq!((error.kind(), error.to_string().contains("version 2")), (ErrorKind::Corrupt, true));
}

//! Blocks as bytes, the same as in `docs/blocks.md`: what was written once can be read for ever.

use super::*;
use crate::suite::fixture::row;

/// The example of the documentation.
fn example() -> Vec<Row> {
    let time = 1_774_692_000_123_000_000;
    let title = format!("{{\"title\":\"{}\"}}", "Dune ".repeat(12).trim_end());
    let mut rows = vec![
        row(time, "e-12", "status", "done"),
        row(time, "e-12", "title", &title),
        row(time, "e-11", "status", ""),
        row(time - 1_500_000_000, "f", "status", "done"),
    ];
    rows[0].item.metadata = Some(Bytes::from_static(b"text"));
    rows[2].item.metadata = Some(Bytes::new());
    rows
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Bytes {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

const HEADER: &str = "010000000418a0f8f8ad0f14c00004652d3132";
const HEADER_BELOW: &str = "010000000418a0f8f8ad0f14c00004652d313218a0f8f8e8a9dec0000167";
const PLAIN: &str = "010000000004000000030000001d0000001d0000001200000012000000080000000800000004000000040000004f0000004f\
    18a0f8f8ad0f14c0c0843d00dc0b020101000300040101652d313231660206057374617475737469746c6500010000044700\
    040500010074657874646f6e657b227469746c65223a2244756e652044756e652044756e652044756e652044756e65204475\
    6e652044756e652044756e652044756e652044756e652044756e652044756e65227d646f6e65e1fdb885ca4520a8";
const LZ4: &str = "010100000004000000030000001d0000001d0000001200000012000000080000000800000004000000040000001f0000004f\
    18a0f8f8ad0f14c0c0843d00dc0b020101000300040101652d313231660206057374617475737469746c6500010000044700\
    040500010074657874ff04646f6e657b227469746c65223a2244756e652005002360227d646f6e65526b8507df0afe3b";
const ZSTD: &str = "010200000004000000030000001d0000001d000000120000001200000008000000080000000400000004000000290000004f\
    18a0f8f8ad0f14c0c0843d00dc0b020101000300040101652d313231660206057374617475737469746c6500010000044700\
    04050001007465787428b52ffd204f050100c8646f6e657b227469746c65223a2244756e6520227d646f6e65010087b38401\
    1062bd5726d9f412";

#[test]
fn a_block_without_compression_is_written_as_documented() {
    let block = packed(&example(), Codec::None);
    assert_eq!(hex(block.item.metadata.as_ref().unwrap()), HEADER);
    assert_eq!(hex(&block.item.value), PLAIN);
}

#[test]
fn a_block_names_the_event_above_it_as_documented() {
    let mut builder = BlockBuilder::new(usize::MAX, Codec::None);
    for event in example().chunk_by(|left, right| left.position == right.position) {
        builder.push(event).unwrap();
    }
    let above = position(1_774_692_001_123_000_000, "g");
    let block = builder.finish(Some(above.clone())).unwrap();
    assert_eq!(hex(block.item.metadata.as_ref().unwrap()), HEADER_BELOW);
    assert_eq!(Block::open(&block).unwrap().above(), Some(&above));
}

/// Compressors may change; what they made must stay readable.
#[test]
fn documented_blocks_can_be_read() {
    for (codec, vector) in [(Codec::None, PLAIN), (Codec::Lz4, LZ4), (Codec::Zstd { level: 1 }, ZSTD)] {
        let mut block = packed(&example(), codec);
        block.item.value = bytes(vector);
        block.item.metadata = Some(bytes(HEADER));
        assert_eq!(all_rows(&Block::open(&block).unwrap()).unwrap(), example(), "{codec}");
    }
}

#[test]
fn the_documentation_shows_the_same_bytes() {
    let page = include_str!("../../../../../docs/blocks.md");
    let written: String = page.split_whitespace().collect();
    for vector in [HEADER, HEADER_BELOW, PLAIN, LZ4, ZSTD] {
        assert!(written.contains(vector), "{vector}");
    }
}

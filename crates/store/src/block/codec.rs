//! Compression of a block's sections: none, lz4's block format, or a zstd frame.

use std::{cell::RefCell, fmt, str::FromStr};

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use zstd::{
    bulk::{Compressor, Decompressor},
    zstd_safe::{compress_bound, get_frame_content_size},
};

/// How new blocks are compressed. Blocks of every codec can always be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not at all.
    None,
    /// lz4: fast both ways.
    #[default]
    Lz4,
    /// zstd: smaller and slower.
    Zstd {
        /// 1 is the fastest, 19 the smallest.
        level: i32,
    },
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Codec::None => f.write_str("none"),
            Codec::Lz4 => f.write_str("lz4"),
            Codec::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Codec {
    type Err = String;

    /// Reads `none`, `lz4`, `zstd` or `zstd:LEVEL`.
    fn from_str(text: &str) -> Result<Self, String> {
        let level = match text {
            "none" => return Ok(Codec::None),
            "lz4" => return Ok(Codec::Lz4),
            "zstd" => Some(1),
            _ => {
                text.strip_prefix("zstd:").and_then(|level| level.parse().ok()).filter(|level| (1..=19).contains(level))
            }
        };
        level
            .map(|level| Codec::Zstd { level })
            .ok_or_else(|| format!("`{text}` is not none, lz4, zstd or zstd:1 to 19"))
    }
}

/// What the codec byte of a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None = 0,
    Lz4 = 1,
    Zstd = 2,
}

impl Compression {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Compression::None, Compression::Lz4, Compression::Zstd].into_iter().find(|known| known.byte() == byte)
    }

    pub(super) fn byte(self) -> u8 {
        self as u8
    }

    /// Whether so many bytes can be what so many others were compressed to.
    pub(super) fn could_hold(self, stored: usize, raw: usize) -> bool {
        match self {
            Compression::None => false,
            // A byte of lz4 stands for at most 255.
            Compression::Lz4 => stored < raw && raw <= stored.saturating_mul(255),
            Compression::Zstd => stored < raw,
        }
    }

    /// Decodes a compressed section to exactly `raw` bytes.
    pub(super) fn decode(self, stored: &[u8], raw: usize) -> Option<Vec<u8>> {
        match self {
            Compression::None => None,
            Compression::Lz4 => {
                let mut out = vec![0; raw];
                let length = lz4_flex::block::decompress_into(stored, &mut out).ok()?;
                (length == raw).then_some(out)
            }
            Compression::Zstd => decode_zstd(stored, raw),
        }
    }
}

thread_local! {
    // A context is 100 KB and more: one a thread, not one a section.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decode_zstd(stored: &[u8], raw: usize) -> Option<Vec<u8>> {
    if get_frame_content_size(stored).ok().flatten() != Some(raw as u64) {
        return None;
    }
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new().ok()?),
        };
        let mut out = Vec::with_capacity(raw);
        let length = decompressor.decompress_to_buffer(stored, &mut out).ok()?;
        (length == raw).then_some(out)
    })
}

/// Compresses sections, with tables and buffers that are used again and again.
pub(super) struct Encoder {
    method: Method,
    buffer: Vec<u8>,
}

enum Method {
    None,
    Lz4(Box<CompressTable>),
    /// No compressor when there was no memory for one: sections are then stored as they are.
    Zstd(Option<Compressor<'static>>),
}

/// Shorter sections aren't worth a try.
const MIN_SECTION_BYTES: usize = 48;

impl Encoder {
    pub(super) fn new(codec: Codec) -> Self {
        let method = match codec {
            Codec::None => Method::None,
            Codec::Lz4 => Method::Lz4(Box::default()),
            Codec::Zstd { level } => Method::Zstd(Compressor::new(level).ok()),
        };
        Encoder { method, buffer: Vec::new() }
    }

    pub(super) fn compression(&self) -> Compression {
        match self.method {
            Method::None => Compression::None,
            Method::Lz4(_) => Compression::Lz4,
            Method::Zstd(_) => Compression::Zstd,
        }
    }

    /// Appends a section: compressed when that saves a sixteenth, else as it is.
    pub(super) fn append(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let compressed = if raw.len() < MIN_SECTION_BYTES { None } else { self.compress(raw) };
        match compressed {
            Some(length) if length < raw.len() - raw.len() / 16 => out.extend_from_slice(&self.buffer[..length]),
            _ => out.extend_from_slice(raw),
        }
    }

    /// Compresses into the buffer and answers how much of it that took.
    fn compress(&mut self, raw: &[u8]) -> Option<usize> {
        let room = match &self.method {
            Method::None => return None,
            Method::Lz4(_) => get_maximum_output_size(raw.len()),
            Method::Zstd(_) => compress_bound(raw.len()),
        };
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        match &mut self.method {
            Method::None => None,
            Method::Lz4(table) => compress_into_with_table(raw, &mut self.buffer, table).ok(),
            Method::Zstd(compressor) => compressor.as_mut()?.compress_to_buffer(raw, &mut self.buffer[..]).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture::Draw;

    #[test]
    fn codecs_are_named_as_they_are_printed() {
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd { level: 1 }, Codec::Zstd { level: 19 }] {
            assert_eq!(codec.to_string().parse(), Ok(codec));
        }
        assert_eq!("zstd".parse(), Ok(Codec::Zstd { level: 1 }));
        for bad in ["", "LZ4", "zstd:", "zstd:0", "zstd:20", "gzip"] {
            assert!(bad.parse::<Codec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_does_not_get_smaller_is_stored_as_it_is() {
        let mut draw = Draw::new(1);
        let noise: Vec<u8> = (0..500).map(|_| draw.number() as u8).collect();
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd { level: 3 }] {
            let mut encoder = Encoder::new(codec);
            for raw in [&b""[..], b"aaaaaaaaaaaaaaaa", &noise] {
                let mut out = b"before".to_vec();
                encoder.append(raw, &mut out);
                assert_eq!(&out[6..], raw, "{codec}");
            }
        }
    }

    #[test]
    fn compressed_bytes_come_back() {
        let raw = b"{\"title\":\"Dune\",\"position\":1}".repeat(100);
        for codec in [Codec::Lz4, Codec::Zstd { level: 1 }] {
            let mut encoder = Encoder::new(codec);
            for _ in 0..3 {
                let mut out = Vec::new();
                encoder.append(&raw, &mut out);
                assert!(out.len() < raw.len() / 4);
                let compression = encoder.compression();
                assert_eq!(compression.decode(&out, raw.len()).as_deref(), Some(&raw[..]));
                assert_eq!(compression.decode(&out, raw.len() + 1), None);
                assert_eq!(compression.decode(&out, raw.len() - 1), None);
                assert_eq!(compression.decode(&out[..out.len() - 1], raw.len()), None);
            }
        }
    }
}

//! The fixed part of a block: version, codec, counts, the lengths of the sections, and the checksum at the end.

use std::{fmt, ops::Range};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    BlockError, FORMAT_VERSION, MAX_RAW_BYTES,
    codec::{Compression, Encoder},
    varint::Cursor,
};

/// A part of a block, in the order in which they lie. The header is the one beside it, in the row's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Times, ids and the number of items of the events.
    Positions,
    /// The distinct item keys, and which row has which.
    Keys,
    /// Lengths of values and metadata.
    Sizes,
    /// The metadata of all rows.
    Metadata,
    /// The values of all rows.
    Values,
    /// The row's own metadata.
    Header,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Positions => "positions",
            Section::Keys => "keys",
            Section::Sizes => "sizes",
            Section::Metadata => "metadata",
            Section::Values => "values",
            Section::Header => "header fields",
        })
    }
}

const SECTIONS: usize = 5;
/// Version, codec, rows, events; then two lengths per section.
const FIXED_BYTES: usize = 1 + 1 + 4 + 4 + SECTIONS * 8;
const CHECKSUM_BYTES: usize = 8;

/// What the fixed part says, checked as far as it can be without decoding a section.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) compression: Compression,
    pub(super) rows: usize,
    pub(super) events: usize,
    sections: [Stored; SECTIONS],
}

/// Where a section lies, and how long it is when decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    pub(super) at: Range<usize>,
    pub(super) raw: usize,
}

impl Stored {
    /// A compressed section is always shorter; one as long as it was is stored as it was.
    pub(super) fn is_raw(&self) -> bool {
        self.at.len() == self.raw
    }
}

impl Layout {
    /// Reads the fixed part of a block and verifies its checksum.
    pub(super) fn parse(value: &[u8]) -> Result<Layout, BlockError> {
        let short = || too_short(value.len());
        let version = *value.first().ok_or_else(short)?;
        if version != FORMAT_VERSION {
            return Err(BlockError::Version { found: version });
        }
        let (body, checksum) = value.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
        if body.len() < FIXED_BYTES {
            return Err(short());
        }
        let (expected, found) = (u64::from_be_bytes(*checksum), xxh3_64(body));
        if expected != found {
            return Err(BlockError::Checksum { expected, found });
        }
        Self::parse_fixed(body)
    }

    fn parse_fixed(body: &[u8]) -> Result<Layout, BlockError> {
        let short = || too_short(body.len() + CHECKSUM_BYTES);
        let mut cursor = Cursor(&body[1..]);
        let [codec] = cursor.chunk().ok_or_else(short)?;
        let compression = Compression::from_byte(codec).ok_or(BlockError::Codec { found: codec })?;
        let mut number = || cursor.chunk().map(|bytes| u32::from_be_bytes(bytes) as usize).ok_or_else(short);
        let (rows, events) = (number()?, number()?);
        let mut sections: [Stored; SECTIONS] = Default::default();
        let (mut end, mut raw_bytes) = (FIXED_BYTES, 0u64);
        for section in &mut sections {
            let (stored, raw) = (number()?, number()?);
            let start = end;
            end = start.saturating_add(stored);
            raw_bytes += raw as u64;
            *section = Stored { at: start..end, raw };
        }
        if end != body.len() {
            let with_checksum = |length: usize| (length as u64).saturating_add(CHECKSUM_BYTES as u64);
            return Err(BlockError::Length { expected: with_checksum(end), found: with_checksum(body.len()) });
        }
        if raw_bytes > MAX_RAW_BYTES as u64 {
            return Err(BlockError::TooLarge { bytes: raw_bytes });
        }
        let layout = Layout { compression, rows, events, sections };
        layout.check_counts()?;
        Ok(layout)
    }

    /// What is allocated later is bounded by what is checked here.
    fn check_counts(&self) -> Result<(), BlockError> {
        let malformed = |section, reason| Err(BlockError::Malformed { section, reason });
        if self.events == 0 || self.events > self.rows {
            return malformed(Section::Positions, "every event has a row");
        }
        if self.events > self.section(Section::Positions).raw {
            return malformed(Section::Positions, "too short for the number of events");
        }
        if self.rows > self.section(Section::Sizes).raw {
            return malformed(Section::Sizes, "too short for the number of rows");
        }
        for section in [Section::Positions, Section::Keys, Section::Sizes, Section::Metadata, Section::Values] {
            let stored = self.section(section);
            let possible = stored.is_raw() || self.compression.could_hold(stored.at.len(), stored.raw);
            if !possible {
                return malformed(section, "no such section decodes to so many bytes");
            }
        }
        Ok(())
    }

    /// Where a section lies; of the header, which isn't in a block, nothing.
    pub(super) fn section(&self, section: Section) -> &Stored {
        const NOWHERE: &Stored = &Stored { at: 0..0, raw: 0 };
        self.sections.get(section as usize).unwrap_or(NOWHERE)
    }

    /// The length of all sections once decoded.
    pub(super) fn raw_bytes(&self) -> usize {
        self.sections.iter().map(|section| section.raw).sum()
    }
}

fn too_short(bytes: usize) -> BlockError {
    BlockError::Length { expected: (FIXED_BYTES + CHECKSUM_BYTES) as u64, found: bytes as u64 }
}

/// Puts a block together into `out`, which is cleared first: compresses each section and seals it with the checksum.
pub(super) fn assemble(encoder: &mut Encoder, rows: u32, events: u32, raw: [&[u8]; SECTIONS], out: &mut Vec<u8>) {
    out.clear();
    out.push(FORMAT_VERSION);
    out.push(encoder.compression().byte());
    out.extend_from_slice(&rows.to_be_bytes());
    out.extend_from_slice(&events.to_be_bytes());
    let lengths = out.len();
    out.resize(FIXED_BYTES, 0);
    for (at, section) in raw.into_iter().enumerate() {
        let start = out.len();
        encoder.append(section, out);
        let stored = out.len() - start;
        let field = lengths + at * 8;
        out[field..field + 4].copy_from_slice(&(stored as u32).to_be_bytes());
        out[field + 4..field + 8].copy_from_slice(&(section.len() as u32).to_be_bytes());
    }
    let checksum = xxh3_64(out);
    out.extend_from_slice(&checksum.to_be_bytes());
}

//! Makes one block after the other out of whole events. Buffers are kept from block to block.

use std::collections::BTreeMap;

use anabranch_model::{EventItemKey, Item, Position, Row};
use anabranch_runtime::let_others_run;
use bytes::Bytes;

use super::{
    BlockHeader, Codec, FORMAT_VERSION, MAX_TARGET_BYTES, PackError, codec::Encoder, layout::assemble, varint::put,
};

/// What one block takes at most, as [`Row::bytes`] counts: with all lengths added, still below what a reader refuses.
const MAX_BLOCK_BYTES: usize = 16 << 20;
/// Differences of times are written in the largest of these that divides them all.
const UNITS: [u64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];

/// Packs events into a block. Events come in table order and whole: an event is never in two blocks.
pub struct BlockBuilder {
    target_bytes: usize,
    encoder: Encoder,
    bytes: usize,
    newest: Option<Position>,
    oldest: Option<Position>,
    differences: Vec<u64>,
    columns: Columns,
    /// Each distinct key, and its number in the order of appearance.
    keys: BTreeMap<EventItemKey, u32>,
    row_keys: Vec<u32>,
    sections: Sections,
    assembled: Vec<u8>,
}

/// Parts of sections, written while events come in.
#[derive(Default)]
struct Columns {
    item_counts: Vec<u8>,
    shared: Vec<u8>,
    suffix_lengths: Vec<u8>,
    suffixes: Vec<u8>,
    value_sizes: Vec<u8>,
    metadata_sizes: Vec<u8>,
    has_metadata: bool,
}

/// Sections as they will be compressed.
#[derive(Default)]
struct Sections {
    positions: Vec<u8>,
    keys: Vec<u8>,
    sizes: Vec<u8>,
    metadata: Vec<u8>,
    values: Vec<u8>,
}

impl BlockBuilder {
    /// A builder of blocks that are full at `target_bytes`, as [`Row::bytes`] counts, before compression.
    pub fn new(target_bytes: usize, codec: Codec) -> Self {
        BlockBuilder {
            target_bytes: target_bytes.clamp(1, MAX_TARGET_BYTES),
            encoder: Encoder::new(codec),
            bytes: 0,
            newest: None,
            oldest: None,
            differences: Vec::new(),
            columns: Columns::default(),
            keys: BTreeMap::new(),
            row_keys: Vec::new(),
            sections: Sections::default(),
            assembled: Vec::new(),
        }
    }

    /// When a block is full.
    pub fn target_bytes(&self) -> usize {
        self.target_bytes
    }

    /// Bytes that were pushed into the next block.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the next block has reached its target. It may still take more.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.target_bytes
    }

    /// Whether nothing was pushed since the last block.
    pub fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// The last position that was pushed into the next block.
    pub fn oldest(&self) -> Option<&Position> {
        self.oldest.as_ref()
    }

    /// Takes all rows of the next event. After an error nothing was taken.
    pub fn push(&mut self, event: &[Row]) -> Result<(), PackError> {
        let added = self.check(event)?;
        let position = &event[0].position;
        let shared = match &self.oldest {
            Some(before) => {
                self.differences.push(before.time.nanos().wrapping_sub(position.time.nanos()) as u64);
                let pairs = before.id.as_str().bytes().zip(position.id.as_str().bytes());
                pairs.take_while(|(left, right)| left == right).count()
            }
            None => 0,
        };
        let columns = &mut self.columns;
        let suffix = &position.id.as_str().as_bytes()[shared..];
        put(&mut columns.item_counts, event.len() as u64);
        put(&mut columns.shared, shared as u64);
        put(&mut columns.suffix_lengths, suffix.len() as u64);
        columns.suffixes.extend_from_slice(suffix);
        event.iter().for_each(|row| self.push_item(&row.item));
        self.newest.get_or_insert_with(|| position.clone());
        self.oldest = Some(position.clone());
        self.bytes += added;
        Ok(())
    }

    fn push_item(&mut self, item: &Item) {
        let number = match self.keys.get(&item.key) {
            Some(number) => *number,
            None => {
                let number = self.keys.len() as u32;
                self.keys.insert(item.key.clone(), number);
                number
            }
        };
        self.row_keys.push(number);
        put(&mut self.columns.value_sizes, item.value.len() as u64);
        self.sections.values.extend_from_slice(&item.value);
        let size = item.metadata.as_ref().map_or(0, |metadata| metadata.len() + 1);
        put(&mut self.columns.metadata_sizes, size as u64);
        self.sections.metadata.extend_from_slice(item.metadata.as_deref().unwrap_or_default());
        self.columns.has_metadata |= size > 0;
    }

    /// Whether this event may come next; answers its bytes.
    fn check(&self, event: &[Row]) -> Result<usize, PackError> {
        let position = event.first().map(|row| &row.position).ok_or(PackError::NoRows)?;
        let refuse = |error: fn(Position) -> PackError| Err(error(position.clone()));
        if event.iter().any(|row| row.position != *position) {
            return refuse(|position| PackError::SeveralEvents { position });
        }
        if event[0].item.key.is_block() {
            return refuse(|position| PackError::AlreadyPacked { position });
        }
        let descends = self.oldest.as_ref().is_none_or(|before| before > position);
        if !descends || !event.is_sorted_by(|left, right| left.item.key < right.item.key) {
            return refuse(|position| PackError::OutOfOrder { position });
        }
        let added = event.iter().map(Row::bytes).sum::<usize>();
        match self.bytes.saturating_add(added) {
            bytes if bytes > MAX_BLOCK_BYTES => Err(PackError::TooLarge { bytes }),
            _ => Ok(added),
        }
    }

    /// Makes a row of what was pushed and begins the next block. `None` when nothing was. `above` is the event that comes
    /// right before it in the segment.
    pub fn finish(&mut self, above: Option<Position>) -> Option<Row> {
        let (newest, oldest) = (self.newest.take()?, self.oldest.take()?);
        let_others_run();
        let rows = self.row_keys.len() as u32;
        let events = self.differences.len() as u32 + 1;
        self.write_positions(&newest, rows > events);
        self.write_keys();
        let Columns { value_sizes, metadata_sizes, has_metadata, .. } = &self.columns;
        self.sections.sizes.extend_from_slice(value_sizes);
        if *has_metadata {
            self.sections.sizes.extend_from_slice(metadata_sizes);
        }
        let Sections { positions, keys, sizes, metadata, values } = &self.sections;
        let sections = [&positions[..], keys, sizes, metadata, values];
        assemble(&mut self.encoder, rows, events, sections, &mut self.assembled);
        let header = BlockHeader { version: FORMAT_VERSION, rows, newest, above };
        let value = Bytes::copy_from_slice(&self.assembled);
        self.clear();
        Some(Row {
            position: oldest,
            item: Item { key: EventItemKey::block(), value, metadata: Some(header.encode()) },
        })
    }

    fn write_positions(&mut self, newest: &Position, several_items: bool) {
        let divides_all = |unit: &&u64| self.differences.iter().all(|difference| difference % **unit == 0);
        let unit = UNITS.iter().find(divides_all).copied().unwrap_or(1);
        let out = &mut self.sections.positions;
        out.extend_from_slice(&newest.time.nanos().to_be_bytes());
        put(out, unit);
        self.differences.iter().for_each(|difference| put(out, difference / unit));
        if several_items {
            out.extend_from_slice(&self.columns.item_counts);
        }
        out.extend_from_slice(&self.columns.shared);
        out.extend_from_slice(&self.columns.suffix_lengths);
        out.extend_from_slice(&self.columns.suffixes);
    }

    fn write_keys(&mut self) {
        let out = &mut self.sections.keys;
        put(out, self.keys.len() as u64);
        self.keys.keys().for_each(|key| put(out, key.len() as u64));
        self.keys.keys().for_each(|key| out.extend_from_slice(key.as_str().as_bytes()));
        if self.keys.len() == 1 {
            return;
        }
        // From the order of appearance to that of the dictionary.
        let mut ranks = vec![0u64; self.keys.len()];
        for (rank, number) in self.keys.values().enumerate() {
            ranks[*number as usize] = rank as u64;
        }
        self.row_keys.iter().for_each(|number| put(out, ranks[*number as usize]));
    }

    fn clear(&mut self) {
        self.bytes = 0;
        self.differences.clear();
        self.keys.clear();
        self.row_keys.clear();
        let Columns { item_counts, shared, suffix_lengths, suffixes, value_sizes, metadata_sizes, has_metadata } =
            &mut self.columns;
        *has_metadata = false;
        let Sections { positions, keys, sizes, metadata, values } = &mut self.sections;
        let columns = [item_counts, shared, suffix_lengths, suffixes, value_sizes, metadata_sizes];
        columns.into_iter().chain([positions, keys, sizes, metadata, values]).for_each(Vec::clear);
    }
}

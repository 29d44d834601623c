//! Blocks of pieces that were read before, for stores that are far away.
//!
//! A piece never changes, and a block says which event lies right above it. So a block that was kept can stand in for a scan
//! wherever it provably is what comes next; whether it is, the reader of the piece judges, by the rule that it has for rows
//! from the store.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::RangeBounds,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch_model::{EventId, Item, PartitionKey, Position, Row, TableName, Timestamp};
use anabranch_runtime::HashMap;
use bytes::Bytes;

use crate::block::{BlockHeader, header_of};

/// Besides the bytes of a block: its place in maps and queues.
const ENTRY_BYTES: usize = 256;
/// A block that was used this often outlives as many looks at it.
const MAX_USES: u8 = 3;

/// A piece by what it holds: one that lies in the same place after another was dropped there is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PieceName {
    pub(super) table: TableName,
    pub(super) partition: PartitionKey,
    pub(super) checksum: u128,
}

/// Where a block lies in its piece: at its oldest event. Without an id: below all events of that time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(Timestamp, Option<EventId>);

impl Place {
    pub(super) fn of(position: &Position) -> Self {
        Place(position.time, Some(position.id.clone()))
    }

    pub(super) fn below(time: Timestamp) -> Self {
        Place(time, None)
    }
}

struct Kept {
    row: Row,
    header: BlockHeader,
    uses: u8,
}

#[derive(Default)]
struct Inside {
    pieces: HashMap<Arc<PieceName>, BTreeMap<Place, Kept>>,
    /// Each block once, in the order in which they are looked at when there is no more room.
    queue: VecDeque<(Arc<PieceName>, Place)>,
    bytes: usize,
}

/// Keeps blocks of pieces, as they are stored, up to a number of bytes. Those that are read again stay longest.
pub struct BlockCache {
    inside: Mutex<Inside>,
    max_bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl BlockCache {
    /// An empty one.
    pub fn new(max_bytes: usize) -> Self {
        BlockCache { inside: Mutex::default(), max_bytes, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// How often a block was found here, and how often not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// What the blocks take.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The highest block in `range`, if it `fits`.
    pub(super) fn highest(
        &self,
        piece: &PieceName,
        range: impl RangeBounds<Place>,
        fits: impl FnOnce(&BlockHeader) -> bool,
    ) -> Option<Row> {
        let mut inside = self.lock();
        let found = inside.pieces.get_mut(piece).and_then(|blocks| blocks.range_mut(range).next_back());
        let found = found.filter(|(_, kept)| fits(&kept.header)).map(|(_, kept)| {
            kept.uses = (kept.uses + 1).min(MAX_USES);
            kept.row.clone()
        });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a block that was read and found good.
    pub(super) fn keep(&self, piece: &Arc<PieceName>, row: &Row) {
        let Some(header) = row.item.metadata.as_deref().and_then(|metadata| header_of(metadata).ok()) else { return };
        let (place, bytes) = (Place::of(&row.position), bytes_of(row));
        if bytes > self.max_bytes {
            return;
        }
        let mut inside = self.lock();
        let blocks = inside.pieces.entry(piece.clone()).or_default();
        if blocks.contains_key(&place) {
            return;
        }
        blocks.insert(place.clone(), Kept { row: on_its_own(row), header, uses: 0 });
        inside.queue.push_back((piece.clone(), place));
        inside.bytes += bytes;
        while inside.bytes > self.max_bytes {
            inside.make_room();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Looks at the next block: it goes, or is looked at once more after all others.
    fn make_room(&mut self) {
        let Some((piece, place)) = self.queue.pop_front() else { return };
        let Some(blocks) = self.pieces.get_mut(&piece) else { return };
        let Some(kept) = blocks.get_mut(&place) else { return };
        if kept.uses > 0 {
            kept.uses -= 1;
            self.queue.push_back((piece, place));
            return;
        }
        self.bytes -= bytes_of(&kept.row);
        blocks.remove(&place);
        if blocks.is_empty() {
            self.pieces.remove(&piece);
        }
    }
}

fn bytes_of(row: &Row) -> usize {
    row.bytes() + ENTRY_BYTES
}

/// A copy that doesn't hold on to the answer in which the row came.
fn on_its_own(row: &Row) -> Row {
    let copy = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
    let Item { key, value, metadata } = &row.item;
    let item = Item { key: key.clone(), value: copy(value), metadata: metadata.as_ref().map(copy) };
    Row { position: row.position.clone(), item }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        block::{Codec, tests::stored},
        suite::fixture::{partition, row, table},
    };

    fn piece(checksum: u128) -> Arc<PieceName> {
        Arc::new(PieceName { table: table("wide_data_1_1"), partition: partition("s", 0, 7), checksum })
    }

    /// Blocks in table order, each holding some events.
    fn blocks() -> Vec<Row> {
        let rows: Vec<Row> = (0..400).rev().map(|time| row(time, "e", "k", "some value")).collect();
        stored(&rows, 600, Codec::None)
    }

    fn has(cache: &BlockCache, piece: &PieceName, block: &Row) -> bool {
        cache.highest(piece, ..=Place::of(&block.position), |header| header.above.is_some()).as_ref() == Some(block)
    }

    #[test]
    fn it_never_holds_more_than_it_may_and_what_is_read_again_stays() {
        let (blocks, piece) = (&blocks()[1..], piece(1));
        let room = blocks[..4].iter().map(bytes_of).sum::<usize>();
        let cache = BlockCache::new(room);
        let (dear, others) = blocks.split_first().unwrap();
        cache.keep(&piece, dear);
        assert!(others.len() > 6);
        for block in others {
            assert!(has(&cache, &piece, dear), "what is read before every other one stays");
            cache.keep(&piece, block);
            assert!(cache.bytes() <= room);
        }
        let kept = others.iter().filter(|block| has(&cache, &piece, block)).count();
        assert!((1..4).contains(&kept), "{kept}");
        let inside = cache.lock();
        let counted: usize = inside.pieces.values().flat_map(BTreeMap::values).map(|kept| bytes_of(&kept.row)).sum();
        assert_eq!((inside.bytes, inside.queue.len()), (counted, inside.pieces.values().map(BTreeMap::len).sum()));
    }

    #[test]
    fn a_piece_that_holds_something_else_is_another_one() {
        let (blocks, cache) = (blocks(), BlockCache::new(1 << 20));
        cache.keep(&piece(1), &blocks[1]);
        assert!(has(&cache, &piece(1), &blocks[1]));
        assert!(!has(&cache, &piece(2), &blocks[1]));
        assert_eq!(cache.hits_and_misses(), (1, 1));
    }

    #[test]
    fn what_is_too_big_for_all_of_it_is_not_kept() {
        let (blocks, cache) = (blocks(), BlockCache::new(100));
        cache.keep(&piece(1), &blocks[1]);
        assert_eq!(cache.bytes(), 0);
        assert!(cache.lock().pieces.is_empty());
    }
}

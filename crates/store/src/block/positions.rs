//! The first section of a block: which events it holds, and which rows are theirs.

use std::{cmp::Ordering, ops::Range};

use anabranch_model::{EventId, Position, Timestamp, ids::MAX_ID_BYTES};

use super::{BlockError, MAX_RAW_BYTES, layout::Section, varint::Cursor};

/// The positions of a block's events in table order, and the rows of each. Decoded without touching anything else.
#[derive(Clone, Debug)]
pub struct Positions {
    times: Vec<i64>,
    /// All ids one after the other; each ends where `id_ends` says.
    ids: String,
    id_ends: Vec<u32>,
    /// Where the rows of each event begin, and where the last ones end; `None` when every event has one.
    row_starts: Option<Vec<u32>>,
}

fn malformed(reason: &'static str) -> BlockError {
    BlockError::Malformed { section: Section::Positions, reason }
}

const CUT_SHORT: &str = "cut short";
/// What is set aside for ids before they are known.
const MAX_LIKELY_ID_BYTES: usize = 64 << 10;

impl Positions {
    pub(super) fn decode(bytes: &[u8], rows: usize, events: usize) -> Result<Self, BlockError> {
        let mut cursor = Cursor(bytes);
        let times = decode_times(&mut cursor, events)?;
        let row_starts = if rows == events { None } else { Some(decode_row_starts(&mut cursor, rows, events)?) };
        let (ids, id_ends) = decode_ids(&mut cursor, events)?;
        if !cursor.is_at_end() {
            return Err(malformed("longer than they should be"));
        }
        let positions = Positions { times, ids, id_ends, row_starts };
        let descend =
            (1..events).all(|at| positions.compare(at, positions.times[at - 1], positions.id(at - 1)).is_lt());
        if descend { Ok(positions) } else { Err(malformed("they do not descend")) }
    }

    /// How many events there are.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// The time of an event.
    ///
    /// # Panics
    /// When there are fewer events.
    pub fn time(&self, event: usize) -> Timestamp {
        Timestamp::from_nanos(self.times[event])
    }

    /// The id of an event.
    ///
    /// # Panics
    /// When there are fewer events.
    pub fn id(&self, event: usize) -> &str {
        let start = if event == 0 { 0 } else { self.id_ends[event - 1] };
        &self.ids[start as usize..self.id_ends[event] as usize]
    }

    /// The position of an event.
    ///
    /// # Panics
    /// When there are fewer events.
    pub fn get(&self, event: usize) -> Position {
        let id = EventId::new(self.id(event)).expect("ids are checked when they are decoded");
        Position { time: self.time(event), id }
    }

    /// The first one.
    pub fn newest(&self) -> Position {
        self.get(0)
    }

    /// The last one.
    pub fn oldest(&self) -> Position {
        self.get(self.len() - 1)
    }

    /// All of them, in table order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Position> + ExactSizeIterator + '_ {
        (0..self.len()).map(|event| self.get(event))
    }

    /// The rows of an event; of the one after the last: none, at the end.
    pub fn rows_of(&self, event: usize) -> Range<usize> {
        self.first_row(event)..self.first_row(event + 1)
    }

    /// Where the rows of an event begin.
    pub(super) fn first_row(&self, event: usize) -> usize {
        let event = event.min(self.len());
        self.row_starts.as_ref().map_or(event, |starts| starts[event] as usize)
    }

    /// Which event a row belongs to.
    pub(super) fn event_of(&self, row: usize) -> usize {
        let after = |starts: &Vec<u32>| starts.partition_point(|start| *start as usize <= row);
        self.row_starts.as_ref().map_or(row, |starts| after(starts).saturating_sub(1))
    }

    /// The first event, in table order, that isn't newer than `position`.
    pub(super) fn first_at_or_below(&self, position: &Position) -> usize {
        self.first_where(|event| self.compare_to(event, position).is_le())
    }

    /// The first event, in table order, that is older than `position`.
    pub(super) fn first_below(&self, position: &Position) -> usize {
        self.first_where(|event| self.compare_to(event, position).is_lt())
    }

    /// The first event, in table order, that is before `time`.
    pub(super) fn first_before(&self, time: Timestamp) -> usize {
        self.times.partition_point(|nanos| *nanos >= time.nanos())
    }

    pub(super) fn compare_to(&self, event: usize, position: &Position) -> Ordering {
        self.compare(event, position.time.nanos(), position.id.as_str())
    }

    fn compare(&self, event: usize, nanos: i64, id: &str) -> Ordering {
        self.times[event].cmp(&nanos).then_with(|| self.id(event).cmp(id))
    }

    /// Searches by halves, for a condition that holds for all events from some one on.
    fn first_where(&self, holds: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }
}

fn decode_times(cursor: &mut Cursor<'_>, events: usize) -> Result<Vec<i64>, BlockError> {
    let mut nanos = cursor.chunk().map(i64::from_be_bytes).ok_or(malformed(CUT_SHORT))?;
    let unit = cursor.varint().ok_or(malformed(CUT_SHORT))?;
    let mut times = Vec::with_capacity(events);
    times.push(nanos);
    for _ in 1..events {
        let steps = cursor.varint().ok_or(malformed(CUT_SHORT))?;
        let earlier = steps.checked_mul(unit).and_then(|difference| nanos.checked_sub_unsigned(difference));
        nanos = earlier.ok_or(malformed("a time is out of range"))?;
        times.push(nanos);
    }
    Ok(times)
}

fn decode_row_starts(cursor: &mut Cursor<'_>, rows: usize, events: usize) -> Result<Vec<u32>, BlockError> {
    let mut starts = Vec::with_capacity(events + 1);
    let mut start = 0usize;
    for _ in 0..events {
        starts.push(start as u32);
        let items = cursor.length().filter(|items| *items > 0).ok_or(malformed("an event without items"))?;
        start = start.checked_add(items).filter(|start| *start <= rows).ok_or(malformed("more items than rows"))?;
    }
    starts.push(start as u32);
    if start == rows { Ok(starts) } else { Err(malformed("fewer items than rows")) }
}

fn decode_ids(cursor: &mut Cursor<'_>, events: usize) -> Result<(String, Vec<u32>), BlockError> {
    let mut shared = cursor.column(events).ok_or(malformed(CUT_SHORT))?;
    let mut suffixes = cursor.column(events).ok_or(malformed(CUT_SHORT))?;
    // Most ids are about as long as the first, which is written in full.
    let mut first = suffixes;
    let likely = first.length().unwrap_or(0).saturating_mul(events);
    let mut ids: Vec<u8> = Vec::with_capacity(likely.min(MAX_LIKELY_ID_BYTES));
    let mut ends = Vec::with_capacity(events);
    let mut previous = 0..0;
    for _ in 0..events {
        let shared = shared.length().filter(|shared| *shared <= previous.len()).ok_or(malformed("no such prefix"))?;
        let suffix = suffixes.length().and_then(|length| cursor.take(length)).ok_or(malformed(CUT_SHORT))?;
        let length = shared + suffix.len();
        let start = ids.len();
        // Prefixes make long ids of few bytes, so that the section's length doesn't bound this.
        if length == 0 || length > MAX_ID_BYTES || start + length > MAX_RAW_BYTES {
            return Err(malformed("an id is empty or too long"));
        }
        ids.extend_from_within(previous.start..previous.start + shared);
        ids.extend_from_slice(suffix);
        previous = start..ids.len();
        ends.push(ids.len() as u32);
    }
    if ids.contains(&0) {
        return Err(malformed("an id contains U+0000"));
    }
    let ids = String::from_utf8(ids).map_err(|_| malformed("an id is not UTF-8"))?;
    let whole = ends.iter().all(|end| ids.is_char_boundary(*end as usize));
    if whole { Ok((ids, ends)) } else { Err(malformed("an id is not UTF-8")) }
}

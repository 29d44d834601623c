//! The rows of one partition, wherever they lie: the original above the watermark, pieces below it. Whoever reads sees one
//! history in order.
//!
//! Anything wrong with a piece opens the original right behind the last row that was fetched, within the same read. That is
//! always correct: an original holds everything, and what a piece handed out before was checked.

use std::{collections::VecDeque, sync::Arc};

use anabranch_model::{Interval, Order, PartitionKey, Position, Row, TableName, Timestamp};
use anabranch_runtime::Env;
use anabranch_store::{
    After, BlockCache, ErrorKind, PartitionReader, PieceBounds, PieceReader, ReadLimits, ScanPage, ScanSpan, Store,
    StoreError,
};

use tracing::Instrument as _;

use crate::{
    TRACE,
    merged::MergedReader,
    record::{Segment, Strategy, WidePartition, WideRow},
    work::timed,
};

/// What of a partition is served from pieces.
#[derive(Clone, Debug)]
pub struct Served {
    row: Arc<WideRow>,
    /// Segments that reads may not use: what they hold may be less than the original does.
    hidden: Vec<usize>,
}

impl Served {
    /// What reads may use of a record, if anything: not what was set aside, nor segments that were last compared with the
    /// original before sealed time of the slice was opened again.
    pub fn of(row: Arc<WideRow>, reopened: u64) -> Option<Served> {
        if row.set_aside.is_some() { None } else { Served::since(row, reopened) }
    }

    /// The segments of a record that were compared with the original at this count of reopenings or later, if any.
    pub fn since(row: Arc<WideRow>, reopened: u64) -> Option<Served> {
        let old = row.served.iter().enumerate().filter(|(_, segment)| segment.as_of < reopened);
        let hidden: Vec<usize> = old.map(|(at, _)| at).collect();
        (hidden.len() < row.served.len()).then_some(Served { row, hidden })
    }

    /// The record that says so.
    pub fn row(&self) -> &Arc<WideRow> {
        &self.row
    }

    /// Usable segments with their numbers, oldest first, each above the one before.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = (usize, &Segment)> {
        self.row.served.iter().enumerate().filter(|(at, _)| !self.hidden.contains(at))
    }

    /// Everything before this may come from pieces.
    pub fn until(&self) -> Timestamp {
        self.segments().next_back().map_or(Timestamp::EARLIEST, |(_, segment)| segment.span.end)
    }
}

/// What a reader has to know to open its parts.
struct Ground {
    store: Arc<dyn Store>,
    env: Env,
    table: TableName,
    partition: PartitionKey,
    interval: Interval,
    order: Order,
    served: Arc<Served>,
    blocks: Option<Arc<BlockCache>>,
    /// Whether all that lies in the partitions of pieces is read, and not only what should.
    beyond_bounds: bool,
}

/// A stretch of the history that lies in one place.
enum Part {
    Original(Interval),
    /// Of the segment, the piece.
    Piece(usize, usize),
    /// All pieces of a segment that was spread by hash.
    Merged(usize),
}

/// An opened part.
enum Open {
    Original(Box<PartitionReader>),
    Piece(Box<PieceReader>),
    Merged(Box<MergedReader>),
}

/// Reads the rows of one partition in an interval.
#[expect(clippy::large_enum_variant, reason = "nearly all readers are the larger one")]
pub enum HistoryReader {
    /// Nothing of it is split.
    Original(PartitionReader),
    /// Some of it is.
    Split(Box<Chain>),
}

/// The parts of a split partition, one after the other.
pub struct Chain {
    ground: Ground,
    current: Option<Open>,
    /// Which part it is.
    part: Option<Part>,
    /// In the read's order.
    rest: VecDeque<Part>,
    rows: VecDeque<Row>,
    /// The last row that was fetched, or where the read began.
    after: Option<After>,
    /// Whether a failing piece is an error instead of a reason to open the original.
    strict: bool,
    fallback: Option<StoreError>,
    bytes_read: u64,
    original_bytes: u64,
    #[cfg(feature = "plant")]
    opened_at: Option<After>,
}

impl HistoryReader {
    /// Reads the original and nothing else.
    pub fn original(
        store: Arc<dyn Store>,
        table: TableName,
        partition: PartitionKey,
        interval: Interval,
        order: Order,
        after: Option<After>,
    ) -> Self {
        HistoryReader::Original(PartitionReader::new(store, table, partition, interval, order, after))
    }

    /// Reads what is served from pieces, the rest from the original. Of pieces, `blocks` may have what was read before.
    pub fn split(
        store: Arc<dyn Store>,
        env: Env,
        served: Arc<Served>,
        blocks: Option<Arc<BlockCache>>,
        interval: Interval,
        order: Order,
        after: Option<After>,
    ) -> Self {
        let (table, partition) = (served.row.partition.table(), served.row.partition.key());
        let beyond_bounds = false;
        let ground = Ground { store, env, table, partition, interval, order, served, blocks, beyond_bounds };
        HistoryReader::Split(Box::new(Chain::new(ground, after)))
    }

    /// As [`HistoryReader::split`], but everything comes from the store, and a piece that fails is an error: for those who compare.
    pub fn strict(
        store: Arc<dyn Store>,
        env: Env,
        served: Arc<Served>,
        interval: Interval,
        order: Order,
        after: Option<After>,
    ) -> Self {
        let mut reader = HistoryReader::split(store, env, served, None, interval, order, after);
        if let HistoryReader::Split(chain) = &mut reader {
            chain.strict = true;
        }
        reader
    }

    /// Reads the partitions of whole pieces to both of their ends: a row that doesn't belong into one is an error, or comes out
    /// where it lies. For a read of a whole segment from its beginning, before anything is fetched.
    #[must_use]
    pub(crate) fn beyond_bounds(mut self) -> Self {
        if let HistoryReader::Split(chain) = &mut self {
            chain.ground.beyond_bounds = true;
        }
        self
    }

    /// The next row that was fetched, in the scan's direction: items of an event *descend* when the oldest come first.
    #[inline]
    pub fn peek(&self) -> Option<&Row> {
        match self {
            HistoryReader::Original(reader) => reader.peek(),
            HistoryReader::Split(chain) => chain.rows.front(),
        }
    }

    /// The rows that were fetched, to be taken from the front.
    pub fn rows(&mut self) -> &mut VecDeque<Row> {
        match self {
            HistoryReader::Original(reader) => reader.rows(),
            HistoryReader::Split(chain) => &mut chain.rows,
        }
    }

    /// Takes the next row that was fetched.
    #[inline]
    pub fn take(&mut self) -> Option<Row> {
        match self {
            HistoryReader::Original(reader) => reader.take(),
            HistoryReader::Split(chain) => chain.rows.pop_front(),
        }
    }

    /// How many rows have been fetched and not taken.
    #[inline]
    pub fn fetched(&self) -> usize {
        match self {
            HistoryReader::Original(reader) => reader.fetched(),
            HistoryReader::Split(chain) => chain.rows.len(),
        }
    }

    /// Whether there is nothing more to fetch.
    pub fn is_exhausted(&self) -> bool {
        match self {
            HistoryReader::Original(reader) => reader.is_exhausted(),
            HistoryReader::Split(chain) => chain.is_exhausted(),
        }
    }

    /// Bytes fetched so far, as they are stored.
    pub fn bytes_read(&self) -> u64 {
        match self {
            HistoryReader::Original(reader) => reader.bytes_read(),
            HistoryReader::Split(chain) => chain.bytes_read,
        }
    }

    /// How many of them came from the original.
    pub fn original_bytes(&self) -> u64 {
        match self {
            HistoryReader::Original(reader) => reader.bytes_read(),
            HistoryReader::Split(chain) => chain.original_bytes,
        }
    }

    /// Why the original had to be opened instead of a piece, if it was.
    pub fn fallback(&self) -> Option<&StoreError> {
        match self {
            HistoryReader::Original(_) => None,
            HistoryReader::Split(chain) => chain.fallback.as_ref(),
        }
    }

    /// Fetches rows after those fetched before. Does nothing when there are none.
    pub async fn fetch(&mut self, limits: ReadLimits) -> Result<(), StoreError> {
        match self {
            HistoryReader::Original(reader) => {
                reader.fetch(limits).instrument(tracing::trace_span!(target: TRACE, "original")).await
            }
            HistoryReader::Split(chain) => chain.fetch(limits).await,
        }
    }

    /// Forgets what was fetched and goes on behind an event.
    pub fn skip_to(&mut self, position: Position) {
        match self {
            HistoryReader::Original(reader) => reader.skip_to(After::Event(position)),
            HistoryReader::Split(chain) => chain.restart(Some(After::Event(position))),
        }
    }

    /// Reads rows of a single event, ascending by key, beside the scan. Always of the original.
    pub async fn fetch_event(&mut self, span: ScanSpan, limits: ReadLimits) -> Result<ScanPage, StoreError> {
        match self {
            HistoryReader::Original(reader) => reader.fetch_event(span, limits).await,
            HistoryReader::Split(chain) => {
                let mut reader = chain.ground.original(chain.ground.interval, None);
                let page = reader.fetch_event(span, limits).await?;
                chain.bytes_read += reader.bytes_read();
                Ok(page)
            }
        }
    }
}

impl Ground {
    fn original(&self, interval: Interval, after: Option<After>) -> PartitionReader {
        let (table, partition) = (self.table.clone(), self.partition.clone());
        PartitionReader::new(self.store.clone(), table, partition, interval, self.order, after)
    }

    /// What a trace shows of reading a part.
    fn span(&self, part: &Part) -> tracing::Span {
        match part {
            Part::Original(_) => tracing::trace_span!(target: TRACE, "original"),
            Part::Piece(segment, piece) => {
                let segment = &self.served.row.served[*segment];
                let (generation, ordinal) = (segment.generation.0, segment.pieces[*piece].ordinal);
                tracing::trace_span!(target: TRACE, "piece", generation, ordinal)
            }
            Part::Merged(segment) => {
                let segment = &self.served.row.served[*segment];
                let (generation, pieces) = (segment.generation.0, segment.pieces.len());
                tracing::trace_span!(target: TRACE, "pieces", generation, pieces)
            }
        }
    }

    /// All parts that have anything of the interval behind `after`, in the read's order.
    fn parts(&self, after: Option<&Position>) -> VecDeque<Part> {
        let mut parts = VecDeque::new(); // newest first
        let mut end = self.interval.end;
        for (at, segment) in self.served.segments().rev() {
            let above = Interval::new(segment.span.end, end);
            if !above.is_empty() {
                parts.push_back(Part::Original(above.intersect(&self.interval)));
            }
            if !segment.span.intersect(&self.interval).is_empty() {
                match segment.strategy {
                    Strategy::TimeRange => parts.extend((0..segment.pieces.len()).map(|piece| Part::Piece(at, piece))),
                    Strategy::EventBucket { .. } => parts.push_back(Part::Merged(at)),
                }
            }
            end = end.min(segment.span.start);
        }
        let below = Interval::new(self.interval.start, end);
        if !below.is_empty() {
            parts.push_back(Part::Original(below));
        }
        parts.retain(|part| self.is_ahead(part, after));
        if self.order == Order::OldestFirst {
            parts.make_contiguous().reverse();
        }
        parts
    }

    /// Whether a part has anything of the interval, and of what is behind `after`.
    fn is_ahead(&self, part: &Part, after: Option<&Position>) -> bool {
        match part {
            Part::Original(interval) => {
                !interval.is_empty()
                    && after.is_none_or(|after| match self.order {
                        Order::LatestFirst => interval.start <= after.time,
                        Order::OldestFirst => after.time < interval.end,
                    })
            }
            Part::Merged(_) => true,
            Part::Piece(segment, piece) => {
                let piece = &self.served.row.served[*segment].pieces[*piece];
                let reaches = self.interval.start <= piece.newest.time && piece.oldest.time < self.interval.end;
                reaches
                    && after.is_none_or(|after| match self.order {
                        Order::LatestFirst => piece.oldest < *after,
                        Order::OldestFirst => piece.newest > *after,
                    })
            }
        }
    }

    /// Opens a part behind `after`. An event is never in two parts, so a piece goes on behind whole events.
    fn open(&self, part: &Part, after: Option<After>) -> Open {
        // What lies in a piece above the one before it doesn't belong there either.
        let after = after.filter(|_| !self.beyond_bounds);
        let event = after.as_ref().map(|after| after.position().clone());
        match part {
            Part::Original(interval) => Open::Original(Box::new(self.original(*interval, after))),
            Part::Piece(segment, piece) => {
                let segment = &self.served.row.served[*segment];
                let piece = &segment.pieces[*piece];
                let (newest, oldest) = (piece.newest.clone(), piece.oldest.clone());
                let bounds = PieceBounds { newest, oldest, rows: piece.content.rows };
                let WidePartition { namespace, time_slice, .. } = &self.served.row.partition;
                let reader = PieceReader::new(
                    self.store.clone(),
                    segment.generation.table(namespace, time_slice),
                    self.served.row.partition.piece(piece.ordinal),
                    bounds,
                    segment.density(),
                    self.interval,
                    self.order,
                    event,
                );
                let reader = match &self.blocks {
                    Some(blocks) => reader.with_cache(blocks.clone(), piece.content.checksum),
                    None => reader,
                };
                Open::Piece(Box::new(if self.beyond_bounds { reader.beyond_bounds() } else { reader }))
            }
            Part::Merged(segment) => {
                let segment = &self.served.row.served[*segment];
                let within = self.interval.intersect(&segment.span);
                Open::Merged(Box::new(MergedReader::new(
                    &self.store,
                    &self.served.row.partition,
                    segment,
                    if self.beyond_bounds { Interval::ALL } else { within },
                    self.order,
                    after.as_ref(),
                )))
            }
        }
    }
}

impl Chain {
    fn new(ground: Ground, after: Option<After>) -> Self {
        let mut chain = Chain {
            ground,
            current: None,
            part: None,
            rest: VecDeque::new(),
            rows: VecDeque::new(),
            after: None,
            strict: false,
            fallback: None,
            bytes_read: 0,
            original_bytes: 0,
            #[cfg(feature = "plant")]
            opened_at: None,
        };
        chain.restart(after);
        chain
    }

    fn restart(&mut self, after: Option<After>) {
        self.rows.clear();
        self.current = None;
        self.rest = if self.fallback.is_some() {
            VecDeque::from([Part::Original(self.ground.interval)])
        } else {
            self.ground.parts(after.as_ref().map(After::position))
        };
        self.after = after;
    }

    fn is_exhausted(&self) -> bool {
        self.rest.is_empty() && self.current.as_ref().is_none_or(Open::is_exhausted)
    }

    async fn fetch(&mut self, limits: ReadLimits) -> Result<(), StoreError> {
        loop {
            if self.current.as_ref().is_none_or(Open::is_exhausted) {
                let Some(part) = self.rest.pop_front() else { return Ok(()) };
                self.current = Some(self.ground.open(&part, self.after.clone()));
                self.part = Some(part);
                #[cfg(feature = "plant")]
                {
                    self.opened_at = self.after.clone();
                }
            }
            let Some(open) = &mut self.current else { return Ok(()) };
            let before = open.bytes_read();
            let is_original = matches!(open, Open::Original(_));
            // So that the original can still answer when a piece doesn't.
            let timeout = if is_original { limits.timeout } else { limits.timeout / 2 };
            let limits = ReadLimits { timeout, ..limits };
            let span = self.part.as_ref().map_or_else(tracing::Span::none, |part| self.ground.span(part));
            let fetched = timed(&self.ground.env, timeout, open.fetch(limits)).instrument(span).await;
            let bytes = open.bytes_read() - before;
            self.bytes_read += bytes;
            self.original_bytes += if is_original { bytes } else { 0 };
            let mut rows = open.take_all();
            if let Some(last) = rows.back() {
                self.after = Some(After::Row(last.key()));
            }
            if self.rows.is_empty() {
                self.rows = rows;
            } else {
                self.rows.append(&mut rows);
            }
            match fetched {
                Ok(()) if !self.rows.is_empty() || self.is_exhausted() => return Ok(()),
                Ok(()) => {}
                Err(error) if is_original || self.strict || error.kind() == ErrorKind::Overloaded => return Err(error),
                Err(error) => self.fall_back(error),
            }
        }
    }

    /// Everything that is left comes from the original.
    fn fall_back(&mut self, error: StoreError) {
        #[cfg(feature = "plant")]
        if crate::plant::is_planted(crate::plant::Bug::FallsBackToTheBeginning) {
            self.after = self.opened_at.clone();
        }
        tracing::trace!(target: TRACE, %error, "the piece can't be read: on with the original");
        self.fallback = Some(error);
        self.current = None;
        self.rest = VecDeque::from([Part::Original(self.ground.interval)]);
    }
}

impl Open {
    fn is_exhausted(&self) -> bool {
        match self {
            Open::Original(reader) => reader.is_exhausted(),
            Open::Piece(reader) => reader.is_exhausted(),
            Open::Merged(reader) => reader.is_exhausted(),
        }
    }

    fn bytes_read(&self) -> u64 {
        match self {
            Open::Original(reader) => reader.bytes_read(),
            Open::Piece(reader) => reader.bytes_read(),
            Open::Merged(reader) => reader.bytes_read(),
        }
    }

    fn take_all(&mut self) -> VecDeque<Row> {
        match self {
            Open::Original(reader) => reader.take_all(),
            Open::Piece(reader) => reader.take_all(),
            Open::Merged(reader) => reader.take_all(),
        }
    }

    async fn fetch(&mut self, limits: ReadLimits) -> Result<(), StoreError> {
        match self {
            Open::Original(reader) => reader.fetch(limits).await,
            Open::Piece(reader) => reader.fetch(limits).await,
            Open::Merged(reader) => reader.fetch(limits).await,
        }
    }
}

//! Reads a piece: blocks and plain rows come out as rows, and a block that is damaged, misplaced or missing is noticed before
//! anything behind it is handed out.
//!
//! A block is keyed by its oldest position. So a read downwards takes rows to the first at or below its lower end, and a read
//! upwards first looks for the row at or below where it begins. Blocks that were read before may come from a [`BlockCache`].

mod cache;

use std::{collections::VecDeque, ops::Bound, sync::Arc, time::Duration};

use anabranch_model::{Interval, Order, PartitionKey, Position, Row, TableName, Timestamp};

use crate::{After, Direction, ReadLimits, Scan, ScanPage, ScanSpan, Store, StoreError, block::Block};

pub use cache::BlockCache;
use cache::{PieceName, Place};

/// Rows looked at to find where a read upwards begins, when it isn't the first one: a block is much to read in vain.
const SEEK_ROWS: usize = 8;

/// Where a piece begins and ends, and how much lies between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceBounds {
    /// Its first event in table order.
    pub newest: Position,
    /// Its last event in table order.
    pub oldest: Position,
    /// Rows of history in it.
    pub rows: u64,
}

/// How much history a row of a piece holds; only a guess that saves work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Density {
    /// Rows of history in one stored row.
    pub rows: f64,
    /// Stored bytes for one byte of history.
    pub bytes: f64,
}

impl Density {
    /// As when nothing is packed.
    pub const ROWS: Density = Density { rows: 1.0, bytes: 1.0 };
}

/// Reads the rows of one piece in an interval.
pub struct PieceReader {
    store: Arc<dyn Store>,
    table: TableName,
    partition: PartitionKey,
    bounds: PieceBounds,
    /// Where blocks are kept, and under which name.
    kept: Option<(Arc<BlockCache>, Arc<PieceName>)>,
    density: Density,
    interval: Interval,
    direction: Direction,
    /// Events up to here are behind.
    after: Option<Position>,
    /// Where the next scan goes on.
    scanned: Option<After>,
    /// The last event that was met, whether handed out or not.
    met: Option<Position>,
    /// Upwards: the event that must come next, where that is known.
    expected: Option<Position>,
    /// Upwards: whether the beginning was found.
    sought: bool,
    rows: VecDeque<Row>,
    /// Of a read of the whole piece: rows met so far.
    counted: Option<u64>,
    /// Whether the partition is read to both of its ends, and not only as far as the piece should reach.
    beyond_bounds: bool,
    exhausted: bool,
    bytes_read: u64,
}

impl PieceReader {
    /// Begins at the interval's bound, or behind the event `after`. Reads nothing yet.
    #[expect(clippy::too_many_arguments, reason = "each names one thing, and there is one caller")]
    pub fn new(
        store: Arc<dyn Store>,
        table: TableName,
        partition: PartitionKey,
        bounds: PieceBounds,
        density: Density,
        interval: Interval,
        order: Order,
        after: Option<Position>,
    ) -> Self {
        let direction = Direction::from(order);
        let apart = interval.is_empty() || interval.end <= bounds.oldest.time || interval.start > bounds.newest.time;
        let behind = after.as_ref().is_some_and(|after| match direction {
            Direction::Forward => *after <= bounds.oldest,
            Direction::Backward => *after >= bounds.newest,
        });
        let whole = interval.start <= bounds.oldest.time && bounds.newest.time < interval.end;
        let from_the_beginning = after.as_ref().is_none_or(|after| match direction {
            Direction::Forward => *after > bounds.newest,
            Direction::Backward => *after < bounds.oldest,
        });
        PieceReader {
            counted: (whole && from_the_beginning).then_some(0),
            beyond_bounds: false,
            store,
            table,
            partition,
            bounds,
            kept: None,
            density,
            interval,
            direction,
            scanned: after.clone().filter(|_| direction == Direction::Forward).map(After::Event),
            after,
            met: None,
            expected: None,
            sought: direction == Direction::Forward,
            rows: VecDeque::new(),
            exhausted: apart || behind,
            bytes_read: 0,
        }
    }

    /// Takes blocks from a cache where it has them, and keeps there what it reads. `checksum` is that of the piece's rows.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<BlockCache>, checksum: u128) -> Self {
        let (table, partition) = (self.table.clone(), self.partition.clone());
        self.kept = Some((cache, Arc::new(PieceName { table, partition, checksum })));
        self
    }

    /// Of a read of the whole piece: looks at everything that lies in its partition, so that a row that doesn't belong there is
    /// noticed wherever it is. Where the piece should end, an ordinary read has no reason to look further.
    #[must_use]
    pub fn beyond_bounds(mut self) -> Self {
        self.beyond_bounds = self.counted.is_some();
        self
    }

    /// All rows that were fetched, in the read's direction.
    pub fn take_all(&mut self) -> VecDeque<Row> {
        std::mem::take(&mut self.rows)
    }

    /// Whether there is nothing more to fetch.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Bytes fetched so far, as they are stored.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Fetches rows after those fetched before. After an error everything fetched so far is good.
    pub async fn fetch(&mut self, limits: ReadLimits) -> Result<(), StoreError> {
        if self.exhausted {
            return Ok(());
        }
        if !self.sought {
            self.seek(limits.timeout).await?;
            self.sought = true;
        }
        let bytes = self.take_kept(limits)?;
        if self.exhausted || self.rows.len() >= limits.rows || bytes >= limits.bytes {
            return Ok(());
        }
        let missing = (limits.rows - self.rows.len()) as f64;
        let stored_rows = (missing / self.density.rows.max(1.0)).ceil() as usize;
        let spare = usize::from(stored_rows > 4); // blocks at both ends are used in part
        let max_bytes = ((limits.bytes - bytes) as f64 * self.density.bytes.clamp(0.01, 1.0)) as usize;
        let span = ScanSpan::Interval { interval: self.reach(), after: self.scanned.clone() };
        let page = self
            .scan(span, self.direction, stored_rows.saturating_add(spare).max(1), max_bytes.max(1), limits.timeout)
            .await?;
        if page.rows.is_empty() && page.more {
            return Err(StoreError::Unavailable { reason: "an empty page that says more would follow".to_owned() });
        }
        self.rows.reserve((page.rows.len() as f64 * self.density.rows.max(1.0)) as usize);
        for row in page.rows {
            // A block holds all of its oldest event: beside it nothing is asked for, unless it is looked for.
            let block = row.item.key.is_block();
            self.scanned = Some(if block && !self.beyond_bounds {
                After::Event(row.position.clone())
            } else {
                After::Row(row.key())
            });
            let to_keep = self.kept.as_ref().filter(|_| block).map(|_| row.clone());
            let below = self.take_in(row)?;
            self.keep(to_keep.as_ref());
            if below {
                self.exhausted = true;
                return Ok(());
            }
        }
        if !page.more || self.has_met_the_end() {
            self.end()?;
        }
        Ok(())
    }

    /// What came with the last rows is good only if nothing is missing.
    fn end(&mut self) -> Result<(), StoreError> {
        self.check_end().inspect_err(|_| self.rows.clear())?;
        self.exhausted = true;
        Ok(())
    }

    /// Takes what comes next as far as the cache has it. Answers how many bytes the rows have that were fetched so far.
    fn take_kept(&mut self, limits: ReadLimits) -> Result<usize, StoreError> {
        let mut bytes = self.rows.iter().map(Row::bytes).sum();
        while !self.exhausted && self.rows.len() < limits.rows && bytes < limits.bytes {
            let Some(row) = self.next_kept() else { break };
            self.bytes_read += row.bytes() as u64;
            self.scanned = Some(After::Event(row.position.clone()));
            let before = self.rows.len();
            self.exhausted = self.take_in(row)?;
            if !self.exhausted && self.has_met_the_end() {
                self.end()?;
            }
            bytes += self.rows.range(before..).map(Row::bytes).sum::<usize>();
        }
        Ok(bytes)
    }

    /// The block that comes next, if the cache has it and nothing can lie between.
    fn next_kept(&self) -> Option<Row> {
        let (cache, piece) = self.kept.as_ref()?;
        let after = match &self.scanned {
            None => None,
            Some(After::Event(position)) => Some(Place::of(position)),
            Some(After::Row(_)) => return None, // more of its event may follow
        };
        let end = Place::below(self.interval.end);
        match (self.direction, &self.met) {
            (Direction::Forward, Some(met)) => {
                cache.highest(piece, ..after.unwrap_or(end), |block| block.above.as_ref() == Some(met))
            }
            (Direction::Forward, None) => {
                let below = after.map_or(end.clone(), |after| after.min(end));
                cache.highest(piece, ..below, |block| self.begins_with(&block.newest, Some(block.above.as_ref())))
            }
            (Direction::Backward, met) => {
                let next = match met {
                    Some(_) => self.expected.as_ref()?,
                    None => &self.bounds.oldest,
                };
                let place = Place::of(next);
                cache.highest(piece, place.clone()..=place, |_| true)
            }
        }
    }

    fn keep(&self, block: Option<&Row>) {
        if let (Some((cache, piece)), Some(block)) = (&self.kept, block) {
            cache.keep(piece, block);
        }
    }

    /// What scans cover: down to the piece's end, because the block that holds the interval's start may lie below it.
    fn reach(&self) -> Interval {
        if self.beyond_bounds {
            return Interval::ALL;
        }
        Interval::new(self.bounds.oldest.time, self.interval.end)
    }

    /// Takes a stored row in. Says whether the read downwards has come to the end of its interval.
    fn take_in(&mut self, row: Row) -> Result<bool, StoreError> {
        let position = row.position.clone();
        let inside = self.bounds.oldest <= position && position <= self.bounds.newest;
        if !inside {
            return Err(self.damaged(&position, "lies outside of the piece"));
        }
        let below = position.time < self.interval.start;
        if row.item.key.is_block() {
            self.take_block(&row)?;
        } else {
            self.check_step(&position, &position, None)?;
            if self.is_wanted(&position) {
                self.rows.push_back(row);
            }
            self.counted = self.counted.map(|counted| counted + 1);
            self.met = Some(position);
        }
        Ok(below && self.direction == Direction::Forward)
    }

    fn take_block(&mut self, row: &Row) -> Result<(), StoreError> {
        let block = Block::open(row).map_err(|error| self.damaged(&row.position, &error.to_string()))?;
        let newest = block.positions().map_err(|error| self.damaged(&row.position, &error.to_string()))?.newest();
        if newest > self.bounds.newest {
            return Err(self.damaged(&newest, "lies outside of the piece"));
        }
        self.check_step(&newest, &row.position, Some(block.above()))?;
        let span = ScanSpan::Interval { interval: self.interval, after: self.after.clone().map(After::Event) };
        let rows = block.span(&span, self.direction).and_then(|range| block.rows(range, self.direction));
        match rows {
            Ok(rows) => {
                self.counted = self.counted.map(|counted| counted + rows.len() as u64);
                self.rows.extend(rows);
            }
            Err(error) => return Err(self.damaged(&row.position, &error.to_string())),
        }
        match self.direction {
            Direction::Forward => self.met = Some(row.position.clone()),
            Direction::Backward => {
                self.met = Some(newest);
                self.expected = block.above().cloned();
            }
        }
        Ok(())
    }

    fn is_wanted(&self, position: &Position) -> bool {
        let behind = self.after.as_ref().is_some_and(|after| match self.direction {
            Direction::Forward => position >= after,
            Direction::Backward => position <= after,
        });
        self.interval.contains(position.time) && !behind
    }

    /// Nothing may be missing between what was met before and the events from `newest` to `oldest`. `above` is what a block
    /// says of the event right above it; plain rows say nothing.
    fn check_step(
        &mut self,
        newest: &Position,
        oldest: &Position,
        above: Option<Option<&Position>>,
    ) -> Result<(), StoreError> {
        let fits = match (self.direction, &self.met) {
            (Direction::Forward, Some(met)) => {
                let same_event = above.is_none() && newest == met;
                same_event || (newest < met && above.is_none_or(|above| above == Some(met)))
            }
            (Direction::Forward, None) => self.begins_with(newest, above),
            (Direction::Backward, met) => {
                let as_expected = self.expected.take().is_none_or(|expected| expected == *oldest);
                let first = met.is_some() || self.scanned_from_inside() || *oldest == self.bounds.oldest;
                let same_event = above.is_none() && met.as_ref() == Some(oldest);
                as_expected && first && (same_event || met.as_ref().is_none_or(|met| met < oldest))
            }
        };
        if fits {
            Ok(())
        } else {
            Err(self.damaged(newest, "doesn't follow what lies before it: something is missing"))
        }
    }

    /// Downwards: whether nothing can be missing between where the read begins and the first row that it met.
    fn begins_with(&self, newest: &Position, above: Option<Option<&Position>>) -> bool {
        let after = self.after.as_ref().filter(|after| **after <= self.bounds.newest);
        let end = Some(self.interval.end).filter(|end| *end <= self.bounds.newest.time);
        if after.is_none() && end.is_none() {
            return *newest == self.bounds.newest;
        }
        // Plain rows don't say what lies above them.
        let Some(above) = above else { return true };
        let reaches = |position: &Position| {
            after.is_some_and(|after| position >= after) || end.is_some_and(|end| position.time >= end)
        };
        reaches(newest) || above.is_some_and(reaches)
    }

    /// Upwards: whether the read began in the middle.
    fn scanned_from_inside(&self) -> bool {
        self.lower_bound().is_some()
    }

    /// Whether the last block of the piece or of the interval was met, behind which there is nothing to ask for.
    fn has_met_the_end(&self) -> bool {
        if self.beyond_bounds {
            return false;
        }
        let end = match self.direction {
            Direction::Forward => &self.bounds.oldest,
            Direction::Backward => &self.bounds.newest,
        };
        let next_is_behind = self.expected.as_ref().is_some_and(|next| next.time >= self.interval.end);
        matches!(self.scanned, Some(After::Event(_))) && (self.met.as_ref() == Some(end) || next_is_behind)
    }

    /// Nothing may be missing where the piece ends.
    fn check_end(&self) -> Result<(), StoreError> {
        let (end, complete) = match self.direction {
            Direction::Forward => (&self.bounds.oldest, self.met.as_ref() == Some(&self.bounds.oldest)),
            Direction::Backward if self.interval.end > self.bounds.newest.time => {
                (&self.bounds.newest, self.met.as_ref() == Some(&self.bounds.newest))
            }
            // Where it begins something lies, however early it ends.
            Direction::Backward if self.met.is_none() => (&self.bounds.oldest, false),
            Direction::Backward => {
                let follows = self.expected.as_ref().is_none_or(|next| next.time >= self.interval.end);
                (&self.bounds.newest, follows)
            }
        };
        if !complete {
            return Err(self.damaged(end, "is missing at the end of the piece"));
        }
        // Plain rows don't tell what lies beside them; their number does.
        match self.counted.filter(|counted| *counted != self.bounds.rows) {
            Some(counted) => {
                let what = format!("ends a piece of {counted} rows instead of {}", self.bounds.rows);
                Err(self.damaged(end, &what))
            }
            None => Ok(()),
        }
    }

    /// Upwards: where the read begins, if not at the end of the piece.
    fn lower_bound(&self) -> Option<Lower> {
        let after = self.after.clone().filter(|after| *after >= self.bounds.oldest).map(Lower::Event);
        after.or(Some(self.interval.start).filter(|start| *start > self.bounds.oldest.time).map(Lower::Time))
    }

    /// Upwards: finds the row at or below where the read begins. If it is a block, what is wanted of it comes first.
    async fn seek(&mut self, timeout: Duration) -> Result<(), StoreError> {
        let Some(lower) = self.lower_bound() else { return Ok(()) };
        let end = match &lower {
            Lower::Event(position) => position.time.saturating_add(Duration::from_nanos(1)),
            Lower::Time(time) => *time,
        };
        let interval = Interval::new(self.bounds.oldest.time, end);
        if let Some(row) = self.sought_in_cache(&lower) {
            self.bytes_read += row.bytes() as u64;
            self.scanned = Some(After::Event(row.position.clone()));
            return self.take_block(&row);
        }
        let (mut after, mut max_rows) = (None, 1);
        loop {
            let span = ScanSpan::Interval { interval, after };
            let page = self.scan(span, Direction::Forward, max_rows, usize::MAX, timeout).await?;
            max_rows = SEEK_ROWS;
            after = page.rows.last().map(|row| After::Row(row.key()));
            let found = page.rows.into_iter().find(|row| lower.is_at_or_above(&row.position));
            if let Some(row) = found {
                self.scanned = Some(After::Event(row.position.clone()));
                if row.item.key.is_block() {
                    self.take_block(&row)?;
                    self.keep(Some(&row));
                } else {
                    self.met = Some(row.position);
                }
                return Ok(());
            }
            if !page.more || after.is_none() {
                return Err(self.damaged(&self.bounds.oldest, "is missing at the end of the piece"));
            }
        }
    }

    /// Upwards: the block at or below where the read begins, if the cache has it and it is the highest.
    fn sought_in_cache(&self, lower: &Lower) -> Option<Row> {
        let (cache, piece) = self.kept.as_ref()?;
        let end = match lower {
            Lower::Event(position) => Bound::Included(Place::of(position)),
            Lower::Time(time) => Bound::Excluded(Place::below(*time)),
        };
        cache.highest(piece, (Bound::Unbounded, end), |block| {
            block.above.as_ref().is_none_or(|above| !lower.is_at_or_above(above))
        })
    }

    async fn scan(
        &mut self,
        span: ScanSpan,
        direction: Direction,
        max_rows: usize,
        max_bytes: usize,
        timeout: Duration,
    ) -> Result<ScanPage, StoreError> {
        let (table, partition) = (self.table.clone(), self.partition.clone());
        let page = self.store.scan(&Scan { table, partition, span, direction, max_rows, max_bytes, timeout }).await?;
        self.bytes_read += page.rows.iter().map(|row| row.bytes() as u64).sum::<u64>();
        Ok(page)
    }

    fn damaged(&self, position: &Position, what: &str) -> StoreError {
        let (table, bucket) = (&self.table, self.partition.event_bucket.0);
        StoreError::Corrupt { reason: format!("the piece in {table}, bucket {bucket}: {position:?} {what}") }
    }
}

enum Lower {
    Event(Position),
    Time(Timestamp),
}

impl Lower {
    /// Whether nothing at or below `position` is wanted but what a block keyed there holds above it.
    fn is_at_or_above(&self, position: &Position) -> bool {
        match self {
            Lower::Event(lower) => position <= lower,
            Lower::Time(time) => position.time < *time,
        }
    }
}

#[cfg(test)]
mod tests;

//! The one way to read a partition: rows in order, a page ahead, whatever the direction.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use anabranch_model::{Interval, Order, PartitionKey, Row, TableName};

use crate::{After, Direction, Scan, ScanSpan, Store, StoreError};

/// How much one fetch may bring.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// The most rows.
    pub rows: usize,
    /// The most bytes; one row is always allowed.
    pub bytes: usize,
    /// How long it may take.
    pub timeout: Duration,
}

/// Reads the rows of one partition in an interval. Holds at most one fetch in memory.
pub struct PartitionReader {
    store: Arc<dyn Store>,
    table: TableName,
    partition: PartitionKey,
    interval: Interval,
    direction: Direction,
    after: Option<After>,
    rows: VecDeque<Row>,
    exhausted: bool,
    bytes_read: u64,
}

impl PartitionReader {
    /// Begins at the interval's bound, or after `after`. Reads nothing yet.
    pub fn new(
        store: Arc<dyn Store>,
        table: TableName,
        partition: PartitionKey,
        interval: Interval,
        order: Order,
        after: Option<After>,
    ) -> Self {
        let direction = Direction::from(order);
        let exhausted = interval.is_empty();
        let rows = VecDeque::new();
        PartitionReader { store, table, partition, interval, direction, after, rows, exhausted, bytes_read: 0 }
    }

    /// The next row that was fetched, in the scan's direction: items of an event *descend* when the oldest come first.
    #[inline]
    pub fn peek(&self) -> Option<&Row> {
        self.rows.front()
    }

    /// Takes the next row that was fetched.
    #[inline]
    pub fn take(&mut self) -> Option<Row> {
        self.rows.pop_front()
    }

    /// The rows that were fetched, to be taken from the front.
    pub fn rows(&mut self) -> &mut VecDeque<Row> {
        &mut self.rows
    }

    /// Takes all rows that were fetched.
    pub fn take_all(&mut self) -> VecDeque<Row> {
        std::mem::take(&mut self.rows)
    }

    /// How many rows have been fetched and not taken.
    #[inline]
    pub fn fetched(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is nothing more to fetch.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Bytes fetched so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Which partition this is.
    pub fn partition(&self) -> &PartitionKey {
        &self.partition
    }

    /// Which table it is in.
    pub fn table(&self) -> &TableName {
        &self.table
    }

    /// Fetches rows after those fetched before. Does nothing when there are none.
    pub async fn fetch(&mut self, limits: ReadLimits) -> Result<(), StoreError> {
        if self.exhausted {
            return Ok(());
        }
        let span = ScanSpan::Interval { interval: self.interval, after: self.after.clone() };
        let page = self.store.scan(&self.scan(span, self.direction, limits)).await?;
        self.exhausted = !page.more;
        if let Some(last) = page.rows.last() {
            self.after = Some(After::Row(last.key()));
        } else if page.more {
            // A back end may come back empty-handed (all tombstones, say), but then it can't tell where to go on.
            return Err(StoreError::Unavailable { reason: "an empty page that says more would follow".to_owned() });
        }
        self.bytes_read += page.rows.iter().map(|row| row.bytes() as u64).sum::<u64>();
        if self.rows.is_empty() {
            self.rows = page.rows.into();
        } else {
            self.rows.extend(page.rows);
        }
        Ok(())
    }

    /// Forgets what was fetched and goes on after `after`.
    pub fn skip_to(&mut self, after: After) {
        self.rows.clear();
        self.after = Some(after);
        self.exhausted = false;
    }

    /// Reads rows of a single event of this partition, ascending by key, beside the scan.
    pub async fn fetch_event(&mut self, span: ScanSpan, limits: ReadLimits) -> Result<crate::ScanPage, StoreError> {
        let page = self.store.scan(&self.scan(span, Direction::Forward, limits)).await?;
        self.bytes_read += page.rows.iter().map(|row| row.bytes() as u64).sum::<u64>();
        Ok(page)
    }

    fn scan(&self, span: ScanSpan, direction: Direction, limits: ReadLimits) -> Scan {
        Scan {
            table: self.table.clone(),
            partition: self.partition.clone(),
            span,
            direction,
            max_rows: limits.rows.max(1),
            max_bytes: limits.bytes.max(1),
            timeout: limits.timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use anabranch_runtime::Env;

    use super::*;
    use crate::{
        ErrorKind, MemoryStore,
        suite::{
            fixture::{
                Draw, EVER, TIMEOUT, interval, item_key, make_table, partition, position, row, table, within, write,
            },
            model::Rows,
        },
    };

    const ORDERS: [(Order, Direction); 2] =
        [(Order::LatestFirst, Direction::Forward), (Order::OldestFirst, Direction::Backward)];

    fn limits(rows: usize, bytes: usize) -> ReadLimits {
        ReadLimits { rows, bytes, timeout: TIMEOUT }
    }

    async fn store_with(rows: &[Row]) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Env::system()));
        let table = make_table(&store, "data_20260328").await;
        write(&store, &table, &partition("s", 0, 0), rows).await;
        store
    }

    fn reader(store: &Arc<dyn Store>, interval: Interval, order: Order, after: Option<After>) -> PartitionReader {
        PartitionReader::new(store.clone(), table("data_20260328"), partition("s", 0, 0), interval, order, after)
    }

    async fn read_to_the_end(reader: &mut PartitionReader, limits: ReadLimits) -> Vec<Row> {
        let mut rows = Vec::new();
        while !reader.is_exhausted() {
            reader.fetch(limits).await.unwrap();
            assert!(reader.fetched() <= limits.rows.max(1));
            while let Some(next) = reader.peek().cloned() {
                assert_eq!(reader.take().as_ref(), Some(&next));
                rows.push(next);
            }
        }
        rows
    }

    #[tokio::test]
    async fn every_row_comes_once_and_in_order_whatever_the_limits() {
        for seed in 0..5 {
            let rows = Rows::drawn(&mut Draw::new(seed), 30);
            let store = store_with(rows.as_slice()).await;
            let bytes: usize = rows.as_slice().iter().map(Row::bytes).sum();
            for (order, direction) in ORDERS {
                for (max_rows, max_bytes) in
                    [(0, 0), (1, 1), (1, usize::MAX), (2, 100), (7, usize::MAX), (1000, 1), (1000, 200)]
                {
                    let mut reader = reader(&store, EVER, order, None);
                    let found = read_to_the_end(&mut reader, limits(max_rows, max_bytes)).await;
                    assert_eq!(found, rows.of_span(&within(EVER), direction), "seed {seed}, {max_rows}, {max_bytes}");
                    assert_eq!(reader.bytes_read(), bytes as u64);
                }
            }
        }
    }

    #[tokio::test]
    async fn it_begins_after_a_place_and_stays_inside_its_interval() {
        let rows = Rows::new((0..10).flat_map(|time| ["a", "b"].map(|key| row(time, "e", key, "v"))).collect());
        let store = store_with(rows.as_slice()).await;
        for (order, direction) in ORDERS {
            for after in [After::Event(position(5, "e")), After::Row(row(5, "e", "a", "").key())] {
                let span = ScanSpan::Interval { interval: interval(2, 8), after: Some(after.clone()) };
                let mut reader = reader(&store, interval(2, 8), order, Some(after));
                let found = read_to_the_end(&mut reader, limits(1, 1)).await;
                assert_eq!(found, rows.of_span(&span, direction));
                assert!(!found.is_empty());
            }
        }
    }

    #[tokio::test]
    async fn nothing_is_fetched_before_it_is_asked_for_or_after_the_end() {
        let store = store_with(&[row(1, "e", "k", "v")]).await;
        let mut empty = reader(&store, interval(5, 5), Order::LatestFirst, None);
        assert!(empty.is_exhausted());
        empty.fetch(limits(10, 10)).await.unwrap();
        assert_eq!((empty.fetched(), empty.bytes_read()), (0, 0));

        let mut reader = reader(&store, EVER, Order::LatestFirst, None);
        assert!(reader.peek().is_none() && !reader.is_exhausted());
        reader.fetch(limits(10, 1000)).await.unwrap();
        store.drop_table(&table("data_20260328")).await.unwrap();
        reader.fetch(limits(10, 1000)).await.expect("at the end nothing more is asked of the store");
        assert_eq!(reader.take(), Some(row(1, "e", "k", "v")));
    }

    #[tokio::test]
    async fn rows_fetched_ahead_stay_in_order_with_those_fetched_later() {
        let rows = Rows::new((0..9).map(|time| row(time, "e", "k", "v")).collect());
        let store = store_with(rows.as_slice()).await;
        let mut reader = reader(&store, EVER, Order::LatestFirst, None);
        for fetched in [4, 8, 9] {
            reader.fetch(limits(4, usize::MAX)).await.unwrap();
            assert_eq!(reader.fetched(), fetched);
        }
        let found: Vec<Row> = std::iter::from_fn(|| reader.take()).collect();
        assert_eq!(found, rows.as_slice());
    }

    #[tokio::test]
    async fn skipping_forgets_what_was_fetched() {
        let rows: Vec<Row> = (0..10).rev().map(|time| row(time, "e", "k", "v")).collect();
        let store = store_with(&rows).await;
        let mut reader = reader(&store, EVER, Order::LatestFirst, None);
        reader.fetch(limits(100, usize::MAX)).await.unwrap();
        assert!(reader.is_exhausted());
        reader.skip_to(After::Event(position(4, "e")));
        assert_eq!(reader.fetched(), 0);
        assert_eq!(read_to_the_end(&mut reader, limits(3, usize::MAX)).await, rows[6..]);
    }

    #[tokio::test]
    async fn items_of_one_event_ascend_beside_a_scan_in_either_order() {
        let rows: Vec<Row> = ["a", "b", "c", "d"].map(|key| row(1, "e", key, "v")).to_vec();
        let store = store_with(&rows).await;
        for (order, _) in ORDERS {
            let mut reader = reader(&store, EVER, order, None);
            let span = ScanSpan::Event { position: position(1, "e"), from: Bound::Excluded(item_key("a")) };
            let page = reader.fetch_event(span, limits(2, usize::MAX)).await.unwrap();
            assert_eq!((&page.rows[..], page.more), (&rows[1..3], true));
            assert_eq!(reader.bytes_read(), rows[1..3].iter().map(|row| row.bytes() as u64).sum::<u64>());
            assert_eq!(
                read_to_the_end(&mut reader, limits(10, usize::MAX)).await.len(),
                4,
                "the scan stands where it stood"
            );
        }
    }

    #[tokio::test]
    async fn an_error_leaves_the_reader_where_it_was() {
        let rows: Vec<Row> = (0..4).rev().map(|time| row(time, "e", "k", "v")).collect();
        let store = store_with(&rows).await;
        let mut reader = reader(&store, EVER, Order::LatestFirst, None);
        reader.fetch(limits(2, usize::MAX)).await.unwrap();
        let table = table("data_20260328");
        store.drop_table(&table).await.unwrap();
        let failed = reader.fetch(limits(2, usize::MAX)).await;
        assert_eq!(failed.map_err(|error| error.kind()), Err(ErrorKind::NoSuchTable));
        assert!(!reader.is_exhausted());
        store.create_table(&table).await.unwrap();
        write(&store, &table, &partition("s", 0, 0), &rows).await;
        assert_eq!(reader.take(), Some(rows[0].clone()));
        assert_eq!(reader.take(), Some(rows[1].clone()));
        assert_eq!(read_to_the_end(&mut reader, limits(2, usize::MAX)).await, rows[2..]);
    }
}

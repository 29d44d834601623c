//! Which partitions there are, and how big. Partitions of a series lie side by side, so the next one that holds a row
//! is found by one look at the table, however many empty ones lie between; no filter of partition keys is needed.

use std::{
    ops::{Range, RangeInclusive},
    sync::{Arc, atomic::Ordering},
};

use anabranch_model::{
    EventBucket, PartitionKey, TableName, TimeBucket, TimeSeriesId,
    key::{decode_partition, encode_series, series_token},
};
use anabranch_store::{Direction, PartitionSize, Sample, StoreError};
use fjall::{Iter, Readable, Snapshot};

use crate::{
    database::{Database, Table},
    error,
    layout::{above, row_bytes},
};

/// Small partitions are stepped over row by row: cheaper than a look for the next one.
const STEPS: usize = 8;

/// The partitions of a series that hold a row.
pub(crate) fn occupied(
    database: &Database,
    table: &TableName,
    series: &TimeSeriesId,
    buckets: RangeInclusive<TimeBucket>,
    direction: Direction,
    limit: usize,
) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
    let mut prefix = Vec::with_capacity(series.len() + 16);
    encode_series(series, &mut prefix);
    let bound = |bucket: TimeBucket| [prefix.as_slice(), &bucket.0.to_be_bytes()].concat();
    let reader = Reader::new(database, table)?;
    if buckets.is_empty() {
        return Ok(Vec::new());
    }
    // The byte after the series is 0, so there is something above.
    let end = above(bound(*buckets.end())).or_else(|| above(prefix.clone())).unwrap_or_default();
    let mut keys = bound(*buckets.start())..end;
    let mut found = Vec::new();
    while found.len() < limit && keys.start < keys.end {
        let mut entries = reader.seek(keys.clone());
        let mut last: Option<Vec<u8>> = None;
        let mut steps = 0;
        loop {
            let entry = match direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some(entry) = entry else { return Ok(found) };
            let key = entry.key().map_err(|error| error::read(&error))?;
            if last.as_ref().is_some_and(|last| key.starts_with(last)) {
                steps += 1;
                if steps == STEPS {
                    break;
                }
                continue;
            }
            if found.len() == limit {
                return Ok(found);
            }
            let (partition, length) = reader.partition(&key)?;
            found.push((partition.time_bucket, partition.event_bucket));
            last = Some(key[..length].to_vec());
            steps = 0;
        }
        match (direction, last) {
            (Direction::Forward, Some(last)) => keys.start = above(last).unwrap_or_else(|| keys.end.clone()),
            (Direction::Backward, Some(last)) => keys.end = last,
            (_, None) => break,
        }
    }
    Ok(found)
}

/// Sizes of partitions in token order. A place in the table is a token (upper half) and how many partitions of this
/// token come before (lower half).
pub(crate) fn sample(database: &Database, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
    if limit == 0 {
        return Err(error::refused("a sample of no partitions"));
    }
    let reader = Reader::new(database, table)?;
    let mut sample = Sample::default();
    let first_token = (from >> 32) as u32;
    let mut skip = from as u32;
    let (mut token, mut rank) = (first_token, 0u32);
    let mut start = first_token.to_be_bytes().to_vec();
    let mut entries = reader.seek_from(&start);
    let mut pending = None;
    loop {
        let entry = match pending.take() {
            Some(entry) => Some(entry),
            None => entries.next().map(|entry| entry.into_inner().map_err(|error| error::read(&error))).transpose()?,
        };
        let Some((key, value)) = entry else { return Ok(sample) };
        let (partition, length) = reader.partition(&key)?;
        let its_token = series_token(&partition.series);
        if its_token != token {
            (token, rank, skip) = (its_token, 0, 0);
        }
        if rank < skip {
            // Only passed over, not read: look for what follows it.
            rank += 1;
            let Some(after) = above(key[..length].to_vec()) else { return Ok(sample) };
            start = after;
            entries = reader.seek_from(&start);
            continue;
        }
        if sample.partitions.len() == limit {
            sample.next = Some(u64::from(token) << 32 | u64::from(rank));
            return Ok(sample);
        }
        let (size, next) = reader.measure(partition, &key[..length], (&key, &value), &mut entries)?;
        sample.partitions.push(size);
        rank += 1;
        pending = next;
    }
}

struct Reader<'a> {
    database: &'a Database,
    name: &'a TableName,
    /// Held as long as the iterators: they need it even when the table is dropped meanwhile.
    table: Arc<Table>,
    snapshot: Arc<Snapshot>,
}

impl<'a> Reader<'a> {
    fn new(database: &'a Database, name: &'a TableName) -> Result<Self, StoreError> {
        Ok(Reader { database, name, table: database.table(name)?, snapshot: database.visible() })
    }

    fn seek(&self, keys: Range<Vec<u8>>) -> Iter {
        self.database.counters.seeks.fetch_add(1, Ordering::Relaxed);
        self.snapshot.range(&self.table.keyspace, keys)
    }

    fn seek_from(&self, start: &[u8]) -> Iter {
        self.database.counters.seeks.fetch_add(1, Ordering::Relaxed);
        self.snapshot.range(&self.table.keyspace, start..)
    }

    fn partition(&self, key: &[u8]) -> Result<(PartitionKey, usize), StoreError> {
        decode_partition(key).ok_or_else(|| self.damaged(key))
    }

    /// Adds up a partition from its first row on; gives back the row that follows it.
    fn measure(
        &self,
        partition: PartitionKey,
        prefix: &[u8],
        first: (&[u8], &[u8]),
        entries: &mut Iter,
    ) -> Result<(PartitionSize, Option<fjall::KvPair>), StoreError> {
        let row = |key: &[u8], value: &[u8]| row_bytes(&key[prefix.len()..], value).ok_or_else(|| self.damaged(key));
        let mut size = PartitionSize { partition, rows: 1, bytes: row(first.0, first.1)? };
        for entry in entries {
            let (key, value) = entry.into_inner().map_err(|error| error::read(&error))?;
            if !key.starts_with(prefix) {
                return Ok((size, Some((key, value))));
            }
            size.rows += 1;
            size.bytes += row(&key, &value)?;
        }
        Ok((size, None))
    }

    fn damaged(&self, key: &[u8]) -> StoreError {
        StoreError::Corrupt {
            reason: format!("a row of table {} can't be read; its key is `{}`", self.name, key.escape_ascii()),
        }
    }
}

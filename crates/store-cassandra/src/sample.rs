//! Sizes of partitions by token range. Cassandra keeps partitions in the order of their tokens' hashes, so equal steps
//! through the tokens are fair steps through the partitions.

use anabranch_model::{EventBucket, PartitionKey, Row, TableName, TimeBucket, TimeSeriesId};
use anabranch_store::{Direction, PartitionSize, Sample, Scan, ScanSpan, StoreError};
use futures_util::{StreamExt, TryStreamExt, stream};
use scylla::response::{PagingState, query_result::QueryResult};

use crate::{
    error::corrupt,
    scan::Terms,
    statements::{KnownTable, Shape},
    store::{Inside, Reach},
};

/// Keys of one answer.
const KEYS: usize = 1000;
/// Partitions that are measured at once: a sample may not crowd out reads.
const IN_FLIGHT: usize = 4;
/// Rows and bytes of one step through a partition that is measured.
const STEP_ROWS: usize = 5000;
const STEP_BYTES: usize = 1 << 20;
/// A sample that has read so much ends: others wait for its permit.
const ENOUGH_BYTES: u64 = 32 << 20;

impl Inside {
    /// Up to `limit` partitions, from a token on; fewer where they are large.
    pub(crate) async fn sample(&self, name: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        let table = self.table(name)?;
        let keys = self.partitions_from(name, &table, from, limit.saturating_add(1)).await?;
        let asked: Vec<PartitionKey> = keys.iter().take(limit).map(|(partition, _)| partition.clone()).collect();
        let mut sizes = stream::iter(asked).map(|partition| self.measure(name, &table, partition)).buffered(IN_FLIGHT);
        let (mut partitions, mut bytes) = (Vec::new(), 0);
        while bytes < ENOUGH_BYTES
            && let Some(size) = sizes.try_next().await?
        {
            bytes += size.bytes;
            partitions.push(size);
        }
        let next = keys.get(partitions.len()).map(|(_, token)| place_of(*token));
        Ok(Sample { partitions, next })
    }

    /// Keys of partitions with their tokens, in order.
    async fn partitions_from(
        &self,
        name: &TableName,
        table: &KnownTable,
        from: u64,
        count: usize,
    ) -> Result<Vec<(PartitionKey, i64)>, StoreError> {
        let mut keys = Vec::new();
        let mut state = PagingState::start();
        loop {
            let wanted = (count - keys.len()).min(KEYS);
            let values = (token_of(from),);
            let terms = self.sample_terms();
            let answer = self.read_answer(table, Shape::Partitions, &values, wanted, state, terms).await;
            let (answer, next) = match answer {
                Ok(answer) => answer,
                Err(failure) => return Err(self.explain_read(name, table, failure, terms.deadline).await),
            };
            keys.extend(keys_of(answer)?);
            keys.truncate(count);
            match next {
                Some(next) if keys.len() < count => state = next,
                _ => return Ok(keys),
            }
        }
    }

    /// Reads a partition from end to end, in steps.
    async fn measure(
        &self,
        name: &TableName,
        table: &KnownTable,
        partition: PartitionKey,
    ) -> Result<PartitionSize, StoreError> {
        let mut size = PartitionSize { partition: partition.clone(), rows: 0, bytes: 0 };
        let mut after = None;
        loop {
            let scan = Scan {
                table: name.clone(),
                partition: partition.clone(),
                span: ScanSpan::Interval { interval: EVER, after },
                direction: Direction::Forward,
                max_rows: STEP_ROWS,
                max_bytes: STEP_BYTES,
                timeout: self.options.metadata_timeout,
            };
            let page = self.page(table, &scan, Reach::Here).await?;
            size.rows += page.rows.len() as u64;
            size.bytes += page.rows.iter().map(|row| Row::bytes(row) as u64).sum::<u64>();
            after = page.rows.last().map(|row| anabranch_store::After::Row(row.key()));
            if !page.more {
                return Ok(size);
            }
        }
    }

    fn sample_terms(&self) -> Terms {
        Terms { deadline: self.env.monotonic().saturating_add(self.options.metadata_timeout), reach: Reach::Here }
    }
}

/// Every time that a row may have.
const EVER: anabranch_model::Interval = anabranch_model::Interval::ALL;

type KeyColumns = (String, i64, i64, i64);

fn keys_of(answer: QueryResult) -> Result<Vec<(PartitionKey, i64)>, StoreError> {
    let answer = answer.into_rows_result().map_err(|error| corrupt("an answer without rows", error))?;
    let rows = answer.rows::<KeyColumns>().map_err(|error| corrupt("a table of other columns", error))?;
    rows.map(|row| {
        let (series, time_bucket, event_bucket, token) = row.map_err(|error| corrupt("a partition's key", error))?;
        let bucket = |number: i64| u32::try_from(number).map_err(|error| corrupt("a bucket", error));
        let partition = PartitionKey {
            series: TimeSeriesId::new(series).map_err(|error| corrupt("a series", error))?,
            time_bucket: TimeBucket(bucket(time_bucket)?),
            event_bucket: EventBucket(bucket(event_bucket)?),
        };
        Ok((partition, token))
    })
    .collect()
}

/// Tokens are signed, places of the contract aren't: the order is the same.
fn token_of(place: u64) -> i64 {
    (place ^ (1 << 63)) as i64
}

fn place_of(token: i64) -> u64 {
    (token as u64) ^ (1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_tokens_are_in_the_same_order() {
        let tokens = [i64::MIN, -1, 0, 1, i64::MAX];
        let places = tokens.map(place_of);
        assert!(places.is_sorted());
        assert_eq!(places.map(token_of), tokens);
        assert_eq!((places[0], places[4]), (0, u64::MAX));
    }
}

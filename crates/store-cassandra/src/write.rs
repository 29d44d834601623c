//! Writing batches. A batch is one mutation of one partition, so each replica takes all of it or nothing; one that is
//! too large for a single mutation is cut between events.

use std::time::Duration;

use anabranch_model::Row;
use anabranch_store::{PartitionBatch, StoreError};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use scylla::{
    client::execution_profile::ExecutionProfileHandle,
    statement::batch::{Batch, BatchStatement, BatchType},
};

use crate::{
    error::{Failure, Fate, refused, unavailable, unknown},
    scan::partition_values,
    statements::{KnownTable, Shape},
    store::{Inside, Reach},
};

/// Batches of one call that are under way at once.
const IN_FLIGHT: usize = 32;
/// No more statements fit into one batch of the protocol.
const MAX_ROWS: usize = u16::MAX as usize;
/// Cassandra takes no larger request or mutation (half of a segment of its commit log), and rows grow on the way.
const MAX_EVENT_BYTES: usize = 12 << 20;
/// What a row takes in a request beside its own bytes and its series: which statement it is, the lengths of values, numbers.
const ROW_OVERHEAD: usize = 88;
/// An attempt that isn't answered gets this part of the call's time, so that there is some left for another node.
const ATTEMPT_SHARE: u32 = 3;
const LEAST_ATTEMPT: Duration = Duration::from_millis(500);
/// Between two attempts after "not available": a node that was lost is noticed meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

type RowValues<'a> = (&'a str, i64, i64, i64, &'a str, &'a str, (&'a Bytes, Option<&'a Bytes>));

impl Inside {
    /// Writes batches and answers for each, in their order.
    pub(crate) async fn write(
        &self,
        batches: Vec<PartitionBatch>,
        timeout: Duration,
        reach: Reach,
    ) -> Vec<Result<(), StoreError>> {
        let changes = match reach {
            Reach::Here => &self.profiles.changes,
            Reach::Everywhere => &self.profiles.changes_everywhere,
        };
        let deadline = self.env.monotonic().saturating_add(timeout);
        let share = (timeout / ATTEMPT_SHARE).max(LEAST_ATTEMPT);
        // One needs no queue, which would wake its task once for nothing.
        if let [batch] = &batches[..] {
            return vec![self.write_batch(batch, changes, deadline, share).await];
        }
        stream::iter(batches)
            .map(|batch| async move { self.write_batch(&batch, changes, deadline, share).await })
            .buffered(IN_FLIGHT)
            .collect()
            .await
    }

    async fn write_batch(
        &self,
        batch: &PartitionBatch,
        changes: &ExecutionProfileHandle,
        deadline: Duration,
        share: Duration,
    ) -> Result<(), StoreError> {
        if batch.rows.is_empty() {
            return Err(refused("a batch without rows"));
        }
        let table = self.table(&batch.table)?;
        if let Some(largest) = batch.rows.iter().map(Row::bytes).max() {
            table.row_size.saw(largest);
        }
        let series = batch.partition.series.as_str().len();
        let mut parts = parts(&batch.rows, series, self.options.max_batch_bytes)?.into_iter();
        let mut outcome = Ok(());
        let mut written = false;
        while let (Ok(()), Some(part)) = (&outcome, parts.next()) {
            outcome = self.write_part(&table, batch, &part, changes, deadline, share).await;
            written |= outcome.is_ok();
        }
        outcome.map_err(|error| match error {
            // With the table everything in it is gone.
            StoreError::NoSuchTable { .. } => error,
            // Some events are stored already.
            error if written => unknown(error.to_string()),
            error => error,
        })
    }

    /// Writes some events of a batch, as often as it takes and the time allows.
    async fn write_part(
        &self,
        table: &KnownTable,
        batch: &PartitionBatch,
        rows: &[&Row],
        changes: &ExecutionProfileHandle,
        deadline: Duration,
        share: Duration,
    ) -> Result<(), StoreError> {
        let mut may_be_written = false;
        loop {
            let left = deadline.saturating_sub(self.env.monotonic());
            let Err(error) = self.attempt(table, batch, rows, changes, left.min(share)).await else { return Ok(()) };
            let fate = error.fate();
            may_be_written |= fate == Fate::Unknown;
            if matches!(fate, Fate::NotUnderstood | Fate::Refused) || self.is_over(deadline) {
                return Err(self.explain_write(table, batch, &error, may_be_written, deadline).await);
            }
            if self.is_gone(table, deadline).await {
                return Err(self.no_such_table(&batch.table));
            }
            self.env.sleep(PAUSE).await;
        }
    }

    async fn attempt(
        &self,
        table: &KnownTable,
        batch: &PartitionBatch,
        rows: &[&Row],
        changes: &ExecutionProfileHandle,
        timeout: Duration,
    ) -> Result<(), Failure> {
        let deadline = self.env.monotonic().saturating_add(timeout);
        let mut insert = self.statement(table, Shape::Insert, deadline).await?;
        let partition = partition_values(&batch.partition);
        let values = |row| row_values(partition, row);
        if let [row] = rows {
            insert.set_timestamp(Some(batch.write_time_micros));
            insert.set_request_timeout(Some(timeout));
            insert.set_execution_profile_handle(Some(changes.clone()));
            return Ok(self.session.execute_unpaged(&insert, values(row)).await.map(drop)?);
        }
        let statements = vec![BatchStatement::from(insert); rows.len()];
        let mut together = Batch::new_with_statements(BatchType::Unlogged, statements);
        together.set_is_idempotent(true);
        together.set_timestamp(Some(batch.write_time_micros));
        together.set_request_timeout(Some(timeout));
        together.set_execution_profile_handle(Some(changes.clone()));
        let values: Vec<RowValues<'_>> = rows.iter().map(|row| values(row)).collect();
        Ok(self.session.batch(&together, values).await.map(drop)?)
    }

    /// What to answer for the last of some attempts.
    async fn explain_write(
        &self,
        table: &KnownTable,
        batch: &PartitionBatch,
        error: &Failure,
        may_be_written: bool,
        deadline: Duration,
    ) -> StoreError {
        if self.is_gone(table, deadline).await {
            return self.no_such_table(&batch.table);
        }
        let reason = error.to_string();
        match error.fate() {
            // An earlier attempt may have arrived: the last one doesn't make that undone.
            _ if may_be_written => unknown(reason),
            Fate::NotDone | Fate::Unknown => unavailable(reason),
            // The table is there, but not yet on the node that was asked.
            Fate::NotUnderstood if reason.contains("does not exist") => unavailable(reason),
            Fate::NotUnderstood | Fate::Refused => refused(reason),
        }
    }

    fn is_over(&self, deadline: Duration) -> bool {
        self.env.monotonic().saturating_add(PAUSE) >= deadline
    }
}

fn row_values<'a>((series, time_bucket, event_bucket): (&'a str, i64, i64), row: &'a Row) -> RowValues<'a> {
    let item = (&row.item.value, row.item.metadata.as_ref());
    let (time, id, key) = (row.position.time.nanos(), row.position.id.as_str(), row.item.key.as_str());
    (series, time_bucket, event_bucket, time, id, key, item)
}

/// The rows in parts of at most `max_bytes` as they are sent, each event in one of them. Every row names its series, of `series` bytes.
fn parts(rows: &[Row], series: usize, max_bytes: usize) -> Result<Vec<Vec<&Row>>, StoreError> {
    let sent = |row: &Row| row.bytes() + series + ROW_OVERHEAD;
    let bytes: usize = rows.iter().map(sent).sum();
    if bytes <= max_bytes.min(MAX_EVENT_BYTES) && rows.len() <= MAX_ROWS {
        return Ok(vec![rows.iter().collect()]);
    }
    let mut sorted: Vec<&Row> = rows.iter().collect();
    // Stable: of two rows with the same key the later one comes later.
    sorted.sort_by(|left, right| left.position.cmp(&right.position));
    let mut parts: Vec<Vec<&Row>> = Vec::new();
    let mut part_bytes = 0;
    for event in sorted.chunk_by(|left, right| left.position == right.position) {
        let event_bytes: usize = event.iter().map(|row| sent(row)).sum();
        if event_bytes > MAX_EVENT_BYTES || event.len() > MAX_ROWS {
            let position = &event[0].position;
            let size = format!("{event_bytes} bytes in {} items", event.len());
            return Err(refused(format!("event {} at {} is too large: {size}", position.id, position.time)));
        }
        match parts.last_mut() {
            Some(part) if part_bytes + event_bytes <= max_bytes && part.len() + event.len() <= MAX_ROWS => {
                part.extend(event);
                part_bytes += event_bytes;
            }
            _ => {
                parts.push(event.to_vec());
                part_bytes = event_bytes;
            }
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use anabranch_store::suite::fixture::row;

    use super::*;

    const SERIES: usize = 7;

    fn sent(rows: &[&Row]) -> usize {
        rows.iter().map(|row| row.bytes() + SERIES + ROW_OVERHEAD).sum()
    }

    #[test]
    fn a_batch_that_is_too_large_is_cut_between_events_only() {
        let rows: Vec<Row> = (0..100).map(|at| row(at % 10, "e", &format!("k{at}"), &"v".repeat(100))).collect();
        let bytes = sent(&rows.iter().collect::<Vec<_>>());
        for max_bytes in [1, bytes / 4, bytes / 2, bytes - 1, bytes] {
            let parts = parts(&rows, SERIES, max_bytes).unwrap();
            let mut seen: Vec<&Row> = parts.iter().flatten().copied().collect();
            assert_eq!(seen.len(), rows.len());
            seen.sort_by_key(|row| row.item.key.as_str());
            seen.dedup();
            assert_eq!(seen.len(), rows.len(), "no row is lost or written twice");
            for time in 0..10 {
                let holders = parts.iter().filter(|part| part.iter().any(|row| row.position.time.nanos() == time));
                assert_eq!(holders.count(), 1, "event {time} at {max_bytes} bytes");
            }
            let too_large = parts.iter().filter(|part| sent(part) > max_bytes);
            assert!(too_large.count() == 0 || max_bytes == 1, "{max_bytes}");
        }
        assert_eq!(parts(&rows, SERIES, bytes).unwrap().len(), 1);
    }

    /// Each row of a request names its series: of small items that is most of what is sent.
    #[test]
    fn a_long_series_and_small_items_make_no_request_that_is_larger_than_allowed() {
        const MAX_BYTES: usize = 1 << 20;
        let rows: Vec<Row> = (0..60_000).map(|at| row(at, "e", "k", "")).collect();
        assert!(rows.iter().map(Row::bytes).sum::<usize>() < MAX_BYTES, "by themselves they would fit");
        let parts = parts(&rows, 256, MAX_BYTES).unwrap();
        let request = |rows: usize| rows * (256 + ROW_OVERHEAD);
        assert!(parts.iter().all(|part| request(part.len()) < MAX_BYTES));
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), rows.len());
    }

    #[test]
    fn an_event_that_no_mutation_can_hold_is_refused_by_name() {
        let value = "v".repeat(MAX_EVENT_BYTES / 2);
        let rows = [row(1, "small", "k", "v"), row(2, "big", "a", &value), row(2, "big", "b", &value)];
        for max_bytes in [1000, usize::MAX] {
            let error = parts(&rows, SERIES, max_bytes).unwrap_err().to_string();
            assert!(error.contains("big"), "{error}");
        }
    }
}

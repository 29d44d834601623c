//! The way of a write: check every event, then find its partition, check the window once more, store one atomic batch
//! per partition, and acknowledge only what is durable and still in time.

pub(crate) mod admit;
pub(crate) mod queue;

use std::time::Duration;

use anabranch_model::{Event, PartitionKey, Row, Slice, Timestamp};
use anabranch_runtime::HashMap;
use anabranch_store::{ErrorKind as StoreErrorKind, PartitionBatch, StoreError};
use bytes::Bytes;

use crate::{
    EngineError, ErrorKind, WriteOutcome,
    engine::Engine,
    registry::Namespace,
    write::admit::{Admission, admit, refuse_outside_window},
};

/// Events to write, as they came in.
#[derive(Clone, Debug, Default)]
pub struct WriteRequest {
    /// Where to.
    pub namespace: String,
    /// What, not yet checked.
    pub events: Vec<EventInput>,
    /// How long the client will wait; the namespace's limit holds too.
    pub timeout: Option<Duration>,
}

/// An event as it came in.
#[derive(Clone, Debug, Default)]
pub struct EventInput {
    /// Whose history.
    pub series: String,
    /// When; `None` when it was absent.
    pub time: Option<TimeInput>,
    /// Tells apart events of the same instant.
    pub id: String,
    /// What happened.
    pub items: Vec<ItemInput>,
}

/// A time as it came in.
#[derive(Clone, Copy, Debug)]
pub enum TimeInput {
    /// Nanoseconds since the epoch.
    Nanos(i64),
    /// Something that 64-bit nanoseconds can't hold.
    Unrepresentable,
}

/// An item as it came in.
#[derive(Clone, Debug, Default)]
pub struct ItemInput {
    /// Unique within the event.
    pub key: String,
    /// The value.
    pub value: Bytes,
    /// What describes it.
    pub metadata: Option<Bytes>,
}

/// An acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteReceipt {
    /// Events stored: all of the request.
    pub events: usize,
    /// Partitions written to.
    pub partitions: usize,
}

pub(crate) async fn write_sync(engine: &Engine, request: WriteRequest) -> Result<WriteReceipt, EngineError> {
    let begun = engine.env.monotonic();
    engine.check_ready()?;
    let namespace = engine.registry.get(&request.namespace)?;
    let Admission { events, bytes } = checked(engine, &namespace, request.events)?;
    let max = namespace.record.config_at(engine.env.now()).write_slo.max;
    let deadline = begun + request.timeout.map_or(max, |timeout| timeout.min(max));
    let _room = room(engine, bytes, deadline).await?;
    store_events(engine, &namespace, events, deadline).await
}

pub(crate) async fn write_queued(engine: &Engine, request: WriteRequest) -> Result<usize, EngineError> {
    engine.check_ready()?;
    let namespace = engine.registry.get(&request.namespace)?;
    let Admission { events, bytes } = checked(engine, &namespace, request.events)?;
    let count = events.len();
    let queued = engine.queue.push(namespace.name.clone(), namespace.record.incarnation, events, bytes, &engine.env);
    if let Err(error) = queued {
        engine.metrics.events_refused.with_label_values(&[namespace.name.as_str(), "queue_full"]).inc_by(count as u64);
        return Err(error);
    }
    let (events, bytes) = engine.queue.size();
    engine.metrics.queued_events.set(events as i64);
    engine.metrics.queued_bytes.set(bytes as i64);
    Ok(count)
}

/// Everything that can be known to be wrong before anything is stored (W3).
fn checked(engine: &Engine, namespace: &Namespace, events: Vec<EventInput>) -> Result<Admission, EngineError> {
    let count = events.len();
    admit(&namespace.record, events, engine.env.now()).inspect_err(|error| {
        let reason = format!("{:?}", error.kind());
        let refused = engine.metrics.events_refused.with_label_values(&[namespace.name.as_str(), &reason]);
        refused.inc_by(count as u64);
    })
}

/// Bounds the memory of writes in flight.
async fn room(
    engine: &Engine,
    bytes: usize,
    deadline: Duration,
) -> Result<tokio::sync::SemaphorePermit<'_>, EngineError> {
    let most = engine.options.max_write_bytes_in_flight / 1024;
    let permits = u32::try_from((bytes / 1024 + 1).min(most)).unwrap_or(u32::MAX);
    let remaining = deadline.saturating_sub(engine.env.monotonic());
    match engine.env.timeout(remaining, engine.write_room.acquire_many(permits)).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(EngineError::Overloaded { what: "too many bytes of writes are in flight".to_owned() }),
    }
}

/// Stores admitted events: makes missing slices, checks the window again, writes, acknowledges.
pub(crate) async fn store_events(
    engine: &Engine,
    namespace: &Namespace,
    events: Vec<Event>,
    deadline: Duration,
) -> Result<WriteReceipt, EngineError> {
    let name = &namespace.name;
    let remaining = deadline.saturating_sub(engine.env.monotonic());
    let preparing = Box::pin(prepare_slices(engine, namespace, &events, deadline));
    let prepared = engine.env.timeout(remaining, preparing).await;
    prepared.map_err(|_| EngineError::DeadlineExceeded { what: "making a slice for the write" })??;
    // What was learnt while preparing counts from here on.
    let namespace = engine.registry.get(name.as_str())?;
    engine.registry.check_fresh()?;
    engine.heartbeat.check_clock()?;
    let checked_at = engine.env.monotonic();
    let now = engine.env.now();
    refuse_outside_window(&namespace.record, &events, now)?;

    let write_deadline = namespace.record.config_at(now).write_slo.max;
    let count = events.len();
    let (batches, indexes) = batches(&namespace, events, now)?;
    let partitions = batches.len();
    let bytes = batches.iter().flat_map(|batch| &batch.rows).map(|row| row.bytes() as u64).sum();
    engine.traffic.sending(name, &batches, now);
    let remaining = deadline.saturating_sub(checked_at);
    let results = match engine.env.timeout(remaining, engine.store.write(batches, remaining)).await {
        Ok(results) => results,
        Err(_) => vec![Err(timed_out()); partitions],
    };
    // Whatever the store says: after the deadline the span may count as sealed, so nothing is acknowledged any more.
    let in_time = engine.env.monotonic().saturating_sub(checked_at) < write_deadline;
    #[cfg(feature = "plant")]
    let in_time = in_time || anabranch_split::plant::is_planted(anabranch_split::plant::Bug::AcknowledgesLate);
    let results = if in_time { results } else { vec![Err(timed_out()); partitions] };
    let receipt = conclude(engine, &namespace, &results, &indexes, count)?;
    engine.traffic.stored(name, count as u64, bytes, now);
    Ok(receipt)
}

fn timed_out() -> StoreError {
    StoreError::Unknown { reason: "the write deadline passed".to_owned() }
}

/// Makes slices for times that have none, and waits until each may be written to.
async fn prepare_slices(
    engine: &Engine,
    namespace: &Namespace,
    events: &[Event],
    deadline: Duration,
) -> Result<(), EngineError> {
    let mut wait = Duration::ZERO;
    let mut last: Option<Slice> = None;
    for event in events {
        let time = event.position.time;
        if last.as_ref().is_some_and(|slice| slice.interval.contains(time)) {
            continue;
        }
        let mut known = namespace.record.slices.at(time).cloned();
        let mut newest = None;
        if known.is_none() {
            engine.lifecycle.ensure(&namespace.name, time).await?;
            let fresh = engine.registry.get(namespace.name.as_str())?;
            known = fresh.record.slices.at(time).cloned();
            newest = Some(fresh);
        }
        if let Some(slice) = &known {
            let namespace = newest.as_deref().unwrap_or(namespace);
            wait = wait.max(engine.registry.wait_for_slice(namespace, slice.interval));
        }
        last = known;
    }
    if wait.is_zero() {
        return Ok(());
    }
    if engine.env.monotonic() + wait >= deadline {
        let reason = "a slice for these events has just been made and is not known to every server yet".to_owned();
        return Err(EngineError::NotServing { reason });
    }
    engine.env.sleep(wait).await;
    Ok(())
}

/// One batch per partition, and beside it the indexes of the events that it holds.
fn batches(
    namespace: &Namespace,
    events: Vec<Event>,
    now: Timestamp,
) -> Result<(Vec<PartitionBatch>, Vec<Vec<u32>>), EngineError> {
    let mut batches: Vec<PartitionBatch> = Vec::new();
    let mut indexes: Vec<Vec<u32>> = Vec::new();
    let mut places: HashMap<(Timestamp, PartitionKey), usize> = HashMap::default();
    for (index, event) in events.into_iter().enumerate() {
        let Some(slice) = namespace.record.slices.at(event.position.time) else {
            return Err(EngineError::Contended { name: namespace.name.clone() });
        };
        let partition = slice.partition(&event.series, &event.position);
        let place = *places.entry((slice.interval.start, partition.clone())).or_insert_with(|| {
            let table = slice.table(&namespace.name);
            batches.push(PartitionBatch { table, partition, rows: Vec::new(), write_time_micros: now.nanos() / 1000 });
            indexes.push(Vec::new());
            batches.len() - 1
        });
        indexes[place].push(index as u32);
        let position = event.position;
        let mut items = event.items.into_iter();
        let last = items.next_back();
        let rows = &mut batches[place].rows;
        rows.extend(items.map(|item| Row { position: position.clone(), item }));
        rows.extend(last.map(|item| Row { position, item }));
    }
    Ok((batches, indexes))
}

/// Turns the answers of the store into one for the request.
fn conclude(
    engine: &Engine,
    namespace: &Namespace,
    results: &[Result<(), StoreError>],
    indexes: &[Vec<u32>],
    count: usize,
) -> Result<WriteReceipt, EngineError> {
    let mut outcome = WriteOutcome::default();
    let mut worst: Option<&StoreError> = None;
    for (result, indexes) in results.iter().zip(indexes) {
        let (list, error) = match result {
            Ok(()) => (&mut outcome.stored, None),
            Err(error) if error.kind() == StoreErrorKind::Unknown => (&mut outcome.unknown, Some(error)),
            Err(error) => (&mut outcome.not_stored, Some(error)),
        };
        list.extend(indexes);
        worst = match (worst, error) {
            (Some(worst), Some(error)) if rank(worst) >= rank(error) => Some(worst),
            (worst, error) => error.or(worst),
        };
    }
    let label = namespace.name.as_str();
    engine.metrics.events_written.with_label_values(&[label]).inc_by(outcome.stored.len() as u64);
    let Some(error) = worst else { return Ok(WriteReceipt { events: count, partitions: results.len() }) };
    engine.metrics.events_failed.with_label_values(&[label, "unknown"]).inc_by(outcome.unknown.len() as u64);
    engine.metrics.events_failed.with_label_values(&[label, "not_stored"]).inc_by(outcome.not_stored.len() as u64);
    for list in [&mut outcome.stored, &mut outcome.not_stored, &mut outcome.unknown] {
        list.sort_unstable();
    }
    let kind = match error.kind() {
        StoreErrorKind::Unknown => ErrorKind::DeadlineExceeded,
        _ => EngineError::Store(error.clone()).kind(),
    };
    Err(EngineError::WriteFailed { outcome, reason: error.to_string(), kind })
}

/// What the client has to know first: damage, then what can't be known.
fn rank(error: &StoreError) -> u8 {
    match error.kind() {
        StoreErrorKind::Corrupt => 3,
        StoreErrorKind::Unknown => 2,
        StoreErrorKind::Refused => 1,
        StoreErrorKind::Retry | StoreErrorKind::Overloaded | StoreErrorKind::NoSuchTable => 0,
    }
}

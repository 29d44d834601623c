//! Splits as they are answered: records, differences, what a comparison found; and which ones a request means.

use anabranch_api::v1;
use anabranch_engine::{FoundBy, KeptDifference, KeptRow, TaskStatus, Verified};
use anabranch_model::{Packing, Position, Timestamp};
use anabranch_split::{
    Compression, Form, Piece, Segment, State, Strategy, WidePartition, WideRow,
    record::{Plan, Stored, Target},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{config::packing_message, duration, timestamp};

/// How much of a record is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Everything.
    Full,
    /// All but the pieces.
    List,
}

/// A record as it is answered.
pub(crate) fn split_message(row: &WideRow, view: View) -> v1::Split {
    let details = Details::of(&row.state);
    let partition = &row.partition;
    v1::Split {
        namespace: partition.namespace.to_string(),
        time_slice: partition.time_slice.clone(),
        time_series_id: partition.time_series_id.to_string(),
        time_bucket: partition.time_bucket,
        event_bucket: partition.event_bucket,
        state: state_message(&row.state).into(),
        reason: details.reason,
        retry_after: details.retry_after.and_then(timestamp),
        resume_state: details.resume.map_or(v1::split::State::Unspecified, state_message).into(),
        progress: progress(details.resume.unwrap_or(&row.state)),
        not_wide: details.not_wide,
        attempts: row.attempts,
        generation: row.generation.0,
        epoch: row.epoch.0,
        lease: row
            .lease
            .as_ref()
            .map(|lease| v1::SplitLease { worker: lease.worker.clone(), until: timestamp(lease.until) }),
        update_time: timestamp(row.updated),
        served_until: row.served_until().and_then(timestamp),
        set_aside_reason: row.set_aside.clone().unwrap_or_default(),
        segments: row.served.iter().map(|segment| segment_message(partition, segment, view)).collect(),
        next_segment: planned_message(partition, details.resume.unwrap_or(&row.state), view),
    }
}

/// What is to be said of a state beside its name.
#[derive(Default)]
struct Details<'a> {
    reason: String,
    retry_after: Option<Timestamp>,
    resume: Option<&'a State>,
    not_wide: Option<v1::NotWide>,
}

impl<'a> Details<'a> {
    fn of(state: &'a State) -> Details<'a> {
        match state {
            State::Failed(failure) => Details {
                reason: failure.reason.clone(),
                // An operator who retries sets it to the beginning of time.
                retry_after: (failure.retry_after > Timestamp::EARLIEST).then_some(failure.retry_after),
                resume: Some(&failure.resume),
                ..Details::default()
            },
            State::Parked { reason, .. } | State::Invalidated { reason } => {
                Details { reason: reason.clone(), ..Details::default() }
            }
            State::NotWide { bytes, watermark } => {
                let not_wide = v1::NotWide { bytes: *bytes, watermark: timestamp(*watermark) };
                Details { not_wide: Some(not_wide), ..Details::default() }
            }
            State::Detected
            | State::Planning(_)
            | State::Planned(_)
            | State::Splitting(_)
            | State::Verifying(_)
            | State::Completed { .. } => Details::default(),
        }
    }
}

pub(super) fn state_message(state: &State) -> v1::split::State {
    match state {
        State::Detected => v1::split::State::Detected,
        State::Planning(_) => v1::split::State::Planning,
        State::Planned(_) => v1::split::State::Planned,
        State::Splitting(_) => v1::split::State::Splitting,
        State::Verifying(_) => v1::split::State::Verifying,
        State::Completed { .. } => v1::split::State::Completed,
        State::NotWide { .. } => v1::split::State::NotWide,
        State::Failed(_) => v1::split::State::Failed,
        State::Parked { .. } => v1::split::State::Parked,
        State::Invalidated { .. } => v1::split::State::Invalidated,
    }
}

fn progress(state: &State) -> Option<v1::SplitProgress> {
    let (done, total, target) = match state {
        State::Planning(draft) => (bytes_of(&draft.pieces), None, &draft.target),
        State::Planned(plan) => (0, Some(bytes_of(&plan.pieces)), &plan.target),
        State::Splitting(copying) => (copying.bytes, Some(bytes_of(&copying.plan.pieces)), &copying.plan.target),
        State::Verifying(checking) => {
            let proven = checking.plan.pieces.iter().take(checking.proven).map(|piece| piece.content.bytes).sum();
            (proven, Some(bytes_of(&checking.plan.pieces)), &checking.plan.target)
        }
        _ => return None,
    };
    // What was packed but not yet written at a checkpoint is counted again after a restart.
    let bytes_done = total.map_or(done, |total| done.min(total));
    Some(v1::SplitProgress { bytes_done, bytes_total: total, begin_time: timestamp(target.begun) })
}

fn bytes_of(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.content.bytes).sum()
}

fn segment_message(partition: &WidePartition, segment: &Segment, view: View) -> v1::SplitSegment {
    let post = Post { form: segment.form, strategy: segment.strategy, pieces: &segment.pieces };
    let table = segment.generation.table(&partition.namespace, &partition.time_slice).table;
    v1::SplitSegment {
        interval: interval(segment.span),
        generation: segment.generation.0,
        pre_split_data: Some(pre_message(partition, segment.pre_split_data)),
        post_split_data: Some(post.message(partition, table, segment.post_split_data, view)),
        begin_time: None,
        complete_time: timestamp(segment.completed),
        time_taken: duration(segment.took),
        check_time: timestamp(segment.checked),
    }
}

/// What the next segment will be, as far as it is known.
fn planned_message(partition: &WidePartition, state: &State, view: View) -> Option<v1::SplitSegment> {
    let (target, pieces, stored): (&Target, &[Piece], Stored) = match state {
        State::Planning(draft) => (&draft.target, &draft.pieces, Stored::default()),
        State::Planned(plan) => (&plan.target, &plan.pieces, Stored::default()),
        State::Splitting(copying) => (&copying.plan.target, &copying.plan.pieces, Stored::default()),
        State::Verifying(checking) => {
            let Plan { target, pieces } = &checking.plan;
            (target, pieces, checking.stored)
        }
        _ => return None,
    };
    let rows = pieces.iter().map(|piece| piece.content.rows).sum();
    let post = Post { form: target.form, strategy: target.strategy, pieces };
    let table = target.generation.table(&partition.namespace, &partition.time_slice).table;
    Some(v1::SplitSegment {
        interval: interval(target.span),
        generation: target.generation.0,
        pre_split_data: Some(pre_message(partition, Stored { rows, bytes: bytes_of(pieces) })),
        post_split_data: Some(post.message(partition, table, stored, view)),
        begin_time: timestamp(target.begun),
        complete_time: None,
        time_taken: None,
        check_time: None,
    })
}

pub(super) fn interval(span: anabranch_model::Interval) -> Option<v1::TimeInterval> {
    Some(v1::TimeInterval { start: timestamp(span.start), end: timestamp(span.end) })
}

fn pre_message(partition: &WidePartition, stored: Stored) -> v1::PreSplitData {
    v1::PreSplitData { table: partition.time_slice.clone(), rows: stored.rows, bytes: stored.bytes }
}

/// How a segment lies in its pieces.
struct Post<'a> {
    form: Form,
    strategy: Strategy,
    pieces: &'a [Piece],
}

impl Post<'_> {
    fn message(&self, partition: &WidePartition, table: String, stored: Stored, view: View) -> v1::PostSplitData {
        let (packing, block_bytes) = match self.form {
            Form::Rows => (Packing::Rows, None),
            Form::Blocks { codec: Compression::None, block_bytes } => (Packing::Plain, Some(block_bytes)),
            Form::Blocks { codec: Compression::Lz4, block_bytes } => (Packing::Lz4, Some(block_bytes)),
            Form::Blocks { codec: Compression::Zstd, block_bytes } => (Packing::Zstd, Some(block_bytes)),
        };
        v1::PostSplitData {
            table,
            rows: stored.rows,
            bytes: stored.bytes,
            packing: packing_message(packing).into(),
            block_bytes,
            partition_strategy: Some(self.strategy(partition, view)),
        }
    }

    fn strategy(&self, partition: &WidePartition, view: View) -> v1::post_split_data::PartitionStrategy {
        use v1::post_split_data::PartitionStrategy::{EventBucketPartitionStrategy, TimeRangePartitionStrategy};
        let shown = if view == View::Full { self.pieces } else { &[] };
        let pieces = shown.iter().map(|piece| piece_message(partition, piece)).collect();
        match self.strategy {
            Strategy::TimeRange => TimeRangePartitionStrategy(v1::TimeRangePartitionStrategy {
                piece_count: u32::try_from(self.pieces.len()).unwrap_or(u32::MAX),
                pieces,
            }),
            Strategy::EventBucket { pieces: target, first_ordinal, .. } => {
                EventBucketPartitionStrategy(v1::EventBucketPartitionStrategy {
                    target_event_buckets: target,
                    start_event_bucket: partition.piece(first_ordinal).event_bucket.0,
                    pieces,
                })
            }
        }
    }
}

fn piece_message(partition: &WidePartition, piece: &Piece) -> v1::SplitPiece {
    v1::SplitPiece {
        ordinal: piece.ordinal,
        event_bucket: partition.piece(piece.ordinal).event_bucket.0,
        newest: Some(position_message(&piece.newest)),
        oldest: Some(position_message(&piece.oldest)),
        rows: piece.content.rows,
        bytes: piece.content.bytes,
        checksum: format!("{:032x}", piece.content.checksum),
    }
}

fn position_message(position: &Position) -> v1::EventPosition {
    v1::EventPosition { event_time: timestamp(position.time), event_id: position.id.as_str().to_owned() }
}

/// What a comparison with the original found.
pub(crate) fn verification_message(verified: Verified) -> v1::SplitVerification {
    let partition = verified.partition;
    v1::SplitVerification {
        time_slice: partition.time_slice,
        time_series_id: partition.time_series_id.to_string(),
        time_bucket: partition.time_bucket,
        event_bucket: partition.event_bucket,
        segments_equal: u32::try_from(verified.segments).unwrap_or(u32::MAX),
        difference: verified.difference.map(difference_message),
        skipped_reason: verified.skipped.unwrap_or_default(),
    }
}

/// A difference as it is answered.
pub(crate) fn difference_message(kept: KeptDifference) -> v1::SplitDifference {
    let found_by = match kept.found_by {
        FoundBy::Comparison => v1::split_difference::FoundBy::Comparison,
        FoundBy::Recheck => v1::split_difference::FoundBy::Recheck,
    };
    v1::SplitDifference {
        time: timestamp(kept.at),
        time_slice: kept.partition.time_slice,
        time_series_id: kept.partition.time_series_id.to_string(),
        time_bucket: kept.partition.time_bucket,
        event_bucket: kept.partition.event_bucket,
        position: Some(v1::EventPosition { event_time: timestamp(kept.event_time), event_id: kept.event_id }),
        found_by: found_by.into(),
        damage: kept.damage.unwrap_or_default(),
        original: kept.original.map(row_message),
        split: kept.split.map(row_message),
    }
}

fn row_message(row: KeptRow) -> v1::DifferingRow {
    let bytes = |text: &str| BASE64_STANDARD.decode(text).unwrap_or_default().into();
    v1::DifferingRow {
        event_item_key: row.event_item_key,
        value: bytes(&row.value),
        value_bytes: row.value_bytes as u64,
        value_metadata: row.metadata.as_deref().map(bytes),
    }
}

/// A background task as it is answered.
pub(crate) fn task_message(task: TaskStatus) -> v1::TaskStatus {
    v1::TaskStatus {
        name: task.name.to_owned(),
        runs: task.runs,
        failures: task.failures,
        last_run_time: task.last_run.and_then(timestamp),
        did: task.did,
        last_failure_time: task.last_failure.and_then(timestamp),
        error: task.error,
        waits_for: task.waits_for,
        next_run_time: task.next_run.and_then(timestamp),
    }
}

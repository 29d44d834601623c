//! Namespaces, slices and backfill windows as they are answered, and windows to open.

use std::time::Duration;

use anabranch_api::v1;
use anabranch_engine::{Backfill, BackfillState, EngineError, ModeChange, NamespaceRecord, SliceFate};
use anabranch_model::{Interval, ReadMode, Slice, SliceState, Timestamp};

use super::{Violations, bound, config::config_message, timestamp};

/// How long a window stays open when the request doesn't say.
const DEFAULT_EXPIRY: Duration = Duration::from_secs(3600);

/// Comparisons without a difference, and since when.
pub(crate) type Clean = Option<(u32, Timestamp)>;

/// A namespace as it is at `now`.
pub(crate) fn namespace_message(name: String, record: &NamespaceRecord, clean: Clean, now: Timestamp) -> v1::Namespace {
    let next = record.next.as_ref().filter(|next| next.at > now);
    v1::Namespace {
        name,
        config: Some(config_message(record.config_at(now))),
        create_time: timestamp(record.created),
        next_config: next.map(|next| config_message(&next.config)),
        next_config_time: next.and_then(|next| timestamp(next.at)),
        slices: record.slices.iter().map(slice_message).collect(),
        backfills: record.backfills.iter().rev().map(|backfill| backfill_message(backfill, now)).collect(),
        splits: Some(split_use_message(&record.splits, clean)),
        sealed_until: (record.sealed_until > Timestamp::EARLIEST).then(|| timestamp(record.sealed_until)).flatten(),
        workload: record.workload.clone(),
        slice_fates: Vec::new(),
        drop_time: record.drop_at.filter(|_| record.deleting).and_then(timestamp),
    }
}

/// What retention does to a slice.
pub(crate) fn slice_fate_message(slice: &Slice, fate: SliceFate, bytes: Option<u64>) -> v1::SliceFate {
    let fate = match fate {
        SliceFate::Closes => v1::slice_fate::Fate::Closes,
        SliceFate::Drops => v1::slice_fate::Fate::Drops,
    };
    v1::SliceFate { time_slice: slice.name(), end: timestamp(slice.interval.end), fate: fate.into(), bytes }
}

fn split_use_message(splits: &anabranch_engine::SplitUse, clean: Clean) -> v1::SplitUse {
    let change = |change: &ModeChange| v1::ReadModeChange {
        time: timestamp(change.at),
        from: read_mode_message(change.from).into(),
        to: read_mode_message(change.to).into(),
        by: change.by.clone(),
        reason: change.reason.clone(),
    };
    v1::SplitUse {
        read_mode: read_mode_message(splits.mode).into(),
        since: timestamp(splits.since),
        history: splits.history.iter().rev().map(change).collect(),
        clean_comparisons: clean.map_or(0, |(count, _)| count),
        clean_since: clean.and_then(|(_, since)| timestamp(since)),
    }
}

pub(crate) fn read_mode_message(mode: ReadMode) -> v1::ReadMode {
    match mode {
        ReadMode::Off => v1::ReadMode::Off,
        ReadMode::Shadow => v1::ReadMode::Shadow,
        ReadMode::Comparison => v1::ReadMode::Comparison,
        ReadMode::Exec => v1::ReadMode::Exec,
        ReadMode::On => v1::ReadMode::On,
    }
}

/// A mode that a request names.
pub(crate) fn read_mode(value: i32) -> Result<ReadMode, EngineError> {
    match v1::ReadMode::try_from(value) {
        Ok(v1::ReadMode::Off) => Ok(ReadMode::Off),
        Ok(v1::ReadMode::Shadow) => Ok(ReadMode::Shadow),
        Ok(v1::ReadMode::Comparison) => Ok(ReadMode::Comparison),
        Ok(v1::ReadMode::Exec) => Ok(ReadMode::Exec),
        Ok(v1::ReadMode::On) => Ok(ReadMode::On),
        Ok(v1::ReadMode::Unspecified) | Err(_) => {
            Err(EngineError::invalid("read_mode", "name one of OFF, SHADOW, COMPARISON, EXEC, ON"))
        }
    }
}

pub(crate) fn slice_message(slice: &Slice) -> v1::Slice {
    let state = match slice.state {
        SliceState::Open => v1::slice::State::Open,
        SliceState::Closed => v1::slice::State::Closed,
        SliceState::Dropping => v1::slice::State::Dropping,
    };
    v1::Slice {
        name: slice.name(),
        start: timestamp(slice.interval.start),
        end: timestamp(slice.interval.end),
        seconds_per_bucket: slice.settings.seconds_per_bucket,
        event_buckets: slice.settings.event_buckets,
        state: state.into(),
    }
}

/// A window as it is at `now`.
pub(crate) fn backfill_message(backfill: &Backfill, now: Timestamp) -> v1::Backfill {
    let state = match backfill.state(now) {
        BackfillState::Opening => v1::backfill::State::Opening,
        BackfillState::Open => v1::backfill::State::Open,
        BackfillState::Closed => v1::backfill::State::Closed,
    };
    v1::Backfill {
        id: backfill.id.clone(),
        interval: Some(v1::TimeInterval {
            start: timestamp(backfill.interval.start),
            end: timestamp(backfill.interval.end),
        }),
        create_time: timestamp(backfill.created),
        effective_time: timestamp(backfill.effective),
        expire_time: timestamp(backfill.expires),
        state: state.into(),
        reason: backfill.reason.clone(),
    }
}

/// A window to open: its interval, and how long it stays open.
pub(crate) fn backfill_request(message: &v1::OpenBackfillRequest) -> Result<(Interval, Duration), EngineError> {
    let mut violations = Violations::default();
    let interval = message.interval.unwrap_or_default();
    let mut needed = |field: &str, time: Option<anabranch_api::wkt::Timestamp>| {
        let time = time.ok_or_else(|| "is missing: a window needs both bounds".to_owned());
        violations.take(field, time.and_then(|time| bound(time).map_err(|error| error.to_string())))
    };
    let start = needed("interval.start", interval.start);
    let end = needed("interval.end", interval.end);
    let expire_after = match message.expire_after {
        Some(expire_after) => violations.take("expire_after", Duration::try_from(expire_after)),
        None => Some(DEFAULT_EXPIRY),
    };
    match (start, end, expire_after) {
        (Some(start), Some(end), Some(expire_after)) => Ok((Interval::new(start, end), expire_after)),
        _ => Err(EngineError::Refused(violations.0)),
    }
}

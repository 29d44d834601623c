//! Namespaces, slices and backfill windows as they are answered, and windows to open.

use std::time::Duration;

use anabranch_api::v1;
use anabranch_engine::{Backfill, BackfillState, EngineError, NamespaceRecord};
use anabranch_model::{Interval, Slice, SliceState, Timestamp};

use super::{Violations, bound, config::config_message, timestamp};

/// How long a window stays open when the request doesn't say.
const DEFAULT_EXPIRY: Duration = Duration::from_secs(3600);

/// A namespace as it is at `now`.
pub(crate) fn namespace_message(name: String, record: &NamespaceRecord, now: Timestamp) -> v1::Namespace {
    let next = record.next.as_ref().filter(|next| next.at > now);
    v1::Namespace {
        name,
        config: Some(config_message(record.config_at(now))),
        create_time: timestamp(record.created),
        next_config: next.map(|next| config_message(&next.config)),
        next_config_time: next.and_then(|next| timestamp(next.at)),
        slices: record.slices.iter().map(slice_message).collect(),
        backfills: record.backfills.iter().rev().map(|backfill| backfill_message(backfill, now)).collect(),
    }
}

fn slice_message(slice: &Slice) -> v1::Slice {
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

//! Checks every event of a request before any is stored, and names everything that is wrong (W3).

use std::{collections::BTreeSet, time::Duration};

use anabranch_model::time::describe;
use anabranch_model::{Event, EventId, EventItemKey, IdError, Item, Position, TimeSeriesId, Timestamp, WriteLimits};

use crate::{
    EngineError, ErrorKind, NamespaceRecord, Violation,
    write::{EventInput, ItemInput, TimeInput},
};

/// Checked events and how many bytes they hold.
pub(crate) struct Admission {
    pub(crate) events: Vec<Event>,
    pub(crate) bytes: usize,
}

pub(crate) fn admit(
    record: &NamespaceRecord,
    inputs: Vec<EventInput>,
    now: Timestamp,
) -> Result<Admission, EngineError> {
    let config = record.config_at(now);
    let limits = &config.write_limits;
    if inputs.is_empty() {
        return Err(EngineError::invalid("events", "a write needs at least one event"));
    }
    if inputs.len() > limits.max_events_per_request as usize {
        let reason =
            format!("{} events; at most {} are allowed in a request", inputs.len(), limits.max_events_per_request);
        return Err(EngineError::invalid("events", reason));
    }
    let mut checker = Checker { record, limits, now, window: WindowHint::new(record, now), violations: Vec::new() };
    let mut admission = Admission { events: Vec::with_capacity(inputs.len()), bytes: 0 };
    for (index, input) in inputs.into_iter().enumerate() {
        admission.bytes += size(&input);
        if let Some(event) = checker.event(index, input) {
            admission.events.push(event);
        }
    }
    if admission.bytes as u64 > limits.max_request_bytes {
        let reason =
            format!("{} bytes; at most {} are allowed in a request", admission.bytes, limits.max_request_bytes);
        checker.refuse("events".to_owned(), reason, ErrorKind::InvalidArgument);
    }
    if checker.violations.is_empty() { Ok(admission) } else { Err(EngineError::Refused(checker.violations)) }
}

/// The second check, right before the batch goes to the store: waiting may have moved events out of the window.
pub(crate) fn refuse_outside_window(
    record: &NamespaceRecord,
    events: &[Event],
    now: Timestamp,
) -> Result<(), EngineError> {
    let hint = WindowHint::new(record, now);
    let outside = events.iter().enumerate().filter(|(_, event)| !hint.accepts(record, event.position.time, now));
    let violations: Vec<Violation> = outside
        .map(|(index, event)| Violation {
            field: format!("events[{index}].event_time"),
            reason: outside_window(record, event.position.time, now),
            kind: ErrorKind::OutOfRange,
        })
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(EngineError::Refused(violations)) }
}

/// The ordinary window, computed once for all events of a request.
struct WindowHint(anabranch_model::Interval);

impl WindowHint {
    fn new(record: &NamespaceRecord, now: Timestamp) -> Self {
        let window = record.accepts(now);
        WindowHint(anabranch_model::Interval::new(window.start.max(record.closed_until), window.end))
    }

    fn accepts(&self, record: &NamespaceRecord, time: Timestamp, now: Timestamp) -> bool {
        self.0.contains(time) || record.accepts_time(time, now)
    }
}

fn outside_window(record: &NamespaceRecord, time: Timestamp, now: Timestamp) -> String {
    let window = record.accepts(now);
    let config = record.config_at(now);
    if time >= window.end {
        let ahead = Duration::from_secs(time.since(now).as_secs());
        let (ahead, limit) = (describe(ahead), describe(config.drift_limit));
        return format!("{time} is {ahead} in the future; drift_limit is {limit}");
    }
    if time < record.closed_until {
        return format!("{time} has left the retention: everything before {} is closed", record.closed_until);
    }
    if time >= now.saturating_sub(config.accept_limit) {
        return format!(
            "{time} is sealed: everything before {} takes no more events; write old ones with `anabranch import`, or open a \
             window for them with `anabranch backfill open`",
            record.sealed_until
        );
    }
    format!(
        "{time} is older than accept_limit ({}) allows; write old events with `anabranch import`, or open a window for \
         them with `anabranch backfill open`",
        describe(config.accept_limit)
    )
}

fn size(input: &EventInput) -> usize {
    let item =
        |item: &ItemInput| item.key.len() + item.value.len() + item.metadata.as_ref().map_or(0, bytes::Bytes::len);
    input.series.len() + input.id.len() + input.items.iter().map(item).sum::<usize>()
}

struct Checker<'a> {
    record: &'a NamespaceRecord,
    limits: &'a WriteLimits,
    now: Timestamp,
    window: WindowHint,
    violations: Vec<Violation>,
}

impl Checker<'_> {
    fn refuse(&mut self, field: String, reason: impl Into<String>, kind: ErrorKind) {
        self.violations.push(Violation { field, reason: reason.into(), kind });
    }

    fn event(&mut self, index: usize, input: EventInput) -> Option<Event> {
        let at = |field: &str| format!("events[{index}].{field}");
        let series = self.id(input.series, TimeSeriesId::new, || at("time_series_id"));
        if let Some(series) = &series
            && let Some(blocked) = self.record.blocked(series, self.now, |blocked| blocked.writes)
        {
            let reason =
                format!("the series `{series}` is blocked for writes since {}: {}", blocked.since, blocked.reason);
            self.refuse(at("time_series_id"), reason, ErrorKind::PermissionDenied);
        }
        let time = self.time(input.time, || at("event_time"));
        let id = self.id(input.id, EventId::new, || at("event_id"));
        let items = self.items(index, input.items);
        Some(Event { series: series?, position: Position { time: time?, id: id? }, items: items? })
    }

    fn id<T>(&mut self, text: String, make: fn(String) -> Result<T, IdError>, field: impl Fn() -> String) -> Option<T> {
        let limit = self.limits.max_id_bytes as usize;
        let made = if text.len() > limit { Err(IdError::TooLong { bytes: text.len(), limit }) } else { make(text) };
        made.map_err(|error| self.refuse(field(), error.to_string(), ErrorKind::InvalidArgument)).ok()
    }

    fn time(&mut self, input: Option<TimeInput>, field: impl Fn() -> String) -> Option<Timestamp> {
        let checked = match input {
            None => Err("is missing".to_owned()),
            Some(TimeInput::Unrepresentable) => Err(anabranch_model::TimeError::OutOfRange.to_string()),
            Some(TimeInput::Nanos(nanos)) => Timestamp::checked(nanos).map_err(|error| error.to_string()),
        };
        match checked {
            Err(reason) => {
                self.refuse(field(), reason, ErrorKind::InvalidArgument);
                None
            }
            Ok(time) if self.window.accepts(self.record, time, self.now) => Some(time),
            Ok(time) => {
                self.refuse(field(), outside_window(self.record, time, self.now), ErrorKind::OutOfRange);
                None
            }
        }
    }

    fn items(&mut self, index: usize, inputs: Vec<ItemInput>) -> Option<Vec<Item>> {
        let found = self.violations.len();
        let field = format!("events[{index}].event_items");
        if inputs.is_empty() {
            self.refuse(field, "an event needs at least one item", ErrorKind::InvalidArgument);
            return None;
        }
        let most = self.limits.max_items_per_event as usize;
        if inputs.len() > most {
            let reason = format!("{} items; at most {most} are allowed in an event", inputs.len());
            self.refuse(field, reason, ErrorKind::InvalidArgument);
            return None;
        }
        let mut items = Vec::with_capacity(inputs.len());
        for (at, input) in inputs.into_iter().enumerate() {
            let bytes = input.value.len() + input.metadata.as_ref().map_or(0, bytes::Bytes::len);
            if bytes as u64 > self.limits.max_item_bytes {
                let reason =
                    format!("{bytes} bytes of value and metadata; at most {} are allowed", self.limits.max_item_bytes);
                self.refuse(format!("{field}[{at}].event_item_value"), reason, ErrorKind::InvalidArgument);
            }
            let key = self.id(input.key, EventItemKey::new, || format!("{field}[{at}].event_item_key"));
            items.extend(key.map(|key| Item { key, value: input.value, metadata: input.metadata }));
        }
        if items.len() > 1 {
            self.refuse_twins(&field, &items);
        }
        (self.violations.len() == found).then_some(items)
    }

    fn refuse_twins(&mut self, field: &str, items: &[Item]) {
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            if !seen.insert(&item.key) {
                let reason = format!("`{}` stands twice in the event", item.key);
                self.refuse(format!("{field}[{at}].event_item_key"), reason, ErrorKind::InvalidArgument);
            }
        }
    }
}

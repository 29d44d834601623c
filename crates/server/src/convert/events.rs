//! Events to write. Every string and value moves; checking them is the engine's.

use std::time::Duration;

use anabranch_api::{v1, wkt};
use anabranch_engine::{EventInput, ItemInput, TimeInput, WriteRequest};

/// What the engine takes.
pub(crate) fn write_request(message: v1::WriteEventRecordsRequest, timeout: Option<Duration>) -> WriteRequest {
    let events = message.events.into_iter().map(event).collect();
    WriteRequest { namespace: message.namespace, events, timeout }
}

fn event(event: v1::Event) -> EventInput {
    EventInput {
        series: event.time_series_id,
        time: event.event_time.map(time),
        id: event.event_id,
        items: event.event_items.into_iter().map(item).collect(),
    }
}

fn time(time: wkt::Timestamp) -> TimeInput {
    time.to_nanos().map_or(TimeInput::Unrepresentable, TimeInput::Nanos)
}

fn item(item: v1::EventItem) -> ItemInput {
    ItemInput { key: item.event_item_key, value: item.event_item_value, metadata: item.value_metadata }
}

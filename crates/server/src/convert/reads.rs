//! Pages to read, and pages read. Values move; only the series' id is copied into each record.

use std::time::Duration;

use anabranch_api::v1;
use anabranch_engine::{EngineError, Filter, Page, Partial, PartialReason, ReadRequest};
use anabranch_model::{Item, Order, Record};

use super::{Violations, bound, duration, timestamp};

/// What the engine takes, or everything that the message's form doesn't allow.
pub(crate) fn read_request(
    message: v1::ReadEventRecordsRequest,
    timeout: Option<Duration>,
) -> Result<ReadRequest, EngineError> {
    let mut violations = Violations::default();
    let interval = message.time_interval.unwrap_or_default();
    let start = interval.start.and_then(|time| violations.take("time_interval.start", bound(time)));
    let end = interval.end.and_then(|time| violations.take("time_interval.end", bound(time)));
    let order = match v1::Order::try_from(message.order) {
        Ok(v1::Order::Unspecified | v1::Order::LatestFirst) => Order::LatestFirst,
        Ok(v1::Order::OldestFirst) => Order::OldestFirst,
        Err(_) => {
            violations.add("order", format!("{} is no order; take LATEST_FIRST or OLDEST_FIRST", message.order));
            Order::LatestFirst
        }
    };
    violations.into_result()?;
    let filter =
        |filter: v1::EventFilter| Filter { key: filter.match_event_item_key, value: filter.match_event_item_value };
    Ok(ReadRequest {
        namespace: message.namespace,
        series: message.time_series_id,
        start,
        end,
        order,
        filters: message.event_filters.into_iter().map(filter).collect(),
        page_size: message.page_size,
        page_bytes: message.page_bytes,
        query: None,
        total_record_limit: message.total_record_limit,
        page_token: message.page_token,
        timeout,
    })
}

/// A page as it was found, with what is said about it.
pub(crate) struct FoundPage {
    pub(crate) page: Page,
    pub(crate) namespace: String,
    pub(crate) series: String,
    pub(crate) took: Duration,
}

impl FoundPage {
    /// As it is answered.
    pub(crate) fn into_message(self) -> v1::ReadEventRecordsResponse {
        let FoundPage { page, namespace, series, took } = self;
        let context = v1::ResponseContext {
            namespace,
            time_taken: duration(took),
            partitions_read: page.partitions_read,
            bytes_read: page.bytes_read,
        };
        v1::ReadEventRecordsResponse {
            records: page.records.into_iter().map(|found| record(found, &series)).collect(),
            next_page_token: page.next_page_token.unwrap_or_default(),
            partial: page.partial.map(partial),
            response_context: vec![context],
        }
    }
}

pub(super) fn record(record: Record, series: &str) -> v1::EventRecord {
    v1::EventRecord {
        time_series_id: series.to_owned(),
        event_time: timestamp(record.position.time),
        event_id: record.position.id.into_string(),
        event_items: record.items.into_iter().map(item).collect(),
        continued: record.continued,
    }
}

fn item(item: Item) -> v1::EventItem {
    v1::EventItem {
        event_item_key: item.key.into_string(),
        event_item_value: item.value,
        value_metadata: item.metadata,
    }
}

pub(super) fn partial(partial: Partial) -> v1::Partial {
    let reason = match partial.reason {
        PartialReason::Slo => v1::partial::Reason::Slo,
        PartialReason::Retention => v1::partial::Reason::Retention,
    };
    v1::Partial { reason: reason.into(), complete_until: timestamp(partial.complete_until) }
}

#[cfg(test)]
mod tests {
    use anabranch_api::wkt;

    use super::*;

    #[test]
    fn everything_malformed_is_named() {
        let malformed = Some(wkt::Timestamp { seconds: 0, nanos: -1 });
        let message = v1::ReadEventRecordsRequest {
            time_interval: Some(v1::TimeInterval { start: malformed, end: malformed }),
            order: 7,
            ..Default::default()
        };
        let Err(EngineError::Refused(violations)) = read_request(message, None) else { panic!("must be refused") };
        let fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["time_interval.start", "time_interval.end", "order"]);
    }
}

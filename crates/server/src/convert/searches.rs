//! Searches and aggregates as the engine takes them, and what was found or counted as it is answered.

use std::time::Duration;

use anabranch_api::v1;
use anabranch_engine::{
    Aggregate, AggregateRequest, Counts, EngineError, ErrorKind, Filter, GroupBy, GroupKey, Query, ReadRequest,
    SearchPage, SearchRequest, Violation,
};

use super::{
    duration,
    reads::{partial, read_request, record},
    timestamp,
};

/// What is malformed is named, as for a read.
pub(crate) fn search_request(
    message: v1::SearchEventRecordsRequest,
    timeout: Option<Duration>,
) -> Result<SearchRequest, EngineError> {
    let (bounds, query) = bounds_and_query(message.time_interval, message.order, message.search_query, timeout)?;
    Ok(SearchRequest {
        namespace: message.namespace,
        series: message.time_series_ids,
        start: bounds.start,
        end: bounds.end,
        order: bounds.order,
        query,
        page_size: message.page_size,
        page_bytes: message.page_bytes,
        page_token: message.page_token,
        timeout,
    })
}

/// What is malformed is named, as for a read.
pub(crate) fn aggregate_request(
    message: v1::AggregateEventRecordsRequest,
    timeout: Option<Duration>,
) -> Result<AggregateRequest, EngineError> {
    let order = v1::Order::Unspecified as i32;
    let (bounds, query) = bounds_and_query(message.time_interval, order, message.search_query, timeout)?;
    let v1::GroupBy { time_series_id, time_step, event_item_key } = message.group_by.unwrap_or_default();
    let step = time_step.map(Duration::try_from).transpose();
    let step = step.map_err(|error| EngineError::invalid("group_by.time_step", error.to_string()))?;
    let item_key = Some(event_item_key).filter(|key| !key.is_empty());
    Ok(AggregateRequest {
        namespace: message.namespace,
        series: message.time_series_ids,
        start: bounds.start,
        end: bounds.end,
        query,
        group_by: GroupBy { series: time_series_id, step, item_key },
        page_token: message.page_token,
        timeout,
    })
}

fn bounds_and_query(
    time_interval: Option<v1::TimeInterval>,
    order: i32,
    search_query: Option<v1::SearchQuery>,
    timeout: Option<Duration>,
) -> Result<(ReadRequest, Option<Query>), EngineError> {
    let bounds = v1::ReadEventRecordsRequest { time_interval, order, ..Default::default() };
    let bounds = read_request(bounds, timeout);
    let query = search_query.map(|query| self::query(query, "search_query")).transpose();
    match (bounds, query) {
        (Ok(bounds), Ok(query)) => Ok((bounds, query)),
        (Err(EngineError::Refused(mut violations)), Err(violation)) => {
            violations.push(violation);
            Err(EngineError::Refused(violations))
        }
        (Err(error), _) => Err(error),
        (_, Err(violation)) => Err(EngineError::Refused(vec![violation])),
    }
}

fn query(message: v1::SearchQuery, field: &str) -> Result<Query, Violation> {
    use v1::search_query::Query as Message;
    let several = |queries: v1::search_query::Queries, word: &str| -> Result<Vec<Query>, Violation> {
        let parts = queries.queries.into_iter().enumerate();
        parts.map(|(at, part)| query(part, &format!("{field}.{word}.queries[{at}]"))).collect()
    };
    match message.query {
        Some(Message::Equals(equals)) => {
            Ok(Query::Item(Filter { key: equals.event_item_key, value: equals.event_item_value }))
        }
        Some(Message::And(queries)) => several(queries, "and").map(Query::All),
        Some(Message::Or(queries)) => several(queries, "or").map(Query::Any),
        None => {
            let reason = "needs one of `equals`, `and`, `or`".to_owned();
            Err(Violation { field: field.to_owned(), reason, kind: ErrorKind::InvalidArgument })
        }
    }
}

/// What was found, as it is answered.
pub(crate) fn search_response(
    page: SearchPage,
    namespace: String,
    time_taken: Duration,
) -> v1::SearchEventRecordsResponse {
    let context = v1::ResponseContext {
        namespace,
        time_taken: duration(time_taken),
        partitions_read: page.partitions_read,
        bytes_read: page.bytes_read,
    };
    v1::SearchEventRecordsResponse {
        records: page.records.into_iter().map(|(series, found)| record(found, &series)).collect(),
        next_page_token: page.next_page_token.unwrap_or_default(),
        partial: page.partial.map(partial),
        response_context: vec![context],
    }
}

/// What was counted, as it is answered.
pub(crate) fn aggregate_response(
    counted: Aggregate,
    namespace: String,
    time_taken: Duration,
) -> v1::AggregateEventRecordsResponse {
    let group = |(key, counts): (GroupKey, Counts)| v1::aggregate_event_records_response::Group {
        time_series_id: key.series.unwrap_or_default(),
        start: key.start.and_then(timestamp),
        event_item_value: key.value,
        records: counts.records,
        items: counts.items,
        bytes: counts.bytes,
        earliest: timestamp(counts.earliest),
        latest: timestamp(counts.latest),
    };
    let context = v1::ResponseContext {
        namespace,
        time_taken: duration(time_taken),
        partitions_read: counted.partitions_read,
        bytes_read: counted.bytes_read,
    };
    v1::AggregateEventRecordsResponse {
        groups: counted.groups.into_iter().map(group).collect(),
        next_page_token: counted.next_page_token.unwrap_or_default(),
        partial: counted.partial.map(partial),
        response_context: vec![context],
    }
}

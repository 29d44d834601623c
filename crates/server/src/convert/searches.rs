//! Search requests as the engine takes them, and what was found as it is answered.

use std::time::Duration;

use anabranch_api::v1;
use anabranch_engine::{EngineError, ErrorKind, Filter, Query, SearchPage, SearchRequest, Violation};

use super::{
    duration,
    reads::{partial, read_request, record},
};

/// What is malformed is named, as for a read.
pub(crate) fn search_request(
    message: v1::SearchEventRecordsRequest,
    timeout: Option<Duration>,
) -> Result<SearchRequest, EngineError> {
    let bounds = v1::ReadEventRecordsRequest {
        time_interval: message.time_interval,
        order: message.order,
        ..Default::default()
    };
    let bounds = read_request(bounds, timeout);
    let query = message.search_query.map(|query| self::query(query, "search_query")).transpose();
    let (bounds, query) = match (bounds, query) {
        (Ok(bounds), Ok(query)) => (bounds, query),
        (Err(EngineError::Refused(mut violations)), Err(violation)) => {
            violations.push(violation);
            return Err(EngineError::Refused(violations));
        }
        (Err(error), _) => return Err(error),
        (_, Err(violation)) => return Err(EngineError::Refused(vec![violation])),
    };
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

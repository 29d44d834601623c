//! Writing events and reading them back: the same over gRPC and HTTP, page after page and as a stream.

use anabranch_api::v1;
use anabranch_client::ErrorKind;
use anabranch_model::Timestamp;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use crate::harness::{Fixture, event, history};

fn ids(pages: &[v1::ReadEventRecordsResponse]) -> Vec<&str> {
    pages.iter().flat_map(|page| &page.records).map(|record| record.event_id.as_str()).collect()
}

/// `e-0099` … `e-0000`: ascending ids at ascending times, so that the latest comes first.
async fn write_many(fixture: &Fixture, count: usize, value: &Bytes) -> Vec<String> {
    let start = fixture.ago(3600);
    let at = |index: usize| Timestamp::from_nanos(start.nanos() + index as i64);
    let ids: Vec<String> = (0..count).map(|index| format!("e-{index:04}")).collect();
    let events = ids.iter().enumerate().map(|(index, id)| event("profile:1", at(index), id, value.clone()));
    for part in events.collect::<Vec<_>>().chunks(30) {
        fixture.write(part.to_vec()).await;
    }
    ids.into_iter().rev().collect()
}

#[tokio::test]
async fn grpc_and_json_give_the_same_records() {
    let fixture = Fixture::new().await;
    let binary = Bytes::from((0..=255).collect::<Vec<u8>>());
    let mut first = event("profile:1", fixture.ago(60), "e-1", binary);
    first.event_items.push(v1::EventItem {
        event_item_key: "ä/key \u{1F30A}".to_owned(),
        event_item_value: Bytes::new(),
        value_metadata: Some(Bytes::new()),
    });
    let mut bare = event("profile:1", fixture.ago(30), "e-2", "x");
    bare.event_items[0].value_metadata = None;
    fixture.write(vec![first.clone()]).await;
    let body = json!({"events": [serde_json::to_value(&bare).unwrap()]}).to_string();
    let answer = fixture.post("/v1/namespaces/plays/events:writeSync", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["eventsStored"], 1);
    assert_eq!(answer.json()["responseContext"]["namespace"], "plays");

    let over_grpc = fixture.client.read(history("profile:1")).await.unwrap();
    let answer = fixture.post("/v1/namespaces/plays/events:read", r#"{"timeSeriesId":"profile:1"}"#).await;
    let over_http: v1::ReadEventRecordsResponse = anabranch_api::json::from_slice(&answer.body).unwrap();
    assert_eq!(over_grpc.records, over_http.records);

    let record = |event: v1::Event| v1::EventRecord {
        time_series_id: event.time_series_id,
        event_time: event.event_time,
        event_id: event.event_id,
        event_items: event.event_items,
        continued: false,
    };
    assert_eq!(over_grpc.records, [record(bare), record(first)]);
    assert_eq!(over_grpc.next_page_token, "");
    let context = &over_grpc.response_context[0];
    assert_eq!(context.namespace, "plays");
    assert!(context.time_taken.is_some() && context.partitions_read >= 1 && context.bytes_read > 256, "{context:?}");
}

#[tokio::test]
async fn pages_and_streams_give_a_whole_history_in_order() {
    let fixture = Fixture::new().await;
    let expected = write_many(&fixture, 100, &Bytes::from_static(b"x")).await;
    let request = v1::ReadEventRecordsRequest { page_size: 7, ..history("profile:1") };
    let pages: Vec<_> = fixture.client.pages(request.clone()).try_collect().await.unwrap();
    assert_eq!(ids(&pages), expected);
    assert_eq!(pages.len(), 15);
    let streamed: Vec<_> = fixture.client.stream(request.clone()).try_collect().await.unwrap();
    assert_eq!(ids(&streamed), expected);

    // The token of any page of a stream goes on from there, by another way of reading too.
    let resumed = v1::ReadEventRecordsRequest { page_token: streamed[4].next_page_token.clone(), ..request };
    let rest: Vec<_> = fixture.client.pages(resumed).try_collect().await.unwrap();
    assert_eq!(ids(&rest), expected[35..]);

    let oldest = v1::ReadEventRecordsRequest { order: v1::Order::OldestFirst.into(), ..history("profile:1") };
    let mut ascending = fixture.client.read(oldest).await.unwrap();
    ascending.records.reverse();
    assert_eq!(ids(&[ascending]), expected);
}

#[tokio::test]
async fn a_stream_over_http_is_one_page_a_line() {
    let fixture = Fixture::new().await;
    let expected = write_many(&fixture, 50, &Bytes::from_static(b"x")).await;
    let body = r#"{"timeSeriesId":"profile:1","pageSize":8}"#;
    let answer = fixture.post("/v1/namespaces/plays/events:stream", body).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
    let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    let records = lines.iter().flat_map(|line| line["records"].as_array().unwrap());
    let ids: Vec<&str> = records.map(|record| record["eventId"].as_str().unwrap()).collect();
    assert_eq!(ids, expected);
    assert_eq!(lines[6].get("nextPageToken"), None);
}

#[tokio::test]
async fn filters_and_limits_travel_both_ways() {
    let fixture = Fixture::new().await;
    let times = [50, 40, 30, 20];
    let events = times
        .iter()
        .zip(["a", "b", "a", "a"])
        .map(|(ago, value)| event("profile:1", fixture.ago(*ago), &format!("e-{ago}"), value));
    fixture.write(events.collect()).await;
    let body = r#"{"timeSeriesId":"profile:1","eventFilters":[{"matchEventItemKey":"title","matchEventItemValue":"YQ=="}],
        "totalRecordLimit":2}"#;
    let answer = fixture.post("/v1/namespaces/plays/events:read", body).await;
    let records = answer.json()["records"].as_array().unwrap().clone();
    let ids: Vec<&Value> = records.iter().map(|record| &record["eventId"]).collect();
    assert_eq!(ids, ["e-20", "e-30"]);
    assert_eq!(answer.json().get("nextPageToken"), None);
    let interval = v1::TimeInterval {
        start: events_time(&fixture, 45),
        end: Some(anabranch_api::wkt::Timestamp { seconds: i64::MAX, nanos: 0 }),
    };
    let request = v1::ReadEventRecordsRequest { time_interval: Some(interval), ..history("profile:1") };
    let page = fixture.client.read(request).await.unwrap();
    assert_eq!(ids_of(&page), ["e-20", "e-30", "e-40"]);
}

fn events_time(fixture: &Fixture, ago: u64) -> Option<anabranch_api::wkt::Timestamp> {
    Some(anabranch_api::wkt::Timestamp::from_nanos(fixture.ago(ago).nanos()))
}

fn ids_of(page: &v1::ReadEventRecordsResponse) -> Vec<&str> {
    ids(std::slice::from_ref(page))
}

/// W3: nothing is stored, and every reason is named.
#[tokio::test]
async fn a_bad_request_stores_nothing_and_names_every_reason() {
    let fixture = Fixture::new().await;
    let now = fixture.ago(10);
    let good = event("profile:1", now, "e-0", "x");
    let untimed = v1::Event { event_time: None, ..good.clone() };
    let unnamed = v1::Event { event_id: String::new(), time_series_id: String::new(), ..good.clone() };
    let empty = v1::Event { event_items: Vec::new(), ..good.clone() };
    let old = event("profile:1", Timestamp::from_seconds(978_307_200), "e-4", "x");
    let mut twice = good.clone();
    twice.event_items.push(twice.event_items[0].clone());
    let beyond =
        v1::Event { event_time: Some(anabranch_api::wkt::Timestamp { seconds: i64::MAX, nanos: 0 }), ..good.clone() };
    let events = vec![good, untimed, unnamed, empty, old, twice, beyond];
    let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
    let expected = [
        "events[1].event_time: is missing",
        "events[2].time_series_id: must not be empty",
        "events[2].event_id: must not be empty",
        "events[3].event_items: an event needs at least one item",
        "events[4].event_time: 2001-01-01T00:00:00Z is older than",
        "events[5].event_items[1].event_item_key: `title` stands twice",
        "events[6].event_time: time is outside",
    ];
    let matches = |found: Vec<(String, String)>| {
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for ((field, reason), expected) in found.into_iter().zip(expected) {
            let line = format!("{field}: {reason}");
            assert!(line.starts_with(expected), "{line}");
        }
    };
    for error in [
        fixture.client.write_sync(request.clone()).await.unwrap_err(),
        fixture.client.write(request.clone()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.reason(), Some("INVALID_REQUEST"));
        matches(error.violations().iter().map(|found| (found.field.clone(), found.reason.clone())).collect());
    }
    let mut json_request = request;
    // The last one has no JSON form.
    json_request.events.pop();
    let body = anabranch_api::json::to_string(&json_request).unwrap();
    let answer = fixture.post("/v1/namespaces/plays/events:writeSync", &body).await;
    assert_eq!(answer.status, 400);
    let details = answer.json()["error"]["details"].as_array().unwrap().clone();
    let bad = details.iter().find_map(|detail| detail["fieldViolations"].as_array()).unwrap();
    assert_eq!(bad.len(), 6);
    assert_eq!(bad[0]["field"], "events[1].event_time");

    let page = fixture.client.read(history("profile:1")).await.unwrap();
    assert_eq!(page.records, []);
}

#[tokio::test]
async fn tokens_that_were_altered_or_belong_to_another_request_are_refused() {
    let fixture = Fixture::new().await;
    write_many(&fixture, 20, &Bytes::from_static(b"x")).await;
    let request = v1::ReadEventRecordsRequest { page_size: 5, ..history("profile:1") };
    let token = fixture.client.read(request.clone()).await.unwrap().next_page_token;
    let flip = |at: usize| {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    for altered in [flip(1), flip(token.len() / 2), token[..token.len() - 4].to_owned(), "?".to_owned()] {
        let request = v1::ReadEventRecordsRequest { page_token: altered, ..request.clone() };
        let error = fixture.client.read(request.clone()).await.unwrap_err();
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Invalid, Some("BAD_PAGE_TOKEN")), "{error}");
        assert_eq!(error.violations()[0].field, "page_token");
        let streamed = fixture.client.stream(request).next().await.unwrap();
        assert_eq!(streamed.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let foreign = v1::ReadEventRecordsRequest { time_series_id: "profile:2".to_owned(), ..request.clone() };
    let foreign = v1::ReadEventRecordsRequest { page_token: token.clone(), ..foreign };
    let error = fixture.client.read(foreign).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Invalid, Some("BAD_PAGE_TOKEN")));
    let other = v1::ReadEventRecordsRequest { page_size: 3, page_token: token, ..request };
    assert_eq!(fixture.client.read(other).await.unwrap().records.len(), 3);
}

#[tokio::test]
async fn a_queued_write_is_readable_soon() {
    let fixture = Fixture::new().await;
    let events = vec![event("profile:1", fixture.ago(1), "e-1", "x")];
    let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
    assert_eq!(fixture.client.write(request).await.unwrap().events_queued, 1);
    let found = async {
        while fixture.client.read(history("profile:1")).await.unwrap().records.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    fixture.env.timeout(std::time::Duration::from_secs(20), found).await.unwrap();
}

#[tokio::test]
async fn a_search_over_named_series_answers_over_http_and_without_names_says_why_not() {
    let fixture = Fixture::new().await;
    for (series, id, value) in
        [("profile:1", "e-1", "play"), ("profile:1", "e-2", "stop"), ("profile:2", "e-3", "play")]
    {
        fixture.write(vec![event(series, fixture.ago(60), id, value)]).await;
    }
    let key = event("profile:1", fixture.ago(60), "e", "x").event_items[0].event_item_key.clone();
    let path = "/v1/namespaces/plays/events:search";
    let equals = json!({"equals": {"eventItemKey": key, "eventItemValue": "cGxheQ=="}});
    let body = json!({"timeSeriesIds": ["profile:2", "profile:1"], "searchQuery": {"and": {"queries": [equals]}}});
    let answer = fixture.post(path, &body.to_string()).await;
    let found: Value = serde_json::from_slice(&answer.body).unwrap();
    let ids: Vec<&str> =
        found["records"].as_array().unwrap().iter().map(|record| record["eventId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["e-3", "e-1"], "{found}");
    let answer = fixture.post(path, "{}").await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status, 501, "{text}");
    assert!(text.contains("index"), "{text}");
    let answer = fixture.post(path, r#"{"timeSeriesIds":["a"],"searchQuery":{"or":{"queries":[{}]}}}"#).await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 400 && text.contains("search_query.or.queries[0]"), "{text}");
}

#[tokio::test]
async fn an_aggregate_over_named_series_answers_over_http_and_grpc_alike() {
    let fixture = Fixture::new().await;
    for (series, id, value, ago) in
        [("profile:1", "e-1", "play", 60), ("profile:1", "e-2", "stop", 50), ("profile:2", "e-3", "play", 40)]
    {
        fixture.write(vec![event(series, fixture.ago(ago), id, value)]).await;
    }
    let key = event("profile:1", fixture.ago(60), "e", "x").event_items[0].event_item_key.clone();
    let path = "/v1/namespaces/plays/events:aggregate";
    let by = json!({"eventItemKey": key, "timeStep": "31536000s"});
    let body = json!({"timeSeriesIds": ["profile:1", "profile:2"], "groupBy": by});
    let answer = fixture.post(path, &body.to_string()).await;
    let counted: Value = serde_json::from_slice(&answer.body).unwrap();
    let groups = counted["groups"].as_array().unwrap_or_else(|| panic!("{counted}"));
    let records = |value: &str| -> u64 {
        let of_value = groups.iter().filter(|group| group["eventItemValue"] == value);
        of_value.map(|group| group["records"].as_str().unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!((records("cGxheQ=="), records("c3RvcA==")), (2, 1), "{counted}");
    assert!(groups.iter().all(|group| group["start"].is_string() && group["timeSeriesId"].is_null()), "{counted}");

    let request = v1::AggregateEventRecordsRequest {
        namespace: "plays".to_owned(),
        time_series_ids: vec!["profile:1".to_owned(), "profile:2".to_owned()],
        group_by: Some(v1::GroupBy { time_series_id: true, ..v1::GroupBy::default() }),
        ..v1::AggregateEventRecordsRequest::default()
    };
    let answer = fixture.client.aggregate(request).await.unwrap();
    let groups: Vec<(&str, u64)> =
        answer.groups.iter().map(|group| (group.time_series_id.as_str(), group.records)).collect();
    assert_eq!(groups, [("profile:1", 2), ("profile:2", 1)]);
    assert_eq!(answer.response_context[0].partitions_read, 2);

    let answer = fixture.post(path, "{}").await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 501 && text.contains("time_series_ids"), "{text}");
    let answer = fixture.post(path, r#"{"timeSeriesIds":["a"],"groupBy":{"timeStep":"-5s"}}"#).await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 400 && text.contains("group_by.time_step"), "{text}");
}

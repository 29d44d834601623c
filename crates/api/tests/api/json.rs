//! The JSON form of requests and answers: the design's examples as they are, and errors that name the field.

use anabranch_api::json;
use anabranch_api::v1::{
    EventItem, EventRecord, NamespaceConfig, Order, Partial, ReadEventRecordsRequest, ReadEventRecordsResponse,
    ResponseContext, WriteEventRecordsRequest, WriteEventRecordsSyncResponse, partial,
};
use anabranch_api::wkt::{Duration, Timestamp};
use bytes::Bytes;
use prost::{Message, Name};
use serde_json::Value;

const WRITE: &str = r#"{"namespace":"plays","events":[{"timeSeriesId":"profile:123",
    "eventTime":"2026-03-28T10:00:00.123456789Z","eventId":"e-1",
    "eventItems":[{"eventItemKey":"title","eventItemValue":"SGVhdA==","valueMetadata":"dGV4dA=="}]}]}"#;

const READ: &str = r#"{"namespace":"plays","timeSeriesId":"profile:123",
    "timeInterval":{"start":"2026-03-28T00:00:00Z","end":"2026-03-29T00:00:00Z"},"order":"LATEST_FIRST",
    "eventFilters":[{"matchEventItemKey":"status","matchEventItemValue":"ZG9uZQ=="}],
    "pageSize":1000,"pageBytes":2097152,"totalRecordLimit":5000,"pageToken":"token"}"#;

fn answer() -> ReadEventRecordsResponse {
    let item = EventItem {
        event_item_key: "title".to_owned(),
        event_item_value: Bytes::from_static(b"Heat"),
        value_metadata: Some(Bytes::new()),
    };
    let record = EventRecord {
        time_series_id: "profile:123".to_owned(),
        event_time: Some(Timestamp::from_nanos(1_774_692_000_123_456_789)),
        event_id: "e-1".to_owned(),
        event_items: vec![item],
        continued: false,
    };
    ReadEventRecordsResponse {
        records: vec![record],
        next_page_token: "token".to_owned(),
        partial: Some(Partial {
            reason: partial::Reason::Slo.into(),
            complete_until: Some(Timestamp::from_nanos(1_774_692_000_000_000_000)),
        }),
        response_context: vec![ResponseContext {
            namespace: "plays".to_owned(),
            time_taken: Some(Duration { seconds: 0, nanos: 4_000_000 }),
            partitions_read: 2,
            bytes_read: 301_224,
        }],
    }
}

/// The error of reading `text` as a write request.
fn refusal(text: &str) -> String {
    json::from_slice::<WriteEventRecordsRequest>(text.as_bytes()).expect_err("must be refused").to_string()
}

#[test]
fn a_write_request_keeps_every_byte_and_nanosecond() {
    let request: WriteEventRecordsRequest = json::from_slice(WRITE.as_bytes()).unwrap();
    let event = &request.events[0];
    assert_eq!(request.namespace, "plays");
    assert_eq!(event.time_series_id, "profile:123");
    assert_eq!(event.event_time.unwrap().to_nanos(), Ok(1_774_692_000_123_456_789));
    assert_eq!(event.event_items[0].event_item_value, "Heat");
    assert_eq!(event.event_items[0].value_metadata.as_deref(), Some(b"text".as_slice()));

    let back: Value = serde_json::from_str(&json::to_string(&request).unwrap()).unwrap();
    assert_eq!(back, serde_json::from_str::<Value>(WRITE).unwrap());
    assert_eq!(WriteEventRecordsRequest::decode(request.encode_to_vec().as_slice()).unwrap(), request);
}

#[test]
fn a_read_request_takes_64_bit_numbers_plain_and_gives_them_as_strings() {
    let request: ReadEventRecordsRequest = json::from_slice(READ.as_bytes()).unwrap();
    assert_eq!(request.order(), Order::LatestFirst);
    assert_eq!((request.page_size, request.page_bytes, request.total_record_limit), (1000, 2_097_152, 5000));
    insta::assert_snapshot!(json::to_string(&request).unwrap(), @r#"{"namespace":"plays","timeSeriesId":"profile:123","timeInterval":{"start":"2026-03-28T00:00:00Z","end":"2026-03-29T00:00:00Z"},"order":"LATEST_FIRST","eventFilters":[{"matchEventItemKey":"status","matchEventItemValue":"ZG9uZQ=="}],"pageSize":1000,"pageBytes":"2097152","totalRecordLimit":"5000","pageToken":"token"}"#);
}

#[test]
fn an_answer_looks_as_the_design_shows_it() {
    insta::assert_snapshot!(json::to_string(&answer()).unwrap(), @r#"{"records":[{"timeSeriesId":"profile:123","eventTime":"2026-03-28T10:00:00.123456789Z","eventId":"e-1","eventItems":[{"eventItemKey":"title","eventItemValue":"SGVhdA==","valueMetadata":""}]}],"nextPageToken":"token","partial":{"reason":"SLO","completeUntil":"2026-03-28T10:00:00Z"},"responseContext":[{"namespace":"plays","timeTaken":"0.004s","partitionsRead":2,"bytesRead":"301224"}]}"#);
    let back: ReadEventRecordsResponse = json::from_slice(json::to_string(&answer()).unwrap().as_bytes()).unwrap();
    assert_eq!(back, answer());
    let empty = WriteEventRecordsSyncResponse::default();
    assert_eq!(json::to_string(&empty).unwrap(), "{}");
}

#[test]
fn empty_metadata_is_not_absent_metadata() {
    let read = |text: &str| json::from_slice::<EventItem>(text.as_bytes()).unwrap().value_metadata;
    assert_eq!(read(r#"{"eventItemKey":"k","valueMetadata":""}"#), Some(Bytes::new()));
    assert_eq!(read(r#"{"eventItemKey":"k"}"#), None);
}

#[test]
fn snake_case_names_and_url_safe_base64_are_taken() {
    let text = r#"{"event_item_key":"k","event_item_value":"-_8"}"#;
    let item: EventItem = json::from_slice(text.as_bytes()).unwrap();
    assert_eq!(item.event_item_value.as_ref(), [0xfb, 0xff]);
    insta::assert_snapshot!(json::to_string(&item).unwrap(), @r#"{"eventItemKey":"k","eventItemValue":"+/8="}"#);
}

#[test]
fn settings_tell_zero_from_absent() {
    let config: NamespaceConfig = json::from_slice(br#"{"eventBuckets":0,"acceptLimit":"3600s"}"#).unwrap();
    assert_eq!((config.event_buckets, config.seconds_per_slice), (Some(0), None));
    assert_eq!(config.accept_limit, Some(Duration { seconds: 3600, nanos: 0 }));
    insta::assert_snapshot!(json::to_string(&config).unwrap(), @r#"{"eventBuckets":0,"acceptLimit":"3600s"}"#);
}

#[test]
fn refusals_name_the_field() {
    insta::assert_snapshot!(refusal(r#"{"events":[{"eventTime":"yesterday"}]}"#), @r#"events[0].eventTime: "yesterday" is not an RFC 3339 time such as 2026-03-28T10:00:00.123456789Z at line 1 column 35"#);
    insta::assert_snapshot!(refusal(r#"{"events":[{},{"eventItems":[{"eventItemValue":"*"}]}]}"#), @"events[1].eventItems[0].eventItemValue: not base64: Invalid symbol 42, offset 0. at line 1 column 50");
    insta::assert_snapshot!(refusal(r#"{"events":[{"eventTme":"2026-03-28T10:00:00Z"}]}"#), @"events[0].eventTme: unknown field `eventTme`, expected one of `time_series_id`, `timeSeriesId`, `event_time`, `eventTime`, `event_id`, `eventId`, `event_items`, `eventItems` at line 1 column 22");
    insta::assert_snapshot!(refusal(r#"{"nmespace":"plays"}"#), @"nmespace: unknown field `nmespace`, expected `namespace` or `events` at line 1 column 11");
    insta::assert_snapshot!(refusal(r#"{"namespace":"plays","namespace":"plays"}"#), @"not a JSON WriteEventRecordsRequest: duplicate field `namespace` at line 1 column 32");
    insta::assert_snapshot!(refusal(r#"{"namespace":7}"#), @"namespace: invalid type: integer `7`, expected a string at line 1 column 14");
    let read = json::from_slice::<ReadEventRecordsRequest>(br#"{"order":"NEWEST"}"#).unwrap_err();
    insta::assert_snapshot!(read.to_string(), @"order: unknown variant `NEWEST`, expected one of `ORDER_UNSPECIFIED`, `LATEST_FIRST`, `OLDEST_FIRST` at line 1 column 17");
    let read = json::from_slice::<ReadEventRecordsRequest>(br#"{"pageSize":-1}"#).unwrap_err();
    insta::assert_snapshot!(read.to_string(), @"pageSize: not a number, or not one that this field can hold at line 1 column 15");
    let config = json::from_slice::<NamespaceConfig>(br#"{"readSlo":{"max":"1h"}}"#).unwrap_err();
    insta::assert_snapshot!(config.to_string(), @r#"readSlo.max: "1h" is not a duration in seconds such as 3600s or 0.004s at line 1 column 22"#);
}

#[test]
fn what_is_no_json_object_is_refused_with_the_place() {
    insta::assert_snapshot!(refusal(""), @"not a JSON WriteEventRecordsRequest: EOF while parsing a value at line 1 column 0");
    insta::assert_snapshot!(refusal(r#"{"namespace":"plays""#), @"not a JSON WriteEventRecordsRequest: EOF while parsing an object at line 1 column 20");
    insta::assert_snapshot!(refusal("[]"), @"not a JSON WriteEventRecordsRequest: invalid type: sequence, expected struct anabranch.v1.WriteEventRecordsRequest at line 1 column 2");
    insta::assert_snapshot!(refusal("{} {}"), @"not a JSON WriteEventRecordsRequest: trailing characters at line 1 column 4");
}

#[test]
fn a_time_that_json_cannot_say_is_an_error() {
    let mut answer = answer();
    answer.records[0].event_time = Some(Timestamp { seconds: i64::MAX, nanos: 0 });
    insta::assert_snapshot!(json::to_string(&answer).unwrap_err().to_string(), @"a time must lie in the years 0001 to 9999");
}

#[test]
fn messages_have_the_names_that_status_details_use() {
    assert_eq!(anabranch_api::v1::WriteOutcome::type_url(), "type.googleapis.com/anabranch.v1.WriteOutcome");
}

#[test]
fn null_is_the_same_as_absent() {
    let with = r#"{"namespace":"plays","timeSeriesId":"a","order":null,"pageSize":null,"timeInterval":{"start":null},"pageToken":null}"#;
    let without = r#"{"namespace":"plays","timeSeriesId":"a","timeInterval":{}}"#;
    let read = |text: &str| json::from_slice::<ReadEventRecordsRequest>(text.as_bytes()).unwrap();
    assert_eq!(read(with), read(without));
    assert!(json::from_slice::<ReadEventRecordsRequest>(br#"{"nmespace":null}"#).is_err());
    assert!(json::from_slice::<ReadEventRecordsRequest>(b"null").is_err());
}

//! What a client is told when something is wrong: over HTTP word by word, over gRPC by code and details.

use anabranch_api::v1;
use anabranch_client::{ClientError, ErrorKind};
use anabranch_server::ByteSize;
use bytes::Bytes;
use serde_json::json;
use tonic::Code;

use crate::harness::{Fixture, event, history, send};

const OLD: &str = r#"{"events":[{"timeSeriesId":"profile:1","eventTime":"2001-01-01T00:00:00Z","eventId":"e-1",
    "eventItems":[{"eventItemKey":"title","eventItemValue":"eA=="}]}]}"#;

/// The body of a failure with its status, as a person would look at it.
async fn told(fixture: &Fixture, method: &str, path: &str, body: &str) -> String {
    let answer = fixture.send(method, path, body).await;
    let mut text = format!("{method} {path} {body}\n{}\n", answer.status);
    for header in ["allow", "retry-after"] {
        if let Some(value) = answer.header(header) {
            text += &format!("{header}: {value}\n");
        }
    }
    let parts = answer.text().trim_end().replace(",\"details\":[", ",\"details\":[\n  ");
    text + &parts.replace("},{\"@type\"", "},\n  {\"@type\"")
}

#[tokio::test]
async fn failures_over_http_say_what_is_wrong() {
    let fixture = Fixture::new().await;
    let events = "/v1/namespaces/plays/events:writeSync";
    let read = "/v1/namespaces/plays/events:read";
    let mut texts = Vec::new();
    for (method, path, body) in [
        ("POST", events, "{\"events\":["),
        ("POST", events, "{\"evnts\":[]}"),
        ("POST", events, "{\"events\":[{\"eventTime\":\"yesterday\"}]}"),
        ("POST", events, "{\"namespace\":\"other\"}"),
        ("POST", events, ""),
        ("POST", events, OLD),
        ("POST", "/v1/namespaces/nowhere/events:writeSync", OLD),
        ("POST", read, "{\"pageSize\":-1}"),
        ("POST", read, "{\"timeSeriesId\":\"\"}"),
        ("POST", read, "{\"timeSeriesId\":\"a\",\"pageToken\":\"AAAA\"}"),
        (
            "POST",
            read,
            "{\"timeSeriesId\":\"a\",\"timeInterval\":{\"start\":\"2026-01-02T00:00:00Z\",\"end\":\"2026-01-01T00:00:00Z\"}}",
        ),
        ("POST", "/v1/namespaces", "{\"name\":\"plays\"}"),
        ("POST", "/v1/namespaces", "{\"name\":\"No Name\"}"),
        ("POST", "/v1/namespaces", "{\"name\":\"new\",\"config\":{\"eventBuckets\":0,\"secondsPerSlice\":61}}"),
        ("PATCH", "/v1/namespaces/plays", "{\"clear\":[\"colour\"]}"),
        ("DELETE", "/v1/namespaces/plays?confirm=play", ""),
        ("DELETE", "/v1/namespaces/plays?force=true", ""),
        ("POST", "/v1/namespaces/plays/backfills", "{\"interval\":{\"start\":\"2026-01-01T00:00:00Z\"}}"),
        ("POST", "/v1/namespaces/plays/backfills/bf-1:close", ""),
        ("POST", "/v1/namespaces/plays/backfills/bf-1:open", ""),
        ("GET", "/v2/namespaces", ""),
        ("GET", events, ""),
        ("PUT", "/v1/namespaces", ""),
        ("POST", "/metrics", ""),
    ] {
        texts.push(told(&fixture, method, path, body).await);
    }
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[tokio::test]
async fn bodies_that_are_not_text_or_too_long_are_refused_with_the_reason() {
    let fixture = Fixture::with(|config| config.limits.max_body = ByteSize(64 << 10)).await;
    let path = "/v1/namespaces/plays/events:read";
    let answer = fixture.send("POST", path, b"{\"timeSeriesId\":\"\xff\"}").await;
    assert_eq!(answer.status, 400);
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("line 1 column"), "{message}");

    let long = format!("{{\"timeSeriesId\":\"{}\"}}", "a".repeat(70 << 10));
    let answer = fixture.post(path, &long).await;
    assert_eq!(answer.status, 413);
    assert_eq!(answer.json()["error"]["status"], "OUT_OF_RANGE");
    let chunked = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let answer = send(fixture.http, "POST", path, "transfer-encoding: chunked\r\n", chunked.as_bytes()).await;
    assert_eq!(answer.status, 413);

    let answer = send(fixture.http, "POST", "/v1/namespaces/%ff/events:read", "content-length: 2\r\n", b"{}").await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(3)));
}

fn told_over_grpc<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (Code, ErrorKind, Option<String>) {
    let error = result.unwrap_err();
    (error.code(), error.kind(), error.reason().map(str::to_owned))
}

#[tokio::test]
async fn failures_over_grpc_carry_code_and_reason() {
    let fixture = Fixture::new().await;
    let client = &fixture.client;
    let reason = |text: &str| Some(text.to_owned());
    let named = |name: &str| v1::CreateNamespaceRequest { name: name.to_owned(), ..Default::default() };

    let exists = told_over_grpc(client.create_namespace(named("plays")).await);
    assert_eq!(exists, (Code::AlreadyExists, ErrorKind::AlreadyExists, reason("NAMESPACE_EXISTS")));
    let wrong = told_over_grpc(client.create_namespace(named("a-b")).await);
    assert_eq!(wrong, (Code::InvalidArgument, ErrorKind::Invalid, reason("INVALID_REQUEST")));
    let missing = v1::ReadEventRecordsRequest { namespace: "nowhere".to_owned(), ..history("profile:1") };
    let missing = told_over_grpc(client.read(missing).await);
    assert_eq!(missing, (Code::NotFound, ErrorKind::NotFound, reason("NO_SUCH_NAMESPACE")));

    let old = event("profile:1", anabranch_model::Timestamp::from_seconds(978_307_200), "e-1", "x");
    let old = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events: vec![old] };
    let error = client.write_sync(old).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::OutOfRange, Some("OUTSIDE_ACCEPTED_TIME")));
    assert!(error.message().contains("anabranch import") && error.message().contains("anabranch backfill open"));

    let order = v1::ReadEventRecordsRequest { order: 9, ..history("profile:1") };
    assert_eq!(client.read(order).await.unwrap_err().violations()[0].field, "order");
}

#[tokio::test]
async fn a_blocked_series_is_refused() {
    let fixture = Fixture::new().await;
    let body =
        r#"{"config":{"blockList":[{"timeSeriesId":"profile:1","writes":true,"reads":true,"reason":"too loud"}]}}"#;
    let answer = fixture.send("PATCH", "/v1/namespaces/plays", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let since = answer.json()["config"]["blockList"][0]["since"].clone();
    assert!(since.is_string());
    // Setting the same list again keeps the moment.
    let again = fixture.send("PATCH", "/v1/namespaces/plays", body).await;
    assert_eq!(again.json()["config"]["blockList"][0]["since"], since);

    let error = fixture.client.read(history("profile:1")).await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Code::PermissionDenied, Some("SERIES_BLOCKED")));
    let events = vec![event("profile:1", fixture.ago(1), "e-1", "x")];
    let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
    let error = fixture.client.write_sync(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.message().contains("too loud"), "{error}");
    let answer = fixture.post("/v1/namespaces/plays/events:read", r#"{"timeSeriesId":"profile:1"}"#).await;
    assert_eq!(answer.status, 403);
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_when_to_come_again() {
    let fixture = Fixture::with(|config| config.engine.queue_events = 1).await;
    let events = (0..2).map(|index| event("profile:1", fixture.ago(1), &format!("e-{index}"), "x")).collect();
    let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
    let error = fixture.client.write(request.clone()).await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Code::ResourceExhausted, Some("OVERLOADED")));
    assert!(error.retry_after().is_some());
    let body = anabranch_api::json::to_string(&request).unwrap();
    let answer = fixture.post("/v1/namespaces/plays/events:write", &body).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
}

#[tokio::test]
async fn a_page_of_another_site_can_look_but_not_write() {
    let fixture = Fixture::new().await;
    for (method, site, status) in [
        ("POST", "cross-site", 403),
        ("POST", "same-site", 403),
        ("POST", "same-origin", 409),
        ("POST", "none", 409),
        ("GET", "cross-site", 200),
    ] {
        let headers = format!("content-length: 16\r\nsec-fetch-site: {site}\r\n");
        let answer = send(fixture.http, method, "/v1/namespaces", &headers, br#"{"name":"plays"}"#).await;
        assert_eq!(answer.status, status, "{method} {site}");
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused() {
    let fixture = Fixture::with(|config| config.limits.max_message = ByteSize(64 << 10)).await;
    let events = vec![event("profile:1", fixture.ago(1), "e-1", Bytes::from(vec![7; 70 << 10]))];
    let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
    let code = fixture.client.write_sync(request).await.unwrap_err().code();
    assert!(matches!(code, Code::OutOfRange | Code::ResourceExhausted), "{code:?}");
}

#[tokio::test]
async fn a_deadline_that_has_passed_is_told() {
    let fixture = Fixture::new().await;
    let headers = "content-length: 30\r\ngrpc-timeout: 1n\r\n";
    let body = br#"{"timeSeriesId":"profile:1"}  "#;
    for (path, rpc) in [("events:read", "the read"), ("events:stream", "the stream")] {
        let path = format!("/v1/namespaces/plays/{path}");
        let answer = send(fixture.http, "POST", &path, headers, body).await;
        assert_eq!(answer.status, 504, "{rpc}: {answer:?}");
        assert_eq!(answer.json()["error"]["status"], "DEADLINE_EXCEEDED");
    }
}

#[tokio::test]
async fn many_wrong_events_are_cut_over_grpc_and_all_listed_over_http() {
    let fixture = Fixture::new().await;
    let good = event("profile:1", fixture.ago(1), "", "x");
    let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events: vec![good; 500] };
    let error = fixture.client.write_sync(request.clone()).await.unwrap_err();
    let shown = error.violations().len();
    assert!((10..500).contains(&shown), "{shown}");
    assert!(error.message().contains("500 things are wrong"), "{error}");
    let body = anabranch_api::json::to_string(&request).unwrap();
    let answer = fixture.post("/v1/namespaces/plays/events:writeSync", &body).await;
    let details = answer.json()["error"]["details"].as_array().unwrap().clone();
    let listed = details.iter().find_map(|detail| detail["fieldViolations"].as_array()).unwrap();
    assert_eq!(listed.len(), 500);
}

//! Namespaces and backfill windows, over both protocols.

use std::time::Duration;

use anabranch_api::{v1, wkt};
use anabranch_client::ErrorKind;
use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use serde_json::json;

use crate::harness::{Fixture, event, history};

fn named(name: &str) -> v1::GetNamespaceRequest {
    v1::GetNamespaceRequest { name: name.to_owned() }
}

#[tokio::test]
async fn a_namespace_is_made_shown_changed_and_deleted() {
    let fixture = Fixture::new().await;
    let body = json!({"name": "visits", "config": {"eventBuckets": 4, "readSlo": {"max": "2s"}}}).to_string();
    let made = fixture.post("/v1/namespaces", &body).await;
    assert_eq!(made.status, 200, "{made:?}");
    let shown = fixture.get("/v1/namespaces/visits").await.json();
    assert_eq!(shown, made.json());
    assert_eq!(shown["config"]["eventBuckets"], 4);
    assert_eq!(shown["config"]["readSlo"], json!({"target": "0.500s", "max": "2s"}));
    assert_eq!(shown["slices"][0]["state"], "OPEN");

    let over_grpc = fixture.client.get_namespace(named("visits")).await.unwrap();
    let over_http: v1::Namespace = anabranch_api::json::from_slice(shown.to_string().as_bytes()).unwrap();
    assert_eq!(over_grpc, over_http);
    let all = fixture.client.list_namespaces(v1::ListNamespacesRequest::default()).await.unwrap();
    let names: Vec<&str> = all.namespaces.iter().map(|namespace| namespace.name.as_str()).collect();
    assert_eq!(names, ["plays", "visits"]);
    assert_eq!(fixture.get("/v1/namespaces").await.json()["namespaces"].as_array().unwrap().len(), 2);

    let change = v1::UpdateNamespaceRequest {
        name: "visits".to_owned(),
        config: Some(v1::NamespaceConfig {
            read_slo: Some(v1::Slo { target: Some(wkt::Duration { seconds: 1, nanos: 0 }), max: None }),
            ..Default::default()
        }),
        clear: vec!["eventBuckets".to_owned()],
        dry_run: false,
    };
    let changed = fixture.client.update_namespace(change).await.unwrap().config.unwrap();
    assert_eq!(changed.event_buckets, Some(1));
    let slo = changed.read_slo.unwrap();
    assert_eq!((slo.target.unwrap().seconds, slo.max.unwrap().seconds), (1, 2));

    let deleted = fixture.send("DELETE", "/v1/namespaces/visits?confirm=visits", "").await;
    assert!(deleted.status == 200 && deleted.json()["dropTime"].is_string(), "{deleted:?}");
    assert_eq!(fixture.get("/v1/namespaces/visits").await.status, 404);
    let names = |list: serde_json::Value| -> Vec<String> {
        let list = list["namespaces"].as_array().cloned().unwrap_or_default();
        list.iter().map(|namespace| namespace["name"].as_str().unwrap().to_owned()).collect()
    };
    let restorable = fixture.get("/v1/namespaces?deleted=true").await.json();
    assert_eq!(restorable["namespaces"][0]["dropTime"], deleted.json()["dropTime"]);
    assert_eq!(names(restorable), ["visits"]);
    assert_eq!(names(fixture.get("/v1/namespaces?deleted=false").await.json()), ["plays"]);
    assert_eq!(fixture.get("/v1/namespaces?deleted=perhaps").await.status, 400);
    assert_eq!(fixture.post("/v1/namespaces/visits:restore", "").await.status, 200);
    assert_eq!(names(fixture.get("/v1/namespaces?deleted=true").await.json()), [""; 0]);
    let deleted = fixture.send("DELETE", "/v1/namespaces/visits?confirm=visits&grace=0s", "").await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    let gone = fixture.client.get_namespace(named("visits")).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_window_lets_old_events_in_until_it_is_closed() {
    let fixture = Fixture::new().await;
    let then = fixture.ago(40 * 86_400);
    let time = |time: Timestamp| Some(wkt::Timestamp::from_nanos(time.nanos()));
    let day = Duration::from_secs(86_400);
    let interval = v1::TimeInterval { start: time(then.saturating_sub(day)), end: time(then.saturating_add(day)) };
    let open = v1::OpenBackfillRequest {
        namespace: "plays".to_owned(),
        interval: Some(interval),
        reason: "old plays".to_owned(),
        ..Default::default()
    };
    let window = fixture.client.open_backfill(open.clone()).await.unwrap();
    assert_eq!((window.state(), window.reason.as_str()), (v1::backfill::State::Open, "old plays"));
    let again = v1::OpenBackfillRequest { id: window.id.clone(), ..open };
    assert_eq!(fixture.client.open_backfill(again).await.unwrap(), window, "sent twice, it is one window");
    let (opened, expires) = (window.effective_time.unwrap(), window.expire_time.unwrap());
    assert_eq!(expires.seconds - opened.seconds, 3600);
    fixture.write(vec![event("profile:1", then, "e-1", "x")]).await;

    let listed = fixture.get("/v1/namespaces/plays/backfills").await.json();
    assert_eq!((listed["backfills"].as_array().unwrap().len(), &listed["backfills"][0]["id"]), (1, &json!(window.id)));
    let closed = fixture.post(&format!("/v1/namespaces/plays/backfills/{}:close", window.id), "").await;
    assert_eq!((closed.status, &closed.json()["state"]), (200, &json!("CLOSED")), "{closed:?}");
    let events = vec![event("profile:1", then, "e-2", "x")];
    let late = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
    assert_eq!(fixture.client.write_sync(late).await.unwrap_err().kind(), ErrorKind::OutOfRange);
    assert_eq!(fixture.client.read(history("profile:1")).await.unwrap().records.len(), 1);
    let unknown = v1::CloseBackfillRequest { namespace: "plays".to_owned(), id: "bf-0".to_owned() };
    assert_eq!(fixture.client.close_backfill(unknown).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_dry_run_says_what_retention_would_do_and_changes_nothing() {
    let fixture = Fixture::new().await;
    let then = fixture.ago(400 * 86_400);
    let time = |time: Timestamp| Some(wkt::Timestamp::from_nanos(time.nanos()));
    let hour = Duration::from_secs(3600);
    let interval = v1::TimeInterval { start: time(then), end: time(then.saturating_add(hour)) };
    let open =
        v1::OpenBackfillRequest { namespace: "plays".to_owned(), interval: Some(interval), ..Default::default() };
    let window = fixture.client.open_backfill(open).await.unwrap();
    fixture.write(vec![event("profile:1", then, "e-1", "x")]).await;
    fixture.post(&format!("/v1/namespaces/plays/backfills/{}:close", window.id), "").await;

    let shorter = json!({"config": {"deleteAfter": "31536000s"}, "dryRun": true}).to_string();
    let told = fixture.send("PATCH", "/v1/namespaces/plays", &shorter).await.json();
    let fates = told["sliceFates"].as_array().unwrap();
    assert_eq!((fates.len(), &fates[0]["fate"]), (1, &json!("DROPS")), "{told}");
    assert_eq!(told["config"]["deleteAfter"], "31536000s");
    assert!(told["config"]["closeAfter"].is_string(), "the server says when it would be closed: {told}");
    let now = fixture.get("/v1/namespaces/plays").await.json();
    assert!(now["config"]["deleteAfter"].is_null() && now["sliceFates"].is_null(), "{now}");
    assert_eq!(fixture.client.read(history("profile:1")).await.unwrap().records.len(), 1);
    let wrong = json!({"config": {"deleteAfter": "1s"}, "dryRun": true}).to_string();
    assert_eq!(fixture.send("PATCH", "/v1/namespaces/plays", &wrong).await.status, 400);

    let shorter = json!({"config": {"deleteAfter": "31536000s"}}).to_string();
    let done = fixture.send("PATCH", "/v1/namespaces/plays", &shorter).await.json();
    assert_eq!(done["sliceFates"], told["sliceFates"]);
    let env = Env::system();
    let begun = env.monotonic();
    while !fixture.client.read(history("profile:1")).await.unwrap().records.is_empty() {
        assert!(env.monotonic() - begun < Duration::from_secs(30), "what was told never happened");
    }
}

#[tokio::test]
async fn single_series_are_blocked_and_unblocked_over_both_protocols() {
    let fixture = Fixture::new().await;
    let body = json!({"series": [{"timeSeriesId": "a", "writes": true, "reads": true}]}).to_string();
    let first = fixture.post("/v1/namespaces/plays/blockList:add", &body).await.json();
    let entry = v1::BlockedSeries { time_series_id: "b".to_owned(), writes: true, ..Default::default() };
    let request = v1::BlockSeriesRequest { namespace: "plays".to_owned(), series: vec![entry] };
    let list = fixture.client.block_series(request).await.unwrap().block_list;
    let ids: Vec<&str> = list.iter().map(|blocked| blocked.time_series_id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    let again = fixture.post("/v1/namespaces/plays/blockList:add", &body).await.json();
    assert_eq!(again["blockList"][1]["since"], first["blockList"][0]["since"], "{again}");
    let neither = json!({"series": [{"timeSeriesId": "c"}]}).to_string();
    assert_eq!(fixture.post("/v1/namespaces/plays/blockList:add", &neither).await.status, 400);
    let missing = json!({"timeSeriesIds": ["a", "c"]}).to_string();
    let refused = fixture.post("/v1/namespaces/plays/blockList:remove", &missing).await;
    assert_eq!((refused.status, refused.json()["error"]["details"][0]["reason"].as_str()), (404, Some("NOT_BLOCKED")));
    let request = v1::UnblockSeriesRequest { namespace: "plays".to_owned(), time_series_ids: vec!["a".to_owned()] };
    let list = fixture.client.unblock_series(request).await.unwrap().block_list;
    assert_eq!((list.len(), list[0].time_series_id.as_str()), (1, "b"), "what was refused changed nothing");
}

/// W1: nothing is acknowledged only to be closed by the retention a moment later.
#[tokio::test]
async fn a_window_does_not_reach_behind_the_retention() {
    let fixture = Fixture::new().await;
    let body = json!({"name": "short", "config": {"secondsPerSlice": 86_400, "closeAfter": "864000s"}}).to_string();
    assert_eq!(fixture.post("/v1/namespaces", &body).await.status, 200);
    let day = 86_400;
    let open = async |from: u64, to: u64| {
        let (start, end) = (fixture.ago(from * day).to_string(), fixture.ago(to * day).to_string());
        let body = json!({"interval": {"start": start, "end": end}}).to_string();
        fixture.post("/v1/namespaces/short/backfills", &body).await
    };
    let refused = open(400, 5).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.text().contains("has left the retention") && refused.text().contains("anabranch retention short"));
    assert_eq!(open(9, 5).await.status, 200);
    let body = json!({"config": {"closeAfter": "86400000s"}}).to_string();
    assert_eq!(fixture.send("PATCH", "/v1/namespaces/short", body).await.status, 200);
    assert_eq!(open(400, 5).await.status, 200);
}

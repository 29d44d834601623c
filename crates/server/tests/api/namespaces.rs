//! Namespaces and backfill windows, over both protocols.

use std::time::Duration;

use anabranch_api::{v1, wkt};
use anabranch_client::ErrorKind;
use anabranch_model::Timestamp;
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
    let all = fixture.client.list_namespaces(v1::ListNamespacesRequest {}).await.unwrap();
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
    };
    let changed = fixture.client.update_namespace(change).await.unwrap().config.unwrap();
    assert_eq!(changed.event_buckets, Some(1));
    let slo = changed.read_slo.unwrap();
    assert_eq!((slo.target.unwrap().seconds, slo.max.unwrap().seconds), (1, 2));

    let deleted = fixture.send("DELETE", "/v1/namespaces/visits?confirm=visits", "").await;
    assert!(deleted.status == 200 && deleted.json()["dropTime"].is_string(), "{deleted:?}");
    assert_eq!(fixture.get("/v1/namespaces/visits").await.status, 404);
    assert_eq!(fixture.post("/v1/namespaces/visits:restore", "").await.status, 200);
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
    let window = fixture.client.open_backfill(open).await.unwrap();
    assert_eq!((window.state(), window.reason.as_str()), (v1::backfill::State::Open, "old plays"));
    let (opened, expires) = (window.effective_time.unwrap(), window.expire_time.unwrap());
    assert_eq!(expires.seconds - opened.seconds, 3600);
    fixture.write(vec![event("profile:1", then, "e-1", "x")]).await;

    let listed = fixture.get("/v1/namespaces/plays/backfills").await.json();
    assert_eq!(listed["backfills"][0]["id"], window.id);
    let closed = fixture.post(&format!("/v1/namespaces/plays/backfills/{}:close", window.id), "").await;
    assert_eq!((closed.status, &closed.json()["state"]), (200, &json!("CLOSED")), "{closed:?}");
    let events = vec![event("profile:1", then, "e-2", "x")];
    let late = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
    assert_eq!(fixture.client.write_sync(late).await.unwrap_err().kind(), ErrorKind::OutOfRange);
    assert_eq!(fixture.client.read(history("profile:1")).await.unwrap().records.len(), 1);
    let unknown = v1::CloseBackfillRequest { namespace: "plays".to_owned(), id: "bf-0".to_owned() };
    assert_eq!(fixture.client.close_backfill(unknown).await.unwrap_err().kind(), ErrorKind::NotFound);
}

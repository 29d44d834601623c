//! Splits over both protocols: a wide partition is split, shown, verified, trusted and given up.

use std::time::Duration;

use anabranch_api::{v1, wkt};
use anabranch_client::ErrorKind;
use anabranch_model::Timestamp;
use serde_json::{Value, json};

use crate::harness::{Fixture, event, history};

const DEADLINE: Duration = Duration::from_secs(60);

/// A server whose workers look often, with a namespace that seals quickly.
async fn fixture() -> Fixture {
    let fixture = Fixture::with(|config| config.splits.sweep_interval = Duration::from_millis(100)).await;
    let settings = json!({
        "acceptLimit": "1s",
        "sealMargin": "1s",
        "writeSlo": {"target": "0.100s", "max": "0.400s"},
        "split": {"thresholdBytes": 65_536, "targetPieceBytes": 16_384, "blockBytes": 4096, "promote": false},
    });
    let request = json!({"config": settings}).to_string();
    let answer = fixture.send("PATCH", "/v1/namespaces/plays", request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    fixture
}

/// Noon of a day long past.
fn then() -> Timestamp {
    Timestamp::from_seconds(1_585_396_800)
}

impl Fixture {
    /// Old events, a second apart, through a backfill window.
    async fn backfill(&self, series: &[(&str, usize)]) {
        let wire = |time: Timestamp| Some(wkt::Timestamp::from_nanos(time.nanos()));
        let hour = Duration::from_secs(3600);
        let interval =
            v1::TimeInterval { start: wire(then().saturating_sub(hour)), end: wire(then().saturating_add(hour)) };
        let open =
            v1::OpenBackfillRequest { namespace: "plays".to_owned(), interval: Some(interval), ..Default::default() };
        let window = self.client.open_backfill(open).await.unwrap();
        for (series, count) in series {
            let at = |index: usize| then().saturating_add(Duration::from_secs(index as u64));
            let body = |index: usize| format!("{index:05} {}", "water under the bridge ".repeat(20));
            let events = (0..*count).map(|index| event(series, at(index), &format!("e-{index:05}"), body(index)));
            self.write(events.collect()).await;
        }
        let close = v1::CloseBackfillRequest { namespace: "plays".to_owned(), id: window.id };
        self.client.close_backfill(close).await.unwrap();
    }

    async fn read_all(&self, series: &str) -> Vec<v1::EventRecord> {
        let (mut records, mut request) = (Vec::new(), history(series));
        loop {
            let page = self.client.read(request.clone()).await.unwrap();
            records.extend(page.records);
            if page.next_page_token.is_empty() {
                return records;
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Waits until a split of a series is in a state.
    async fn until(&self, series: &str, state: v1::split::State) -> v1::Split {
        let begun = self.env.monotonic();
        let request = v1::ListSplitsRequest {
            namespace: "plays".to_owned(),
            time_series_id: series.to_owned(),
            ..Default::default()
        };
        loop {
            let splits = self.client.list_splits(request.clone()).await.unwrap().splits;
            if let Some(split) = splits.iter().find(|split| split.state() == state) {
                return split.clone();
            }
            assert!(self.env.monotonic() - begun < DEADLINE, "never {state:?}: {splits:?}");
            self.env.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn split_of(&self, split: &v1::Split) -> Value {
        let path = format!(
            "/v1/namespaces/plays/splits/{}/{}/{}/{}",
            split.time_slice, split.time_series_id, split.time_bucket, split.event_bucket
        );
        let answer = self.get(&path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    async fn posted(&self, verb: &str, body: Value) -> Value {
        let answer = self.post(&format!("/v1/namespaces/plays/splits:{verb}"), &body.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

fn selected(split: &v1::Split) -> v1::GetSplitRequest {
    v1::GetSplitRequest {
        namespace: split.namespace.clone(),
        time_slice: split.time_slice.clone(),
        time_series_id: split.time_series_id.clone(),
        time_bucket: split.time_bucket,
        event_bucket: split.event_bucket,
    }
}

#[tokio::test]
async fn a_wide_partition_is_split_shown_verified_and_trusted() {
    let fixture = fixture().await;
    fixture.backfill(&[("wide", 400)]).await;
    let before = fixture.read_all("wide").await;
    assert_eq!(before.len(), 400);
    let listed = fixture.until("wide", v1::split::State::Completed).await;
    assert_eq!(listed.segments.len(), 1);

    let shown = fixture.split_of(&listed).await;
    let over_grpc = fixture.client.get_split(selected(&listed)).await.unwrap();
    let over_http: v1::Split = anabranch_api::json::from_slice(shown.to_string().as_bytes()).unwrap();
    assert_eq!(over_grpc, over_http);
    assert_eq!((&shown["state"], &shown["generation"]), (&json!("COMPLETED"), &json!(1)), "{shown}");
    let segment = &shown["segments"][0];
    assert_eq!(segment["preSplitData"]["table"], listed.time_slice);
    assert_eq!(segment["preSplitData"]["rows"], "400");
    let post = &segment["postSplitData"];
    assert_eq!(post["table"], format!("wide_{}_1", listed.time_slice));
    assert_eq!((&post["packing"], &post["blockBytes"]), (&json!("LZ4"), &json!(4096)));
    let strategy = &post["timeRangePartitionStrategy"];
    let pieces = strategy["pieces"].as_array().unwrap();
    assert!(pieces.len() > 4 && strategy["pieceCount"] == pieces.len(), "{strategy}");
    assert_eq!(pieces[0]["newest"]["eventId"], "e-00399");
    let rows: u64 = pieces.iter().map(|piece| piece["rows"].as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(rows, 400);
    assert!(pieces.iter().all(|piece| piece["checksum"].as_str().unwrap().len() == 32), "{pieces:?}");
    // Lists have everything but the pieces.
    let list = fixture.get("/v1/namespaces/plays/splits?states=COMPLETED&states=FAILED").await.json();
    let strategy = &list["splits"][0]["segments"][0]["postSplitData"]["timeRangePartitionStrategy"];
    assert_eq!((&strategy["pieceCount"], &strategy["pieces"]), (&json!(pieces.len()), &Value::Null), "{list}");
    assert_eq!(fixture.get("/v1/namespaces/plays/splits?states=FAILED").await.json(), json!({}));

    let verified = fixture.posted("verify", json!({"timeSeriesId": "wide"})).await;
    assert_eq!(verified["verifications"][0]["segmentsEqual"], 1, "{verified}");
    assert_eq!(verified["verifications"][0]["difference"], Value::Null);
    let set = fixture.posted("setReadMode", json!({"readMode": "ON", "reason": "proven", "by": "ann"})).await;
    assert_eq!(set["splits"]["readMode"], "ON");
    let change = &set["splits"]["history"][0];
    assert_eq!((&change["from"], &change["to"], &change["by"]), (&json!("COMPARISON"), &json!("ON"), &json!("ann")));
    assert!(set["sealedUntil"].is_string(), "{set}");
    assert_eq!(fixture.read_all("wide").await, before);
    let metrics = fixture.get("/metrics").await;
    let served =
        metrics.text().lines().find(|line| line.starts_with("anabranch_split_routes_total{outcome=\"split\"}"));
    assert!(served.is_some(), "{}", metrics.text());
    assert_eq!(fixture.get("/v1/namespaces/plays/splits:differences").await.json(), json!({}));
}

#[tokio::test]
async fn a_split_is_given_up_and_begun_again() {
    let fixture = fixture().await;
    fixture.backfill(&[("wide", 400)]).await;
    let before = fixture.read_all("wide").await;
    fixture.until("wide", v1::split::State::Completed).await;
    let nothing = fixture.posted("retry", json!({"timeSeriesId": "wide"})).await;
    assert_eq!(nothing, json!({}), "there is nothing to retry");
    let given_up = fixture.posted("abandon", json!({"timeSeriesId": "wide", "reason": "not wanted"})).await;
    assert_eq!(given_up["splits"][0]["state"], "PARKED", "{given_up}");
    assert_eq!(given_up["splits"][0]["reason"], "abandoned: not wanted");
    assert_eq!(fixture.read_all("wide").await, before);
    let again = fixture.posted("retry", json!({"all": true})).await;
    assert_eq!(again["splits"][0]["state"], "DETECTED", "{again}");
    let split = fixture.until("wide", v1::split::State::Completed).await;
    assert_eq!(split.generation, 2);
    assert_eq!(fixture.read_all("wide").await, before);
}

#[tokio::test]
async fn splits_are_listed_page_after_page() {
    let fixture = fixture().await;
    let series: Vec<String> = (0..5).map(|index| format!("a/b {index}")).collect();
    let counts: Vec<(&str, usize)> = series.iter().map(|series| (series.as_str(), 2)).collect();
    fixture.backfill(&counts).await;
    for series in &series {
        let asked = fixture.posted("request", json!({"timeSeriesId": series})).await;
        assert_eq!(asked["splits"].as_array().unwrap().len(), 1, "{asked}");
    }
    for series in &series {
        let small = fixture.until(series, v1::split::State::NotWide).await;
        assert!(small.not_wide.unwrap().bytes > 0, "{small:?}");
    }
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/namespaces/plays/splits?pageSize=2&pageToken={}", token.replace(' ', "%20"));
        let page = fixture.get(&path).await.json();
        let splits = page["splits"].as_array().unwrap().clone();
        assert!(splits.len() <= 2, "{page}");
        found.extend(splits.iter().map(|split| split["timeSeriesId"].as_str().unwrap().to_owned()));
        match page["nextPageToken"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, series);
    // A series may hold what paths are made of.
    let listed = fixture.until("a/b 3", v1::split::State::NotWide).await;
    let path = format!("/v1/namespaces/plays/splits/{}/a%2Fb%203/{}/0", listed.time_slice, listed.time_bucket);
    assert_eq!(fixture.get(&path).await.json()["timeSeriesId"], "a/b 3");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_and_explained() {
    let fixture = fixture().await;
    let slices = fixture.get("/v1/namespaces/plays").await.json()["slices"].clone();
    let name = |slice: &Value| slice["name"].as_str().unwrap().to_owned();
    let (slice, newest) = (name(&slices[0]), name(slices.as_array().unwrap().last().unwrap()));
    let message = |answer: &crate::harness::Answer| answer.json()["error"]["message"].as_str().unwrap().to_owned();
    let splits = "/v1/namespaces/plays/splits";
    for (query, status, part) in [
        ("?timeSlice=data_20010101", 400, format!("time_slice: there is no slice `data_20010101`; there are {newest}")),
        ("?states=BUSY", 400, "states".to_owned()),
        ("?colour=red", 400, "unknown field `colour`".to_owned()),
        ("?pageToken=x", 400, "page_token".to_owned()),
        ("?pageSize=1&pageSize=2", 400, "pageSize: is in the query twice".to_owned()),
        ("?timeBucket=soon", 400, "timeBucket".to_owned()),
    ] {
        let answer = fixture.get(&format!("{splits}{query}")).await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        assert!(message(&answer).contains(&part), "{query}: {}", message(&answer));
    }
    let missing = fixture.get(&format!("{splits}/{slice}/nobody/0/0")).await;
    assert_eq!(missing.status, 404, "{missing:?}");
    assert_eq!(missing.json()["error"]["details"][0]["reason"], "NO_SUCH_SPLIT");
    assert_eq!(fixture.get(&format!("{splits}/{slice}/nobody/first/0")).await.status, 400);
    assert_eq!(fixture.get("/v1/namespaces/nowhere/splits").await.status, 404);
    for (verb, body, part) in [
        ("abandon", json!({}), "name a series or a slice"),
        ("retry", json!({"timeBucket": 3}), "name a series or a slice"),
        ("request", json!({}), "name a series, or a slice"),
        ("setReadMode", json!({}), "name one of OFF, SHADOW, COMPARISON, EXEC, ON"),
        ("setReadMode", json!({"readMode": "FAST"}), "readMode"),
        ("verify", json!({"timeSlice": "x"}), "there is no slice `x`"),
    ] {
        let answer = fixture.post(&format!("{splits}:{verb}"), &body.to_string()).await;
        assert_eq!(answer.status, 400, "{verb}: {answer:?}");
        assert!(message(&answer).contains(part), "{verb}: {}", message(&answer));
    }
    let unknown = v1::GetSplitRequest { time_slice: slice, time_series_id: "nobody".to_owned(), ..Default::default() };
    let unknown = v1::GetSplitRequest { namespace: "plays".to_owned(), ..unknown };
    assert_eq!(fixture.client.get_split(unknown).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn background_tasks_show_what_they_do() {
    let fixture = fixture().await;
    let begun = fixture.env.monotonic();
    loop {
        let tasks = fixture.get("/v1/tasks").await.json();
        let sweep = tasks["tasks"].as_array().into_iter().flatten().find(|task| task["name"] == "sweep");
        if let Some(sweep) = sweep {
            assert!(sweep["lastRunTime"].is_string() && sweep["did"].as_str().unwrap().contains("split records"));
            break;
        }
        assert!(fixture.env.monotonic() - begun < DEADLINE, "{tasks}");
    }
    assert!(!fixture.client.list_tasks(v1::ListTasksRequest {}).await.unwrap().tasks.is_empty());
}

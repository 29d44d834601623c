//! How a server and its namespaces fare, over both protocols; and the dashboard as a browser's network sees it.

use std::time::Duration;

use anabranch_api::v1;
use anabranch_client::ErrorKind;
use anabranch_model::Timestamp;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Fixture, event, history, send};

#[tokio::test]
async fn the_overview_counts_what_went_through() {
    let fixture = Fixture::new().await;
    let events = (0..50).map(|at| event("profile:1", fixture.ago(1), &format!("e-{at}"), "x".repeat(100)));
    fixture.write(events.collect()).await;
    for _ in 0..3 {
        fixture.client.read(history("profile:1")).await.unwrap();
    }
    assert!(
        fixture
            .client
            .read(v1::ReadEventRecordsRequest { page_token: "no".to_owned(), ..history("profile:1") })
            .await
            .is_err()
    );
    let overview = fixture.client.get_overview(v1::GetOverviewRequest::default()).await.unwrap();
    assert_eq!(overview.warnings, []);
    let plays = &overview.namespaces[0];
    assert_eq!((plays.name.as_str(), plays.read_mode()), ("plays", v1::ReadMode::Comparison));
    assert!(plays.recorded && plays.events_per_second > 0.5 && plays.written_bytes_per_second > 50.0, "{plays:?}");
    assert_eq!((plays.pages, plays.failed_reads), (3, 1));
    assert!(plays.read_p50.is_some() && plays.read_p50 <= plays.read_p99, "{plays:?}");
    assert_eq!(plays.recent.iter().map(|step| step.events).sum::<u64>(), 50);
    assert_eq!(plays.recent.len(), 60);

    let over_http = fixture.get("/v1/overview?namespace=plays&window=600s").await.json();
    assert_eq!(over_http["namespaces"][0]["pages"], "3");
    assert_eq!(over_http["window"], "600s");
    for wrong in ["/v1/overview?window=1s", "/v1/overview?window=3600s", "/v1/overview?windows=60s"] {
        assert_eq!(fixture.get(wrong).await.status, 400, "{wrong}");
    }
    assert_eq!(fixture.get("/v1/overview?namespace=nowhere").await.status, 404);
    // Only what exists is remembered: names that anybody makes up take no room.
    fixture.post("/v1/namespaces/nowhere/events:read", "{}").await;
    assert_eq!(fixture.get("/v1/overview").await.json()["namespaces"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_partitions_of_a_series_have_their_rows_and_bytes() {
    let fixture = Fixture::new().await;
    let events: Vec<v1::Event> =
        (0..30).map(|at| event("a/b c", fixture.ago(1), &format!("e-{at}"), "x".repeat(100))).collect();
    fixture.write(events).await;
    let request = v1::GetSeriesPartitionsRequest {
        namespace: "plays".to_owned(),
        time_series_id: "a/b c".to_owned(),
        ..Default::default()
    };
    let found = fixture.client.get_series_partitions(request.clone()).await.unwrap();
    assert_eq!((found.partitions.len(), found.cut_reason.as_str()), (1, ""));
    let partition = &found.partitions[0];
    assert_eq!((partition.rows, partition.at_least), (30, false));
    assert!((3000..6000).contains(&partition.bytes), "{partition:?}");
    assert_eq!(partition.split_state(), v1::split::State::Unspecified);
    let over_http = fixture.get("/v1/namespaces/plays/series/a%2Fb%20c/partitions").await.json();
    let over_http: v1::SeriesPartitions = anabranch_api::json::from_slice(over_http.to_string().as_bytes()).unwrap();
    assert_eq!(over_http, found);
    let nothing = fixture.get("/v1/namespaces/plays/series/nobody/partitions").await.json();
    assert_eq!(nothing["partitions"], json!(null));
    let before = fixture.get("/v1/namespaces/plays/series/a%2Fb%20c/partitions?end=2020-01-01T00:00:00Z").await.json();
    assert_eq!(before["partitions"], json!(null));
    let error = fixture
        .client
        .get_series_partitions(v1::GetSeriesPartitionsRequest { time_series_id: String::new(), ..request });
    assert_eq!(error.await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn the_heat_map_shows_who_is_busy() {
    let fixture = Fixture::new().await;
    let time = fixture.ago(1);
    let mut events: Vec<v1::Event> = (0..100).map(|at| event(&format!("quiet:{at}"), time, "e", "x")).collect();
    events.push(event("busy", time, "e", "x".repeat(50_000)));
    fixture.write(events).await;
    let request = v1::GetHeatMapRequest { namespace: "plays".to_owned() };
    let map = fixture.client.get_heat_map(request).await.unwrap();
    assert_eq!(map.ranges.len(), 64);
    let writes: u64 = map.ranges.iter().flat_map(|range| &range.writes).sum();
    assert_eq!(writes, 101);
    let hottest = map.ranges.iter().max_by_key(|range| range.bytes.iter().sum::<u64>()).unwrap();
    assert_eq!(hottest.busiest[0].time_series_id, "busy");
    assert!(hottest.busiest[0].bytes >= 50_000 && !hottest.busiest[0].wide, "{hottest:?}");
    assert_eq!(
        fixture.get("/v1/heatmap?namespace=plays").await.json()["ranges"][0]["writes"].as_array().unwrap().len(),
        120
    );
    assert_eq!(fixture.get("/v1/heatmap").await.status, 404);
}

#[tokio::test]
async fn pages_run_nothing_but_their_own_script_and_escape_what_strangers_wrote() {
    let fixture = Fixture::new().await;
    let series = "\"><script>alert(1)</script>";
    let mut written = event(series, fixture.ago(1), "<i>", "<script>value</script>");
    written.event_items[0].event_item_key = "<b>key</b>".to_owned();
    fixture.write(vec![written]).await;
    let encoded = "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let paths = [
        "/".to_owned(),
        "/ui/namespaces/plays".to_owned(),
        format!("/ui/namespaces/plays/series/{encoded}"),
        format!("/ui/splits?series={encoded}"),
        "/ui/heatmap".to_owned(),
        "/ui/tasks".to_owned(),
        format!("/ui/splits/plays/data_20200101/{encoded}/0/0"),
        format!("/ui/{encoded}"),
    ];
    for path in paths {
        let answer = fixture.get(&path).await;
        let policy = answer.header("content-security-policy").unwrap_or_else(|| panic!("{path}: {answer:?}"));
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let text = answer.text();
        assert_eq!(text.matches("<script").count(), 1, "{path}: {text}");
        assert!(!text.contains("<i>") && !text.contains("<b>key") && !text.contains(" style="), "{path}: {text}");
    }
    let missing =
        ["/ui/nothing", "/ui/namespaces/nowhere", "/ui/namespaces/nowhere/series/x", "/ui/heatmap?namespace=nowhere"];
    for path in missing {
        assert_eq!(fixture.get(path).await.status, 404, "{path}");
    }
    assert_eq!(fixture.get(&format!("/ui/namespaces/plays/series/{encoded}?token=made-up")).await.status, 400);
}

#[tokio::test]
async fn a_page_of_another_site_can_not_press_a_button() {
    let fixture = Fixture::new().await;
    let body = b"namespace=plays&mode=ON&reason=";
    let form = format!("content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n", body.len());
    let foreign = format!("{form}sec-fetch-site: cross-site\r\n");
    assert_eq!(send(fixture.http, "POST", "/ui/actions/read-mode", &foreign, body).await.status, 403);
    let mode = async || fixture.get("/v1/namespaces/plays").await.json()["splits"]["readMode"].clone();
    assert_eq!(mode().await, "COMPARISON");
    let own = format!("{form}sec-fetch-site: same-origin\r\n");
    let answer = send(fixture.http, "POST", "/ui/actions/read-mode", &own, body).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/ui/namespaces/plays?done=mode")));
    assert_eq!(mode().await, "ON");
    let wrong = b"namespace=plays&mode=SIDEWAYS";
    let form = format!("content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n", wrong.len());
    assert_eq!(send(fixture.http, "POST", "/ui/actions/read-mode", &form, wrong).await.status, 400);
    assert_eq!(fixture.get("/ui/actions/read-mode").await.status, 405);
}

/// A stream that is read until it holds a text.
async fn until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut buffer = vec![0; 64 << 10];
    while !text.contains(wanted) {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "it ended without {wanted}: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}

#[tokio::test]
async fn a_page_follows_what_happens_and_ends_with_the_server() {
    let fixture = Fixture::new().await;
    let env = fixture.env.clone();
    let mut stream = TcpStream::connect(fixture.http).await.unwrap();
    stream.write_all(b"GET /ui/live?at=%2F HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    let first = until(&mut stream, "\n\n").await;
    assert!(first.contains("text/event-stream") && first.contains("event: page"), "{first}");
    let request = v1::CreateNamespaceRequest { name: "films".to_owned(), config: None, workload: String::new() };
    fixture.client.create_namespace(request).await.unwrap();
    env.timeout(Duration::from_secs(20), until(&mut stream, "films")).await.unwrap();
    assert_eq!(fixture.get("/ui/live?at=%2Fnowhere").await.status, 404);
    assert_eq!(fixture.get("/ui/live?at=%2Fui%2Fnamespaces%2Fnowhere").await.status, 204);
    let begun: Timestamp = env.now();
    fixture.stop().await;
    assert!(env.now().since(begun) < Duration::from_secs(4), "nobody waits for those who look");
}

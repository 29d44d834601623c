//! A server with something to look at: traffic, a wide id that was really split, one that was given up, and one whose piece was
//! damaged behind the server's back, so that a comparison finds it.

mod crowd;

use std::{net::SocketAddr, time::Duration};

use anabranch_api::{v1, wkt};
use anabranch_client::{Client, ErrorKind};
use anabranch_model::{
    EventBucket, EventId, EventItemKey, Item, NamespaceName, PartitionKey, Position, Row, TableName, TimeBucket,
    TimeSeriesId, Timestamp,
};
use anabranch_runtime::Env;
use anabranch_server::{ByteSize, Config, Server};
use anabranch_store::{PartitionBatch, Store};
use anabranch_store_fjall::{FjallOptions, FjallStore};
use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(super) use crowd::{CROWDED, long_ids};

/// The id that is split.
pub(super) const WIDE: &str = "profile:123";
/// An id that must stay text wherever it is shown.
pub(super) const HOSTILE: &str = "\"><img src=x onerror=stolen=1>/../%2e?a=b&c#é";

/// Namespaces for which the tuner proposes something.
pub(super) const TUNED: [&str; 2] = ["clicks", "visits"];

/// Over how many days old histories go.
const DAYS: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Fixture {
    server: Server,
    client: Client,
    http: SocketAddr,
    env: Env,
    _directory: TempDir,
}

/// Where a split is shown, and where it is answered.
pub(super) struct SplitPath {
    pub(super) page: String,
    pub(super) api: String,
}

fn config(directory: &TempDir) -> Config {
    let mut config = Config::default();
    config.listen.grpc.set_port(0);
    config.listen.http.set_port(0);
    config.store.data = directory.path().join("data");
    config.store.cache = ByteSize(8 << 20);
    config.limits.shutdown_grace = Duration::from_secs(5);
    config.splits.sweep_interval = Duration::from_millis(200);
    config.tuning.measure_interval = Duration::from_secs(1);
    config.tuning.measure_percent = 50;
    config
}

/// Noon of a day long past.
fn then() -> Timestamp {
    Timestamp::from_seconds(1_774_699_200)
}

fn wire(time: Timestamp) -> Option<wkt::Timestamp> {
    Some(wkt::Timestamp::from_nanos(time.nanos()))
}

fn event(series: &str, time: Timestamp, id: &str, items: &[(&str, Bytes)]) -> v1::Event {
    let item = |(key, value): &(&str, Bytes)| v1::EventItem {
        event_item_key: (*key).to_owned(),
        event_item_value: value.clone(),
        value_metadata: None,
    };
    v1::Event {
        time_series_id: series.to_owned(),
        event_time: wire(time),
        event_id: id.to_owned(),
        event_items: items.iter().map(item).collect(),
    }
}

/// Settings of a namespace in which what is written is sealed seconds later.
fn sealing(split: v1::SplitSettings) -> v1::NamespaceConfig {
    let seconds = |seconds, nanos| Some(wkt::Duration { seconds, nanos });
    v1::NamespaceConfig {
        accept_limit: seconds(1, 0),
        seal_margin: seconds(1, 0),
        write_slo: Some(v1::Slo { target: seconds(0, 100_000_000), max: seconds(0, 400_000_000) }),
        split: Some(split),
        ..Default::default()
    }
}

impl Fixture {
    /// Everything that pages show is there when this answers.
    pub(super) async fn start() -> Fixture {
        let directory = TempDir::new().unwrap();
        let fixture = Fixture::on(directory).await;
        fixture.fill().await;
        let damaged = fixture.split("ledger", "account:7", v1::split::State::Completed).await;
        fixture.set_mode("ledger", v1::ReadMode::Exec).await;
        let Fixture { server, _directory, env, .. } = fixture;
        server.shutdown().await.unwrap();
        damage(&_directory, &damaged, &env).await;
        let fixture = Fixture::on(_directory).await;
        fixture.traffic().await;
        let which = v1::VerifySplitRequest { namespace: "ledger".to_owned(), ..Default::default() };
        let verified = fixture.client.verify_split(which).await.unwrap();
        assert!(verified.verifications[0].difference.is_some(), "{verified:?}");
        let given_up = v1::AbandonSplitRequest {
            namespace: "plays".to_owned(),
            time_series_id: "profile:77".to_owned(),
            reason: "its reader was retired".to_owned(),
            ..Default::default()
        };
        fixture.client.abandon_split(given_up).await.unwrap();
        fixture.settled().await;
        for name in TUNED {
            fixture.proposed(name).await;
        }
        fixture
    }

    async fn on(directory: TempDir) -> Fixture {
        let env = Env::system();
        let server = Server::start(config(&directory), env.clone()).await.unwrap();
        let http = server.http_addr();
        let client = Client::connect(&server.grpc_addr().to_string()).await.unwrap();
        Fixture { server, client, http, env, _directory: directory }
    }

    pub(super) async fn stop(self) {
        self.server.shutdown().await.unwrap();
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// Namespaces, and old histories that are sealed and wide.
    async fn fill(&self) {
        for (name, packing) in
            [("audit", None), ("ledger", Some(v1::split_settings::Packing::Rows)), ("plays", None), ("sensors", None)]
        {
            let split = v1::SplitSettings {
                threshold_bytes: Some(65_536),
                target_piece_bytes: Some(16_384),
                block_bytes: Some(4096),
                promote: Some(name != "ledger"),
                packing: packing.map(Into::into),
                ..Default::default()
            };
            let config = (name == "plays" || name == "ledger").then(|| sealing(split));
            self.client
                .create_namespace(v1::CreateNamespaceRequest { name: name.to_owned(), config, workload: String::new() })
                .await
                .unwrap();
        }
        for name in TUNED {
            self.tuned(name).await;
        }
        self.backfill("plays", &[(WIDE, 400), ("profile:77", 300), ("profile:5", 20)]).await;
        self.backfill("ledger", &[("account:7", 300)]).await;
        for (namespace, series) in [("plays", WIDE), ("plays", "profile:77"), ("ledger", "account:7")] {
            self.read_all(namespace, series).await;
            self.split(namespace, series, v1::split::State::Completed).await;
        }
    }

    /// A namespace whose slices of some past hours are over, with far smaller partitions than they should have.
    async fn tuned(&self, name: &str) {
        let config = v1::NamespaceConfig {
            seconds_per_slice: Some(3600),
            seconds_per_bucket: Some(60),
            accept_limit: Some(wkt::Duration { seconds: 86_400, nanos: 0 }),
            tuner: Some(v1::namespace_config::TunerMode::Propose.into()),
            ..Default::default()
        };
        let request =
            v1::CreateNamespaceRequest { name: name.to_owned(), config: Some(config), workload: String::new() };
        self.client.create_namespace(request).await.unwrap();
        for hours in 2..5 {
            let time = self.env.now().saturating_sub(Duration::from_secs(hours * 3600));
            let made = |series: u64| {
                let value = Bytes::from(vec![b'v'; 100 << (series % 7)]);
                event(&format!("visitor:{series}"), time, &format!("v-{hours}"), &[("page", value)])
            };
            self.write(name, (0..150).map(made).collect()).await;
        }
    }

    /// Waits until the tuner has something to propose for a namespace.
    async fn proposed(&self, name: &str) {
        let begun = self.env.monotonic();
        loop {
            let request = v1::ProposeTuningRequest { namespace: name.to_owned() };
            let decision = self.client.propose_tuning(request).await.unwrap();
            if decision.outcome() == v1::tuning_decision::Outcome::Proposed && decision.counted.len() == 3 {
                return;
            }
            assert!(self.env.monotonic() - begun < PATIENCE, "never proposed: {decision:?}");
            self.env.sleep(Duration::from_millis(50)).await;
        }
    }

    /// Old histories, each with most of its events on one day.
    async fn backfill(&self, namespace: &str, histories: &[(&str, u64)]) {
        let events = histories.iter().flat_map(|(series, count)| old_history(series, *count));
        self.backfill_events(namespace, events).await;
    }

    /// Writes old events, through a window for them.
    async fn backfill_events(&self, namespace: &str, events: impl Iterator<Item = v1::Event>) {
        let day = Duration::from_secs(86_400);
        let interval = v1::TimeInterval {
            start: wire(then().saturating_sub(day * DAYS)),
            end: wire(then().saturating_add(day / 2)),
        };
        let open = v1::OpenBackfillRequest {
            namespace: namespace.to_owned(),
            interval: Some(interval),
            reason: "an old history".to_owned(),
            ..Default::default()
        };
        let window = self.client.open_backfill(open).await.unwrap();
        let events: Vec<v1::Event> = events.collect();
        for batch in events.chunks(500) {
            self.write(namespace, batch.to_vec()).await;
        }
        let close = v1::CloseBackfillRequest { namespace: namespace.to_owned(), id: window.id };
        self.client.close_backfill(close).await.unwrap();
    }

    async fn write(&self, namespace: &str, events: Vec<v1::Event>) {
        let request = v1::WriteEventRecordsRequest { namespace: namespace.to_owned(), events };
        let begun = self.env.monotonic();
        while let Err(error) = self.client.write_sync(request.clone()).await {
            // A busy machine may not make it in time, and sending the same again is safe.
            assert!(error.kind() == ErrorKind::Timeout && self.env.monotonic() - begun < PATIENCE, "{error}");
        }
    }

    async fn read_all(&self, namespace: &str, series: &str) {
        let mut request = v1::ReadEventRecordsRequest {
            namespace: namespace.to_owned(),
            time_series_id: series.to_owned(),
            ..Default::default()
        };
        loop {
            let page = self.client.read(request.clone()).await.unwrap();
            if page.next_page_token.is_empty() {
                return;
            }
            request.page_token = page.next_page_token;
        }
    }

    /// What servers usually see: many small ids, a few busy ones.
    async fn traffic(&self) {
        for round in 0..20 {
            let now = self.env.now();
            let reading = |sensor: u64| {
                let value = Bytes::from(json!({"celsius": 18 + sensor % 9, "round": round}).to_string());
                event(&format!("sensor:{sensor}"), now, &format!("r-{round}"), &[("reading", value)])
            };
            self.write("sensors", (0..40).map(reading).collect()).await;
            let busy = event("sensor:3", now, &format!("log-{round}"), &[("log", Bytes::from(vec![b'x'; 3000]))]);
            self.write("sensors", vec![busy]).await;
            self.write(
                "plays",
                vec![event(WIDE, now, &format!("n-{round}"), &[("play", Bytes::from_static(b"again"))])],
            )
            .await;
            self.read_all("sensors", &format!("sensor:{}", round % 5)).await;
            self.read_all("plays", WIDE).await;
        }
        let binary = Bytes::from_static(&[0xff, 0x00, 0xfe, b'o', b'k', 0x80]);
        let items = [
            ("<b>raw</b>", binary),
            ("text", Bytes::from_static("naïve <script>text</script>\nsecond line".as_bytes())),
        ];
        self.write("sensors", vec![event(HOSTILE, self.env.now(), "e-1", &items)]).await;
    }

    /// Waits until a split of a series is in a state.
    async fn split(&self, namespace: &str, series: &str, state: v1::split::State) -> v1::Split {
        let begun = self.env.monotonic();
        let request = v1::ListSplitsRequest {
            namespace: namespace.to_owned(),
            time_series_id: series.to_owned(),
            ..Default::default()
        };
        loop {
            let splits = self.client.list_splits(request.clone()).await.unwrap().splits;
            if let Some(split) = splits.iter().find(|split| split.state() == state) {
                let which = v1::GetSplitRequest {
                    namespace: namespace.to_owned(),
                    time_slice: split.time_slice.clone(),
                    time_series_id: series.to_owned(),
                    time_bucket: split.time_bucket,
                    event_bucket: split.event_bucket,
                };
                return self.client.get_split(which).await.unwrap();
            }
            assert!(self.env.monotonic() - begun < PATIENCE, "never {state:?}: {splits:?}");
            self.env.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn set_mode(&self, namespace: &str, mode: v1::ReadMode) {
        let request = v1::SetReadModeRequest {
            namespace: namespace.to_owned(),
            read_mode: mode.into(),
            by: "ann".to_owned(),
            reason: "compared for a week".to_owned(),
        };
        self.client.set_read_mode(request).await.unwrap();
    }

    /// Waits until nothing is on its way any more and the overview has counted it.
    async fn settled(&self) {
        let begun = self.env.monotonic();
        loop {
            let overview = self.get("/v1/overview").await;
            let states = |name: &str| {
                let all = overview["namespaces"].as_array().unwrap();
                let found = all.iter().find(|namespace| namespace["name"] == name).unwrap();
                let counted = |one: &Value| {
                    (one["state"].as_str().unwrap().to_owned(), one["count"].as_str().unwrap().to_owned())
                };
                found["splits"].as_array().into_iter().flatten().map(counted).collect::<Vec<_>>()
            };
            let is = |found: Vec<(String, String)>, wanted: &[(&str, &str)]| {
                found.iter().map(|(state, count)| (state.as_str(), count.as_str())).eq(wanted.iter().copied())
            };
            if is(states("plays"), &[("COMPLETED", "1"), ("PARKED", "1")])
                && is(states("ledger"), &[("COMPLETED", "1")])
            {
                return;
            }
            assert!(self.env.monotonic() - begun < PATIENCE, "never settled: {overview}");
            self.env.sleep(Duration::from_millis(50)).await;
        }
    }

    /// Every page, by a name for its picture.
    pub(super) async fn pages(&self) -> Vec<(&'static str, String)> {
        let wide = self.split_path("plays", WIDE).await;
        let differing = self.split_path("ledger", "account:7").await;
        vec![
            ("overview", "/".to_owned()),
            ("namespace", "/ui/namespaces/plays".to_owned()),
            ("namespace-demoted", "/ui/namespaces/ledger".to_owned()),
            ("namespace-tuned", "/ui/namespaces/visits".to_owned()),
            ("series", format!("/ui/namespaces/plays/series/{WIDE}")),
            ("series-hex", format!("/ui/namespaces/plays/series/{WIDE}?as=hex")),
            ("splits", "/ui/splits".to_owned()),
            ("split", wide.page),
            ("split-difference", differing.page),
            ("heatmap", "/ui/heatmap?namespace=sensors".to_owned()),
            ("heatmap-wide", "/ui/heatmap?namespace=plays&measure=reads".to_owned()),
            ("tasks", "/ui/tasks".to_owned()),
        ]
    }

    pub(super) async fn split_path(&self, namespace: &str, series: &str) -> SplitPath {
        let split = self.split(namespace, series, v1::split::State::Completed).await;
        let place = format!("{}/{series}/{}/{}", split.time_slice, split.time_bucket, split.event_bucket);
        SplitPath {
            page: format!("/ui/splits/{namespace}/{place}"),
            api: format!("/v1/namespaces/{namespace}/splits/{place}"),
        }
    }

    /// What the API answers.
    pub(super) async fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(self.http).await.unwrap();
        let head = format!("GET {path} HTTP/1.0\r\nhost: test\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        serde_json::from_slice(&answer[end + 4..]).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }
}

/// An old history: most of it on one day, a little on most days before.
fn old_history(series: &str, count: u64) -> Vec<v1::Event> {
    let day = Duration::from_secs(86_400);
    let told =
        |at: u64| json!({"title": "Dark", "episode": at, "device": "tv", "note": "water under the bridge ".repeat(16)});
    let made = |at: u64| {
        let time = then().saturating_add(Duration::from_secs(at));
        event(series, time, &format!("e-{at:05}"), &[("play", Bytes::from(told(at).to_string()))])
    };
    let mut events: Vec<v1::Event> = (0..count).map(made).collect();
    let before = |back: u32| {
        let time = then().saturating_sub(day * back);
        (0..back * 7 % 53).map(move |at| (back, time.saturating_add(Duration::from_secs(at.into())), at))
    };
    for (back, time, at) in (1..DAYS).flat_map(before) {
        let value = Bytes::from(told(at.into()).to_string());
        events.push(event(series, time, &format!("b-{back}-{at}"), &[("play", value)]));
    }
    events
}

/// Changes a row of a piece where it lies, as a bad disk would.
async fn damage(directory: &TempDir, split: &v1::Split, env: &Env) {
    let data = directory.path().join("data");
    let store = FjallStore::open(data, FjallOptions::default(), env.clone()).unwrap();
    let post = split.segments[0].post_split_data.clone().unwrap();
    let Some(v1::post_split_data::PartitionStrategy::TimeRangePartitionStrategy(strategy)) = post.partition_strategy
    else {
        panic!("{split:?}")
    };
    let piece = &strategy.pieces[0];
    let newest = piece.newest.clone().unwrap();
    let position = Position {
        time: Timestamp::from_nanos(newest.event_time.unwrap().to_nanos().unwrap()),
        id: EventId::new(newest.event_id).unwrap(),
    };
    let value = Bytes::from_static(br#"{"device":"tv","episode":666,"note":"something else","title":"Dirk"}"#);
    let item = Item { key: EventItemKey::new("play").unwrap(), value, metadata: None };
    let batch = PartitionBatch {
        table: TableName { namespace: NamespaceName::new("ledger").unwrap(), table: post.table },
        partition: PartitionKey {
            series: TimeSeriesId::new(split.time_series_id.clone()).unwrap(),
            time_bucket: TimeBucket(split.time_bucket),
            event_bucket: EventBucket(piece.event_bucket),
        },
        rows: vec![Row { position, item }],
        write_time_micros: env.now().nanos() / 1000,
    };
    for written in store.write(vec![batch], PATIENCE).await {
        written.unwrap();
    }
    store.close().await.unwrap();
}

//! A server with one wide history that is split and served from its pieces.

use std::{net::SocketAddr, time::Duration};

use anabranch_api::{v1, wkt};
use anabranch_client::Client;
use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use anabranch_server::{ByteSize, Config, Server};
use bytes::Bytes;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) const SERIES: &str = "profile:123";
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Fixture {
    pub(crate) grpc: SocketAddr,
    server: Server,
    client: Client,
    env: Env,
    _directory: TempDir,
}

/// Noon of a day long past.
fn then() -> Timestamp {
    Timestamp::from_seconds(1_774_699_200)
}

fn wire(time: Timestamp) -> Option<wkt::Timestamp> {
    Some(wkt::Timestamp::from_nanos(time.nanos()))
}

impl Fixture {
    pub(crate) async fn start(env: &Env) -> Fixture {
        let directory = TempDir::new().unwrap();
        let mut config = Config::default();
        config.listen.grpc.set_port(0);
        config.listen.http.set_port(0);
        config.store.data = directory.path().join("data");
        config.store.cache = ByteSize(8 << 20);
        config.limits.shutdown_grace = Duration::from_secs(5);
        config.splits.sweep_interval = Duration::from_millis(200);
        let server = Server::start(config, env.clone()).await.unwrap();
        let grpc = server.grpc_addr();
        let client = Client::connect(&grpc.to_string()).await.unwrap();
        Fixture { grpc, server, client, env: env.clone(), _directory: directory }
    }

    pub(crate) async fn stop(self) {
        self.server.shutdown().await.unwrap();
    }

    /// Writes an old history, reads it, waits until it is split, and serves it from its pieces.
    pub(crate) async fn split(&self) {
        let seconds = |seconds, nanos| Some(wkt::Duration { seconds, nanos });
        let config = v1::NamespaceConfig {
            accept_limit: seconds(1, 0),
            seal_margin: seconds(1, 0),
            write_slo: Some(v1::Slo { target: seconds(0, 100_000_000), max: seconds(0, 400_000_000) }),
            split: Some(v1::SplitSettings {
                threshold_bytes: Some(65_536),
                target_piece_bytes: Some(16_384),
                block_bytes: Some(4096),
                ..Default::default()
            }),
            ..Default::default()
        };
        let name = "plays".to_owned();
        let create = v1::CreateNamespaceRequest { name, config: Some(config), workload: String::new() };
        self.client.create_namespace(create).await.unwrap();
        let hour = Duration::from_secs(3600);
        let interval = v1::TimeInterval { start: wire(then()), end: wire(then().saturating_add(hour)) };
        let open =
            v1::OpenBackfillRequest { namespace: "plays".to_owned(), interval: Some(interval), ..Default::default() };
        let window = self.client.open_backfill(open).await.unwrap();
        let event = |at: u64| v1::Event {
            time_series_id: SERIES.to_owned(),
            event_time: wire(then().saturating_add(Duration::from_secs(at))),
            event_id: format!("e-{at:05}"),
            event_items: vec![v1::EventItem {
                event_item_key: "play".to_owned(),
                event_item_value: Bytes::from("water under the bridge ".repeat(16)),
                value_metadata: None,
            }],
        };
        let events = (0..400).map(event).collect();
        let write = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
        self.client.write_sync(write).await.unwrap();
        let close = v1::CloseBackfillRequest { namespace: "plays".to_owned(), id: window.id };
        self.client.close_backfill(close).await.unwrap();
        self.until_split().await;
        let request = v1::SetReadModeRequest {
            namespace: "plays".to_owned(),
            read_mode: v1::ReadMode::On.into(),
            by: "test".to_owned(),
            reason: String::new(),
        };
        self.client.set_read_mode(request).await.unwrap();
    }

    async fn until_split(&self) {
        let read = v1::ReadEventRecordsRequest {
            namespace: "plays".to_owned(),
            time_series_id: SERIES.to_owned(),
            ..Default::default()
        };
        let list = v1::ListSplitsRequest { namespace: "plays".to_owned(), ..Default::default() };
        let begun = self.env.monotonic();
        loop {
            self.client.read(read.clone()).await.unwrap();
            let splits = self.client.list_splits(list.clone()).await.unwrap().splits;
            if splits.iter().any(|split| split.state() == v1::split::State::Completed) {
                return;
            }
            assert!(self.env.monotonic() - begun < PATIENCE, "never split: {splits:?}");
            self.env.sleep(Duration::from_millis(50)).await;
        }
    }

    /// A page, as `curl` would ask for it.
    pub(crate) async fn read_over_http(&self, traceparent: &str) {
        let body = format!("{{\"timeSeriesId\":\"{SERIES}\"}}");
        let mut stream = TcpStream::connect(self.server.http_addr()).await.unwrap();
        let head = format!(
            "POST /v1/namespaces/plays/events:read HTTP/1.0\r\nhost: test\r\ntraceparent: {traceparent}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    }

    /// What is counted under this name, labels and all.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(self.server.http_addr()).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: test\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0.0, |value| value.trim().parse().unwrap())
    }
}

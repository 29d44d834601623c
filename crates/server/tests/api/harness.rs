//! A server for one test, events to write, and the smallest HTTP client that will do.

use std::{net::SocketAddr, time::Duration};

use anabranch_api::{v1, wkt};
use anabranch_client::{Client, ClientOptions, RetryPolicy};
use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use anabranch_server::{ByteSize, Config, Server};
use bytes::Bytes;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A running server, its clients, and its directory, which goes when it goes.
pub(crate) struct Fixture {
    pub(crate) client: Client,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) env: Env,
    server: Option<Server>,
    pub(crate) directory: TempDir,
}

/// Small, on free ports.
pub(crate) fn config(directory: &TempDir) -> Config {
    let mut config = Config::default();
    config.listen.grpc.set_port(0);
    config.listen.http.set_port(0);
    config.store.data = directory.path().join("data");
    config.store.cache = ByteSize(8 << 20);
    config.limits.shutdown_grace = Duration::from_secs(5);
    config
}

impl Fixture {
    /// A server with a namespace `plays`.
    pub(crate) async fn new() -> Fixture {
        Fixture::with(|_| {}).await
    }

    /// The same with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Fixture {
        let directory = TempDir::new().unwrap();
        let mut settings = config(&directory);
        change(&mut settings);
        let fixture = Fixture::start(directory, settings).await;
        let request = v1::CreateNamespaceRequest { name: "plays".to_owned(), ..Default::default() };
        fixture.client.create_namespace(request).await.unwrap();
        fixture
    }

    pub(crate) async fn start(directory: TempDir, config: Config) -> Fixture {
        let env = Env::system();
        let server = Server::start(config, env.clone()).await.unwrap();
        let (grpc, http) = (server.grpc_addr(), server.http_addr());
        let client = Client::connect_with(&grpc.to_string(), never_again()).await.unwrap();
        Fixture { client, http, grpc, env, server: Some(server), directory }
    }

    /// Stops the server, and leaves its directory.
    pub(crate) async fn stop(mut self) -> TempDir {
        self.server.take().unwrap().shutdown().await.unwrap();
        self.directory
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, body).await
    }

    /// Sends one request and reads the whole answer.
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        let head = format!("content-length: {}\r\n", body.len());
        send(self.http, method, path, &head, body).await
    }

    /// A moment that is accepted, so many seconds ago.
    pub(crate) fn ago(&self, seconds: u64) -> Timestamp {
        self.env.now().saturating_sub(Duration::from_secs(seconds))
    }

    pub(crate) async fn write(&self, events: Vec<v1::Event>) {
        let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
        self.client.write_sync(request).await.unwrap();
    }
}

/// What a client does that shows every failure at once.
pub(crate) fn never_again() -> ClientOptions {
    ClientOptions { retry: RetryPolicy::NEVER, ..ClientOptions::default() }
}

/// An event of one item.
pub(crate) fn event(series: &str, time: Timestamp, id: &str, value: impl Into<Bytes>) -> v1::Event {
    let item = v1::EventItem {
        event_item_key: "title".to_owned(),
        event_item_value: value.into(),
        value_metadata: Some(Bytes::from_static(b"text/plain")),
    };
    v1::Event {
        time_series_id: series.to_owned(),
        event_time: Some(wkt::Timestamp::from_nanos(time.nanos())),
        event_id: id.to_owned(),
        event_items: vec![item],
    }
}

/// A whole history, latest first.
pub(crate) fn history(series: &str) -> v1::ReadEventRecordsRequest {
    v1::ReadEventRecordsRequest {
        namespace: "plays".to_owned(),
        time_series_id: series.to_owned(),
        ..Default::default()
    }
}

/// An answer of HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// HTTP/1.1, one connection a request.
pub(crate) async fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server may answer, and close, before it has read everything.
    let _ = stream.write_all(body).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: bytes.split_off(end + 4) };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = unchunked(&answer.body);
    }
    answer
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").expect("a chunk begins with its length");
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[line + 2..][..length]);
        rest = &rest[line + 2 + length + 2..];
    }
}

//! What is served beside the messages: health, reflection, metrics, pages, TLS; limits; and addresses that can't be.

use std::path::PathBuf;

use anabranch_client::{Client, ErrorKind, TlsOptions, v1};
use anabranch_runtime::Env;
use anabranch_server::{Config, Server};
use bytes::Bytes;
use futures_util::StreamExt;
use tempfile::TempDir;
use tonic::{Code, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::{v1 as reflection, v1alpha};

use crate::harness::{Fixture, config, event, history, never_again, send};

#[tokio::test]
async fn health_is_told_for_the_server_and_each_service() {
    let fixture = Fixture::new().await;
    let channel = Endpoint::from_shared(format!("http://{}", fixture.grpc)).unwrap().connect().await.unwrap();
    let mut client = HealthClient::new(channel);
    for service in [
        "",
        "anabranch.v1.TimeSeriesService",
        "anabranch.v1.NamespaceService",
        "anabranch.v1.SplitService",
        "anabranch.v1.TuningService",
    ] {
        let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving, "{service}");
    }
    let unknown = client.check(HealthCheckRequest { service: "nobody".to_owned() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test]
async fn reflection_names_the_services_and_the_messages_of_errors() {
    let fixture = Fixture::new().await;
    let channel = Endpoint::from_shared(format!("http://{}", fixture.grpc)).unwrap().connect().await.unwrap();
    let mut client = reflection::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let ask = |request| reflection::ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    use reflection::{server_reflection_request::MessageRequest, server_reflection_response::MessageResponse};
    let symbols = ["anabranch.v1.WriteOutcome", "google.rpc.BadRequest"];
    let mut requests = vec![ask(MessageRequest::ListServices(String::new()))];
    requests.extend(symbols.map(|symbol| ask(MessageRequest::FileContainingSymbol(symbol.to_owned()))));
    let answers = client.server_reflection_info(futures_util::stream::iter(requests)).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(|answer| answer.unwrap().message_response.unwrap()).collect().await;
    let MessageResponse::ListServicesResponse(services) = &answers[0] else { panic!("{answers:?}") };
    let names: Vec<&str> = services.service.iter().map(|service| service.name.as_str()).collect();
    let expected = ["TimeSeriesService", "NamespaceService", "SplitService", "TuningService"]
        .map(|name| format!("anabranch.v1.{name}"));
    for name in expected.iter().map(String::as_str).chain(["grpc.health.v1.Health"]) {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(answers[1..].iter().all(|answer| matches!(answer, MessageResponse::FileDescriptorResponse(_))));

    let mut older = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut answers = older.server_reflection_info(futures_util::stream::iter([request])).await.unwrap().into_inner();
    assert!(answers.next().await.unwrap().is_ok());
}

#[tokio::test]
async fn pages_and_metrics_are_served() {
    let fixture = Fixture::new().await;
    fixture.write(vec![event("profile:1", fixture.ago(1), "e-1", "x")]).await;
    fixture.post("/v1/namespaces/nowhere/events:read", "{}").await;
    for (path, kind, part) in [
        ("/healthz", "text/plain; charset=utf-8", "ok"),
        ("/readyz", "text/plain; charset=utf-8", "ready"),
        ("/", "text/html; charset=utf-8", "/docs"),
        ("/docs", "text/html; charset=utf-8", "events:writeSync"),
        ("/openapi.json", "application/json", "\"openapi\":\"3.1"),
        ("/metrics", "text/plain; version=0.0.4", "anabranch_events_written_total{namespace=\"plays\"} 1"),
    ] {
        let answer = fixture.get(path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
    }
    let metrics = fixture.get("/metrics").await;
    for part in [
        "anabranch_request_seconds_count{code=\"OK\",method=\"WriteEventRecordsSync\",protocol=\"grpc\"} 1",
        "anabranch_namespace_request_seconds_count{method=\"WriteEventRecordsSync\",namespace=\"plays\"} 1",
        "anabranch_store_seconds_count{call=\"write\"}",
        "anabranch_request_seconds_count{code=\"NOT_FOUND\",method=\"ReadEventRecords\",protocol=\"http\"} 1",
        "anabranch_build_info{version=",
        "anabranch_requests_in_flight 0",
    ] {
        assert!(metrics.text().contains(part), "{part} in {}", metrics.text());
    }
}

/// Every route of the OpenAPI document leads somewhere: what it answers isn't that there is no such path or method.
#[tokio::test]
async fn every_documented_route_is_served() {
    let fixture = Fixture::new().await;
    let document = fixture.get("/openapi.json").await.json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in
            methods.as_object().unwrap().keys().filter(|key| ["get", "post", "patch", "delete"].contains(&key.as_str()))
        {
            let path = path.replace("{namespace}", "nowhere").replace("{id}", "bf-1");
            let answer = fixture.send(&method.to_uppercase(), &path, "").await;
            assert!(!answer.text().contains("NO_SUCH_ROUTE") && answer.status != 405, "{method} {path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn the_wrong_protocol_is_told_where_to_go() {
    let fixture = Fixture::new().await;
    let answer = send(fixture.grpc, "GET", "/", "", b"").await;
    assert_eq!(answer.status, 505);
    assert!(answer.text().contains(&format!("http://{}/", fixture.http)), "{}", answer.text());
}

#[tokio::test]
async fn one_request_too_many_is_refused_while_health_answers() {
    let fixture = Fixture::with(|config| config.limits.max_requests = 1).await;
    let value = Bytes::from(vec![7; 256 << 10]);
    for batch in 0..8 {
        let events =
            (0..8).map(|index| event("profile:1", fixture.ago(60), &format!("e-{batch}-{index}"), value.clone()));
        fixture.write(events.collect()).await;
    }
    // More than a client takes unasked: the stream stays open, and with it its place.
    let request = v1::ReadEventRecordsRequest { page_size: 1, ..history("profile:1") };
    let mut stream = fixture.client.stream(request);
    stream.next().await.unwrap().unwrap();
    let error = fixture.client.read(history("profile:2")).await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Code::ResourceExhausted, Some("OVERLOADED")));
    let answer = fixture.get("/v1/namespaces").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    assert_eq!(fixture.get("/readyz").await.status, 200);
    // Who goes away gives the place back.
    drop(stream);
    let free = async { while fixture.get("/v1/namespaces").await.status != 200 {} };
    fixture.env.timeout(std::time::Duration::from_secs(20), free).await.unwrap();
}

/// Makes a certificate for `localhost` that vouches for itself, and its key; both lie in the directory.
fn certificate(directory: &TempDir) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (directory.path().join("server.pem"), directory.path().join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

#[tokio::test]
async fn tls_is_spoken_to_those_who_trust_the_certificate() {
    let directory = TempDir::new().unwrap();
    let files = TempDir::new().unwrap();
    let (certificate, key) = certificate(&files);
    let mut settings = config(&directory);
    settings.listen.tls_certificate = Some(certificate.clone());
    settings.listen.tls_key = Some(key);
    let server = Server::start(settings, Env::system()).await.unwrap();
    let address = format!("https://localhost:{}", server.grpc_addr().port());
    let ca_certificates = std::fs::read(certificate).unwrap();
    let tls = TlsOptions { ca_certificates, server_name: None };
    let options = anabranch_client::ClientOptions { tls: Some(tls.clone()), ..never_again() };
    let client = Client::connect_with(&address, options.clone()).await.unwrap();
    assert_eq!(client.list_namespaces(v1::ListNamespacesRequest::default()).await.unwrap().namespaces, []);

    let tls = TlsOptions { server_name: Some("elsewhere".to_owned()), ..tls };
    let stranger = anabranch_client::ClientOptions { tls: Some(tls), ..options };
    assert_eq!(Client::connect_with(&address, stranger).await.unwrap_err().kind(), ErrorKind::Unavailable);
    server.shutdown().await.unwrap();
}

async fn refusal(change: impl FnOnce(&mut Config)) -> String {
    let directory = TempDir::new().unwrap();
    let mut settings = config(&directory);
    change(&mut settings);
    match Server::start(settings, Env::system()).await {
        Ok(_) => panic!("must not start"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_and_what_to_do() {
    let open = refusal(|config| config.listen.http = "0.0.0.0:0".parse().unwrap()).await;
    assert!(open.contains("listen.http: 0.0.0.0:0") && open.contains("--insecure"), "{open}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let in_use = refusal(|config| config.listen.grpc = address).await;
    assert!(in_use.starts_with(&format!("{address} (listen.grpc) is in use")), "{in_use}");
    let elsewhere = refusal(|config| {
        config.listen.insecure = true;
        config.listen.grpc = "192.0.2.1:0".parse().unwrap();
    });
    let elsewhere = elsewhere.await;
    assert!(elsewhere.contains("can't listen on 192.0.2.1:0"), "{elsewhere}");
    let files = TempDir::new().unwrap();
    let (certificate, key) = certificate(&files);
    let key = refusal(|config| {
        config.listen.tls_certificate = Some(certificate);
        config.listen.tls_key = Some(key.with_file_name("nowhere.key"));
    });
    assert!(key.await.contains("nowhere.key"));
}

#[tokio::test]
async fn a_second_server_is_kept_off_the_directory() {
    let fixture = Fixture::new().await;
    let mut settings = Config::default();
    settings.listen.grpc.set_port(0);
    settings.listen.http.set_port(0);
    settings.store.data = fixture.directory.path().join("data");
    let error = Server::start(settings, Env::system()).await.err().unwrap().to_string();
    assert!(error.contains("in use by another process"), "{error}");
}

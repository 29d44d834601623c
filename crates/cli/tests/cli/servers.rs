//! Servers that start, stop, are killed, and are refused.

use std::{
    io::Write,
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use anabranch_api::v1::{Event, EventItem, WriteEventRecordsRequest};
use anabranch_client::{Client, ClientOptions, RetryPolicy};
use anabranch_runtime::Env;
use rustix::process::{Resource, Rlimit, Signal};

use crate::harness::{Place, command, run};

#[test]
fn what_was_acknowledged_before_a_kill_is_read_back() {
    let place = Place::new();
    let mut expected = 0;
    // Several times, on a store that was already killed.
    for round in 0..3 {
        let server = place.serve();
        if round == 0 {
            server.run(&["namespace", "create", "plays"]).ok();
        }
        let acknowledged = write_until_killed(round, server);
        assert!(acknowledged.len() >= 200);
        let server = place.serve();
        let text = server.run(&["read", "plays", &format!("s{round}"), "-o", "jsonl"]).ok();
        for id in &acknowledged {
            assert!(text.contains(&format!("\"{id}\"")), "W1: {id} was acknowledged and is gone");
        }
        expected += acknowledged.len();
        assert!(server.count("plays", "s0") > 0);
    }
    assert!(expected >= 600);
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_gets_its_memory_in_small_pages() {
    let place = Place::new();
    let server = place.serve();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let huge_pages = status.lines().find_map(|line| line.strip_prefix("THP_enabled:")).map(str::trim);
    assert_ne!(huge_pages, Some("1"), "{status}");
}

/// W1, and a person on call who has to be told: a disk that takes no more is no reason to lose, to invent or to keep quiet.
#[test]
fn a_store_that_can_take_no_more_writes_says_so_and_goes_on_being_read() {
    let place = Place::new();
    let server = place.serve_within_limits().with_namespace("plays");
    let write = |server: &crate::harness::Server<'_>, id: &str| {
        let now = Env::system().now();
        let line =
            format!("{{\"timeSeriesId\":\"s\",\"eventTime\":\"{now}\",\"eventId\":\"{id}\",\"items\":{{\"n\":1}}}}");
        server.run_with_input(&["write", "plays", "-"], line.as_bytes())
    };
    write(&server, "before").ok();
    assert_eq!(server.get("/readyz"), (200, "ready\n".to_owned()));
    limit_files(&server, Some(1));
    assert_ne!(write(&server, "during").code, 0);
    let (status, told) = server.get("/readyz");
    assert_eq!(status, 503, "{told}");
    assert!(told.contains("the store takes no writes") && told.contains("restart when the disk is well"), "{told}");
    let refused = write(&server, "after").fails(5);
    assert!(refused.contains("the store takes no writes"), "{refused}");
    assert!(server.run(&["read", "plays", "s", "-o", "jsonl"]).ok().contains("\"before\""));
    let overview = server.run(&["top", "--once"]).ok();
    assert!(overview.contains("takes no writes"), "{overview}");
    // Room again is not enough: what the disk holds of the last write isn't known before it is read.
    limit_files(&server, None);
    assert_eq!(server.get("/readyz").0, 503);
    server.signal(Signal::TERM);
    server.wait();
    let server = place.serve();
    assert_eq!(server.get("/readyz"), (200, "ready\n".to_owned()));
    write(&server, "again").ok();
    let found = server.run(&["read", "plays", "s", "-o", "jsonl"]).ok();
    assert!(found.contains("\"before\"") && found.contains("\"again\"") && !found.contains("\"after\""), "{found}");
}

/// How long any file of a server may be.
fn limit_files(server: &crate::harness::Server<'_>, bytes: Option<u64>) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).unwrap());
    let limits = Rlimit { current: bytes, maximum: None };
    rustix::process::prlimit(pid, Resource::Fsize, limits).unwrap();
}

/// Four writers, a kill -9 in their midst, and the ids of what was acknowledged.
fn write_until_killed(round: usize, server: crate::harness::Server<'_>) -> Vec<String> {
    let acknowledged: Arc<Mutex<Vec<String>>> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let env = Env::system();
    let mut writers = Vec::new();
    for writer in 0..4 {
        let (acknowledged, stop, grpc) = (acknowledged.clone(), stop.clone(), server.grpc.clone());
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(write_events(round, writer, &grpc, &acknowledged, &stop));
        };
        writers.push(env.thread("writer", work).unwrap());
    }
    while acknowledged.lock().unwrap().len() < 200 {
        std::thread::yield_now();
    }
    server.kill();
    stop.store(true, Ordering::Release);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    std::mem::take(&mut acknowledged.lock().unwrap())
}

async fn write_events(round: usize, writer: usize, grpc: &str, acknowledged: &Mutex<Vec<String>>, stop: &AtomicBool) {
    let env = Env::system();
    let options = ClientOptions { retry: RetryPolicy::NEVER, ..ClientOptions::default() };
    // The others may have been quick enough for the kill to come before this one is connected.
    let Ok(client) = Client::connect_with(grpc, options).await else { return };
    for batch in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let event = |index: usize| Event {
            time_series_id: format!("s{round}"),
            event_time: Some(anabranch_api::wkt::Timestamp::from_nanos(env.now().nanos())),
            event_id: format!("{writer}-{batch}-{index}"),
            event_items: vec![EventItem {
                event_item_key: "a".to_owned(),
                event_item_value: vec![7; 256].into(),
                value_metadata: None,
            }],
        };
        let events: Vec<Event> = (0..5).map(event).collect();
        let ids: Vec<String> = events.iter().map(|event| event.event_id.clone()).collect();
        let request = WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
        match client.write_sync(request).await {
            Ok(_) => acknowledged.lock().unwrap().extend(ids),
            Err(_) => return,
        }
    }
}

#[test]
fn a_stop_drains_the_queue() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let server = place.serve().with_namespace("plays");
        let now = Env::system().now();
        let line = |index: usize| {
            format!(
                "{{\"timeSeriesId\":\"s\",\"eventTime\":\"{now}\",\"eventId\":\"e-{index}\",\"items\":{{\"n\":{index}}}}}\n"
            )
        };
        let text: String = (0..5000).map(line).collect();
        server.run_with_input(&["write", "plays", "-", "--queued"], text.as_bytes()).ok();
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
        assert_eq!(place.serve().count("plays", "s"), 5000);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = Place::new();
    let server = place.serve();
    // A request that never ends keeps the server from stopping by itself.
    let mut request = TcpStream::connect(server.http.strip_prefix("http://").unwrap()).unwrap();
    let head =
        "POST /v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    request.write_all(head.as_bytes()).unwrap();
    // Whatever was sent before is served, so that the request above is known to the server.
    server.run(&["namespace", "list"]).ok();
    server.signal(Signal::TERM);
    while !server.log().contains("SIGTERM: stopping") {
        std::thread::yield_now();
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(1));
    let log = std::fs::read_to_string(place.path().join("server.log")).unwrap();
    assert!(log.contains("error: SIGTERM once more"), "{log}");
}

#[test]
fn two_servers_cannot_share_a_directory() {
    let place = Place::new();
    let server = place.serve();
    let second = ["serve", "--data", "data", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let complaint = run(command(place.path()).args(second), b"").fails(1);
    assert!(complaint.contains(&format!("in use by another process (pid {})", server.pid())), "{complaint}");
    server.run(&["namespace", "list"]).ok();
}

#[test]
fn a_port_that_is_taken_is_named() {
    let place = Place::new();
    let server = place.serve();
    let taken = server.grpc.strip_prefix("http://").unwrap();
    let complaint = run(command(place.path()).args(["serve", "--data", "other", "--grpc", taken]), b"").fails(1);
    assert!(complaint.contains(taken) && complaint.contains("in use"), "{complaint}");
    assert!(!place.path().join("other").exists(), "nothing is made before it is known that it can serve");
}

#[test]
fn other_machines_are_let_in_only_when_told_so() {
    let place = Place::new();
    let exposed = ["serve", "--data", "data", "--grpc", "0.0.0.0:0", "--http", "127.0.0.1:0"];
    let complaint = run(command(place.path()).args(exposed), b"").fails(2);
    assert!(complaint.contains("--insecure") && complaint.contains("from flag:--grpc"), "{complaint}");
    assert!(!place.data().exists());
}

#[test]
fn what_cannot_be_served_is_refused() {
    let place = Place::new();
    let refused = |args: &[&str], code: i32, expected: &str| {
        let complaint = run(command(place.path()).arg("serve").args(args), b"").fails(code);
        assert!(complaint.contains(expected), "{args:?}: {complaint}");
    };
    place.file("file", "");
    refused(&["--data", "file", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"], 1, "is not a directory");
    refused(&["--grpc", "nowhere"], 2, "listen.grpc");
    refused(&["--config", "none.toml"], 3, "none.toml");
    refused(&["--log-level", "anabranch=loud"], 2, "log.level");
    place.file("bad.toml", "[store]\ncahce = \"1 MiB\"\n");
    refused(&["--config", "bad.toml"], 2, "is `store.cache` meant?");
    place.file("broken.toml", "[store\n");
    refused(&["--config", "broken.toml"], 2, "broken.toml");
}

#[test]
fn the_log_can_be_read_by_programs() {
    let place = Place::new();
    let server = place.serve_with(&["--log-format", "json", "--log-level", "debug"]);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let log = std::fs::read_to_string(place.path().join("server.log")).unwrap();
    assert!(log.contains("SIGTERM: stopping"), "{log}");
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

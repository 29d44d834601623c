//! What passes on the bus is shown to those who look; a server waits for a store that is away when it starts, and serves without
//! its broker.

use std::{collections::BTreeSet, time::Duration};

use anabranch_bus::{Bus, Detection, KafkaBus, KafkaOptions, Published};
use anabranch_runtime::Env;
use anabranch_testbed::{Cassandra, Kafka};

use crate::program::{Program, run};

const PATIENCE: Duration = Duration::from_secs(120);

/// Little is wide, and time is sealed soon.
const SOON_WIDE: [&str; 12] = [
    "--accept-limit",
    "1s",
    "--seal-margin",
    "12s",
    "--write-slo-target",
    "1s",
    "--write-slo-max",
    "10s",
    "--split-threshold-bytes",
    "64KiB",
    "--split-target-piece-bytes",
    "16KiB",
];

fn detection(time_bucket: u32) -> Detection {
    let text = format!(
        r#"{{"namespace":"plays","time_slice":"data_20260328","time_series_id":"profileId:123","time_bucket":{time_bucket},"event_bucket":2,"immutable":true,"version":"0"}}"#
    );
    Detection::from_json(text.as_bytes()).unwrap()
}

async fn publish(bus: &KafkaBus, buckets: impl Iterator<Item = u32>) {
    for bucket in buckets {
        assert_eq!(bus.publish(detection(bucket)), Published::Accepted);
    }
    bus.flush(PATIENCE).await.unwrap();
}

#[test]
fn tail_shows_detections_as_they_pass_and_takes_none_away() {
    let broker = Kafka::start().unwrap();
    let url = format!("kafka://{}/seen", broker.address());
    let nothing = run(&["bus", "tail", "--bus", &url]);
    assert!(!nothing.0 && nothing.2.contains("there is no topic `seen`"), "{nothing:?}");

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut options = KafkaOptions::new([broker.address().to_string()]);
    options.topic = "seen".to_owned();
    options.dead_letter_topic = "seen.dead".to_owned();
    let bus = runtime.block_on(KafkaBus::connect(options, Env::system())).unwrap();
    runtime.block_on(publish(&bus, 0..3));

    let (ended, shown, errors) = run(&["bus", "tail", "--bus", &url, "--from-beginning", "--count", "3"]);
    assert!(ended, "{errors}");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    for line in &lines {
        assert!(line.starts_with("20") && line.contains("Z  plays  data_20260328  "), "{line}");
        assert!(line.ends_with("  profileId:123  - read  sealed"), "{line}");
    }
    let (_, json, _) = run(&["bus", "tail", "--bus", &url, "--from-beginning", "--count", "3", "--output", "json"]);
    let buckets: BTreeSet<u64> = json
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["time_bucket"].as_u64().unwrap())
        .collect();
    assert_eq!(buckets, BTreeSet::from([0, 1, 2]), "{json}");

    // Without --from-beginning only what comes next is shown.
    let mut tail = Program::start_in("tail", |_, _| {
        ["bus", "tail", "--bus", &url, "--count", "1", "--output", "json"].map(str::to_owned).to_vec()
    });
    let (env, mut next) = (Env::system(), 100);
    let begun = env.monotonic();
    while tail.is_running() {
        runtime.block_on(publish(&bus, next..next + 1));
        next += 1;
        assert!(env.monotonic() - begun < PATIENCE, "never shown: {}", tail.log());
    }
    let shown: serde_json::Value = serde_json::from_str(tail.log().trim()).unwrap();
    assert!(shown["time_bucket"].as_u64().unwrap() >= 100, "{shown}");

    // A worker still gets all of them.
    let mut missing: BTreeSet<u32> = (0..3).chain(100..next).collect();
    runtime.block_on(async {
        while !missing.is_empty() {
            let received = Env::system().timeout(PATIENCE, bus.receive()).await;
            let delivery = received.unwrap_or_else(|_| panic!("{missing:?} never came")).unwrap();
            missing.remove(&delivery.detection.time_bucket);
            bus.acknowledge(&delivery).await.unwrap();
        }
    });
}

#[test]
fn a_server_waits_for_its_store_and_its_broker_and_goes_on_when_they_come() {
    let mut ring = Cassandra::start(1).unwrap();
    let mut kafka = Kafka::start().unwrap();
    let (store, bus) = (format!("cassandra://{}", ring.addresses()[0]), format!("kafka://{}", kafka.address()));
    ring.node(1).process().kill().unwrap();
    kafka.process().kill().unwrap();

    let config = "[cassandra]\nreplication = \"1\"\n";
    let mut server = Program::serve(&["--store", &store, "--bus", &bus, "--split-workers", "0"], config);
    server.wait_until(PATIENCE, "/readyz", |_, told| told.contains(&ring.addresses()[0].to_string()));
    let (status, told) = server.http("/readyz").unwrap();
    assert_eq!(status, 503, "{told}");
    assert!(told.contains("this server is starting, and waits: "), "{told}");
    assert_eq!(server.http("/healthz").unwrap(), (200, "ok\n".to_owned()));
    let (status, told) = server.http("/v1/namespaces").unwrap();
    assert!(status == 503 && told.contains("UNAVAILABLE") && told.contains("and waits: "), "{told}");
    let (done, _, errors) = server.run(&["namespace", "list"]);
    assert!(!done && errors.contains("and waits: "), "{errors}");
    assert!(server.log().contains("it is tried again until it answers"), "{}", server.log());
    ring.node(1).restart().unwrap();

    server.wait_until(PATIENCE, "/readyz", |status, told| status == 200 && told.contains(&bus));
    assert!(server.http("/readyz").unwrap().1.contains("wide partitions are split later"));
    let log = server.log();
    assert!(log.contains(&bus) && log.contains("detections wait, reads and writes don't"), "{log}");
    let created = server.run(&[&["namespace", "create", "plays"][..], &SOON_WIDE].concat());
    assert!(created.0, "{created:?}");
    write_as_soon_as_it_is_taken(&server, "a", "k=v");
    let large = format!("k={}", "water ".repeat(10_000));
    for _ in 0..3 {
        let written = server.run(&["write", "plays", "--series", "wide", "--item", &large]);
        assert!(written.0, "{written:?}");
    }
    let read = server.run(&["read", "plays", "a"]);
    assert!(read.0 && read.1.contains("k=v"), "{read:?}");
    // Noticed once a part of it is sealed, with no broker to tell.
    let (env, noticed) = (Env::system(), "anabranch_detections_total{namespace=\"plays\",outcome=\"accepted\"} 1");
    let begun = env.monotonic();
    while !server.http("/metrics").is_some_and(|(_, metrics)| metrics.lines().any(|line| line == noticed)) {
        let read = server.run(&["read", "plays", "wide"]);
        assert!(read.0, "{read:?}");
        assert!(env.monotonic() - begun < PATIENCE, "never noticed: {}", server.log());
    }

    kafka.restart().unwrap();
    server.wait_until(PATIENCE, "/readyz", |status, told| (status, told) == (200, "ready\n"));
    // What was detected meanwhile is there for whoever takes it.
    let tail = run(&["bus", "tail", "--bus", &bus, "--from-beginning", "--count", "1", "--output", "json"]);
    let detection: serde_json::Value = serde_json::from_str(tail.1.trim()).unwrap();
    assert_eq!(detection["time_series_id"], "wide", "{tail:?}");
    what_goes_away_later_is_told_and_comes_back(&mut server, &mut ring, &mut kafka);
}

/// A new slice takes events once every server knows it: what waited for that is too old, where so little is accepted.
fn write_as_soon_as_it_is_taken(server: &Program, series: &str, item: &str) {
    let env = Env::system();
    let begun = env.monotonic();
    loop {
        let written = server.run(&["write", "plays", "--series", series, "--item", item]);
        if written.0 {
            return;
        }
        assert!(written.2.contains("accept_limit") && env.monotonic() - begun < PATIENCE, "{written:?}");
    }
}

/// Without its broker a server serves on, and says that splits are late; without its store it isn't ready.
fn what_goes_away_later_is_told_and_comes_back(server: &mut Program, ring: &mut Cassandra, kafka: &mut Kafka) {
    kafka.process().kill().unwrap();
    let are_late = |status, told: &str| status == 200 && told.contains("wide partitions are split later");
    server.wait_until(PATIENCE, "/readyz", are_late);
    server.wait_until(PATIENCE, "/metrics", |_, metrics| metrics.lines().any(|line| line == "anabranch_bus_up 0"));
    let read = server.run(&["read", "plays", "a"]);
    assert!(read.0 && read.1.contains("k=v"), "{read:?}");
    kafka.restart().unwrap();
    server.wait_until(PATIENCE, "/readyz", |status, told| (status, told) == (200, "ready\n"));

    ring.node(1).process().pause().unwrap();
    server.wait_until(PATIENCE, "/readyz", |status, _| status == 503);
    assert_eq!(server.http("/healthz").unwrap(), (200, "ok\n".to_owned()));
    ring.node(1).process().resume().unwrap();
    server.wait_until(PATIENCE, "/readyz", |status, told| (status, told) == (200, "ready\n"));
    let written = server.run(&["write", "plays", "--series", "b", "--item", "k=w"]);
    assert!(written.0, "{written:?}");
    let read = server.run(&["read", "plays", "b"]);
    assert!(read.0 && read.1.contains("k=w"), "{read:?}");
}

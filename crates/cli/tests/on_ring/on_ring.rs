//! Two servers and two workers on three nodes and a broker, and what is taken away from them.

mod load;
mod processes;

use std::time::{Duration, Instant};

use anabranch_testbed::{Cassandra, Kafka};
use load::{Load, Oracle};
use processes::{Anabranch, Role, Site};

/// How long any single thing may take; nodes under load need most of a minute to start.
const PATIENCE: Duration = Duration::from_secs(180);
/// States that a split may rest in.
const ENDS: [&str; 2] = ["COMPLETED", "NOT_WIDE"];
const NAMESPACE: [&str; 3] = ["namespace", "create", "plays"];
/// Little is wide, time is sealed soon, and a page gets the time that a lost node costs.
const SETTINGS: [&str; 20] = [
    "--accept-limit",
    "5s",
    "--seal-margin",
    "12s",
    "--write-slo-target",
    "1s",
    "--write-slo-max",
    "10s",
    "--read-slo-target",
    "5s",
    "--read-slo-max",
    "20s",
    "--split-threshold-bytes",
    "512KiB",
    "--split-target-piece-bytes",
    "128KiB",
    "--split-promote-comparisons",
    "5",
    "--split-promote-over",
    "1s",
];

/// W1, R1, S2 to S5 on real processes: whichever one of them goes away, nothing acknowledged is lost, nothing wrong is read,
/// and every split comes to its end.
#[test]
fn nothing_is_lost_or_wrong_while_one_after_another_goes_away() {
    let story = Story { begun: Instant::now() };
    let mut ring = Cassandra::start(3).unwrap();
    story.tell("three Cassandra nodes are up");
    let mut kafka = Kafka::start().unwrap();
    story.tell("a Kafka broker is up");
    let site = Site::new(&ring.addresses(), kafka.address());
    let mut servers = [Role::Server, Role::Server].map(|role| site.start(role));
    let mut workers = [Role::Worker, Role::Worker].map(|role| site.start(role));
    servers.iter_mut().chain(&mut workers).for_each(|each| each.wait_until_ready(PATIENCE));
    story.tell("two servers and two workers are up");

    site.run(&servers, &[&NAMESPACE[..], &SETTINGS].concat());
    let oracle = Oracle::default();
    site.import(&servers, &oracle, "wide-0");
    let load = Load::start(&oracle, &servers);
    let wait_for_splits = |of: &str| {
        site.until(&servers, PATIENCE, |splits| {
            let mine = splits.iter().filter(|split| split.series == of);
            mine.clone().count() > 0 && mine.clone().all(|split| split.state == "COMPLETED")
        });
    };
    wait_for_splits("wide-0");
    story.tell("a wide history was noticed by a read, told over Kafka, and split by a worker");

    ring.node(2).process().kill().unwrap();
    story.tell("Cassandra node 2 was killed");
    load.goes_on(&story, 20);
    site.import(&servers, &oracle, "wide-1");
    ring.node(2).restart().unwrap();
    ring.node(2).wait_until_ready().unwrap();
    story.tell("Cassandra node 2 is back");
    load.goes_on(&story, 20);

    kafka.process().kill().unwrap();
    story.tell("the broker was killed");
    load.goes_on(&story, 20);
    kafka.restart().unwrap();
    story.tell("the broker is back");
    wait_for_splits("wide-1");

    for (at, state) in ["PLANNING", "SPLITTING", "VERIFYING"].into_iter().enumerate() {
        let series = format!("wide-{}", at + 2);
        site.import(&servers, &oracle, &series);
        site.until(&servers, PATIENCE, |splits| {
            splits.iter().any(|split| split.series == series && (split.state == state || split.state == "COMPLETED"))
        });
        workers.iter_mut().for_each(Anabranch::kill);
        story.tell(&format!("both workers were killed while {series} was in {state}"));
        workers.iter_mut().for_each(Anabranch::restart);
        workers.iter_mut().for_each(|worker| worker.wait_until_ready(PATIENCE));
        wait_for_splits(&series);
    }
    story.tell("every split came to its end");

    for server in &mut servers {
        server.kill();
        story.tell("a server was killed");
        load.goes_on(&story, 20);
        server.restart();
        server.wait_until_ready(PATIENCE);
        story.tell("it is back");
    }

    ring.node(3).process().pause().unwrap();
    story.tell("Cassandra node 3 stands still");
    std::thread::sleep(Duration::from_secs(20));
    ring.node(3).process().resume().unwrap();
    story.tell("it goes on");
    load.goes_on(&story, 20);

    let failed = load.failed_requests();
    for server in &mut servers {
        server.stop();
        server.restart();
        server.wait_until_ready(PATIENCE);
    }
    load.goes_on(&story, 20);
    assert_eq!(load.failed_requests(), failed, "a rolling restart fails no request");
    story.tell("both servers were restarted, one after the other, without a failed request");

    let figures = load.stop();
    story.tell(&format!("the load has ended: {figures}"));
    site.until(&servers, PATIENCE, |splits| splits.iter().all(|split| ENDS.contains(&split.state.as_str())));
    for server in &servers {
        oracle.check_everything(server);
    }
    let verified = site.run(&servers, &["split", "verify", "plays", "--output", "json"]);
    let verified: serde_json::Value = serde_json::from_str(&verified).unwrap();
    let verified = verified["verifications"].as_array().unwrap();
    let is_equal =
        |split: &serde_json::Value| split["segmentsEqual"].as_u64() > Some(0) && split["difference"].is_null();
    assert!(verified.len() >= 5 && verified.iter().all(is_equal), "{verified:?}");
    story.tell("everything acknowledged is there, in order, from both servers, and every split equals its original");
}

/// What happened when.
pub(crate) struct Story {
    begun: Instant,
}

impl Story {
    fn tell(&self, what: &str) {
        println!("{:6.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }
}

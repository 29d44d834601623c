//! Everything that is up, and what is done to it: faults strike and are healed, while clients write and read.

use std::{
    thread,
    time::{Duration, Instant},
};

use anabranch_testbed::{Cassandra, Kafka, Shape, SmallDisk, cache};
use serde_json::Value;

use super::{
    Story,
    faults::Fault,
    load::{Load, Oracle},
    processes::{Anabranch, Role, Site},
};

/// How long any single thing may take; nodes under load need most of a minute to start.
const PATIENCE: Duration = Duration::from_secs(180);
/// Room for a node's own tables, its log of commits and what these tests write, and little more.
const SMALL_DISK_MIB: u32 = 256;
/// States that a split may rest in.
const ENDS: [&str; 2] = ["COMPLETED", "NOT_WIDE"];
/// States that may be over before anybody looks, and how many splits are tried to find one in a state.
const BRIEF: [&str; 2] = ["DETECTED", "PLANNED"];
const TRIES: usize = 3;
/// Between two looks at a split, and how long a step may be on its way to the store.
const LOOK: Duration = Duration::from_millis(20);
const ARRIVAL: Duration = Duration::from_millis(500);
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

/// Everything that is up.
pub(crate) struct Stage {
    story: Story,
    ring: Cassandra,
    kafka: Kafka,
    site: Site,
    servers: [Anabranch; 2],
    workers: [Anabranch; 2],
    oracle: Oracle,
    load: Load,
    imported: usize,
}

impl Stage {
    /// Starts everything, with clients at work.
    pub(crate) fn set() -> Stage {
        let story = Story::begin();
        let small_disk_mib = small_disk(&story);
        let kafka = thread::spawn(|| Kafka::start().unwrap());
        let ring = Cassandra::start_as(Shape { small_disk_mib, ..Shape::of_nodes(3) }).unwrap();
        let kafka = kafka.join().unwrap();
        story.tell("three Cassandra nodes and a Kafka broker are up");
        let site = Site::new(&ring.addresses(), kafka.address());
        let mut servers = [Role::Server, Role::Server].map(|role| site.start(role));
        let mut workers = [Role::Worker, Role::Worker].map(|role| site.start(role));
        servers.iter_mut().chain(&mut workers).for_each(|each| each.wait_until_ready(PATIENCE));
        story.tell("two servers and two workers are up");
        site.run(&servers, &[&NAMESPACE[..], &SETTINGS].concat());
        let oracle = Oracle::default();
        let load = Load::start(&oracle, &servers);
        Stage { story, ring, kafka, site, servers, workers, oracle, load, imported: 0 }
    }

    pub(crate) fn tell(&self, what: &str) {
        self.story.tell(what);
    }

    pub(crate) fn has_small_disk(&mut self) -> bool {
        self.ring.node(3).disk().is_some()
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        let told = match fault {
            Fault::NodeKilled(node) => {
                self.ring.node(node).process().kill().unwrap();
                format!("Cassandra node {node} was killed")
            }
            Fault::NodeStill(node) => {
                self.ring.node(node).process().pause().unwrap();
                format!("Cassandra node {node} stands still")
            }
            Fault::NodeFull => {
                let filled = self.ring.node(3).disk().expect("it has one").fill().unwrap();
                format!("the disk of Cassandra node 3 is full: {} MiB more are on it", filled >> 20)
            }
            Fault::BrokerKilled => {
                self.kafka.process().kill().unwrap();
                "the broker was killed".to_owned()
            }
            Fault::WorkersKilled => {
                self.workers.iter_mut().for_each(Anabranch::kill);
                "both workers were killed".to_owned()
            }
            Fault::ServerKilled(server) => {
                self.servers[server].kill();
                format!("server {} was killed", server + 1)
            }
        };
        self.tell(&told);
    }

    pub(crate) fn heal(&mut self, fault: Fault) {
        let told = match fault {
            Fault::NodeKilled(node) => {
                self.ring.node(node).restart().unwrap();
                format!("Cassandra node {node} is back")
            }
            Fault::NodeStill(node) => {
                self.ring.node(node).process().resume().unwrap();
                format!("Cassandra node {node} goes on")
            }
            Fault::NodeFull => {
                let node = self.ring.node(3);
                node.disk().expect("it has one").give_back().unwrap();
                // It doesn't come back by itself: a node that couldn't write stops for good, or has ended.
                node.process().kill().unwrap();
                node.restart().unwrap();
                "Cassandra node 3 has room again, was started again, and is back".to_owned()
            }
            Fault::BrokerKilled => {
                self.kafka.restart().unwrap();
                "the broker is back".to_owned()
            }
            Fault::WorkersKilled => {
                self.workers.iter_mut().for_each(Anabranch::restart);
                self.workers.iter_mut().for_each(|worker| worker.wait_until_ready(PATIENCE));
                "both workers are back".to_owned()
            }
            Fault::ServerKilled(server) => {
                self.servers[server].restart();
                self.servers[server].wait_until_ready(PATIENCE);
                format!("server {} is back", server + 1)
            }
        };
        self.tell(&told);
    }

    /// A full disk that nobody notices would prove nothing: the node has ended, or serves nobody, or has said so.
    pub(crate) fn notices_a_full_disk(&mut self) {
        let node = self.ring.node(3);
        let (runs, serves, log) = (node.process().is_running(), node.is_ready(), node.process().log_tail(2000));
        let said = log.lines().find(|line| line.contains("No space left") || line.contains("memory access operation"));
        assert!(!runs || !serves || said.is_some(), "it doesn't mind: {log}");
        let state = match (runs, serves) {
            (false, _) => "has ended",
            (true, false) => "serves nobody any more",
            (true, true) => "is still there",
        };
        let said = said.unwrap_or("nothing of it");
        self.tell(&format!("Cassandra node 3 {state}; it says: {said}"));
    }

    /// A node that stands still costs readers little because somebody else was asked, too.
    pub(crate) fn asked_others(&self) {
        let hedged: f64 = self.servers.iter().map(|server| server.counted("anabranch_hedged_reads_total")).sum();
        assert!(hedged > 0.0, "no read was sent to a second replica");
        self.tell(&format!("{hedged} reads were sent to a second replica"));
    }

    /// Lets what is struck stay so.
    pub(crate) fn hold(&self, duration: Duration) {
        thread::sleep(duration);
        self.load.is_well();
    }

    pub(crate) fn goes_on(&self) {
        self.load.goes_on(&self.story, 20);
    }

    /// Brings an old history in, wide enough to be split.
    pub(crate) fn import(&mut self, series: &str) {
        self.import_into(series, 0);
    }

    fn import_into(&mut self, series: &str, slice: usize) {
        self.site.import(&self.servers, &self.oracle, series, slice);
        self.imported += 1;
    }

    /// Kills both workers while a split is in this state, and waits until the split has come to its end all the same. A split that
    /// was past the state before anybody looked proves nothing: then it is another one's turn, a few times.
    pub(crate) fn kill_workers_in(&mut self, state: &str) {
        for _ in 0..TRIES {
            let series = format!("{}-{}", state.to_lowercase(), self.imported);
            // Only where it needs a new table does a split stay in PLANNED for a while.
            let slice = if state == "PLANNED" { self.imported } else { 0 };
            self.import_into(&series, slice);
            let caught = match state {
                "FAILED" => self.spoil(&series) && self.catch(&series, state),
                _ => self.catch(&series, state),
            };
            if caught {
                let reason = self.servers[0].split_of(&series).map(|split| split.reason).unwrap_or_default();
                let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
                self.tell(&format!("{series} is in {state}{why}, and both workers stand still"));
                self.strike(Fault::WorkersKilled);
                self.heal(Fault::WorkersKilled);
            }
            self.wait_for_splits(&series);
            if caught {
                return;
            }
            self.tell(&format!("{series} was past {state} before the workers could be stopped"));
        }
        assert!(BRIEF.contains(&state), "no split of {TRIES} was caught in {state}");
        self.tell(&format!("NOT TRIED: killing workers in {state}; it was over too soon in {TRIES} splits"));
    }

    /// Makes sure that a split will fail (S2): one of its pieces has a row too many before it is verified. Whether there was time to.
    fn spoil(&mut self, series: &str) -> bool {
        let caught = self.catch(series, "SPLITTING");
        if caught {
            self.site.spoil(&self.servers, series);
            self.workers.iter_mut().for_each(Anabranch::resume);
        }
        caught
    }

    /// Stops both workers while a split is in this state. Otherwise they go on, and the answer is no.
    fn catch(&mut self, series: &str, state: &str) -> bool {
        let state_of = |server: &Anabranch| server.split_of(series).map(|split| split.state).unwrap_or_default();
        let begun = Instant::now();
        loop {
            let seen = state_of(&self.servers[0]);
            if seen == state {
                break;
            }
            if ENDS.contains(&seen.as_str()) {
                return false;
            }
            assert!(begun.elapsed() < PATIENCE, "{series} stays in {seen}");
            thread::sleep(LOOK);
        }
        self.workers.iter_mut().for_each(Anabranch::pause);
        // A step that was on its way when they were stopped may arrive yet.
        thread::sleep(ARRIVAL);
        let caught = state_of(&self.servers[0]) == state;
        if !caught {
            self.workers.iter_mut().for_each(Anabranch::resume);
        }
        caught
    }

    pub(crate) fn wait_for_splits(&self, series: &str) {
        self.site.until(&self.servers, PATIENCE, |splits| {
            let mut mine = splits.iter().filter(|split| split.series == series).peekable();
            mine.peek().is_some() && mine.all(|split| split.state == "COMPLETED")
        });
        self.tell(&format!("  {series} is split"));
    }

    /// A rolling restart, as an operator does it.
    pub(crate) fn restart_servers_in_turn(&mut self) {
        let failed = self.load.failed_requests();
        for server in 0..self.servers.len() {
            self.servers[server].stop();
            self.goes_on();
            self.servers[server].restart();
            self.servers[server].wait_until_ready(PATIENCE);
            self.goes_on();
        }
        assert_eq!(self.load.failed_requests(), failed, "a rolling restart fails no request");
        self.tell("both servers were restarted, one after the other, without a failed request");
    }

    /// One server after the other ends as by a crash, requests under way and all.
    pub(crate) fn kill_servers_in_turn(&mut self) {
        let failed = self.load.failed_requests();
        for server in 0..self.servers.len() {
            self.strike(Fault::ServerKilled(server));
            self.goes_on();
            self.heal(Fault::ServerKilled(server));
        }
        assert_eq!(self.load.failed_requests(), failed, "what was asked of a server that is lost, another one answers");
        self.tell("both servers were killed, one after the other, without a failed request");
    }

    /// The clients stop, and everything is looked at once more.
    pub(crate) fn end(self) {
        let Stage { story, site, servers, oracle, load, imported, .. } = &self;
        let figures = load.stop();
        story.tell(&format!("the load has ended: {figures}"));
        site.until(servers, PATIENCE, |splits| splits.iter().all(|split| ENDS.contains(&split.state.as_str())));
        for server in servers {
            oracle.check_everything(server);
        }
        let verified = site.run(servers, &["split", "verify", "plays", "--output", "json"]);
        let verified: Value = serde_json::from_str(&verified).unwrap();
        let verified = verified["verifications"].as_array().unwrap();
        let is_equal = |split: &Value| split["segmentsEqual"].as_u64() > Some(0) && split["difference"].is_null();
        assert!(verified.len() >= *imported && verified.iter().all(is_equal), "{verified:?}");
        story
            .tell("everything acknowledged is there, in order, from both servers, and every split equals its original");
    }
}

/// The size of the last node's disk, where one can be mounted; a step that is left out is said aloud.
fn small_disk(story: &Story) -> Option<u32> {
    let place = cache::fresh_directory("trial").unwrap();
    let possible = SmallDisk::can_be_had(&place);
    std::fs::remove_dir_all(&place).unwrap();
    match possible {
        Ok(()) => Some(SMALL_DISK_MIB),
        Err(error) => {
            story.tell(&format!("SKIPPED: a node whose disk is full ({error}); run this as root"));
            None
        }
    }
}

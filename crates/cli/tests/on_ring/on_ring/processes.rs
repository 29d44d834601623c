//! The program itself: servers and workers as processes, and commands that are run against them.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anabranch_model::Timestamp;
use anabranch_testbed::{cache, http, ports, process::ServerProcess, watchdog::Watchdog};
use scylla::client::session_builder::SessionBuilder;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::load::{Oracle, value_of};

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");
/// Events of an imported history, and when the first of them happened: on this day or, for another slice, so much later.
const EVENTS: usize = 3000;
const NOON: i64 = 1_585_396_800;
const ANOTHER_SLICE: i64 = 40 * 86_400;
/// Slow enough that a kill finds every state, quick enough to end.
const CONFIG: &str = "\
[cassandra]
replication = \"3\"
[splits]
sweep_interval = \"2s\"
bytes_per_second = \"1MiB\"
checkpoint = \"128KiB\"
[engine]
lease = \"5s\"
[limits]
shutdown_grace = \"5s\"
";

/// Where everything lies, and how the store and the bus are reached.
pub(crate) struct Site {
    directory: PathBuf,
    nodes: Vec<String>,
    store: String,
    bus: String,
    _watchdog: Watchdog,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Worker,
}

/// A split, as it is listed.
#[derive(Debug)]
pub(crate) struct ListedSplit {
    pub(crate) series: String,
    pub(crate) state: String,
    /// Why, where something went wrong.
    pub(crate) reason: String,
}

impl Site {
    pub(crate) fn new(nodes: &[SocketAddr], broker: SocketAddr) -> Site {
        let directory = cache::fresh_directory("ring").unwrap();
        let nodes: Vec<String> = nodes.iter().map(SocketAddr::to_string).collect();
        let watchdog = Watchdog::over(&directory).unwrap();
        Site {
            store: format!("cassandra://{}", nodes.join(",")),
            nodes,
            bus: format!("kafka://{broker}"),
            directory,
            _watchdog: watchdog,
        }
    }

    pub(crate) fn start(&self, role: Role) -> Anabranch {
        let [grpc, http] = ports::free(&[Ipv4Addr::LOCALHOST]).unwrap();
        let directory = self.directory.join(format!("{role:?}-{http}"));
        fs::create_dir_all(&directory).unwrap();
        let config = directory.join("anabranch.toml");
        fs::write(&config, CONFIG).unwrap();
        let mut arguments = match role {
            Role::Server => vec!["serve".to_owned(), "--grpc".to_owned(), format!("127.0.0.1:{grpc}")],
            Role::Worker => vec!["worker".to_owned()],
        };
        // A server leaves splits to the workers.
        let workers = if role == Role::Server { "0" } else { "2" };
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, http));
        let rest = [
            ("--config", config.to_str().unwrap()),
            ("--store", self.store.as_str()),
            ("--bus", &self.bus),
            ("--http", &http.to_string()),
            ("--split-workers", workers),
        ];
        arguments.extend(rest.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_owned()]));
        let grpc = SocketAddr::from((Ipv4Addr::LOCALHOST, grpc));
        let process = spawn(&directory, &arguments);
        Anabranch { directory, arguments, grpc, http, process }
    }

    /// Runs a command against the servers and answers what it printed.
    pub(crate) fn run(&self, servers: &[Anabranch], arguments: &[&str]) -> String {
        let addresses: Vec<String> = servers.iter().map(|server| server.grpc.to_string()).collect();
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("ANABRANCH_SERVER", addresses.join(",")).current_dir(&self.directory);
        let output = command.output().unwrap();
        let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {out}{errors}");
        out.into_owned()
    }

    /// Brings an old history in, wide enough to be split; so many slices after the first.
    pub(crate) fn import(&self, servers: &[Anabranch], oracle: &Oracle, series: &str, slice: usize) {
        let begun = NOON + slice as i64 * ANOTHER_SLICE;
        let mut csv = String::from("time,series,event_id,note\n");
        let mut events = Vec::new();
        for index in 0..EVENTS {
            let (time, id) = (Timestamp::from_seconds(begun + index as i64), format!("old-{index:05}"));
            let _ = writeln!(csv, "{time},{series},{id},{}", value_of(&id));
            events.push((time.nanos(), id));
        }
        let file = self.directory.join(format!("{series}.csv"));
        fs::write(&file, csv).unwrap();
        oracle.begin(series, &events);
        self.run(servers, &["import", "plays", "--file", file.to_str().unwrap()]);
        oracle.acknowledge(series, &events);
    }

    /// Puts a row where none belongs, into the first piece that this series is about to have.
    pub(crate) fn spoil(&self, servers: &[Anabranch], series: &str) {
        let split: Value =
            serde_json::from_str(&self.run(servers, &["split", "show", "plays", series, "--output", "json"])).unwrap();
        let planned = &split["nextSegment"]["postSplitData"];
        let piece = &planned["timeRangePartitionStrategy"]["pieces"][0];
        let bucket = |bucket: &Value| i64::try_from(bucket.as_u64().unwrap_or(0)).unwrap();
        let table = planned["table"].as_str().unwrap_or_else(|| panic!("nothing is planned: {split}"));
        let cql = format!(
            "INSERT INTO anabranch_plays.{table} (time_series_id, time_bucket, event_bucket, event_time, event_id, \
             event_item_key, event_item) VALUES (?, ?, ?, ?, 'spoilt', 'note', (0x00, null))"
        );
        let values = (series, bucket(&split["timeBucket"]), bucket(&piece["eventBucket"]), NOON * 1_000_000_000);
        Runtime::new().unwrap().block_on(async {
            let session = SessionBuilder::new().known_nodes(&self.nodes).build().await.unwrap();
            session.query_unpaged(cql, values).await.unwrap();
        });
    }

    /// Waits until the list of splits is as it should be.
    pub(crate) fn until(&self, servers: &[Anabranch], patience: Duration, is_so: impl Fn(&[ListedSplit]) -> bool) {
        let begun = Instant::now();
        loop {
            let splits = listed(&self.run(servers, &["split", "list", "plays", "--output", "json"]));
            if is_so(&splits) {
                return;
            }
            assert!(begun.elapsed() < patience, "{splits:#?}{}", self.what_was_said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The splits of a list in JSON.
fn listed(text: &str) -> Vec<ListedSplit> {
    let list: Value = serde_json::from_str(text).unwrap();
    let splits = list["splits"].as_array().cloned().unwrap_or_default();
    let word = |split: &Value, name: &str| split[name].as_str().unwrap_or_default().to_owned();
    let listed = |split: &Value| ListedSplit {
        series: word(split, "timeSeriesId"),
        state: word(split, "state"),
        reason: word(split, "reason"),
    };
    splits.iter().map(listed).collect()
}

impl Site {
    /// The last that every process has said, for people who look for what went wrong.
    fn what_was_said(&self) -> String {
        let mut said = String::new();
        for entry in fs::read_dir(&self.directory).unwrap().flatten() {
            let log = fs::read_to_string(ServerProcess::log_path(&entry.path())).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(20).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            let _ = writeln!(said, "\n{}:\n{}", entry.path().display(), lines.join("\n"));
        }
        said
    }
}

fn spawn(directory: &std::path::Path, arguments: &[String]) -> ServerProcess {
    ServerProcess::start("anabranch", directory, Command::new(PROGRAM).args(arguments)).unwrap()
}

/// A server or a worker.
pub(crate) struct Anabranch {
    directory: PathBuf,
    arguments: Vec<String>,
    pub(crate) grpc: SocketAddr,
    http: SocketAddr,
    process: ServerProcess,
}

impl Anabranch {
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    /// Stops it where it stands.
    pub(crate) fn pause(&mut self) {
        self.process.pause().unwrap();
    }

    /// Lets it go on.
    pub(crate) fn resume(&mut self) {
        self.process.resume().unwrap();
    }

    /// A series' split, as the store has it now, if there is one and the store says so.
    pub(crate) fn split_of(&self, series: &str) -> Option<ListedSplit> {
        let (_, list) = http::get(self.http, "/v1/namespaces/plays/splits").filter(|(status, _)| *status == 200)?;
        listed(&list).into_iter().find(|split| split.series == series)
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self) {
        let pid = self.process.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let begun = Instant::now();
        while self.process.is_running() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", self.process.log_tail(30));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The same again, on the same ports.
    pub(crate) fn restart(&mut self) {
        self.process = spawn(&self.directory, &self.arguments);
    }

    /// What it counts under this name.
    pub(crate) fn counted(&self, metric: &str) -> f64 {
        let (_, metrics) = http::get(self.http, "/metrics").unwrap();
        let value = metrics.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{metric} isn't counted")).trim().parse().unwrap()
    }

    pub(crate) fn wait_until_ready(&mut self, patience: Duration) {
        let address = self.http;
        let is_ready = || http::get(address, "/readyz").is_some_and(|(status, _)| status == 200);
        self.process.wait_until(patience, is_ready).unwrap();
    }
}

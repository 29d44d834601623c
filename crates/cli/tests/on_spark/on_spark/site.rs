//! A server as a process, commands that are run against it, and the job.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use anabranch_testbed::{Spark, cache, ports, process::ServerProcess, watchdog::Watchdog};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");
/// How long a server may take to start, or histories to be split.
const PATIENCE: Duration = Duration::from_secs(180);
/// Events of a history, each with so many items.
pub(crate) const EVENTS: usize = 600;
pub(crate) const ITEMS: usize = 2;
/// When the first of them happened, and the slice that they all lie in.
const NOON: i64 = 1_585_396_800;
const SLICE: &str = "data_20200326";
const CONFIG: &str = "\
[cassandra]
replication = \"1\"
[splits]
sweep_interval = \"1s\"
";
/// Little is wide, and time is sealed soon. Nothing but the test looks at splits.
const SETTINGS: [&str; 18] = [
    "--accept-limit",
    "5s",
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
    "--split-block-bytes",
    "4KiB",
    "--split-promote",
    "false",
    "--split-must-pay",
    "false",
];

/// A server on one node of Cassandra, ended with this value.
pub(crate) struct Site {
    directory: PathBuf,
    node: SocketAddr,
    grpc: SocketAddr,
    _watchdog: Watchdog,
}

/// What `anabranch split verify --all` said.
pub(crate) struct Verified {
    pub(crate) status: Option<i32>,
    /// Namespace, series, and whether a difference was found.
    pub(crate) found: Vec<(String, String, bool)>,
    pub(crate) text: String,
}

/// The folder of the job.
pub(crate) fn job() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs/verify")
}

/// Where nobody listens.
pub(crate) fn unused_address() -> SocketAddr {
    let [port] = ports::free(&[Ipv4Addr::LOCALHOST]).unwrap();
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Site {
    /// Starts a server and waits until it answers.
    pub(crate) fn start(node: SocketAddr) -> Site {
        let directory = cache::fresh_directory("spark").unwrap();
        let watchdog = Watchdog::over(&directory).unwrap();
        let [grpc, http] = ports::free(&[Ipv4Addr::LOCALHOST]).unwrap().map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let config = directory.join("anabranch.toml");
        fs::write(&config, CONFIG).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--config").arg(&config);
        command.args(["--store", &format!("cassandra://{node}")]);
        for (flag, address) in [("--grpc", grpc), ("--http", http)] {
            command.args([flag, &SocketAddr::to_string(&address)]);
        }
        let mut server = ServerProcess::start("anabranch", &directory, &mut command).unwrap();
        let site = Site { directory, node, grpc, _watchdog: watchdog };
        server.wait_until(PATIENCE, || site.try_run(&["namespace", "list"]).status.success()).unwrap();
        site
    }

    fn try_run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("ANABRANCH_SERVER", self.grpc.to_string()).current_dir(&self.directory);
        command.output().unwrap()
    }

    /// Runs a command against the server and answers what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.try_run(arguments);
        let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {out}{errors}");
        out.into_owned()
    }

    pub(crate) fn create_namespace(&self, name: &str, packing: &str) {
        let packing = ["--split-packing", packing];
        self.run(&[&["namespace", "create", name][..], &SETTINGS, &packing].concat());
    }

    /// Brings old histories in and asks for their splits.
    pub(crate) fn import(&self, namespace: &str, series: &[String]) {
        let mut csv = String::from("time,series,event_id,title,note\n");
        for (series, index) in series.iter().flat_map(|series| (0..EVENTS).map(move |index| (series, index))) {
            let time = Timestamp::from_seconds(NOON + index as i64);
            let note = "water under the bridge ".repeat(10);
            let _ = writeln!(csv, "{time},{series},e-{index:05},title {index},{note}{index}");
        }
        let file = self.directory.join(format!("{namespace}.csv"));
        fs::write(&file, csv).unwrap();
        self.run(&["import", namespace, "--file", file.to_str().unwrap()]);
        self.run(&["split", "request", namespace, "--slice", SLICE]);
    }

    pub(crate) fn wait_until_split(&self, namespace: &str, series: &[String]) {
        let env = Env::system();
        let begun = env.monotonic();
        let is_split = |series: &String| {
            let text = self.run(&["split", "list", namespace, series, "--slice", SLICE, "--output", "json"]);
            let list: Value = serde_json::from_str(&text).unwrap();
            list["splits"].as_array().is_some_and(|splits| splits.iter().any(|split| split["state"] == "COMPLETED"))
        };
        while !series.iter().all(is_split) {
            assert!(env.monotonic() - begun < PATIENCE, "{}", self.run(&["split", "list", namespace]));
        }
    }

    /// A split with its pieces.
    pub(crate) fn show(&self, namespace: &str, series: &str) -> Value {
        let text = self.run(&["split", "show", namespace, series, "--slice", SLICE, "--output", "json"]);
        serde_json::from_str(&text).unwrap()
    }

    /// Runs the job over the slice of the histories: how it ended, and its report.
    pub(crate) fn spark_job(&self, spark: &Spark, namespace: &str) -> (Option<i32>, Value) {
        let report = self.directory.join("report.json");
        let _ = fs::remove_file(&report);
        let mut command = spark.submit().unwrap();
        command.arg(job().join("verify.py")).args([namespace, SLICE, "--contact-points", &self.node.to_string()]);
        let output = command.arg("--report").arg(&report).current_dir(&self.directory).output().unwrap();
        let text = fs::read(&report).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stdout)));
        (output.status.code(), serde_json::from_slice(&text).unwrap())
    }

    pub(crate) fn verify_all(&self) -> Verified {
        let output = self.try_run(&["split", "verify", "--all", "--output", "json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{errors}"));
        let word = |verification: &Value, name: &str| verification[name].as_str().unwrap().to_owned();
        let found = answer["verifications"].as_array().unwrap().iter().map(|one| {
            let is_known = one["segmentsEqual"].as_u64() > Some(0) || !one["difference"].is_null();
            assert!(is_known, "{text}");
            (word(one, "namespace"), word(one, "timeSeriesId"), !one["difference"].is_null())
        });
        Verified { status: output.status.code(), found: found.collect(), text: text.clone() }
    }
}

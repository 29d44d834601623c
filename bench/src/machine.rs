//! What it was measured on: the machine, its disk, the versions.

use std::{
    fmt, fs,
    fs::File,
    io::Write,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::Serialize;

/// As much as an ingest request writes.
const SYNC_BYTES: usize = 160_000;
const SYNCS: usize = 51;
const TMPFS: u64 = 0x0102_1994;
const LOCK_FILE: &str = include_str!("../../Cargo.lock");

/// Ticks of all processors since the machine started, as `/proc/stat` counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    all: u64,
    /// In which a processor had work and the host ran something else.
    stolen: u64,
}

impl Ticks {
    pub(crate) fn now() -> Option<Ticks> {
        Ticks::parse(&field("/proc/stat", "cpu "))
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    fn parse(line: &str) -> Option<Ticks> {
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
        Some(Ticks { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// The share of the processors that the host kept for itself since then, in percent. What it takes, it takes for milliseconds
    /// at a time: from one percent on, a p99 tells of the host.
    pub(crate) fn stolen_since(self, then: Ticks) -> f64 {
        100.0 * (self.stolen - then.stolen) as f64 / (self.all - then.all).max(1) as f64
    }
}

/// Where the numbers come from.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    memory_mib: u64,
    kernel: String,
    /// The median time to append 160 kB to a file and sync it.
    sync_millis: f64,
    /// Data lies in memory: nothing that syncs can be judged.
    in_memory: bool,
    server: String,
    /// The embedded store, where that is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    fjall: Option<String>,
    /// The node and the driver, where a cluster is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    cassandra: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scylla: Option<String>,
    tonic: String,
}

impl Machine {
    pub(crate) fn look(server: &Path, data: &Path, cluster: bool) -> Result<Machine> {
        let version = Command::new(server).arg("--version").output();
        let version = version.with_context(|| format!("cannot start {}", server.display()))?;
        let memory = field("/proc/meminfo", "MemTotal:").trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0);
        Ok(Machine {
            cpu: field("/proc/cpuinfo", "model name").trim_start_matches(':').trim().to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_mib: memory / 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            sync_millis: sync_time(data)?.as_secs_f64() * 1e3,
            in_memory: rustix::fs::statfs(data)?.f_type as u64 == TMPFS,
            server: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
            fjall: (!cluster).then(|| locked_version("fjall")),
            cassandra: cluster.then(|| anabranch_testbed::cassandra::JARS.name.to_owned()),
            scylla: cluster.then(|| locked_version("scylla")),
            tonic: locked_version("tonic"),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} cores ({}), {} MiB, Linux {}", self.cores, self.cpu, self.memory_mib, self.kernel)?;
        write!(f, "{}, tonic {}", self.server, self.tonic)?;
        for (name, version) in [("fjall", &self.fjall), ("node", &self.cassandra), ("scylla", &self.scylla)] {
            if let Some(version) = version {
                write!(f, ", {name} {version}")?;
            }
        }
        writeln!(f)?;
        write!(f, "appending and syncing 160 kB takes {:.2} ms", self.sync_millis)?;
        if self.in_memory {
            write!(f, "; data lies in memory: choose a disk, or nothing that syncs can be judged")?;
        }
        Ok(())
    }
}

/// Refuses to begin what would fill the disk.
pub(crate) fn check_room(directory: &Path, needed: u64, chosen_by: &str) -> Result<()> {
    let file_system = rustix::fs::statvfs(directory)?;
    let free = file_system.f_bavail * file_system.f_frsize;
    let gb = |bytes: u64| bytes as f64 / 1e9;
    anyhow::ensure!(
        free >= needed,
        "{:.1} GB are free in {}, and the data sets need {:.1} GB: make room, or choose another place with {chosen_by}",
        gb(free),
        directory.display(),
        gb(needed)
    );
    Ok(())
}

fn sync_time(directory: &Path) -> Result<Duration> {
    let path = directory.join("sync");
    let mut file = File::create(&path)?;
    let bytes = vec![7; SYNC_BYTES];
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    fs::remove_file(path)?;
    times.sort_unstable();
    Ok(times[SYNCS / 2])
}

fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().to_owned()
}

/// The version of a dependency that this was built with.
fn locked_version(name: &str) -> String {
    let after = LOCK_FILE.split_once(&format!("\nname = \"{name}\"\nversion = \"")).map(|(_, after)| after);
    after.and_then(|after| after.split('"').next()).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        assert!(locked_version("fjall").starts_with("3."));
        assert_eq!(locked_version("no-such-crate"), "unknown");
    }

    #[test]
    fn what_the_host_kept_is_a_share_of_all_ticks() {
        let then = Ticks::parse("100 0 50 800 10 0 0 40 0 0").unwrap();
        let now = Ticks::parse("150 0 70 820 10 0 0 50 0 0").unwrap();
        assert_eq!((now.all, now.stolen_since(then)), (1100, 10.0));
        assert!(Ticks::parse("1 2 3").is_none());
    }

    #[test]
    fn a_full_disk_is_refused_before_anything_is_written() {
        let error = check_room(Path::new("."), u64::MAX, "--dir").unwrap_err().to_string();
        assert!(error.contains("make room"), "{error}");
    }
}

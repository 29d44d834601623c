//! `anabranch doctor`: looks at the configuration, the data directory and the clock, and says what to mend.

use std::{
    fs, io,
    net::{TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_model::Timestamp;
use anabranch_server::{Config, StoreUrl};
use anabranch_store_fjall::{Inspection, inspect};
use clap::builder::styling::{AnsiColor, Style};
use serde_json::json;

use crate::{
    args::{DoctorArgs, ServerFlags},
    config_layers,
    failure::{Failure, Outcome},
    output::{Format, Out, paint, text::escaped},
    session::Session,
    times::show_bytes,
};

/// Below this the store may stop at any moment; its journals alone may take as much.
const LITTLE_DISK: u64 = 1 << 30;
const NO_DISK: u64 = 128 << 20;
const NODE_TIMEOUT: Duration = Duration::from_secs(3);
/// 2025-01-01: nobody ran this before.
const LEAST_NOW: Timestamp = Timestamp::from_seconds(1_735_689_600);

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        }
    }

    fn style(self) -> Style {
        match self {
            Verdict::Ok => AnsiColor::Green.on_default(),
            Verdict::Warn => AnsiColor::Yellow.on_default(),
            Verdict::Fail => AnsiColor::Red.on_default(),
        }
    }
}

/// One thing that was looked at.
struct Finding {
    verdict: Verdict,
    what: &'static str,
    found: String,
    advice: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, what: &'static str, found: impl Into<String>) {
        self.0.push(Finding { verdict: Verdict::Ok, what, found: found.into(), advice: None });
    }

    fn warn(&mut self, what: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { verdict: Verdict::Warn, what, found: found.into(), advice: Some(advice.into()) });
    }

    fn fail(&mut self, what: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { verdict: Verdict::Fail, what, found: found.into(), advice: Some(advice.into()) });
    }
}

pub(crate) fn run(session: &Session, args: &DoctorArgs) -> Outcome {
    let mut findings = Findings::default();
    let config = check_configuration(args, &mut findings);
    check_clock(session.now(), &mut findings);
    match &config.store.url {
        StoreUrl::Embedded => check_directory(&config, session.now(), &mut findings),
        StoreUrl::Cassandra { nodes, .. } => check_nodes(nodes, &mut findings),
    }
    print(session, &findings.0)?;
    match findings.0.iter().filter(|finding| finding.verdict == Verdict::Fail).count() {
        0 => Ok(()),
        1 => Err(Failure::other("one check failed")),
        count => Err(Failure::other(format!("{count} checks failed"))),
    }
}

/// Whether nodes accept connections; whether they let us in, `serve` tells.
fn check_nodes(nodes: &[String], findings: &mut Findings) {
    for node in nodes {
        let addresses = node.to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        let reached = addresses.iter().find(|address| TcpStream::connect_timeout(address, NODE_TIMEOUT).is_ok());
        match reached {
            Some(address) => findings.ok("store", format!("{node}: {address} accepts connections")),
            None if addresses.is_empty() => {
                findings.fail("store", format!("{node}: there is no such host"), "correct store.url");
            }
            None => findings.fail(
                "store",
                format!("{node} doesn't accept connections"),
                "start it, or correct store.url; a server waits until one node answers",
            ),
        }
    }
}

/// The configuration as the server would see it, or the defaults where it can't be read.
fn check_configuration(args: &DoctorArgs, findings: &mut Findings) -> Config {
    let flags = ServerFlags { config: args.config.clone(), data: args.data.clone(), ..ServerFlags::default() };
    let layers = match config_layers::load(&flags) {
        Ok(layers) => layers,
        Err(failure) => {
            let mut found = failure.message;
            failure.details.iter().for_each(|detail| found.push_str(&format!("\n{detail}")));
            let advice = failure.hints.join("; ");
            let advice =
                if advice.is_empty() { "correct it; until then the server doesn't start".to_owned() } else { advice };
            findings.fail("configuration", found, advice);
            let mut config = Config::default();
            config.store.data = args.data.clone().unwrap_or(config.store.data);
            return config;
        }
    };
    let file = layers.file.as_ref().map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    match layers.check() {
        Ok(()) => findings.ok("configuration", format!("{file}; every value can be used")),
        Err(failure) => {
            findings.fail(
                "configuration",
                failure.details.join("\n"),
                "correct it; until then the server doesn't start",
            );
        }
    }
    for unknown in &layers.unknown_variables {
        findings.warn("environment", unknown, "correct its name, or unset it: it has no effect");
    }
    let listen = &layers.config.listen;
    if listen.insecure {
        let found = format!("listen.insecure is set; gRPC is on {}, HTTP on {}", listen.grpc, listen.http);
        findings.warn("network", found, "whoever reaches these addresses may read, write and delete everything");
    }
    for (what, path) in [("TLS certificate", &listen.tls_certificate), ("TLS key", &listen.tls_key)] {
        if let Some(path) = path {
            match fs::File::open(path) {
                Ok(_) => findings.ok(what, path.display().to_string()),
                Err(error) => {
                    findings.fail(what, format!("{}: {error}", path.display()), "name a file that can be read");
                }
            }
        }
    }
    layers.config
}

fn check_clock(now: Timestamp, findings: &mut Findings) {
    if now < LEAST_NOW {
        findings.fail("clock", format!("it shows {now}"), "set the clock: events would be accepted at wrong times");
    } else {
        findings.ok("clock", format!("it shows {now}"));
    }
}

fn check_directory(config: &Config, now: Timestamp, findings: &mut Findings) {
    let dir = &config.store.data;
    let shown = dir.display().to_string();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return check_missing_directory(dir, findings),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return findings.fail(
                "data directory",
                format!("{shown} is not a directory"),
                "name another one with --data",
            );
        }
        Err(error) => {
            return findings.fail("data directory", format!("{shown}: {error}"), "check its owner and permissions");
        }
    };
    if is_writable(dir) {
        findings.ok("data directory", shown.as_str());
    } else {
        findings.fail("data directory", format!("{shown} is not writable"), "check its owner and permissions");
    }
    match inspect(dir) {
        Ok(inspection) => {
            check_format(&inspection, entries, findings);
            check_disk(&inspection, findings);
            if inspection.understood {
                check_tables(&inspection, config, findings);
                check_age(dir, now, findings);
            }
        }
        Err(error) => findings.fail("data directory", format!("{shown}: {error}"), "check its owner and permissions"),
    }
}

fn check_missing_directory(dir: &Path, findings: &mut Findings) {
    let parent =
        dir.ancestors().skip(1).map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    let existing: Option<PathBuf> = parent.into_iter().find(|parent| parent.exists()).map(Path::to_owned);
    let found = format!("{} isn't there yet", dir.display());
    match existing {
        Some(parent) if is_writable(&parent) => {
            findings.warn("data directory", found, "`anabranch serve` makes it; or name another one with --data");
        }
        Some(parent) => {
            let found = format!("{found}, and {} is not writable", parent.display());
            findings.fail("data directory", found, "check its owner and permissions");
        }
        None => findings.fail("data directory", found, "name another one with --data"),
    }
}

fn is_writable(dir: &Path) -> bool {
    use rustix::fs::Access;
    rustix::fs::access(dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn check_format(inspection: &Inspection, entries: usize, findings: &mut Findings) {
    match &inspection.format {
        Some(format) if inspection.understood => findings.ok("format", escaped(format)),
        Some(format) => {
            let found = format!("`{}` is unknown to this version", escaped(format));
            findings.fail("format", found, "open it with the version that wrote it, or with a newer one than this");
        }
        None if entries == 0 => findings.ok("format", "empty: a new store will be made"),
        None => {
            let found = "there is no file FORMAT, but other files: this is no store of Anabranch";
            findings.fail("format", found, "name an empty or a new directory with --data");
        }
    }
    let pid = inspection.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    match inspection.locked {
        true => findings.ok("lock", format!("in use by a running server{pid}")),
        false => findings.ok("lock", "free: no server is running on it"),
    }
}

fn check_disk(inspection: &Inspection, findings: &mut Findings) {
    let free = format!("{} free", show_bytes(inspection.free_bytes));
    match inspection.free_bytes {
        0..NO_DISK => findings.fail("disk", free, "make room now: without it the store can't write"),
        NO_DISK..LITTLE_DISK => findings.warn("disk", free, "make room, or shorten the retention of namespaces"),
        _ => findings.ok("disk", free),
    }
}

fn check_tables(inspection: &Inspection, config: &Config, findings: &mut Findings) {
    let tables = inspection.tables.len();
    let found = format!(
        "{tables} of {} allowed; {} on disk, {} of it journals",
        config.store.max_tables,
        show_bytes(inspection.disk_bytes),
        show_bytes(inspection.journal_bytes)
    );
    if tables * 10 >= config.store.max_tables * 9 {
        findings.warn("tables", found, "lengthen the slices of namespaces, delete some, or raise store.max_tables");
    } else {
        findings.ok("tables", found);
    }
}

/// Files from the future mean that the clock went back: events would be accepted twice as long, or not at all.
fn check_age(dir: &Path, now: Timestamp, findings: &mut Findings) {
    let modified = |name: &str| {
        let time = fs::metadata(dir.join(name)).and_then(|metadata| metadata.modified()).ok()?;
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Timestamp::from_nanos(i64::try_from(since.as_nanos()).ok()?))
    };
    let newest = ["FORMAT", "LOCK"].into_iter().filter_map(modified).max();
    if let Some(newest) = newest.filter(|newest| *newest > now.saturating_add(Duration::from_secs(60))) {
        let found = format!("the clock shows {now}, but the store was used at {newest}");
        findings.warn("clock", found, "check that the clock is right, and that it is kept so (NTP)");
    }
}

fn print(session: &Session, findings: &[Finding]) -> Outcome {
    let mut out = Out::new();
    let document = |finding: &Finding| json!({"check": finding.what, "verdict": finding.verdict.word(), "found": finding.found, "advice": finding.advice});
    match session.format {
        Format::Json => out.json(&findings.iter().map(document).collect::<Vec<_>>())?,
        Format::Jsonl => findings.iter().try_for_each(|finding| out.json_line(&document(finding)))?,
        Format::Table => {
            for finding in findings {
                let verdict = format!("{:<4}", finding.verdict.word());
                let verdict = paint(&verdict, finding.verdict.style(), session.colors.stdout);
                let found: Vec<String> = finding.found.lines().map(escaped).collect();
                out.line(format!("{verdict}  {:<15}  {}", finding.what, found.join(&format!("\n{:23}", ""))))?;
                if let Some(advice) = &finding.advice {
                    out.line(format!("{:23}→ {}", "", escaped(advice)))?;
                }
            }
        }
    }
    Ok(out.flush()?)
}

//! Starts servers and commands, each in a directory of its own, and ends only what it started.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anabranch_testbed::http;
use tempfile::TempDir;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_anabranch");

/// A command with nothing of this machine's settings in its surroundings.
pub(crate) fn command(dir: &Path) -> Command {
    command_of(BINARY, dir)
}

fn command_of(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ANABRANCH_")) {
        command.env_remove(name);
    }
    command.current_dir(dir).env("NO_COLOR", "1").env("COLUMNS", "120");
    command
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// What it printed, after it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.stdout
    }

    /// What it complained about, after it failed with this code.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:#?}");
        assert!(self.stderr.starts_with("error: "), "{self:#?}");
        self.stderr
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Ended {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that fails early doesn't read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A command that needs no server.
pub(crate) fn alone(args: &[&str]) -> Ended {
    let dir = TempDir::new().unwrap();
    run(command(dir.path()).args(args), b"")
}

/// A directory for a server and for files, removed at the end.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { dir: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// A file with this text; its name relative to where commands run.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.path().join(name), text).unwrap();
        name.to_owned()
    }

    /// A server on the directory `data`, on free ports.
    pub(crate) fn serve(&self) -> Server<'_> {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, more: &[&str]) -> Server<'_> {
        self.serve_in(more, &[])
    }

    /// The same, with something in its environment.
    pub(crate) fn serve_in(&self, more: &[&str], environment: &[(&str, &str)]) -> Server<'_> {
        self.start(command(self.path()).envs(environment.iter().copied()), more)
    }

    /// A server to whom a file that may not grow is an error like any other, and not its end.
    pub(crate) fn serve_within_limits(&self) -> Server<'_> {
        self.start(command_of("sh", self.path()).args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", BINARY]), &[])
    }

    fn start(&self, program: &mut Command, more: &[&str]) -> Server<'_> {
        let log = File::create(self.path().join("server.log")).unwrap();
        let any = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let any = any.chunks(2).filter(|flag| !more.contains(&flag[0])).flatten();
        let mut child = program
            .args(["serve", "--data", "data"])
            .args(any)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        while !greeting.contains("stops it.") {
            let read = stdout.read_line(&mut greeting).unwrap();
            assert!(read > 0, "the server ended: {}", fs::read_to_string(self.path().join("server.log")).unwrap());
        }
        let address = |label: &str| {
            let line = greeting.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap();
            line.trim().to_owned()
        };
        Server { place: self, grpc: address("gRPC"), http: address("HTTP"), greeting, child }
    }
}

/// A running server; killed when it is dropped.
pub(crate) struct Server<'a> {
    place: &'a Place,
    pub(crate) grpc: String,
    pub(crate) http: String,
    pub(crate) greeting: String,
    child: Child,
}

impl Server<'_> {
    /// Runs a command against this server.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with_input(args, b"")
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ended {
        run(&mut self.command(args), input)
    }

    /// A command that will talk to this server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command(self.place.path());
        command.args(args).env("ANABRANCH_SERVER", &self.grpc);
        command
    }

    /// With a namespace.
    pub(crate) fn with_namespace(self, name: &str) -> Self {
        self.run(&["namespace", "create", name]).ok();
        self
    }

    /// How many events a series has.
    pub(crate) fn count(&self, namespace: &str, series: &str) -> usize {
        self.run(&["read", namespace, series, "--output", "jsonl"]).ok().lines().count()
    }

    /// What it answers at a path over HTTP.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        http::get(self.http.strip_prefix("http://").unwrap().parse().unwrap(), path).unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        send_signal(&self.child, signal);
    }

    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.place.path().join("server.log")).unwrap()
    }

    /// As the power would fail.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn send_signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Text with everything that differs from run to run replaced: times, ports, directories.
pub(crate) fn plain(text: &str, server: &Server<'_>) -> String {
    let text =
        text.replace(&server.grpc, "http://GRPC").replace(&server.http, "http://HTTP").replace(BINARY, "anabranch");
    let lines: Vec<String> = text.lines().map(without_times).collect();
    lines.join("\n")
}

/// RFC 3339 times become `TIME`; the spaces that align columns after them are kept to two.
fn without_times(line: &str) -> String {
    let mut result = String::new();
    let mut rest = line;
    while let Some(start) = rest.find("20") {
        let end = rest[start..].find(|c: char| !(c.is_ascii_digit() || "-:.TZ".contains(c))).map(|end| start + end);
        let end = end.unwrap_or(rest.len());
        let token = &rest[start..end];
        result.push_str(&rest[..start]);
        if token.len() >= 20 && token.contains('T') && token.ends_with('Z') {
            result.push_str("TIME");
            let spaces = rest[end..].len() - rest[end..].trim_start_matches(' ').len();
            rest = &rest[end + spaces.saturating_sub(2)..];
        } else {
            result.push_str(&token[..2]);
            rest = &rest[start + 2..];
        }
    }
    result.push_str(rest);
    result.trim_end().to_owned()
}

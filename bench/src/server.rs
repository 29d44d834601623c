//! A server under test: started on a directory, killed when it is dropped.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{process::Process, wire::Connection};

const START_PATIENCE: Duration = Duration::from_secs(120);
const STOP_PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How to start servers.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    pub(crate) binary: PathBuf,
    /// Where servers run and log: no configuration file lies there.
    pub(crate) directory: PathBuf,
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    pub(crate) grpc: SocketAddr,
    pub(crate) started: Instant,
}

impl Launcher {
    /// Starts a server on `data` and waits until it says where it listens. `settings` are names of environment variables
    /// and their values.
    pub(crate) fn start(&self, data: &Path, settings: &[(&str, &str)]) -> Result<Server> {
        let log = self.directory.join("server.log");
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ANABRANCH_")) {
            command.env_remove(name);
        }
        command
            .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warn", "--data"])
            .arg(data)
            .envs(settings.iter().copied())
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", self.binary.display()))?;
        // From here on dropping it ends the process.
        let mut server = Server { child, log, grpc: SocketAddr::from(([127, 0, 0, 1], 0)), started };
        server.grpc = server.wait_for_address()?;
        Ok(server)
    }
}

impl Server {
    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::open(self.grpc).await
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a process has an id")?;
        kill_process(pid, Signal::TERM)?;
        let began = Instant::now();
        while began.elapsed() < STOP_PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() {
                    Ok(())
                } else {
                    bail!("the server stopped with {status}\n{}", self.last_words())
                };
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the server did not stop within {STOP_PATIENCE:?}\n{}", self.last_words())
    }

    fn wait_for_address(&mut self) -> Result<SocketAddr> {
        let output = self.child.stdout.take().context("standard output was piped")?;
        let (sender, address) = mpsc::channel();
        // Reads on to the end, so that the server never waits for a reader.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(address) = grpc_address(&line) {
                    sender.send(address).ok();
                }
            }
        });
        match address.recv_timeout(START_PATIENCE) {
            Ok(address) => Ok(address),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!("the server did not say where it listens within {START_PATIENCE:?}\n{}", self.last_words())
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                bail!("the server ended with {status} before it listened\n{}", self.last_words())
            }
        }
    }

    fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The address in the line that says where gRPC listens.
fn grpc_address(line: &str) -> Option<SocketAddr> {
    if !line.to_ascii_lowercase().contains("grpc") {
        return None;
    }
    let words = line.split(|c: char| c.is_whitespace() || matches!(c, '/' | ',' | '"' | '\''));
    words.filter_map(|word| word.parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_whatever_sentence_it_stands() {
        let expected = Some("127.0.0.1:7400".parse().unwrap());
        for line in ["gRPC  127.0.0.1:7400", "grpc: http://127.0.0.1:7400", "listening on 127.0.0.1:7400 (gRPC)"] {
            assert_eq!(grpc_address(line), expected, "{line}");
        }
        assert_eq!(grpc_address("http 127.0.0.1:7401"), None);
    }
}

//! A server's process, known by its id and by the folder that its command line names, so that an id that another
//! process got meanwhile is never mistaken for it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{TestbedError, cannot};

/// How often a server is asked whether it is ready, or gone.
const POLL: Duration = Duration::from_millis(50);
/// How long the system may take to end a process.
const END_PATIENCE: Duration = Duration::from_secs(20);
/// Lines of a log that an error shows.
const LOG_LINES: usize = 30;

/// A server's process.
#[derive(Debug)]
pub struct ServerProcess {
    /// For people.
    name: String,
    /// Its own; holds `pid`, and the output in `output.log`.
    directory: PathBuf,
    pid: u32,
    /// When this process is its parent.
    child: Option<Child>,
}

impl ServerProcess {
    /// Starts a command whose arguments name `directory`, its output going to a file in there.
    pub fn start(name: &str, directory: &Path, command: &mut Command) -> Result<Self, TestbedError> {
        let log = Self::log_path(directory);
        let output = File::options().create(true).append(true).open(&log);
        let output = output.map_err(cannot(format!("write {}", log.display())))?;
        let errors = output.try_clone().map_err(cannot("share a log"))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors).current_dir(directory);
        let child = command.spawn().map_err(cannot(format!("start {name}")))?;
        let pid = child.id();
        let file = directory.join("pid");
        fs::write(&file, pid.to_string()).map_err(cannot(format!("write {}", file.display())))?;
        Ok(ServerProcess { name: name.to_owned(), directory: directory.to_owned(), pid, child: Some(child) })
    }

    /// One that another process started.
    pub fn attach(name: &str, directory: &Path, pid: u32) -> Self {
        ServerProcess { name: name.to_owned(), directory: directory.to_owned(), pid, child: None }
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where its output goes.
    pub fn log_path(directory: &Path) -> PathBuf {
        directory.join("output.log")
    }

    /// The end of its output.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(Self::log_path(&self.directory)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Whether it is there, paused or not.
    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => self.is_ours(),
        }
    }

    /// Whether it was paused.
    pub fn is_paused(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && line.contains("T (stopped)"))
    }

    /// Ends it at once, as a crash does, and waits until it is gone.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        if !self.is_running() {
            return Ok(());
        }
        self.signal(Signal::KILL)?;
        if let Some(child) = &mut self.child {
            child.wait().map_err(cannot(format!("wait for {}", self.name)))?;
            return Ok(());
        }
        self.wait_for("end", |process| !process.is_ours())
    }

    /// Signals take a moment to act.
    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), TestbedError> {
        let deadline = Instant::now() + END_PATIENCE;
        while !is_so(self) {
            if Instant::now() > deadline {
                return Err(TestbedError::Refused(format!("{} (pid {}) doesn't {what}", self.name, self.pid)));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Stops it where it stands: its connections stay open, and nothing answers.
    pub fn pause(&mut self) -> Result<(), TestbedError> {
        self.signal(Signal::STOP)?;
        self.wait_for("stand still", Self::is_paused)
    }

    /// Lets it go on.
    pub fn resume(&mut self) -> Result<(), TestbedError> {
        self.signal(Signal::CONT)
    }

    /// Polls `ready` until it says so. An error when the process ends before, or takes longer than `patience`.
    pub fn wait_until(&mut self, patience: Duration, mut ready: impl FnMut() -> bool) -> Result<(), TestbedError> {
        let deadline = Instant::now() + patience;
        loop {
            if !self.is_running() {
                return Err(self.start_error("it ended".to_owned()));
            }
            if ready() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.start_error(format!("it was not ready within {} s", patience.as_secs())));
            }
            std::thread::sleep(POLL);
        }
    }

    fn start_error(&self, reason: String) -> TestbedError {
        TestbedError::Start { server: self.name.clone(), reason, log: self.log_tail(LOG_LINES) }
    }

    fn signal(&mut self, signal: Signal) -> Result<(), TestbedError> {
        if !self.is_running() {
            return Err(TestbedError::Refused(format!("{} (pid {}) is not running", self.name, self.pid)));
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| TestbedError::Refused(format!("{} is no process id", self.pid)))?;
        kill_process(pid, signal).map_err(|error| cannot(format!("signal {}", self.name))(error.into()))
    }

    /// Whether the process of this id names our folder, and isn't a dead one that nobody has waited for.
    fn is_ours(&self) -> bool {
        let command_line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&command_line).contains(&*self.directory.to_string_lossy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(directory: &Path) -> ServerProcess {
        // The folder's name is in the command line, as a server's configuration is.
        let mut command = Command::new("sh");
        command.args(["-c", "echo up; while :; do sleep 1; done", "sh"]).arg(directory);
        ServerProcess::start("sleeper", directory, &mut command).unwrap()
    }

    #[test]
    fn a_process_is_paused_resumed_and_ended_by_its_id() {
        let place = tempfile::tempdir().unwrap();
        let mut process = sleeper(place.path());
        process.wait_until(END_PATIENCE, || place.path().join("pid").exists()).unwrap();
        process.pause().unwrap();
        assert!(process.is_running());
        let mut seen_by_another = ServerProcess::attach("sleeper", place.path(), process.pid());
        assert!(seen_by_another.is_running() && seen_by_another.is_paused());
        process.resume().unwrap();
        process.kill().unwrap();
        assert!(!process.is_running() && !seen_by_another.is_running());
        process.kill().expect("ending it again is fine");
        assert!(process.pause().is_err());
    }

    #[test]
    fn a_server_that_ends_before_it_is_ready_shows_its_last_words() {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no heap; exit 3", "sh"]).arg(place.path());
        let mut process = ServerProcess::start("server", place.path(), &mut command).unwrap();
        let error = process.wait_until(END_PATIENCE, || false).unwrap_err().to_string();
        assert!(error.contains("it ended") && error.contains("no heap"), "{error}");
    }

    #[test]
    fn an_id_that_another_process_has_is_not_taken_for_ours() {
        let place = tempfile::tempdir().unwrap();
        let mut process = ServerProcess::attach("server", &place.path().join("node"), std::process::id());
        assert!(!process.is_running());
        process.kill().expect("nothing of ours is there to end");
    }
}

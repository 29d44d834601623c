//! The program as a process, and commands that are run to their end, for tests on real servers.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anabranch_testbed::{cache, http, ports, process::ServerProcess, watchdog::Watchdog};

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// A program that runs until it ends or is dropped.
pub(crate) struct Program {
    directory: PathBuf,
    process: ServerProcess,
    grpc: SocketAddr,
    http: SocketAddr,
    _watchdog: Watchdog,
}

impl Program {
    /// A server on free ports, with this configuration.
    pub(crate) fn serve(arguments: &[&str], config: &str) -> Program {
        Program::start_in("serve", |directory, [grpc, http]| {
            fs::write(directory.join("anabranch.toml"), config).unwrap();
            let addresses = ["--grpc".to_owned(), grpc.to_string(), "--http".to_owned(), http.to_string()];
            let given = arguments.iter().map(|&argument| argument.to_owned());
            std::iter::once("serve".to_owned()).chain(addresses).chain(given).collect()
        })
    }

    /// Any command, made from its folder and two free addresses.
    pub(crate) fn start_in(kind: &str, arguments: impl FnOnce(&Path, [SocketAddr; 2]) -> Vec<String>) -> Program {
        let directory = cache::fresh_directory(kind).unwrap();
        let watchdog = Watchdog::over(&directory).unwrap();
        let ports: [u16; 2] = ports::free(&[Ipv4Addr::LOCALHOST]).unwrap();
        let [grpc, http] = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let arguments = arguments(&directory, [grpc, http]);
        let process = ServerProcess::start("anabranch", &directory, Command::new(PROGRAM).args(arguments)).unwrap();
        Program { directory, process, grpc, http, _watchdog: watchdog }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// All that it printed, on both of its outputs.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(ServerProcess::log_path(&self.directory)).unwrap_or_default()
    }

    /// Waits until what it answers at a path over HTTP is as it should be.
    pub(crate) fn wait_until(&mut self, patience: Duration, path: &str, is_so: impl Fn(u16, &str) -> bool) {
        let address = self.http;
        let ready = || http::get(address, path).is_some_and(|(status, body)| is_so(status, &body));
        self.process.wait_until(patience, ready).unwrap();
    }

    /// Asks over HTTP: the status and the body; nothing when nobody answers.
    pub(crate) fn http(&self, path: &str) -> Option<(u16, String)> {
        http::get(self.http, path)
    }

    /// Runs a command against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> (bool, String, String) {
        let server = format!("http://{}", self.grpc);
        run(&[arguments, &["--server", &server]].concat())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

/// Runs a command to its end: whether it succeeded, and both of its outputs.
pub(crate) fn run(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(PROGRAM).args(arguments).current_dir(std::env::temp_dir()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

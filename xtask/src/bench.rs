//! `cargo xtask bench`: builds the server and the benchmarks in release and runs them. What is
//! measured belongs to `bench/`.

use std::process::ExitCode;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

const HELP: &str = "\
Measure a release build of the server.

Usage: cargo xtask bench [ARGS]...
       cargo xtask bench --cluster [ARGS]...

Without `--cluster` the server has its embedded store. With it, a Cassandra node is started and ended,
and the server is measured against the bare driver on that node; Java 17 and 16 GB of free disk are
needed, with `--quick` 2 GB. `--only NAME` measures one figure, `--runs N` says how often, `--quick`
shrinks the data, `--json FILE` keeps every number, `--list` names the figures.

The arguments go to the benchmarks as they are, after `--server-bin` with the server just built;
`cargo xtask bench -- --help` lists them.";

/// Runs the task with the arguments after its name.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let (args, passed_on) = match args {
        [first, rest @ ..] if first == "--" => (rest, true),
        _ => (args, false),
    };
    if !passed_on && crate::asks_for_help(args) {
        return crate::help(HELP);
    }
    let workspace = Workspace::find()?;
    // Built alone, as it is built for use: nothing that only the benchmarks need is in it.
    let build = ["build", "--release", "--package", "anabranch"];
    if !process::run(&mut process::cargo(&workspace.root, &build))? {
        return Ok(ExitCode::FAILURE);
    }
    let run = ["run", "--release", "--package", "anabranch-bench", "--"];
    let mut bench = process::cargo(&workspace.root, &run);
    bench.arg("--server-bin");
    bench.arg(workspace.binary("release", "anabranch"));
    bench.args(args);
    Ok(crate::exit_code(process::run(&mut bench)?))
}

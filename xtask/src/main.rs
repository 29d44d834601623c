//! `cargo xtask`: the tasks of this repository. Depends on no product crate, so that it starts in
//! seconds and can say what is wrong with a tree that doesn't build.

// A tool for a terminal: it prints, and it measures how long things took.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod bench;
mod cluster;
mod docs;
mod process;
mod sim;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
The tasks of this repository.

Usage: cargo xtask <TASK> [OPTIONS]

Tasks:
  test     run every tier of tests and say what was skipped
  tidy     check the rules of the house
  docs     write the pages that are made from the code
  sim      run the simulation over a range of seeds
  bench    measure a release build
  cluster  a real Cassandra, and Kafka beside it, to try things on

`cargo xtask <TASK> --help` tells more about one.";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let task = args.next().unwrap_or_else(|| "--help".to_owned());
    let args: Vec<String> = args.collect();
    let result = match task.as_str() {
        "test" => test::run(&args),
        "tidy" => tidy::run(&args),
        "docs" => docs::run(&args),
        "sim" => sim::run(&args),
        "bench" => bench::run(&args),
        "cluster" => cluster::run(&args),
        "help" | "--help" | "-h" => help(HELP),
        other => Err(anyhow::anyhow!("there is no task `{other}`\n\n{HELP}")),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Prints a page of help, which is a success.
fn help(page: &str) -> anyhow::Result<ExitCode> {
    println!("{page}");
    Ok(ExitCode::SUCCESS)
}

/// Whether the arguments ask for the help page of a task.
fn asks_for_help(args: &[String]) -> bool {
    args.iter().any(|arg| arg == "--help" || arg == "-h")
}

fn exit_code(success: bool) -> ExitCode {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

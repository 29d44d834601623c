//! `cargo xtask sim`: builds the simulation and runs it over a range of seeds. What a seed does and
//! what is printed about it belong to the `sim` crate.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::process;
use crate::test::KAFKA_TOO;
use crate::workspace::Workspace;

const HELP: &str = "\
Run the simulation: whole servers in one deterministic process, with faults and an oracle.

Usage: cargo xtask sim --seeds N [--first-seed N]

Options:
  --seeds N        how many seeds to run
  --first-seed N   the first of them; replays a failing one together with `--seeds 1`
  --seconds N      stop after so many seconds, even if seeds are left

Every option goes to the simulation as it is. The last line is `N seeds, N failed`.";

/// Runs the task with the arguments after its name.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    if args.is_empty() || crate::asks_for_help(args) {
        return crate::help(HELP);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let success = build_and_run(&Workspace::find()?, &args)?;
    Ok(crate::exit_code(success))
}

/// Builds the simulation as the tests are built, and runs it. `false`: either of them failed.
pub(crate) fn build_and_run(workspace: &Workspace, args: &[&str]) -> Result<bool> {
    // All of the workspace and its examples, though one binary is wanted: with less selected, cargo
    // picks fewer features for shared dependencies and builds most of the workspace a second time.
    let build = ["build", "--workspace", "--features", KAFKA_TOO, "--bin", "anabranch-sim", "--examples"];
    if !process::run(&mut process::cargo(&workspace.root, &build))? {
        return Ok(false);
    }
    let mut sim = Command::new(workspace.binary("debug", "anabranch-sim"));
    process::run(sim.current_dir(&workspace.root).args(args))
}

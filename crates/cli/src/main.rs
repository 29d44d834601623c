//! The binary `anabranch`: reads the command line, runs a command, and turns its outcome into an exit code.
#![allow(clippy::print_stdout, clippy::print_stderr)] // printing is what it is for

mod args;
mod commands;
mod config_layers;
mod config_reference;
mod failure;
mod import;
mod ingest;
mod interrupt;
mod output;
mod planning;
mod session;
mod spelling;
mod times;
mod traffic;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::{
    args::{Cli, ColorChoice},
    failure::Failure,
    session::Session,
};

/// A page is thousands of small allocations; this allocator takes half the time of glibc's for them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    anabranch_runtime::use_small_pages();
    let matches = Cli::command().color(early_color_choice()).get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let session = Session::new(cli.global);
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(commands::run(&session, cli.command));
            // A thread may still wait for a terminal or a pipe.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::other(format!("can't start threads: {error}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::show_failure(&failure, session.colors);
            failure.exit_code()
        }
    }
}

/// `--color` also holds for help and for errors about the command line itself, so that it is looked for first.
fn early_color_choice() -> clap::ColorChoice {
    let mut wanted = None;
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let argument = argument.to_string_lossy().into_owned();
        if argument == "--color" {
            wanted = arguments.next().map(|value| value.to_string_lossy().into_owned());
        } else if let Some(value) = argument.strip_prefix("--color=") {
            wanted = Some(value.to_owned());
        }
    }
    let choice = wanted.and_then(|value| <ColorChoice as clap::ValueEnum>::from_str(&value, false).ok());
    match choice {
        Some(ColorChoice::Always) => clap::ColorChoice::Always,
        Some(ColorChoice::Never) => clap::ColorChoice::Never,
        Some(ColorChoice::Auto) | None => clap::ColorChoice::Auto,
    }
}

//! `anabranch-bench`: measures a release build of the server against bounds that are ratios, both sides in one run.
//!
//! | module | what it holds |
//! |---|---|
//! | `args` | the command line, and how big everything is |
//! | `figures` | what is measured: one file a figure |
//! | `cluster` | the figures on a real Cassandra node, against the bare driver |
//! | `bare` | fjall alone, in a process of its own: the other side of the ingest figure |
//! | `events`, `history` | the events, and data sets made of them through the real engine |
//! | `server`, `process` | a server under test; CPU time and memory of any process |
//! | `wire`, `latency` | connections that send and receive prepared bytes; latencies |
//! | `report`, `machine` | the table and the JSON; what it was measured on |

// It measures real time on real threads, and prints.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod args;
mod bare;
mod cluster;
mod events;
mod figures;
mod history;
mod latency;
mod machine;
mod process;
mod report;
mod server;
mod wire;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use args::{Args, Command};
use figures::Bench;
use report::Report;

/// The server's, and its pages: the sides that run in this binary may not lose for how they get memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    anabranch_runtime::use_small_pages();
    let args = Args::parse();
    let result = match &args.command {
        Some(Command::BareFjall(load)) => bare::run(load).map(|()| ExitCode::SUCCESS),
        None if args.list => list(&args),
        None => measure(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn list(args: &Args) -> Result<ExitCode> {
    for figure in figures::all(args) {
        println!("{:<12}{}", figure.name, figure.about);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args) -> Result<ExitCode> {
    // One thread for all clients: as little as possible of the cores that the server needs.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        // Either way data sets and servers are left to be dropped.
        tokio::select! {
            report = run(args) => report,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
            _ = ended.recv() => Err(anyhow::anyhow!("ended by a signal")),
        }
    })?;
    report.publish(args.json.as_deref())?;
    let met = report.all_met();
    Ok(if met || !args.strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(args: &Args) -> Result<Report> {
    let chosen = figures::chosen(args)?;
    let mut bench = Bench::prepare(args)?;
    let mut report = Report::begin(&bench)?;
    for figure in chosen {
        eprintln!("{}: {}", figure.name, figure.about);
        let began = std::time::Instant::now();
        let measures = figures::measure(figure.name, &mut bench).await;
        let measures = measures.with_context(|| format!("the figure `{}` could not be measured", figure.name))?;
        report.add(figure.name, measures, began.elapsed());
    }
    Ok(report)
}

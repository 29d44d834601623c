//! `anabranch-sim`: runs seeds and says which of them broke a promise.
#![allow(clippy::print_stdout, clippy::print_stderr)] // this is its output

use std::{process::ExitCode, time::Duration};

use anabranch_runtime::Env;
use anabranch_sim::{Options, Reached, Report, run_seed};

const HELP: &str = "\
Run the simulation: whole servers in one deterministic process, with faults and an oracle.

Usage: anabranch-sim [--seeds N] [--first-seed N] [--seconds N] [--trace] [--check-determinism]
       anabranch-sim --seed N

Options:
  --seeds N            how many seeds to run (100)
  --first-seed N       the first of them (1)
  --seconds N          as many seeds as fit into so many seconds, at least one
  --trace              print the whole trace of every seed
  --seed N             replay one seed with its trace
  --check-determinism  run every seed twice and compare the traces

The last line is `N seeds, N failed`.";

struct Arguments {
    seeds: Option<u64>,
    first_seed: u64,
    seconds: Option<u64>,
    trace: bool,
    check_determinism: bool,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let seeds = arguments.seeds.unwrap_or(if arguments.seconds.is_some() { u64::MAX } else { 100 });
    let stopwatch = Stopwatch::start();
    let (mut run, mut failed) = (0, 0);
    let mut reached = Reached::default();
    while run < seeds {
        let seed = arguments.first_seed.wrapping_add(run);
        let (kept, met) = run_one(seed, &arguments);
        failed += u64::from(!kept);
        reached = reached.and(met);
        run += 1;
        if run % 100 == 0 {
            println!("{run} seeds, {failed} failed, {:.1} s", stopwatch.elapsed().as_secs_f64());
        }
        if arguments.seconds.is_some_and(|seconds| stopwatch.elapsed() >= Duration::from_secs(seconds)) {
            break;
        }
    }
    println!("met: {reached:?}");
    println!("{run} seeds, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says whether the seed kept all promises, and which faults it met.
fn run_one(seed: u64, arguments: &Arguments) -> (bool, Reached) {
    let kept_lines = if arguments.trace { usize::MAX } else { 60 };
    let options = Options { kept_lines, ..Options::new(seed) };
    let report = run_seed(options);
    if arguments.trace || report.violation.is_some() {
        report.trace.iter().for_each(|line| println!("{line}"));
    }
    let same = !arguments.check_determinism || {
        let again = run_seed(options);
        (again.hash, again.lines) == (report.hash, report.lines)
    };
    if !same {
        println!("seed {seed}: two runs of it differ");
    }
    if arguments.trace {
        println!("seed {seed}: {} lines, hash {:016x}", report.lines, report.hash);
    }
    explain(&report);
    (same && report.violation.is_none(), report.reached)
}

fn explain(report: &Report) {
    if let Some(violation) = &report.violation {
        println!("seed {} breaks {}: {}", report.seed, violation.invariant, violation.what);
        println!("replay it with: cargo xtask sim --seeds 1 --first-seed {} --trace", report.seed);
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut parsed = Arguments { seeds: None, first_seed: 1, seconds: None, trace: false, check_determinism: false };
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().ok_or(format!("{argument} needs a number"))?;
            text.parse::<u64>().map_err(|_| format!("{argument}: `{text}` is not a number"))
        };
        match argument.as_str() {
            "--seeds" => parsed.seeds = Some(number()?),
            "--first-seed" => parsed.first_seed = number()?,
            "--seconds" => parsed.seconds = Some(number()?),
            "--seed" => (parsed.first_seed, parsed.seeds, parsed.trace) = (number()?, Some(1), true),
            "--trace" => parsed.trace = true,
            "--check-determinism" => parsed.check_determinism = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument `{argument}`")),
        }
    }
    Ok(Some(parsed))
}

/// Real time: only this binary has to do with it, since `--seconds` counts the time of whoever waits.
struct Stopwatch {
    env: Env,
    started: Duration,
}

impl Stopwatch {
    fn start() -> Self {
        let env = Env::system();
        Stopwatch { started: env.monotonic(), env }
    }

    fn elapsed(&self) -> Duration {
        self.env.monotonic().saturating_sub(self.started)
    }
}

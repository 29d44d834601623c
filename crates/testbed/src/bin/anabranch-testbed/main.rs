//! `cargo xtask cluster` runs this: a Cassandra ring, and a Kafka broker beside it, that stay up until they are
//! told to go.

// A tool for a terminal.
#![allow(clippy::print_stderr)]

use std::{io::Write, process::ExitCode};

use anabranch_testbed::{Cluster, Spark, TestbedError, cassandra, kafka};

/// How much of a log is shown.
const LOG_LINES: usize = 200;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(text) => {
            // Whoever reads it may have had enough: that is no failure.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<String, TestbedError> {
    match args {
        ["up", options @ ..] => {
            let (nodes, kafka) = up_options(options)?;
            Ok(Cluster::up(nodes, kafka)?.to_string())
        }
        ["fetch", server @ ("cassandra" | "kafka")] => {
            let jars = if *server == "kafka" { kafka::JARS } else { cassandra::JARS };
            Ok(format!("{} is in {}", jars.name, jars.fetch()?.display()))
        }
        ["fetch", "spark"] => Ok(format!("Spark is in {}", Spark::fetch()?.environment().display())),
        ["down"] => match Cluster::find()? {
            Some(mut cluster) => cluster.down().map(|()| "the cluster is down".to_owned()),
            None => Ok("no cluster is up".to_owned()),
        },
        ["status"] => Ok(Cluster::find()?.map_or_else(|| "no cluster is up".to_owned(), |cluster| cluster.to_string())),
        [action @ ("kill" | "pause" | "resume" | "restart" | "logs"), number] => on_node(action, number),
        _ => Err(TestbedError::Refused("see `cargo xtask cluster --help`".to_owned())),
    }
}

fn up_options(options: &[&str]) -> Result<(u8, bool), TestbedError> {
    let (mut nodes, mut kafka) = (1, false);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match (*option, options.as_slice().first().copied()) {
            ("--kafka", _) => kafka = true,
            ("--nodes", Some(number @ ("1" | "3"))) => {
                nodes = if number == "1" { 1 } else { 3 };
                options.next();
            }
            ("--nodes", _) => return Err(TestbedError::Refused("`--nodes` is 1 or 3".to_owned())),
            (other, _) => return Err(TestbedError::Refused(format!("`up` has no option `{other}`"))),
        }
    }
    Ok((nodes, kafka))
}

fn on_node(action: &str, number: &str) -> Result<String, TestbedError> {
    let mut cluster = Cluster::find()?.ok_or_else(|| TestbedError::Refused("no cluster is up".to_owned()))?;
    let number: u8 = number.parse().map_err(|_| TestbedError::Refused(format!("`{number}` is no node's number")))?;
    let mut node = cluster.node(number)?;
    match action {
        "kill" => node.process().kill()?,
        "pause" => node.process().pause()?,
        "resume" => node.process().resume()?,
        "restart" => cluster.restart(number)?,
        _ => return Ok(node.process().log_tail(LOG_LINES)),
    }
    Ok(cluster.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_one_node_or_three() {
        assert_eq!(up_options(&[]).unwrap(), (1, false));
        assert_eq!(up_options(&["--nodes", "3", "--kafka"]).unwrap(), (3, true));
        for wrong in [&["--nodes"][..], &["--nodes", "2"], &["--fast"]] {
            assert!(up_options(wrong).is_err(), "{wrong:?}");
        }
    }
}

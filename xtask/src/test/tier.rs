//! The tiers: what each one runs, what it needs, and what stops when it fails.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::count::Count;
use super::need::{CASSANDRA, CHROMIUM, CLIPPY, GIT, JAVA, KAFKA, MAVEN, Need, PYTHON, Permission, RUSTFMT, SPARK};
use super::report::{Skip, TierReport};
use crate::workspace::Workspace;
use crate::{process, sim, tidy};

/// One step of `cargo xtask test`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tier {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) needs: &'static [Need],
    pub(crate) work: Work,
    /// Nothing after it could pass once it failed.
    pub(crate) stops_the_rest: bool,
}

/// How a tier does its work and how that is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// A cargo command that passes or fails as one check.
    Check(&'static [&'static str]),
    /// A cargo command that reports tests; each of them counts.
    Tests(&'static [&'static str]),
    /// Every crate's tests of this name, beside programs that aren't ours, on a machine that may be busy: what fails is run once
    /// more, and told when it passes then.
    OnServers(&'static str),
    /// The tests of everything at once, as far as it was asked for.
    OnRing,
    /// A function that passes or fails as one check.
    Function(fn(&Workspace) -> Result<bool>),
}

/// What of the ring's tests is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingTests {
    /// One after another goes away.
    Singles,
    /// Two at once go away, those that this seed draws.
    Pairs(u64),
    /// Both.
    Both(u64),
}

impl RingTests {
    /// In the names of tests in which two at once go away.
    const TWO: &str = "two_at_once";
    /// Tells a test which seed to take.
    const SEED: &str = "ANABRANCH_RING_SEED";

    fn seed(self) -> Option<u64> {
        match self {
            Self::Singles => None,
            Self::Pairs(seed) | Self::Both(seed) => Some(seed),
        }
    }

    fn filter(self) -> &'static [&'static str] {
        match self {
            Self::Singles => &["--skip", Self::TWO],
            Self::Pairs(_) => &[Self::TWO],
            Self::Both(_) => &[],
        }
    }
}

/// Everything is built once, with all there is.
pub(crate) const KAFKA_TOO: &str = "anabranch/kafka";

/// More failed tests than these are no accident, and not run again.
const ACCIDENTS: usize = 3;

/// Every tier, the quickest to tell something wrong first.
pub(crate) const TIERS: &[Tier] = &[
    Tier {
        name: "fmt",
        about: "the code is formatted",
        needs: &[RUSTFMT],
        work: Work::Check(&["fmt", "--all", "--check"]),
        stops_the_rest: false,
    },
    Tier {
        name: "tidy",
        about: "the rules of the house hold",
        needs: &[GIT],
        work: Work::Function(tidy::check),
        stops_the_rest: false,
    },
    Tier {
        name: "clippy",
        about: "no lint complains",
        needs: &[CLIPPY],
        work: Work::Check(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            KAFKA_TOO,
            "--",
            "--deny",
            "warnings",
        ]),
        stops_the_rest: false,
    },
    Tier {
        name: "build",
        about: "everything builds: the tests, and the binaries that tests start",
        needs: &[],
        work: Work::Check(&["build", "--workspace", "--all-targets", "--features", KAFKA_TOO]),
        stops_the_rest: true,
    },
    Tier {
        name: "tests",
        about: "the tests of every crate, but for those on real servers or in a browser",
        needs: &[],
        work: Work::Tests(&[
            "test",
            "--workspace",
            "--all-targets",
            "--features",
            KAFKA_TOO,
            "--no-fail-fast",
            "--",
            "--skip",
            "on_cassandra::",
            "--skip",
            "on_kafka::",
            "--skip",
            "on_ring::",
            "--skip",
            "on_spark::",
            "--skip",
            "in_chromium::",
        ]),
        stops_the_rest: false,
    },
    Tier {
        name: "doc",
        about: "the examples in the documentation",
        needs: &[],
        work: Work::Tests(&["test", "--workspace", "--doc", "--features", KAFKA_TOO, "--no-fail-fast"]),
        stops_the_rest: false,
    },
    Tier {
        name: "sim",
        about: "the simulation, for a minute",
        needs: &[],
        work: Work::Function(|workspace| sim::build_and_run(workspace, &["--seconds", "60"])),
        stops_the_rest: false,
    },
    Tier {
        name: "browser",
        about: "the dashboard in a real Chromium",
        needs: &[CHROMIUM],
        work: Work::OnServers("in_chromium"),
        stops_the_rest: false,
    },
    Tier {
        name: "cassandra",
        about: "what must hold on a real Cassandra",
        needs: &[JAVA, MAVEN, CASSANDRA],
        work: Work::OnServers("on_cassandra"),
        stops_the_rest: false,
    },
    Tier {
        name: "kafka",
        about: "what must hold on a real Kafka broker",
        needs: &[JAVA, MAVEN, CASSANDRA, KAFKA],
        work: Work::OnServers("on_kafka"),
        stops_the_rest: false,
    },
    Tier {
        name: "spark",
        about: "what is wrong with a split is found by the Spark job and by the program",
        needs: &[JAVA, MAVEN, PYTHON, CASSANDRA, SPARK],
        work: Work::OnServers("on_spark"),
        stops_the_rest: false,
    },
    Tier {
        name: "ring",
        about: "servers and workers on three nodes and a broker, while one after another goes away",
        needs: &[JAVA, MAVEN, CASSANDRA, KAFKA],
        work: Work::OnRing,
        stops_the_rest: false,
    },
];

impl Tier {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        TIERS.iter().find(|tier| tier.name == name)
    }

    /// Runs the tier, or skips it when something it needs is missing and may not be installed.
    pub(crate) fn run(&self, workspace: &Workspace, permission: Permission, ring: RingTests) -> TierReport {
        println!("\n== {}: {}", self.name, self.about);
        let started = Instant::now();
        for need in self.needs {
            if let Err(skip) = need.provide(self.name, permission) {
                println!("skipped: {}", skip.why);
                return self.skipped(skip);
            }
        }
        let count = self.work.run(workspace, ring).unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            Count::check(false)
        });
        TierReport {
            name: self.name,
            elapsed: started.elapsed(),
            skips: ignored_tests(self.name, &count).into_iter().collect(),
            count,
        }
    }

    /// The report of a tier that wasn't run because an earlier one failed.
    pub(crate) fn passed_over(&self, earlier: &str) -> TierReport {
        self.skipped(Skip {
            count: 1,
            what: self.name.to_owned(),
            why: format!("tier `{earlier}` failed"),
            line: format!("cargo xtask test --tier {earlier} --tier {}", self.name),
        })
    }

    fn skipped(&self, skip: Skip) -> TierReport {
        TierReport { name: self.name, elapsed: Duration::ZERO, count: Count::default(), skips: vec![skip] }
    }
}

impl Work {
    fn run(&self, workspace: &Workspace, ring: RingTests) -> Result<Count> {
        match self {
            Self::Check(args) => {
                let success = process::run(&mut process::cargo(&workspace.root, args))?;
                Ok(Count::check(success))
            }
            Self::Tests(args) => count(workspace, args, None),
            Self::OnServers(name) => on_servers(workspace, name, &[], None),
            Self::OnRing => on_servers(workspace, "on_ring", ring.filter(), ring.seed()),
            Self::Function(function) => Ok(Count::check(function(workspace)?)),
        }
    }
}

fn on_servers(workspace: &Workspace, name: &str, filter: &[&str], seed: Option<u64>) -> Result<Count> {
    // Built as all tests are built; what they print is the story of the run.
    let tests = ["test", "--workspace", "--features", KAFKA_TOO, "--test", name, "--no-fail-fast"];
    let args = [&tests[..], &["--", "--show-output"], filter].concat();
    let mut first = count(workspace, &args, seed)?;
    if first.failed_by_name(ACCIDENTS) {
        let failed: Vec<&str> = first.failures.iter().map(String::as_str).collect();
        let again = count(workspace, &[&tests[..], &["--", "--show-output", "--exact"], &failed].concat(), seed)?;
        first.run_again(&again);
    }
    Ok(first)
}

fn count(workspace: &Workspace, args: &[&str], seed: Option<u64>) -> Result<Count> {
    let mut count = Count::default();
    let mut command = process::cargo(&workspace.root, args);
    if let Some(seed) = seed {
        command.env(RingTests::SEED, seed.to_string());
    }
    let success = process::run_watched(&mut command, |line| count.add_line(line))?;
    count.finish(success);
    Ok(count)
}

fn ignored_tests(tier: &str, count: &Count) -> Option<Skip> {
    (count.ignored > 0).then(|| Skip {
        count: count.ignored,
        what: format!("{} tests of tier `{tier}`", count.ignored),
        why: "they are marked as ignored".to_owned(),
        line: "cargo test --workspace -- --ignored".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_fails_or_breaks_is_one_failed_check() {
        let workspace = Workspace { root: ".".into(), target: "target".into(), packages: Vec::new() };
        let fails = Tier { work: Work::Function(|_| Ok(false)), ..TIERS[0] };
        let breaks = Tier { work: Work::Function(|_| anyhow::bail!("cannot start")), ..TIERS[0] };
        for tier in [fails, breaks] {
            let tier = Tier { needs: &[], ..tier };
            let count = tier.run(&workspace, Permission::Denied, RingTests::Singles).count;
            assert_eq!((count.passed, count.failed), (0, 1));
        }
    }

    #[test]
    fn an_ignored_test_is_reported_as_skipped() {
        let mut count = Count::default();
        count.add_line("test result: ok. 1 passed; 0 failed; 2 ignored");
        assert_eq!(ignored_tests("tests", &count).unwrap().count, 2);
        assert!(ignored_tests("tests", &Count::default()).is_none());
    }
}

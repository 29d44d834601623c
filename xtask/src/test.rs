//! `cargo xtask test`: every tier of tests, in order, and at the end what they cost, what was
//! skipped and one line that says how it went.

mod count;
mod disk;
pub(crate) mod need;
pub(crate) mod report;
mod tier;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use need::Permission;
use report::{Report, TierReport};
pub(crate) use tier::KAFKA_TOO;
use tier::{RingTests, TIERS, Tier};

const HELP: &str = "\
Run every tier of tests but `ring`, in order. A failing tier doesn't stop the next one, so that everything
wrong is seen at once; only a failing build does.

Usage: cargo xtask test [--install] [--tier NAME]...
       cargo xtask test --tier ring [--long | --seed N]

Options:
  --install     install what a tier needs and isn't there; also allowed for root with CI=true
  --tier NAME   run this tier only; can be given more than once
  --long        let two at once go away on the ring, too: four pairs, drawn by a seed that is printed
  --seed N      let two at once go away on the ring, those that this seed draws, and nothing else

A test beside other programs (a browser, Cassandra, Kafka, Spark) that fails is run once more; one that passes
then counts as passed, and is named as unsteady at the end.
With CI=true what is skipped counts as failed. The last line is `N passed, N failed`.

Tiers:";

/// A tier of many minutes, for those who change what it looks at.
const ONLY_WHEN_NAMED: &str = "ring";

/// Runs the task with the arguments after its name.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    if crate::asks_for_help(args) {
        return crate::help(&help_page());
    }
    let request = Request::parse(args)?;
    let workspace = Workspace::find()?;
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    if let Err(error) = disk::check(&workspace.root) {
        eprintln!("error: {error:#}");
        println!("0 passed, 1 failed");
        return Ok(ExitCode::FAILURE);
    }
    let permission = Permission::given(request.install, ci);
    let report = Report { tiers: run_tiers(&workspace, &request, permission), ci };
    println!("\n{report}");
    Ok(crate::exit_code(report.totals().failed == 0))
}

fn run_tiers(workspace: &Workspace, request: &Request, permission: Permission) -> Vec<TierReport> {
    let mut reports: Vec<TierReport> = Vec::new();
    let mut broken = None;
    for tier in &request.tiers {
        let report = match broken {
            Some(earlier) => tier.passed_over(earlier),
            None => tier.run(workspace, permission, request.ring),
        };
        if tier.stops_the_rest && report.count.failed > 0 {
            broken = Some(tier.name);
        }
        reports.push(report);
    }
    reports
}

/// What the command line asks for.
struct Request {
    install: bool,
    tiers: Vec<&'static Tier>,
    ring: RingTests,
}

impl Request {
    fn parse(args: &[String]) -> Result<Self> {
        let (mut install, mut long, mut seed) = (false, false, None);
        let mut named = Vec::new();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--install" => install = true,
                "--long" => long = true,
                "--seed" => {
                    let number = args.next().context("`--seed` needs a number")?;
                    seed = Some(number.parse().with_context(|| format!("`--seed {number}` is no number"))?);
                }
                "--tier" => named.push(args.next().context("`--tier` needs a name")?.as_str()),
                other => bail!("`test` has no option `{other}`; see `cargo xtask test --help`"),
            }
        }
        if let Some(unknown) = named.iter().find(|name| Tier::named(name).is_none()) {
            bail!("there is no tier `{unknown}`; see `cargo xtask test --help`");
        }
        let is_wanted = |tier: &&Tier| match named.is_empty() {
            true => tier.name != ONLY_WHEN_NAMED,
            false => named.contains(&tier.name),
        };
        let tiers = TIERS.iter().filter(is_wanted).collect();
        let ring = match (long, seed) {
            (false, None) => RingTests::Singles,
            _ if !named.contains(&ONLY_WHEN_NAMED) => {
                bail!("`--long` and `--seed` are for the tier `{ONLY_WHEN_NAMED}`: add `--tier {ONLY_WHEN_NAMED}`")
            }
            (true, seed) => RingTests::Both(seed.unwrap_or_else(seed_of_now)),
            (false, Some(seed)) => RingTests::Pairs(seed),
        };
        Ok(Self { install, tiers, ring })
    }
}

fn seed_of_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn help_page() -> String {
    let tiers = TIERS.iter();
    let lines = tiers.map(|tier| format!("\n  {:11}{}", tier.name, tier.about));
    format!("{HELP}{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Vec<&'static str>> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let request = Request::parse(&args)?;
        Ok(request.tiers.iter().map(|tier| tier.name).collect())
    }

    #[test]
    fn named_tiers_run_in_the_order_of_the_list_and_no_name_means_all() {
        assert_eq!(parse(&["--tier", "sim", "--tier", "fmt"]).unwrap(), ["fmt", "sim"]);
        let usual = parse(&[]).unwrap();
        assert!(usual.len() == TIERS.len() - 1 && !usual.contains(&ONLY_WHEN_NAMED));
        assert_eq!(parse(&["--tier", ONLY_WHEN_NAMED]).unwrap(), [ONLY_WHEN_NAMED]);
    }

    #[test]
    fn pairs_of_faults_are_for_the_ring_and_a_seed_alone_runs_nothing_but_them() {
        let ring = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            Request::parse(&args).map(|request| request.ring)
        };
        assert_eq!(ring(&["--tier", "ring"]).unwrap(), RingTests::Singles);
        assert_eq!(ring(&["--tier", "ring", "--seed", "7"]).unwrap(), RingTests::Pairs(7));
        assert_eq!(ring(&["--long", "--tier", "ring", "--seed", "7"]).unwrap(), RingTests::Both(7));
        assert!(matches!(ring(&["--tier", "ring", "--long"]).unwrap(), RingTests::Both(_)));
        for wrong in
            [&["--long"][..], &["--seed", "7"], &["--tier", "ring", "--seed"], &["--tier", "ring", "--seed", "x"]]
        {
            assert!(ring(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_unknown_tier_or_option_is_refused_by_name() {
        let error = parse(&["--tier", "smoke"]).unwrap_err().to_string();
        assert!(error.contains("`smoke`"), "{error}");
        let error = parse(&["--fast"]).unwrap_err().to_string();
        assert!(error.contains("`--fast`"), "{error}");
    }

    #[test]
    fn after_a_broken_build_the_other_tiers_are_skipped_and_say_why() {
        let root = std::env::temp_dir();
        let workspace = Workspace { target: root.join("nothing"), root, packages: Vec::new() };
        let broken = Tier {
            name: "build",
            about: "",
            needs: &[],
            work: tier::Work::Function(|_| bail!("no compiler")),
            stops_the_rest: true,
        };
        let next = Tier { name: "next", work: tier::Work::Function(|_| Ok(true)), ..broken };
        // Leaked: the list of tiers is a constant otherwise.
        let tiers = [broken, next].map(|tier| &*Box::leak(Box::new(tier))).to_vec();
        let request = Request { install: false, tiers, ring: RingTests::Singles };
        let reports = run_tiers(&workspace, &request, Permission::Denied);
        assert_eq!(reports[0].count.failed, 1);
        assert_eq!((reports[1].count.passed, reports[1].skips.len()), (0, 1));
        assert!(reports[1].skips[0].why.contains("build"));
    }
}

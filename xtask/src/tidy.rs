//! `cargo xtask tidy`: the rules of the house as a test. Each rule is a function from the tree of
//! files to the places where it is broken; each place says what to do.

mod arrows;
mod invariants;
mod links;
mod machine;
mod manifests;
mod metrics;
mod shape;
mod tokens;
mod tree;

use std::fmt;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace::Workspace;
use tree::Tree;

const HELP: &str = "\
Check the rules of the house and print every place where one is broken.

Usage: cargo xtask tidy

Rules:
  arrows       crates depend only on what docs/architecture.md lets them
  opening      every .rs file opens with `//!`
  names        no module or crate is called util, common, helpers, types, core, misc
  face         a lib.rs holds no logic
  size         no file is longer than 600 lines, no test file longer than 900
  unfinished   nothing is left to do, nothing is left out of the tests
  time         only runtime, xtask and bench ask for the time or sleep
  machine      no path of one machine, no private registry, no word about the way of working
  links        links between pages lead somewhere
  manifests    every crate takes the workspace's lints, which forbid unsafe; Cargo.lock is kept
  metrics      code, docs/metrics.md and deploy/ name the same metrics; every alert is explained
  invariants   every invariant that is proven is cited by a test";

/// A rule: every place in the tree that breaks it.
type Rule = fn(&Tree) -> Vec<Violation>;

const RULES: &[(&str, Rule)] = &[
    ("arrows", arrows::check),
    ("opening", shape::check_opening),
    ("names", shape::check_names),
    ("face", shape::check_face),
    ("size", shape::check_size),
    ("unfinished", tokens::check_unfinished),
    ("time", tokens::check_time),
    ("machine", machine::check),
    ("links", links::check),
    ("manifests", manifests::check),
    ("metrics", metrics::check),
    ("invariants", invariants::check),
];

/// A place where a rule is broken, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Violation {
    path: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Runs the task with the arguments after its name.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    if crate::asks_for_help(args) {
        return crate::help(HELP);
    }
    if let Some(arg) = args.first() {
        bail!("`tidy` has no option `{arg}`; see `cargo xtask tidy --help`");
    }
    Ok(crate::exit_code(check(&Workspace::find()?)?))
}

/// Checks every rule and prints what is broken. `true`: nothing is.
pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    let tree = Tree::read(workspace)?;
    let mut broken = 0;
    for (name, rule) in RULES {
        for violation in rule(&tree) {
            println!("{violation} [{name}]");
            broken += 1;
        }
    }
    match broken {
        0 => println!("tidy: {} files, all in order", tree.files.len()),
        _ => println!("tidy: {broken} places to put in order"),
    }
    Ok(broken == 0)
}

//! `cargo xtask cluster`: a real Cassandra ring, and a Kafka broker beside it, that stay up until they are told to go.
//! How they are started belongs to `testbed`.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::process;
use crate::test::need::{JAVA, MAVEN, Permission};
use crate::test::report::Skip;
use crate::workspace::Workspace;

const HELP: &str = "\
Start and end a real Cassandra ring on loopback, from the package registry, with a small heap.

Usage: cargo xtask cluster up [--nodes 1|3] [--kafka] [--install]
       cargo xtask cluster down | status
       cargo xtask cluster kill | pause | resume | restart | logs N

Options:
  --nodes N   how many nodes; 1 when not said
  --kafka     a Kafka broker beside them
  --install   install a Java runtime and Maven when they aren't there; also allowed for root with CI=true

`kill` ends node N at once, as a crash does; `restart` starts it again with its data. `pause` lets it stand still
with its connections open. `down` ends everything and deletes the data.";

/// Runs the task with the arguments after its name.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    if args.is_empty() || crate::asks_for_help(args) {
        return crate::help(HELP);
    }
    let (install, args): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| *arg == "--install");
    if args.first().is_some_and(|action| *action == "up") {
        let ci = std::env::var("CI").is_ok_and(|value| value == "true");
        let permission = Permission::given(!install.is_empty(), ci);
        for need in [JAVA, MAVEN] {
            if let Err(skip) = need.provide("cluster", permission) {
                bail!(advice(&skip, permission));
            }
        }
    }
    let workspace = Workspace::find()?;
    // Alone, not with the workspace: it has few dependencies, and whoever types this waits for it.
    let build = ["build", "--quiet", "--package", "anabranch-testbed"];
    if !process::run(&mut process::cargo(&workspace.root, &build))? {
        return Ok(ExitCode::FAILURE);
    }
    let mut testbed = Command::new(workspace.binary("debug", "anabranch-testbed"));
    Ok(crate::exit_code(process::run(testbed.args(args))?))
}

/// What to do about something that is missing; installing was tried where it was allowed.
fn advice(skip: &Skip, permission: Permission) -> String {
    let or = if permission == Permission::Denied { ", or add `--install`" } else { "" };
    format!("{}; type `{}`{or}", skip.why, skip.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_is_proposed_only_where_it_was_not_tried() {
        let skip = Skip { count: 1, what: "cluster".into(), why: "no `x`".into(), line: "get x".into() };
        assert_eq!(advice(&skip, Permission::Denied), "no `x`; type `get x`, or add `--install`");
        assert_eq!(advice(&skip, Permission::Granted), "no `x`; type `get x`");
    }
}

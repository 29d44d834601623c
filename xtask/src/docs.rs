//! `cargo xtask docs`: writes the pages that are made from the code. The tests that compare them do the writing, so that what is
//! written is what is compared.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::process;
use crate::test::KAFKA_TOO;
use crate::workspace::Workspace;

const HELP: &str = "\
Write the pages that are made from the code: docs/api.md from the protos, docs/configuration.md from the settings.

Usage: cargo xtask docs

The tests fail when a page isn't what the code says.";

/// Tells those tests to write instead of complaining.
const WRITE: &str = "ANABRANCH_WRITE_PAGES";

/// Runs the task with the arguments after its name.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    if crate::asks_for_help(args) {
        return crate::help(HELP);
    }
    if let Some(arg) = args.first() {
        bail!("`docs` has no option `{arg}`; see `cargo xtask docs --help`");
    }
    let workspace = Workspace::find()?;
    let tests = ["test", "--workspace", "--features", KAFKA_TOO, "--test", "api", "--test", "cli"];
    let mut command = process::cargo(&workspace.root, &[&tests[..], &["--", "the_page_in_docs"]].concat());
    Ok(crate::exit_code(process::run(command.env(WRITE, "1"))?))
}

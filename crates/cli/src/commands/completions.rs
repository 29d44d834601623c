//! `anabranch completions`: a script for a shell.

use clap::CommandFactory;

use crate::{
    args::{Cli, CompletionsArgs},
    failure::Outcome,
    output::Out,
};

pub(crate) fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "anabranch", &mut script);
    let mut out = Out::new();
    out.text(&String::from_utf8_lossy(&script))?;
    Ok(out.flush()?)
}

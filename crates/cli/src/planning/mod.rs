//! Plans on the command line: where a description comes from, and how a plan is shown. The arithmetic is in
//! `anabranch_provision`.

mod description;
mod questions;
mod show;

pub(crate) use description::{Description, Document, read_document};
pub(crate) use questions::ask;
pub(crate) use show::{settings, text, wrapped};

use anabranch_provision::{Plan, Workload};

use crate::failure::{Exit, Failure, Outcome};

/// Plans, or names every contradiction.
pub(crate) fn plan(workload: &Workload, seed: u64) -> Outcome<Plan> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    anabranch_provision::plan(workload, seed, threads).map_err(|problems| {
        let mut failure = Failure::new(Exit::Refused, "the description contradicts itself");
        failure.details = problems.iter().map(|problem| format!("{} {}", problem.field, problem.reason)).collect();
        failure
    })
}

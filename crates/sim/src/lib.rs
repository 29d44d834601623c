//! Whole clusters in one deterministic process: servers, the store they share and their clients run on one seeded thread
//! with virtual time, through crashes and failing store calls, and an oracle watches W1–W3 and R1–R3.
//!
//! | module | what it holds |
//! |---|---|
//! | [`run`](mod@run) | [`run_seed`]: one seed from its first moment to its verdict |
//! | `plan` | what a seed decides: servers, weather, settings |
//! | `world` | what all actors share; starting and stopping servers |
//! | `faults` | the store as one server sees it, with everything that goes wrong |
//! | `cluster` | servers that crash and come back; the store that crashes below them |
//! | `writers`, `invalid`, `events` | clients that write, what they write, and what must be refused |
//! | `scans`, `scan_check` | clients that read, and the judgement of what they get |
//! | `admin` | settings, block lists and backfill windows that change meanwhile |
//! | [`oracle`] | what was sent and what became of it; [`Violation`] |
//! | `finale` | the exact comparison at the end |
//! | `trace`, `dice` | what happened, line by line; chance for one actor |
//! | [`plant`] | bugs to plant, so that tests can show that they are found |

mod admin;
mod cluster;
mod dice;
mod events;
mod faults;
mod finale;
mod invalid;
pub mod oracle;
mod plan;
pub mod plant;
pub mod run;
mod scan_check;
mod scans;
mod trace;
mod world;
mod writers;

pub use oracle::Violation;
pub use plant::Plant;
pub use run::{Options, Report, run_seed};

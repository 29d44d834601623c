//! Whole clusters in one deterministic process: servers, the store they share and their clients run on one seeded thread
//! with virtual time, through crashes, pauses and failing calls of store and bus, while partitions split themselves; and an oracle
//! watches W1–W3, R1–R4 and S1–S7.
//!
//! | module | what it holds |
//! |---|---|
//! | [`run`](mod@run) | [`run_seed`]: one seed from its first moment to its verdict |
//! | `plan` | what a seed decides: servers, weather, settings |
//! | `world` | what all actors share; starting and stopping servers |
//! | `faults`, `metadata` | the store as one server sees it, with everything that goes wrong |
//! | `replicas` | what some replicas of the store have and others don't |
//! | `bus` | the bus as one server sees it |
//! | `clocks` | clocks that go wrong |
//! | `cluster` | servers that crash and come back; the store that crashes below them |
//! | `writers`, `invalid`, `events` | clients that write, what they write, and what must be refused |
//! | `scans`, `streams`, `searches`, `scan_check` | clients that read, and the judgement of what they get |
//! | `admin`, `splits` | settings, block lists, backfill windows, read modes and splits that change meanwhile |
//! | [`oracle`] | what was sent and what became of it; [`Violation`] |
//! | [`witness`], `pieces` | every change of a split record as it is made, and what pieces really hold |
//! | `finale`, `split_finale` | the exact comparison at the end |
//! | [`reached`] | how often which fault was met |
//! | `trace`, `dice` | what happened, line by line; chance for one actor |
//! | [`plant`], `piece_plants`, `lagging` | bugs to plant, so that tests can show that they are found |

mod admin;
mod bus;
mod clocks;
mod cluster;
mod dice;
mod events;
mod faults;
mod finale;
mod invalid;
mod lagging;
mod metadata;
pub mod oracle;
mod piece_plants;
mod pieces;
mod plan;
pub mod plant;
pub mod reached;
mod replicas;
pub mod run;
mod scan_check;
mod scans;
mod searches;
mod split_finale;
mod splits;
mod streams;
mod trace;
pub mod witness;
mod world;
mod writers;

pub use oracle::Violation;
pub use plant::Plant;
pub use reached::Reached;
pub use run::{Options, Report, run_seed};
pub use witness::Figures;

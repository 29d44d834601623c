//! From what is known of a workload to the settings of its namespace, and from what is stored to better ones. Pure:
//! no I/O, no clock, and chance only from a seed.
//!
//! | module | what it holds |
//! |---|---|
//! | [`quantity`], [`estimate`] | numbers as people know them: with units, as one value or as a range with a confidence |
//! | [`workload`] | the description of a workload, and what contradicts itself in it |
//! | `world`, `zipf`, `sizes` | drawn worlds, and the partitions that settings make of them |
//! | [`candidate`], `cost` | settings to choose between, and what each costs in a world |
//! | [`plan`](mod@plan) | the Monte Carlo and the choice of least regret |
//! | [`predict`], [`capacity`], `reasons` | what the choice leads to, what carries it, why it was made |
//! | [`histogram`] | percentiles of partition sizes from a sample, and how sure they are |
//! | [`tuner`] | from observed slices to a proposal for the next ones |

pub mod candidate;
pub mod capacity;
mod cost;
pub mod estimate;
pub mod histogram;
pub mod plan;
pub mod predict;
pub mod quantity;
mod reasons;
mod sizes;
pub mod tuner;
pub mod workload;
mod world;
mod zipf;

pub use estimate::Estimate;
pub use histogram::SizeHistogram;
pub use plan::{DEFAULT_SEED, DRAWS, Plan, Settings, plan};
pub use workload::{Skew, Workload, WorkloadProblem};

//! The only door to time and chance. Everything that reads a clock, waits, draws a random number or starts a task
//! does it through an [`Env`], so that the simulation can run the same code on a virtual clock, a seeded generator
//! and one thread.
//!
//! | module | what it holds |
//! |---|---|
//! | [`env`](mod@env) | [`Env`]: the clock, the generator and the task driver of one server |
//! | `background` | threads that give way to others, and [`let_others_run`] for what computes for long |
//! | `memory` | [`use_small_pages`]: memory comes in small pieces |
//! | `pause` | stops the tasks of one simulated server for a while |
//! | [`simulated`] | runs a future on virtual time, the same way for the same seed |

mod background;
pub mod env;
mod memory;
mod pause;
pub mod simulated;

pub use background::let_others_run;
pub use env::{Elapsed, Env, Task};
pub use memory::use_small_pages;
pub use simulated::run_simulated;

/// A hash map that iterates in the same order in every run.
#[allow(clippy::disallowed_types)] // the fixed seed is the point
pub type HashMap<K, V> = std::collections::HashMap<K, V, xxhash_rust::xxh3::Xxh3DefaultBuilder>;
/// A hash set that iterates in the same order in every run.
#[allow(clippy::disallowed_types)] // the fixed seed is the point
pub type HashSet<K> = std::collections::HashSet<K, xxhash_rust::xxh3::Xxh3DefaultBuilder>;

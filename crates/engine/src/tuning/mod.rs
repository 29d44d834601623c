//! A namespace that keeps fitting its workload: partitions of its slices are measured, and slices to come get other settings where
//! what is measured asks for it. The arithmetic is in [`anabranch_provision`].
//!
//! | file | its job |
//! |---|---|
//! | `lease` | one server of many does the work |
//! | `table` | partitions of one table, sampled until their percentiles are sure |
//! | `measure` | the background task that measures slices and keeps what it found |
//! | [`sizes`] | what is kept of a slice |

mod lease;
mod measure;
pub mod sizes;
mod table;

use std::{sync::Arc, time::Duration};

use anabranch_runtime::Env;
use anabranch_store::Store;

use crate::tuning::lease::Lease;

/// How slices are measured; the same for all namespaces.
#[derive(Clone, Copy, Debug)]
pub struct TuningOptions {
    /// How often slices that still take events are measured; zero measures none.
    pub measure_interval: Duration,
    /// How many hundredths of the time measuring may take, at most.
    pub measure_percent: u32,
}

impl TuningOptions {
    /// Nothing is measured.
    pub const OFF: TuningOptions = TuningOptions { measure_interval: Duration::ZERO, measure_percent: 2 };
}

impl Default for TuningOptions {
    fn default() -> Self {
        TuningOptions { measure_interval: Duration::from_secs(600), measure_percent: 2 }
    }
}

/// Everything of tuning that lives as long as the engine.
pub(crate) struct Tuning {
    pub(crate) options: TuningOptions,
    measuring: Lease,
}

impl Tuning {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        env: &Env,
        server: &str,
        lease: Duration,
        options: TuningOptions,
    ) -> Self {
        Tuning { options, measuring: Lease::new(store.clone(), env.clone(), "measure", server, lease) }
    }
}

//! A namespace that keeps fitting its workload: partitions of its slices are measured, and slices to come get other settings where
//! what is measured asks for it. The arithmetic is in [`anabranch_provision`].
//!
//! | file | its job |
//! |---|---|
//! | `table` | partitions of one table, sampled until their percentiles are sure |
//! | `measure` | the background task that measures slices and keeps what it found |
//! | [`sizes`] | what is kept of a slice |
//! | `reads` | how much time pages cover |
//! | [`tuner`] | the background task that decides, and what operators ask of it |
//! | [`history`] | what was decided, with its evidence |
//! | `ahead` | other settings for slices that no write can reach yet |

mod ahead;
#[cfg(test)]
mod ahead_tests;
pub mod history;
mod measure;
mod reads;
pub mod sizes;
mod table;
pub mod tuner;

use std::{sync::Arc, time::Duration};

use anabranch_model::NamespaceName;
use anabranch_provision::tuner::Rules;
use anabranch_runtime::Env;
use anabranch_store::Store;

use crate::{lease::Lease, tuning::reads::Reads};

/// How slices are measured and tuned; the same for all namespaces.
#[derive(Clone, Copy, Debug)]
pub struct TuningOptions {
    /// How often slices that still take events are measured; zero measures none.
    pub measure_interval: Duration,
    /// How many hundredths of the time measuring may take, at most.
    pub measure_percent: u32,
    /// How often the tuner looks at every namespace; zero never.
    pub tune_interval: Duration,
    /// How careful the tuner is.
    pub rules: Rules,
}

impl TuningOptions {
    /// Nothing is measured or tuned.
    pub fn off() -> Self {
        TuningOptions { measure_interval: Duration::ZERO, tune_interval: Duration::ZERO, ..TuningOptions::default() }
    }
}

impl Default for TuningOptions {
    fn default() -> Self {
        TuningOptions {
            measure_interval: Duration::from_secs(600),
            measure_percent: 2,
            tune_interval: Duration::from_secs(300),
            rules: Rules::default(),
        }
    }
}

/// Everything of tuning that lives as long as the engine.
pub(crate) struct Tuning {
    pub(crate) options: TuningOptions,
    measuring: Lease,
    tuning: Lease,
    pub(crate) reads: Reads,
}

/// Documents of the tuner.
pub(crate) fn scope(namespace: &NamespaceName) -> String {
    format!("tuning/{namespace}")
}

impl Tuning {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        env: &Env,
        server: &str,
        lease: Duration,
        options: TuningOptions,
    ) -> Self {
        let lease = |work: &str| Lease::new(store.clone(), env.clone(), work, server, lease);
        Tuning { options, measuring: lease("measure"), tuning: lease("tuner"), reads: Reads::default() }
    }
}

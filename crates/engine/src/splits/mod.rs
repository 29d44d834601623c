//! Wide partitions split themselves: what the engine does around [`anabranch_split`].
//!
//! | file | its job |
//! |---|---|
//! | `route` | for one read: which partitions come from pieces, what is compared beside it, what looks wide |
//! | `worker` | takes detections from the bus and brings records forward, a few at a time |
//! | `sweep` | looks at all records: what was left over, has grown, or was not looked at for long |
//! | `looks` | what the last sweep found, so that it lists only slices in which something happened |
//! | `doubt` | reads both sides beside requests; promotes, demotes, sets aside |
//! | `verdict` | what follows from a difference between a split and its original |
//! | `ground` | what a worker must know of a partition, stored before it is handed out |
//! | [`admin`] | what an operator asks for |
//! | `waiting` | what keeps splits from being brought forward |
//! | [`summary`] | how many records there are by state, as the last sweep found them |

pub mod admin;
mod doubt;
mod due;
mod ground;
mod looks;
mod payment;
mod route;
pub mod summary;
mod sweep;
pub mod verdict;
pub(crate) mod waiting;
mod worker;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anabranch_bus::Bus;
use anabranch_runtime::Env;
use anabranch_split::{Pace, Records, Router, RouterOptions, Work, WorkOptions};
use anabranch_store::{BlockCache, Store};

use crate::splits::{
    doubt::Doubts, due::DueQueue, looks::Looks, payment::Payments, summary::Summaries, waiting::LatestWaiting,
};

pub(crate) use route::Routing;

/// How splits are made and used; the same for all namespaces.
#[derive(Clone, Copy, Debug)]
pub struct SplitOptions {
    /// Splits that are worked on at once; 0 leaves all of it to other workers.
    pub concurrent: usize,
    /// Bytes that all of them read and write per second.
    pub bytes_per_second: u64,
    /// How each of them works.
    pub work: WorkOptions,
    /// How often all records are looked at, and filters are built anew.
    pub sweep_interval: Duration,
    /// How often a segment that is served is compared with its original, whole.
    pub scrub_interval: Duration,
    /// How long a tail that grows slowly waits until it is looked at.
    pub extend_interval: Duration,
    /// Partitions that may wait for a worker.
    pub max_due: usize,
    /// Comparisons that may wait.
    pub max_doubts: usize,
    /// How partitions are looked up.
    pub router: RouterOptions,
    /// Bytes of blocks kept of pieces that were read; 0 where the store does so itself.
    pub block_cache_bytes: usize,
}

impl Default for SplitOptions {
    fn default() -> Self {
        SplitOptions {
            concurrent: 2,
            bytes_per_second: 256 << 20,
            work: WorkOptions::default(),
            sweep_interval: Duration::from_secs(10),
            scrub_interval: Duration::from_secs(86_400),
            extend_interval: Duration::from_secs(600),
            max_due: 10_000,
            max_doubts: 64,
            router: RouterOptions::default(),
            block_cache_bytes: 0,
        }
    }
}

/// Everything of splits that lives as long as the engine.
pub(crate) struct Splits {
    pub(crate) router: Router,
    pub(crate) blocks: Option<Arc<BlockCache>>,
    pub(crate) records: Records,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) pace: Arc<Pace>,
    /// One for each split that is worked on at once.
    pub(crate) workers: Vec<Work>,
    /// For comparisons: beside reads as they read, and everywhere where something is decided.
    pub(crate) scrubber: Work,
    pub(crate) due: DueQueue,
    pub(crate) doubts: Doubts,
    pub(crate) payments: Payments,
    pub(crate) summaries: Summaries,
    pub(crate) waiting: LatestWaiting,
    /// Pages whose first lookup of a partition could have been timed: one in some is.
    pub(crate) pages_routed: AtomicU64,
    /// Held by the one sweep.
    pub(crate) looks: tokio::sync::Mutex<Looks>,
    pub(crate) options: SplitOptions,
}

impl Splits {
    pub(crate) fn new(store: &Arc<dyn Store>, bus: Arc<dyn Bus>, env: &Env, options: SplitOptions) -> Self {
        let records = Records::new(store.clone(), env.clone(), options.work.call_timeout);
        let pace = Arc::new(Pace::new(options.bytes_per_second));
        // Where nobody else can work, whoever worked before a restart is gone: its leases are ours.
        let home = if store.capabilities().shared { format!("{:016x}", env.random_u64()) } else { "local".to_owned() };
        // One name for all workers of a process: its queue sees to it that no two work on one partition, and any of them may go on
        // with what another had begun.
        let worker = || Work::new(store.clone(), env.clone(), options.work, home.clone(), pace.clone());
        Splits {
            router: Router::new(records.clone(), env.clone(), options.router),
            blocks: (options.block_cache_bytes > 0).then(|| Arc::new(BlockCache::new(options.block_cache_bytes))),
            workers: (0..options.concurrent).map(|_| worker()).collect(),
            scrubber: worker(),
            records,
            bus,
            due: DueQueue::new(options.max_due),
            doubts: Doubts::new(options.max_doubts),
            payments: Payments::default(),
            summaries: Summaries::default(),
            waiting: LatestWaiting::default(),
            pages_routed: AtomicU64::new(0),
            looks: tokio::sync::Mutex::default(),
            pace,
            options,
        }
    }
}

//! The way of a write and the way of a read over any [`Store`](anabranch_store::Store), with the namespaces and slices
//! they go through and the background tasks that keep those in order. Knows nothing of protocols.
//!
//! | module | what it holds |
//! |---|---|
//! | [`engine`] | [`Engine`]: start, shut down, and everything a server calls |
//! | [`namespace`] | [`NamespaceRecord`]: what is stored of a namespace; [`Backfill`] windows |
//! | `admission` | who may read, and when: pages that wait, permits for the store |
//! | `registry` | the namespaces that this server knows; changes by compare-and-set; refresh |
//! | [`settings`] | changes of settings and of the block list |
//! | [`deletion`] | namespaces are deleted in two steps |
//! | `impatience` | calls that must come back soon, and are made anew when they hang |
//! | `heartbeat` | servers compare their clocks; one that is off takes no writes and uses no splits |
//! | `lifecycle` | makes slices ahead of time, closes and drops old ones, ends backfill windows |
//! | `orphans` | drops tables without a live slice |
//! | `lease` | lets one server of many do a piece of background work |
//! | [`write`](mod@write) | check everything, then store; the queue of unsynced writes |
//! | [`read`](mod@read) | slices → groups of partitions → records → a page and its token |
//! | [`splits`] | wide partitions: detection, workers, routing, comparison, what operators ask for |
//! | [`traffic`] | rates, latencies and busy ids of the last minutes, for people who look |
//! | `series` | the partitions of one series and their sizes |
//! | [`tuning`] | measures partitions of slices, and proposes other settings for those to come |
//! | [`tasks`] | [`TaskStatus`]: what background tasks do |
//! | [`error`] | [`EngineError`], with a [`kind`](EngineError::kind) that a protocol can translate |
//! | [`metrics`] | what is counted |

mod admission;
pub mod deletion;
pub mod engine;
pub mod error;
mod heartbeat;
mod impatience;
mod lease;
mod lifecycle;
pub mod metrics;
pub mod namespace;
mod orphans;
pub mod read;
mod registry;
mod series;
pub mod settings;
pub mod splits;
pub mod tasks;
pub mod traffic;
pub mod tuning;
pub mod write;

pub use anabranch_split::TRACE;
pub use engine::{Engine, EngineOptions};
pub use error::{EngineError, ErrorKind, Violation, WriteOutcome};
pub use namespace::{Backfill, BackfillState, ModeChange, NamespaceRecord, SliceFate, SplitUse};
pub use read::{
    Filter, Page, Partial, PartialReason, Query, ReadRequest,
    aggregate::{Aggregate, AggregateRequest, Counts, GroupBy, GroupKey},
    bulk::BulkRead,
    search::{SearchPage, SearchRequest},
};
pub use series::{SeriesPartition, SeriesPartitions, SeriesSelection};
pub use splits::{
    SplitOptions,
    admin::{Requested, SplitSelection, Verified},
    summary::SplitSummary,
    verdict::{FoundBy, KeptDifference, KeptRow},
};
pub use tasks::TaskStatus;
pub use tuning::{
    TuningOptions,
    history::{DecisionOutcome, TuningDecision},
    sizes::{CountedPartitions, HeavyPartition, SliceSizes},
};
pub use write::{EventInput, ItemInput, TimeInput, WriteReceipt, WriteRequest};

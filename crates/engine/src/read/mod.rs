//! The way of a read: interval ∩ retention → slices → groups of partitions → records → one page and its token.
//!
//! | file | its step |
//! |---|---|
//! | `request` | checks a request and gives it a fingerprint |
//! | `groups` | lists, in order, the groups of partitions that may hold records |
//! | `records` | turns the rows of one partition into whole records |
//! | `page` | merges, filters and fills the page until a limit or the deadline |
//! | [`bulk`] | whole histories: pieces in parallel, delivered in order |
//! | [`condition`] | which records are kept |
//! | [`search`] | several histories, one after the other |
//! | [`aggregate`] | what several histories hold, counted |
//! | `shape` | remembers what partitions of a namespace look like, to fetch no more than is needed |

pub mod aggregate;
pub mod bulk;
pub mod condition;
mod groups;
mod page;
mod records;
mod request;
pub mod search;
mod shape;

use std::time::Duration;

use anabranch_model::{Order, PageToken, Record, Timestamp};
use bytes::Bytes;
use tracing::{Instrument as _, field::Empty};

pub use condition::Query;
pub(crate) use groups::Group;
pub(crate) use request::Plan;
pub(crate) use shape::Shapes;

use crate::{EngineError, ErrorKind, TRACE, engine::Engine};

/// A page to read, as it came in.
#[derive(Clone, Debug, Default)]
pub struct ReadRequest {
    /// Where from.
    pub namespace: String,
    /// Whose history.
    pub series: String,
    /// From when on; `None` from the beginning.
    pub start: Option<Timestamp>,
    /// Until when, not included; `None` to the end.
    pub end: Option<Timestamp>,
    /// Which way.
    pub order: Order,
    /// All must match.
    pub filters: Vec<Filter>,
    /// And this, where it is given.
    pub query: Option<Query>,
    /// Most records in the page; 0 means the namespace's default.
    pub page_size: u32,
    /// Most bytes in the page; 0 means the namespace's default.
    pub page_bytes: u64,
    /// Most records over all pages; 0 means no limit.
    pub total_record_limit: u64,
    /// From the page before; empty for the first.
    pub page_token: String,
    /// How long the client will wait; the namespace's limit holds too.
    pub timeout: Option<Duration>,
}

/// Keeps records that have an item of this key and, where a value is given, exactly this value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The item's key.
    pub key: String,
    /// Its value, where that matters.
    pub value: Option<Bytes>,
}

/// One page of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// In the order asked for.
    pub records: Vec<Record>,
    /// How to go on; `None` at the end.
    pub next_page_token: Option<String>,
    /// The same, open.
    pub(crate) next: Option<PageToken>,
    /// Why the page is short, if it is (R2).
    pub partial: Option<Partial>,
    /// Partitions opened.
    pub partitions_read: u32,
    /// Bytes taken from the store.
    pub bytes_read: u64,
    /// Whether it ended because of its bytes.
    pub(crate) bytes_full: bool,
}

/// Why a page is short, and how far it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Why.
    pub reason: PartialReason,
    /// Latest first: nothing at or after this time is missing. Oldest first: nothing before it.
    pub complete_until: Timestamp,
}

/// Why a page is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialReason {
    /// The time ran out, or would have: the store had too much to do.
    Slo,
    /// Part of the interval left the retention while the scan ran.
    Retention,
}

/// On whose behalf a page is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// A client's.
    Client,
    /// That of a search, whose answer it is a part of: all of an answer keeps to the same limits, also if they change meanwhile (R3).
    Search {
        /// Larger records come in parts.
        max_record_bytes: u64,
    },
}

/// Reads one page.
pub(crate) async fn read(engine: &Engine, request: ReadRequest, caller: Caller) -> Result<Page, EngineError> {
    let namespace = &request.namespace;
    let begun = engine.env.monotonic();
    let span = tracing::trace_span!(
        target: TRACE,
        "page",
        namespace,
        series = request.series,
        partitions = Empty,
        records = Empty,
        bytes = Empty
    );
    let result = page::read_page(engine, &request, caller).instrument(span.clone()).await;
    if let Ok(page) = &result {
        span.record("partitions", page.partitions_read);
        span.record("records", page.records.len());
        span.record("bytes", page.bytes_read);
    }
    count(engine, namespace, &request.series, begun, &result);
    result
}

/// Takes down what a page cost.
fn count(engine: &Engine, namespace: &str, series: &str, begun: Duration, result: &Result<Page, EngineError>) {
    if let Ok(known) = engine.registry.get(namespace) {
        let (now, took) = (engine.env.now(), engine.env.monotonic().saturating_sub(begun));
        let target = known.record.config_at(now).read_slo.target;
        engine.splits.pace.observe(took, target);
        engine.traffic.read(&known.name, series, took, result, now);
    }
    let metrics = &engine.metrics;
    match result {
        Ok(page) => {
            metrics.pages_read.with_label_values(&[namespace]).inc();
            metrics.records_read.with_label_values(&[namespace]).inc_by(page.records.len() as u64);
            metrics.bytes_read.with_label_values(&[namespace]).inc_by(page.bytes_read);
            metrics.partitions_per_page.observe(f64::from(page.partitions_read));
            metrics.bytes_per_page.observe(page.bytes_read as f64);
            if let Some(partial) = page.partial {
                let reason = format!("{:?}", partial.reason);
                metrics.partial_pages.with_label_values(&[namespace, &reason]).inc();
            }
        }
        // A namespace that isn't there must not become a label: anybody could make up names.
        Err(EngineError::NoSuchNamespace { .. }) => {
            metrics.reads_failed.with_label_values(&["", "NotFound"]).inc();
        }
        Err(error) => {
            if error.kind() == ErrorKind::ResourceExhausted {
                metrics.reads_shed.with_label_values(&[namespace]).inc();
            }
            metrics.reads_failed.with_label_values(&[namespace, &format!("{:?}", error.kind())]).inc();
        }
    }
}

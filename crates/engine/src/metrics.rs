//! What the engine counts. Labels are namespaces and fixed words, never ids of series.

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, core::Collector, exponential_buckets,
};

/// The engine's counters, registered in one [`Registry`] that the server prints at `/metrics`.
pub struct Metrics {
    /// Where they are registered.
    pub registry: Registry,
    /// Events stored durably, by namespace.
    pub events_written: IntCounterVec,
    /// Events refused, by namespace and reason.
    pub events_refused: IntCounterVec,
    /// Events of writes that failed in the store, by namespace and outcome (`not_stored`, `unknown`).
    pub events_failed: IntCounterVec,
    /// Events dropped from the queue, by namespace and reason.
    pub events_dropped: IntCounterVec,
    /// Events in the queue now.
    pub queued_events: IntGauge,
    /// Bytes in the queue now.
    pub queued_bytes: IntGauge,
    /// Pages answered, by namespace.
    pub pages_read: IntCounterVec,
    /// Records answered, by namespace.
    pub records_read: IntCounterVec,
    /// Bytes that reads took from the store, by namespace.
    pub bytes_read: IntCounterVec,
    /// Partitions opened per page.
    pub partitions_per_page: Histogram,
    /// Short answers, by namespace and reason.
    pub partial_pages: IntCounterVec,
    /// Reads refused or failed, by namespace and reason.
    pub reads_failed: IntCounterVec,
    /// Store calls of reads that were tried again.
    pub read_retries: IntCounter,
    /// Slices made, closed and dropped, by what.
    pub slice_changes: IntCounterVec,
    /// Background tasks that failed and will run again, by task.
    pub task_failures: IntCounterVec,
}

impl Metrics {
    /// Registers everything anew.
    pub fn new() -> Self {
        let registry = Registry::new();
        let by = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels).expect("names and labels are constants");
            register(&registry, counter)
        };
        let gauge =
            |name: &str, help: &str| register(&registry, IntGauge::new(name, help).expect("names are constants"));
        let buckets = exponential_buckets(1.0, 2.0, 12).expect("bounds are constants");
        let opts = HistogramOpts::new("anabranch_read_partitions", "Partitions opened for one page").buckets(buckets);
        let partitions = Histogram::with_opts(opts).expect("names are constants");
        let retries = IntCounter::new("anabranch_read_retries_total", "Store calls of reads that were tried again");
        Metrics {
            events_written: by("anabranch_events_written_total", "Events stored durably", &["namespace"]),
            events_refused: by("anabranch_events_refused_total", "Events refused", &["namespace", "reason"]),
            events_failed: by("anabranch_events_failed_total", "Events of failed writes", &["namespace", "outcome"]),
            events_dropped: by(
                "anabranch_queue_dropped_total",
                "Events dropped from the queue",
                &["namespace", "reason"],
            ),
            queued_events: gauge("anabranch_queue_events", "Events in the write queue"),
            queued_bytes: gauge("anabranch_queue_bytes", "Bytes in the write queue"),
            pages_read: by("anabranch_pages_read_total", "Pages answered", &["namespace"]),
            records_read: by("anabranch_records_read_total", "Records answered", &["namespace"]),
            bytes_read: by("anabranch_read_bytes_total", "Bytes that reads took from the store", &["namespace"]),
            partitions_per_page: register(&registry, partitions),
            partial_pages: by("anabranch_partial_pages_total", "Short answers", &["namespace", "reason"]),
            reads_failed: by("anabranch_reads_failed_total", "Reads refused or failed", &["namespace", "reason"]),
            read_retries: register(&registry, retries.expect("names are constants")),
            slice_changes: by("anabranch_slice_changes_total", "Slices made, closed, dropped", &["change"]),
            task_failures: by("anabranch_task_failures_total", "Background steps that failed", &["task"]),
            registry,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> C {
    registry.register(Box::new(collector.clone())).expect("every name is registered once");
    collector
}

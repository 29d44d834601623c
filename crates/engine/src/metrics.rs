//! What the engine counts. Labels are namespaces and fixed words, never ids of series.

use std::sync::Arc;

use anabranch_store::{Permits, Store};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::Collector, exponential_buckets,
};

use crate::admission::PermitMetrics;

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
    /// Bytes taken from the store per page.
    pub bytes_per_page: Histogram,
    /// Short answers, by namespace and reason.
    pub partial_pages: IntCounterVec,
    /// Reads refused or failed, by namespace and reason.
    pub reads_failed: IntCounterVec,
    /// Pages refused because too many were read or waited, by namespace.
    pub reads_shed: IntCounterVec,
    /// Store calls of reads that were tried again.
    pub read_retries: IntCounter,
    /// Slices made, closed and dropped, by what.
    pub slice_changes: IntCounterVec,
    /// Settings that the tuner's proposals changed, by namespace.
    pub tunings: IntCounterVec,
    /// Suspicions of wide partitions, by namespace and what became of them.
    pub detections: IntCounterVec,
    /// Lookups of partitions that may be split, by outcome.
    pub split_routes: IntCounterVec,
    /// Reads of pieces that went back to the original.
    pub split_fallbacks: IntCounter,
    /// Slices whose splits were given a rest because of too many fallbacks.
    pub split_rests: IntCounter,
    /// Work that found no room in the queue; the next sweep finds it again.
    pub split_work_dropped: IntCounter,
    /// Slices that a sweep listed, and those in which nothing had changed.
    pub slices_swept: IntCounterVec,
    /// Efforts on split records, by the state that they ended in.
    pub splits_ended: IntCounterVec,
    /// From planning to being served.
    pub split_seconds: Histogram,
    /// From a detection to the segment being served.
    pub split_lag_seconds: Histogram,
    /// What looking up split records took that reads waited for.
    pub metadata_seconds: Histogram,
    /// What asking a filter took, sampled.
    pub filter_check_seconds: Histogram,
    /// Bytes of segments that were completed, before and after.
    pub split_bytes: IntCounterVec,
    /// How big partitions were that were split, and their pieces are.
    pub partition_bytes: HistogramVec,
    /// Comparisons of splits with originals, by outcome.
    pub comparisons: IntCounterVec,
    /// Rows, pieces and blocks that didn't hold what their checksums promise, by who noticed.
    pub checksum_mismatches: IntCounterVec,
    /// What the sides of a comparison took.
    pub side_seconds: HistogramVec,
    /// Splits that were set aside because they were slower than the original.
    pub splits_set_aside: IntCounter,
    /// Changes of the read mode, by namespace and new mode.
    pub mode_changes: IntCounterVec,
    /// Split records, by state.
    pub split_records: IntGaugeVec,
    /// Partitions in all filters.
    pub filter_elements: IntGauge,
    /// Partitions in the filters of slices; at most 200 of them.
    pub slice_filter_elements: IntGaugeVec,
    /// Size of all filters.
    pub filter_bytes: IntGauge,
    /// Age of the oldest filter.
    pub filter_age_seconds: IntGauge,
    /// Records found in the router's cache.
    pub router_hits: IntGauge,
    /// Records not found in the router's cache.
    pub router_misses: IntGauge,
    /// Blocks of pieces found in memory.
    pub block_cache_hits: IntGauge,
    /// Blocks of pieces that had to be asked for.
    pub block_cache_misses: IntGauge,
    /// What the blocks in memory take.
    pub block_cache_bytes: IntGauge,
    /// Partitions that wait for a worker.
    pub split_work_waiting: IntGauge,
    /// Partitions that are worked on.
    pub splits_running: IntGauge,
    /// Comparisons that wait.
    pub doubts_waiting: IntGauge,
    /// Waits of splits that were lengthened because reads were slow.
    pub split_slowed: IntGauge,
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
        let count =
            |name: &str, help: &str| register(&registry, IntCounter::new(name, help).expect("names are constants"));
        let histogram = |name: &str, help: &str, first: f64| {
            let buckets = exponential_buckets(first, 4.0, 10).expect("bounds are constants");
            let opts = HistogramOpts::new(name, help).buckets(buckets);
            register(&registry, Histogram::with_opts(opts).expect("names are constants"))
        };
        let opts = HistogramOpts::new("anabranch_comparison_seconds", "What the sides of a comparison took")
            .buckets(exponential_buckets(0.0001, 4.0, 10).expect("bounds are constants"));
        let sides = HistogramVec::new(opts, &["side"]).expect("names are constants");
        let opts = HistogramOpts::new("anabranch_split_partition_bytes", "Sizes of what was split, and of its pieces")
            .buckets(exponential_buckets(16384.0, 4.0, 10).expect("bounds are constants"));
        let sizes = HistogramVec::new(opts, &["side"]).expect("names are constants");
        let opts = Opts::new("anabranch_slice_filter_elements", "Partitions in the filters of slices");
        let slices = IntGaugeVec::new(opts, &["namespace", "slice"]).expect("names are constants");
        let states = IntGaugeVec::new(Opts::new("anabranch_split_records", "Split records by state"), &["state"])
            .expect("names are constants");
        let buckets = exponential_buckets(1.0, 2.0, 12).expect("bounds are constants");
        let opts = HistogramOpts::new("anabranch_read_partitions", "Partitions opened for one page").buckets(buckets);
        let partitions = Histogram::with_opts(opts).expect("names are constants");
        let retries = IntCounter::new("anabranch_read_retries_total", "Store calls of reads that were tried again");
        let metrics = Metrics {
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
            bytes_per_page: histogram("anabranch_read_page_bytes", "Bytes taken from the store for one page", 256.0),
            partial_pages: by("anabranch_partial_pages_total", "Short answers", &["namespace", "reason"]),
            reads_failed: by("anabranch_reads_failed_total", "Reads refused or failed", &["namespace", "reason"]),
            reads_shed: by("anabranch_reads_shed_total", "Pages refused for want of room", &["namespace"]),
            read_retries: register(&registry, retries.expect("names are constants")),
            slice_changes: by("anabranch_slice_changes_total", "Slices made, closed, dropped", &["change"]),
            tunings: by("anabranch_tunings_total", "Proposals of the tuner that were applied", &["namespace"]),
            detections: by("anabranch_detections_total", "Suspicions of wide partitions", &["namespace", "outcome"]),
            split_routes: by("anabranch_split_routes_total", "Lookups of partitions that may be split", &["outcome"]),
            split_fallbacks: count("anabranch_split_fallbacks_total", "Reads of pieces that went back to the original"),
            split_rests: count("anabranch_split_rests_total", "Slices whose splits rest after too many fallbacks"),
            split_work_dropped: count("anabranch_split_work_dropped_total", "Split work that found no room"),
            slices_swept: by("anabranch_slices_swept_total", "Slices looked at by sweeps", &["how"]),
            splits_ended: by(
                "anabranch_splits_ended_total",
                "Efforts on split records, by where they ended",
                &["state"],
            ),
            split_seconds: histogram("anabranch_split_seconds", "From planning a segment to serving it", 0.01),
            split_lag_seconds: histogram("anabranch_split_lag_seconds", "From a detection to serving pieces", 0.01),
            metadata_seconds: histogram("anabranch_metadata_seconds", "Looking up split records", 0.000_001),
            filter_check_seconds: histogram(
                "anabranch_filter_check_seconds",
                "Asking a filter, sampled",
                0.000_000_025,
            ),
            split_bytes: by("anabranch_split_bytes_total", "Bytes of completed segments", &["side"]),
            partition_bytes: register(&registry, sizes),
            comparisons: by("anabranch_comparisons_total", "Comparisons of splits with originals", &["outcome"]),
            checksum_mismatches: by(
                "anabranch_checksum_mismatches_total",
                "Pieces that didn't hold what they should, by who noticed",
                &["found_by"],
            ),
            side_seconds: register(&registry, sides),
            splits_set_aside: count("anabranch_splits_set_aside_total", "Splits set aside because they didn't pay"),
            mode_changes: by("anabranch_mode_changes_total", "Changes of the read mode", &["namespace", "mode"]),
            split_records: register(&registry, states),
            filter_elements: gauge("anabranch_filter_elements", "Partitions in all filters"),
            slice_filter_elements: register(&registry, slices),
            filter_bytes: gauge("anabranch_filter_bytes", "Size of all filters"),
            filter_age_seconds: gauge("anabranch_filter_age_seconds", "Age of the oldest filter"),
            router_hits: gauge("anabranch_router_hits", "Split records found in the cache"),
            router_misses: gauge("anabranch_router_misses", "Split records not found in the cache"),
            block_cache_hits: gauge("anabranch_block_cache_hits", "Blocks of pieces found in memory"),
            block_cache_misses: gauge("anabranch_block_cache_misses", "Blocks of pieces not found in memory"),
            block_cache_bytes: gauge("anabranch_block_cache_bytes", "What blocks of pieces take in memory"),
            split_work_waiting: gauge("anabranch_split_work_waiting", "Partitions that wait for a worker"),
            splits_running: gauge("anabranch_splits_running", "Partitions that are worked on"),
            doubts_waiting: gauge("anabranch_comparisons_waiting", "Comparisons that wait"),
            split_slowed: gauge("anabranch_split_slowed", "Waits of splits lengthened because reads were slow"),
            task_failures: by("anabranch_task_failures_total", "Background steps that failed", &["task"]),
            registry,
        };
        metrics.begin_at_zero();
        metrics
    }
}

impl Metrics {
    /// What is born as a 1 has not increased for Prometheus: the first of these would ring nobody.
    fn begin_at_zero(&self) {
        for outcome in ["same", "only_in_original", "differs"] {
            self.comparisons.with_label_values(&[outcome]);
        }
        for found_by in ["verifier", "read", "comparison", "recheck"] {
            self.checksum_mismatches.with_label_values(&[found_by]);
        }
        for state in ["COMPLETED", "FAILED", "NOT_WIDE", "PARKED"] {
            self.splits_ended.with_label_values(&[state]);
        }
    }

    /// Shows the permits of the store's reads too.
    pub(crate) fn watch_permits(&self, permits: &Arc<Permits>, store: &Arc<dyn Store>) {
        let watched = Box::new(PermitMetrics::new(permits.clone(), store.clone()));
        self.registry.register(watched).expect("an engine has its permits once");
    }

    /// Events dropped from the queue since the start, of all namespaces and for all reasons.
    pub fn dropped_events(&self) -> u64 {
        let families = self.events_dropped.collect();
        let counters = families.iter().flat_map(prometheus::proto::MetricFamily::get_metric);
        counters.map(|metric| metric.get_counter().get_value() as u64).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rings_somebody_is_there_before_it_happens() {
        let text = prometheus::TextEncoder::new().encode_to_string(&Metrics::new().registry.gather()).unwrap();
        let begun = [
            r#"anabranch_comparisons_total{outcome="differs"} 0"#,
            r#"anabranch_checksum_mismatches_total{found_by="comparison"} 0"#,
            r#"anabranch_checksum_mismatches_total{found_by="read"} 0"#,
            r#"anabranch_checksum_mismatches_total{found_by="recheck"} 0"#,
            r#"anabranch_checksum_mismatches_total{found_by="verifier"} 0"#,
            r#"anabranch_splits_ended_total{state="COMPLETED"} 0"#,
        ];
        for line in begun {
            assert!(text.lines().any(|found| found == line), "{line} isn't in {text}");
        }
    }
}

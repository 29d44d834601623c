//! Latencies of one side in one run.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

const SHORTEST_NANOS: u64 = 1_000;
const LONGEST_NANOS: u64 = 60_000_000_000;

/// Collected latencies, to three digits.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Result<Latencies> {
        Ok(Latencies(Histogram::new_with_bounds(SHORTEST_NANOS, LONGEST_NANOS, 3)?))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NANOS);
        self.0.saturating_record(nanos.clamp(SHORTEST_NANOS, LONGEST_NANOS));
    }

    /// The latency that this share of calls stayed within, in milliseconds.
    pub(crate) fn millis(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e6
    }
}

//! A namespace's configuration, its defaults, and the rules it must obey.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact;
use serde::{Deserialize, Serialize};

use crate::{
    PartitionSettings, SplitSettings, TimeSeriesId, Timestamp, TunerMode,
    bounds::{Bound, ConfigProblem, Rules},
    slice::SLICE_GRAIN_SECONDS,
    time::describe,
};

/// The most slices, and so tables, that a namespace may have.
pub const MAX_SLICES: usize = 400;

const DAY: Duration = Duration::from_secs(86_400);
const MIB: u64 = 1 << 20;

/// Settings of a namespace. Kept only after [`NamespaceConfig::problems`] found none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceConfig {
    /// Length of new slices; a multiple of 60.
    pub seconds_per_slice: u32,
    /// Length of a time bucket; never longer than the slice.
    pub seconds_per_bucket: u32,
    /// Over how many partitions the events of a time bucket are spread.
    pub event_buckets: u32,
    /// How old an event may be when it is written.
    #[serde(with = "compact::required")]
    pub accept_limit: Duration,
    /// How far in the future an event may be when it is written.
    #[serde(with = "compact::required")]
    pub drift_limit: Duration,
    /// How long after its end a slice stops being read.
    #[serde(with = "compact::optional")]
    pub close_after: Option<Duration>,
    /// How long after its end a slice is dropped.
    #[serde(with = "compact::optional")]
    pub delete_after: Option<Duration>,
    /// How long after the accept limit a span counts as sealed.
    #[serde(with = "compact::required")]
    pub seal_margin: Duration,
    /// How many slices are made ahead of time.
    pub slices_ahead: u32,
    /// What reads should take, and may take.
    pub read_slo: Slo,
    /// What writes should take, and may take: `max` is the write deadline.
    pub write_slo: Slo,
    /// Limits of pages.
    pub page_limits: PageLimits,
    /// Limits of write requests.
    pub write_limits: WriteLimits,
    /// How wide partitions are split.
    pub split: SplitSettings,
    /// What the slice tuner may do.
    #[serde(default)]
    pub tuner: TunerMode,
    /// Series that are refused.
    pub block_list: Vec<BlockedSeries>,
}

/// A latency objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// What requests should take.
    #[serde(with = "compact::required")]
    pub target: Duration,
    /// What they may take at most.
    #[serde(with = "compact::required")]
    pub max: Duration,
}

/// Limits of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageLimits {
    /// Records of a page when the request doesn't say.
    pub default_page_size: u32,
    /// Records of a page at most.
    pub max_page_size: u32,
    /// Bytes of a page when the request doesn't say.
    pub default_page_bytes: u64,
    /// Bytes of a page at most.
    pub max_page_bytes: u64,
    /// Records bigger than this are delivered in parts.
    pub max_record_bytes: u64,
    /// Whether a page that holds something ends at `read_slo.target` instead of `read_slo.max`.
    #[serde(default)]
    pub partial_at_target: bool,
}

/// Limits of write requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteLimits {
    /// Events in a request.
    pub max_events_per_request: u32,
    /// Bytes (ids, keys, values, metadata) in a request.
    pub max_request_bytes: u64,
    /// Items in an event.
    pub max_items_per_event: u32,
    /// Value and metadata of an item together.
    pub max_item_bytes: u64,
    /// Bytes of a `time_series_id`, an `event_id` and an `event_item_key` each.
    pub max_id_bytes: u32,
}

/// A series that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockedSeries {
    /// Whose history.
    pub series: TimeSeriesId,
    /// Whether writes are refused.
    pub writes: bool,
    /// Whether reads are refused.
    pub reads: bool,
    /// Why, for whoever meets the refusal.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// Until when; absent means until removed.
    pub expires: Option<Timestamp>,
}

impl Default for NamespaceConfig {
    fn default() -> Self {
        NamespaceConfig {
            seconds_per_slice: 7 * 86_400,
            seconds_per_bucket: 86_400,
            event_buckets: 1,
            accept_limit: Duration::from_secs(36 * 3600),
            drift_limit: Duration::from_secs(600),
            close_after: None,
            delete_after: None,
            seal_margin: Duration::from_secs(60),
            slices_ahead: 1,
            read_slo: Slo { target: Duration::from_millis(500), max: Duration::from_secs(5) },
            write_slo: Slo { target: Duration::from_millis(100), max: Duration::from_secs(5) },
            page_limits: PageLimits {
                default_page_size: 1000,
                max_page_size: 10_000,
                default_page_bytes: 2 * MIB,
                max_page_bytes: 3 * MIB,
                max_record_bytes: 2 * MIB,
                partial_at_target: false,
            },
            write_limits: WriteLimits {
                max_events_per_request: 10_000,
                max_request_bytes: 4 * MIB,
                max_items_per_event: 1000,
                max_item_bytes: MIB,
                max_id_bytes: 256,
            },
            split: SplitSettings::default(),
            tuner: TunerMode::default(),
            block_list: Vec::new(),
        }
    }
}

/// What a configuration is checked against: properties of the servers, not of the namespace.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// How far clocks of servers may differ.
    pub max_clock_skew: Duration,
    /// How long a worker may hold a lease.
    pub lease: Duration,
}

impl NamespaceConfig {
    /// The partition settings that new slices get.
    pub fn partition_settings(&self) -> PartitionSettings {
        PartitionSettings { seconds_per_bucket: self.seconds_per_bucket, event_buckets: self.event_buckets }
    }

    /// The least time between closing and dropping a slice: the longest request, plus a lease.
    pub fn least_drop_gap(&self, around: &Surroundings) -> Duration {
        self.read_slo.max.max(self.write_slo.max) + around.lease
    }

    /// Every rule that this configuration breaks; empty when it may be used.
    pub fn problems(&self, around: &Surroundings) -> Vec<ConfigProblem> {
        self.rules(around).problems
    }

    /// The bounds of every setting, where the others have their defaults.
    pub fn bounds(around: &Surroundings) -> Vec<Bound> {
        let kept = NamespaceConfig { close_after: Some(7 * DAY), delete_after: Some(8 * DAY), ..Default::default() };
        kept.rules(around).bounds
    }

    fn rules(&self, around: &Surroundings) -> Rules {
        let mut check = Rules::default();
        self.check_slices(&mut check);
        self.check_time(&mut check, around);
        self.check_limits(&mut check);
        for blocked in &self.block_list {
            check.that("block_list", blocked.writes || blocked.reads, || {
                format!("`{}` is blocked neither for writes nor for reads; set one, or leave it out", blocked.series)
            });
        }
        check
    }

    fn check_slices(&self, check: &mut Rules) {
        let grain = SLICE_GRAIN_SECONDS;
        check.range("seconds_per_slice", self.seconds_per_slice, grain, 10 * 365 * 86_400);
        check.that("seconds_per_slice", self.seconds_per_slice.is_multiple_of(grain), || {
            format!("{} is not a multiple of {grain}: slices begin on whole minutes", self.seconds_per_slice)
        });
        check.range("seconds_per_bucket", self.seconds_per_bucket, 1, 10 * 365 * 86_400);
        check.that("seconds_per_bucket", self.seconds_per_bucket <= self.seconds_per_slice, || {
            format!(
                "a bucket of {} s is longer than its slice of {} s; shorten it or lengthen `seconds_per_slice`",
                self.seconds_per_bucket, self.seconds_per_slice
            )
        });
        check.range("event_buckets", self.event_buckets, 1, 1024);
        check.range("slices_ahead", self.slices_ahead, 1, 32);
        let span = self.accept_limit + self.drift_limit + self.delete_after.unwrap_or_default();
        let slices = span.as_secs() / u64::from(self.seconds_per_slice.max(1)) + u64::from(self.slices_ahead) + 2;
        let limit = (MAX_SLICES * 3 / 4) as u64;
        check.that("seconds_per_slice", slices <= limit, || {
            format!(
                "slices of {} s need {slices} tables to cover accept_limit, drift_limit and delete_after; {limit} are allowed: \
                 lengthen the slices",
                self.seconds_per_slice
            )
        });
    }

    fn check_time(&self, check: &mut Rules, around: &Surroundings) {
        check.range("accept_limit", self.accept_limit, Duration::ZERO, 3650 * DAY);
        check.range("drift_limit", self.drift_limit, Duration::ZERO, 30 * DAY);
        check.range("seal_margin", self.seal_margin, Duration::ZERO, 30 * DAY);
        let needed = self.write_slo.max + around.max_clock_skew;
        check.that("seal_margin", self.seal_margin >= needed, || {
            format!(
                "{} must cover write_slo.max and max_clock_skew, together {}",
                describe(self.seal_margin),
                describe(needed)
            )
        });
        for (target, max, slo) in
            [("read_slo.target", "read_slo.max", self.read_slo), ("write_slo.target", "write_slo.max", self.write_slo)]
        {
            check.range(target, slo.target, Duration::from_millis(1), Duration::from_secs(3600));
            check.range(max, slo.max, Duration::from_millis(1), Duration::from_secs(3600));
            check.that(target, slo.target <= slo.max, || {
                format!("target {} is above max {}", describe(slo.target), describe(slo.max))
            });
        }
        let reachable = self.accept_limit + self.seal_margin;
        if let Some(close_after) = self.close_after {
            check.range("close_after", close_after, Duration::ZERO, 36_500 * DAY);
            check.that("close_after", close_after >= reachable, || {
                format!(
                    "{} would close slices that still take writes: accept_limit + seal_margin is {}",
                    describe(close_after),
                    describe(reachable)
                )
            });
        }
        if let Some(delete_after) = self.delete_after {
            check.range("delete_after", delete_after, Duration::ZERO, 36_500 * DAY);
            let gap = self.least_drop_gap(around);
            match self.close_after {
                None => check.that("close_after", false, || {
                    format!("is needed beside delete_after, and must be at least {} below it", describe(gap))
                }),
                Some(close_after) => {
                    check.that("delete_after", delete_after >= close_after.saturating_add(gap), || {
                        format!(
                            "{} must be at least {} (the longest request and a lease) above close_after",
                            describe(delete_after),
                            describe(gap)
                        )
                    });
                }
            }
        }
    }

    fn check_limits(&self, check: &mut Rules) {
        let pages = &self.page_limits;
        check.range("page_limits.max_page_size", pages.max_page_size, 1, 100_000);
        check.range("page_limits.default_page_size", pages.default_page_size, 1, pages.max_page_size);
        check.size("page_limits.max_page_bytes", pages.max_page_bytes, 1024, 256 * MIB);
        check.size("page_limits.default_page_bytes", pages.default_page_bytes, 1024, pages.max_page_bytes);
        check.size("page_limits.max_record_bytes", pages.max_record_bytes, 1024, 256 * MIB);
        let writes = &self.write_limits;
        check.range("write_limits.max_events_per_request", writes.max_events_per_request, 1, 1_000_000);
        check.size("write_limits.max_request_bytes", writes.max_request_bytes, 1024, 256 * MIB);
        check.range("write_limits.max_items_per_event", writes.max_items_per_event, 1, 100_000);
        check.size("write_limits.max_item_bytes", writes.max_item_bytes, 1, writes.max_request_bytes);
        check.range("write_limits.max_id_bytes", writes.max_id_bytes, 16, crate::ids::MAX_ID_BYTES as u32);
        check.size("split.threshold_bytes", self.split.threshold_bytes, 4 * 1024, 1 << 40);
        check.size("split.target_piece_bytes", self.split.target_piece_bytes, 1024, self.split.threshold_bytes);
        check.size("split.block_bytes", self.split.block_bytes.into(), 256, MIB);
        check.range("split.compare_percent", self.split.compare_percent, 0, 100);
        check.range("split.promote_comparisons", self.split.promote_comparisons, 1, 1_000_000);
        check.range("split.promote_over", self.split.promote_over, Duration::ZERO, 30 * DAY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AROUND: Surroundings =
        Surroundings { max_clock_skew: Duration::from_millis(500), lease: Duration::from_secs(30) };

    fn fields(config: &NamespaceConfig) -> Vec<&'static str> {
        config.problems(&AROUND).into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn defaults_obey_the_rules() {
        assert_eq!(NamespaceConfig::default().problems(&AROUND), []);
    }

    #[test]
    fn every_broken_rule_is_named() {
        let mut config =
            NamespaceConfig { seconds_per_bucket: 8 * 86_400, event_buckets: 0, ..NamespaceConfig::default() };
        config.seal_margin = Duration::from_secs(1);
        config.page_limits.default_page_size = 20_000;
        config.delete_after = Some(30 * DAY);
        let expected =
            ["seconds_per_bucket", "event_buckets", "seal_margin", "close_after", "page_limits.default_page_size"];
        assert_eq!(fields(&config), expected);
    }

    #[test]
    fn retention_must_fit_the_tables() {
        let mut config = NamespaceConfig { seconds_per_slice: 86_400, seconds_per_bucket: 3600, ..Default::default() };
        config.close_after = Some(365 * DAY);
        config.delete_after = Some(366 * DAY);
        assert_eq!(fields(&config), ["seconds_per_slice"]);
        config.seconds_per_slice *= 2;
        assert_eq!(fields(&config), [""; 0]);
    }

    #[test]
    fn a_configuration_survives_storage() {
        let close_after = Some(Duration::from_millis(86_400_123));
        let config = NamespaceConfig { close_after, ..NamespaceConfig::default() };
        let text = serde_json::to_string(&config).unwrap();
        assert!(text.contains(r#""accept_limit":"36h""#), "{text}");
        assert_eq!(serde_json::from_str::<NamespaceConfig>(&text).unwrap(), config);
    }
}

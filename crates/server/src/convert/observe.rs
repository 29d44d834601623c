//! What is shown of traffic, partitions and splits, as it is answered.

use std::collections::BTreeSet;

use anabranch_api::v1;
use anabranch_engine::{
    EngineError, SeriesPartition, SeriesPartitions, SeriesSelection, SplitSummary,
    traffic::{
        heat::{self, HeatMap, HeatRange, range_of},
        rates::{self, RecentTraffic},
    },
};
use anabranch_model::TimeSeriesId;
use anabranch_split::WideRow;

use super::{
    Violations, bound, duration,
    splits::{interval, state_message},
    timestamp,
};

/// Rates, latencies and the last minutes of a namespace.
pub(crate) fn traffic(overview: &mut v1::NamespaceOverview, recent: &RecentTraffic) {
    let rate = |count: u64| count as f64 / recent.seconds;
    overview.recorded = true;
    overview.events_per_second = rate(recent.total.events);
    overview.written_bytes_per_second = rate(recent.total.written_bytes);
    overview.pages_per_second = rate(recent.total.pages);
    overview.read_bytes_per_second = rate(recent.total.read_bytes);
    overview.pages = recent.total.pages;
    overview.failed_reads = recent.failed_reads;
    overview.read_p50 = recent.read_p50.and_then(duration);
    overview.read_p99 = recent.read_p99.and_then(duration);
    let step = |(at, step): (usize, &rates::TrafficStep)| v1::TrafficStep {
        time: timestamp(recent.start.saturating_add(rates::STEP * at as u32)),
        events: step.events,
        written_bytes: step.written_bytes,
        pages: step.pages,
        read_bytes: step.read_bytes,
    };
    overview.recent = recent.steps.iter().enumerate().map(step).collect();
}

/// The splits of a namespace, counted.
pub(crate) fn summarized(overview: &mut v1::NamespaceOverview, summary: &SplitSummary) {
    let counted = |(state, count): (&&'static str, &u64)| v1::SplitStateCount {
        state: v1::split::State::from_str_name(state).unwrap_or_default().into(),
        count: *count,
    };
    overview.splits = summary.states.iter().map(counted).collect();
    overview.splits.sort_by_key(|counted| counted.state);
    overview.wide_partitions = summary.wide_partitions();
    overview.served_splits = summary.served;
    overview.set_aside_splits = summary.set_aside;
    overview.sweep_time = timestamp(summary.at);
}

/// Which partitions a request means, and in which namespace.
pub(crate) fn partitions_request(
    message: v1::GetSeriesPartitionsRequest,
) -> Result<(String, SeriesSelection), EngineError> {
    let mut violations = Violations::default();
    let start = message.start.and_then(|start| violations.take("start", bound(start)));
    let end = message.end.and_then(|end| violations.take("end", bound(end)));
    violations.into_result()?;
    let max_partitions = message.max_partitions as usize;
    Ok((message.namespace, SeriesSelection { series: message.time_series_id, start, end, max_partitions }))
}

/// The partitions of a series.
pub(crate) fn partitions_message(found: SeriesPartitions) -> v1::SeriesPartitions {
    v1::SeriesPartitions {
        partitions: found.partitions.into_iter().map(partition_message).collect(),
        cut_reason: found.cut.unwrap_or_default(),
        threshold_bytes: found.threshold_bytes,
    }
}

fn partition_message(partition: SeriesPartition) -> v1::SeriesPartition {
    let split = partition.split.as_ref();
    let served = split.map(|row| row.served.as_slice()).unwrap_or_default();
    v1::SeriesPartition {
        time_slice: partition.time_slice,
        time_bucket: partition.time_bucket.0,
        event_bucket: partition.event_bucket.0,
        interval: interval(partition.interval),
        rows: partition.rows,
        bytes: partition.bytes,
        at_least: partition.at_least,
        split_state: split.map_or(v1::split::State::Unspecified, |row| state_message(&row.state)).into(),
        served_until: split.and_then(WideRow::served_until).and_then(timestamp),
        pieces: served.iter().map(|segment| segment.pieces.len() as u32).sum(),
        piece_bytes: served.iter().map(|segment| segment.post_split_data.bytes).sum(),
    }
}

/// A heat map in which wide ids are marked. Those that aren't among the busiest follow them.
pub(crate) fn heat_map_message(map: HeatMap, wide: &BTreeSet<TimeSeriesId>) -> v1::HeatMap {
    let mut ranges: Vec<v1::HeatRange> = map.ranges.into_iter().enumerate().map(range_message).collect();
    for series in wide {
        let busiest = &mut ranges[range_of(series.as_str())].busiest;
        match busiest.iter_mut().find(|busy| busy.time_series_id == series.as_str()) {
            Some(busy) => busy.wide = true,
            None => busiest.push(v1::BusySeries { time_series_id: series.to_string(), bytes: 0, wide: true }),
        }
    }
    v1::HeatMap { start: timestamp(map.start), step: duration(heat::STEP), ranges, recorded: true }
}

fn range_message((number, range): (usize, HeatRange)) -> v1::HeatRange {
    let busy = |(time_series_id, bytes)| v1::BusySeries { time_series_id, bytes, wide: false };
    v1::HeatRange {
        number: number as u32,
        reads: range.cells.iter().map(|cell| cell.reads.into()).collect(),
        writes: range.cells.iter().map(|cell| cell.writes.into()).collect(),
        bytes: range.cells.iter().map(|cell| cell.bytes).collect(),
        busiest: range.busiest.into_iter().map(busy).collect(),
    }
}

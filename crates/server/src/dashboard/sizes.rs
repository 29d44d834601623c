//! How big the partitions of the latest slices are, against the density target: a histogram for each slice, on one scale.

use anabranch_api::v1::{DensityTarget, HeavyPartition, MeasuredSlice, SliceMeasurement};
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{chart, layout, place, show};

/// Slices that are shown. `anabranch slice list` has all of them.
pub(super) const LATEST: u32 = 12;

/// Where 99 of 100 partitions are, beside where they should be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    Below,
    Within,
    Above,
}

impl Against {
    fn of(p99: u64, target: DensityTarget) -> Against {
        match p99 {
            p99 if p99 < target.low_bytes => Against::Below,
            p99 if p99 > target.high_bytes => Against::Above,
            _ => Against::Within,
        }
    }

    fn badge(self) -> Markup {
        match self {
            Against::Below => layout::badge("plain", "below the target"),
            Against::Within => layout::badge("good", "within the target"),
            Against::Above => layout::badge("warn", "above the target"),
        }
    }
}

pub(super) fn section(namespace: &str, slices: &[MeasuredSlice], now: Timestamp) -> Markup {
    let measured: Vec<(&str, &SliceMeasurement, DensityTarget)> = slices
        .iter()
        .rev()
        .filter_map(|slice| {
            let name = slice.slice.as_ref()?.name.as_str();
            Some((name, slice.measurement.as_ref()?, slice.density_target.unwrap_or_default()))
        })
        .collect();
    let scale = chart::SizeScale::over(measured.iter().map(|(_, found, target)| (found.classes.as_slice(), *target)));
    html! {
        section aria-labelledby="sizes" {
            h2 #sizes { "Partition sizes" }
            @if measured.is_empty() {
                p.more { "No slice was measured yet. The task " a href="/ui/tasks" { "measure" } " does it by sampling." }
            } @else {
                @let target = measured[0].2;
                p {
                    "The size that 99 of 100 partitions of a slice don't exceed should lie between " b { (show::bytes(target.low_bytes)) } " and "
                    b data-field="target" data-value=(format!("{}-{}", target.low_bytes, target.high_bytes)) { (show::bytes(target.high_bytes)) }
                    ": smaller ones cost reads more partitions than they need, bigger ones burden the store. Each bar counts partitions of "
                    "up to twice the size of the bar before it."
                }
                p.legend {
                    span.key.size-below { "below" } " " span.key.size-within { "within the target" } " "
                    span.key.size-above { "above" } " " span.key.size-target { "where 99 of 100 should end" } " " span.key.size-p99 { "99 of 100 are no bigger" }
                }
                div.scroll tabindex="0" role="region" aria-label="Partition sizes of slices" #size-table {
                    table.cards {
                        (layout::columns(&["Slice", "Partitions by size", "Partitions#", "Half of them#", "99 of 100#", "Biggest#", "Against the target"]))
                        tbody { @for (name, found, target) in &measured { (row(namespace, name, found, *target, &scale, now)) } }
                    }
                }
            }
        }
    }
}

fn row(
    namespace: &str,
    name: &str,
    found: &SliceMeasurement,
    target: DensityTarget,
    scale: &chart::SizeScale,
    now: Timestamp,
) -> Markup {
    let sizes = found.partition_bytes.unwrap_or_default();
    let is_empty = found.partitions == 0;
    let number = |field: &str, value: u64| {
        html! {
            @if is_empty { "–" } @else { span data-field=(field) data-value=(value) { (show::bytes(value)) } }
        }
    };
    html! {
        tr data-slice=(name) {
            th scope="row" {
                code { (name) }
                span.more.under { "measured " (show::ago(found.measure_time.as_ref(), now)) (share(found)) }
                @if found.backfilled { span.more.under { "a backfill wrote to it: the tuner doesn't count it" } }
            }
            td.drawing data-label="Partitions by size" {
                (chart::sizes(&found.classes, sizes.p99, target, scale))
                @if !is_empty { (details(namespace, name, found)) }
            }
            td.number data-label="Partitions" { span data-field="partitions" data-value=(found.partitions) { (show::count(found.partitions)) } }
            td.number data-label="Half of them" { (number("p50", sizes.p50)) }
            td.number data-label="99 of 100" { (number("p99", sizes.p99)) }
            td.number data-label="Biggest" { (number("max", sizes.max)) }
            td data-label="Against the target" {
                @if is_empty { (layout::badge("off", "empty")) } @else { (Against::of(sizes.p99, target).badge()) }
            }
        }
    }
}

/// How much of the slice was counted, where it wasn't all.
fn share(found: &SliceMeasurement) -> Markup {
    html! { @if found.share < 1.0 { ", " (format!("{:.1}\u{a0}%", found.share * 100.0)) " of it counted" } }
}

/// The same in words, and who stands out.
fn details(namespace: &str, name: &str, found: &SliceMeasurement) -> Markup {
    let all: u64 = found.classes.iter().map(|class| class.partitions).sum();
    html! {
        details id=(format!("sizes-{name}")) {
            summary { "In numbers" }
            table.plain {
                (layout::columns(&["Up to", "Partitions#", "Of a hundred#"]))
                tbody {
                    @for class in &found.classes {
                        tr data-class=(class.up_to_bytes) {
                            th scope="row" { (show::bytes(class.up_to_bytes)) }
                            td.number data-field="count" data-value=(class.partitions) { (show::count(class.partitions)) }
                            td.number { (format!("{:.1}", class.partitions as f64 * 100.0 / all.max(1) as f64)) }
                        }
                    }
                }
            }
            @if !found.heaviest.is_empty() {
                p.more { "The heaviest ids, each by its heaviest partition:" }
                ol.heaviest { @for heavy in &found.heaviest { (heaviest(namespace, heavy)) } }
            }
        }
    }
}

fn heaviest(namespace: &str, heavy: &HeavyPartition) -> Markup {
    html! {
        li {
            a href=(place::series(namespace, &heavy.time_series_id)) { (show::short_id(&heavy.time_series_id)) }
            ", " (show::bytes(heavy.bytes)) ", " (show::count(heavy.rows)) " rows"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_slice_has_no_sizes() {
        let target = DensityTarget { low_bytes: 2 << 20, high_bytes: 10 << 20 };
        let scale = chart::SizeScale::over([([].as_slice(), target)].into_iter());
        let found = SliceMeasurement { share: 1.0, ..Default::default() };
        let drawn = row("plays", "data_20260328", &found, target, &scale, Timestamp::from_seconds(1)).into_string();
        assert_eq!(drawn.matches("–").count(), 3, "{drawn}");
        assert!(drawn.contains("empty") && !drawn.contains("0 B") && !drawn.contains("In numbers"), "{drawn}");
    }
}

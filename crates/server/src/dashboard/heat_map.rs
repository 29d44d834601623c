//! The heat map: time by range of hashed ids, darker where more is read or written, and the ids behind it.

use std::time::Duration;

use anabranch_api::v1::{self, BusySeries, HeatMap, HeatRange};
use maud::{Markup, html};

use super::{
    Page, chart, layout,
    place::{self, HeatView, Measure},
    show,
};
use crate::operations::{Answer, Operations};

const REFRESH: Duration = Duration::from_secs(5);
/// The map, and the room for marks of wide ids beside it.
const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 22.0;
const ROW: usize = 8;
/// Steps that are drawn at least; before that nothing is drawn while nothing has happened.
const LEAST_STEPS: usize = 12;
/// Ids that the table lists.
const LISTED: usize = 10;

pub(super) fn draw(operations: &Operations, view: &HeatView) -> Answer<Page> {
    let names: Vec<String> = operations
        .list_namespaces(v1::ListNamespacesRequest::default())
        .namespaces
        .into_iter()
        .map(|found| found.name)
        .collect();
    let view = match names.first() {
        Some(first) if view.namespace.is_empty() => HeatView { namespace: first.clone(), ..view.clone() },
        _ => view.clone(),
    };
    let body = html! {
        h1 { "Heat map" }
        p { "Where ids are read and written, step by step. A row is a range of the hash of ids: whoever is busy makes a row stand out." }
        @if names.is_empty() { p.empty { "There is no namespace yet." } } @else {
            (choices(&view, &names))
            (map_section(&operations.get_heat_map(&v1::GetHeatMapRequest { namespace: view.namespace.clone() })?, &view))
        }
    };
    Ok(Page { title: "Heat map".to_owned(), body, refresh: Some(REFRESH) })
}

fn choices(view: &HeatView, names: &[String]) -> Markup {
    html! {
        div.choices {
            form.row method="get" action="/ui/heatmap" {
                label for="namespace" { "Namespace" }
                select #namespace name="namespace" {
                    @for name in names { option value=(name) selected[*name == view.namespace] { (name) } }
                }
                @if view.measure != Measure::Bytes { input type="hidden" name="measure" value=(view.measure.name()); }
                button type="submit" { "Show" }
            }
            span.group role="group" aria-label="What is counted" {
                @for measure in Measure::ALL {
                    @let place = HeatView { measure, ..view.clone() }.href();
                    (layout::choice(&place, measure.name(), measure == view.measure))
                }
            }
        }
    }
}

fn values(range: &HeatRange, measure: Measure) -> &[u64] {
    match measure {
        Measure::Bytes => &range.bytes,
        Measure::Reads => &range.reads,
        Measure::Writes => &range.writes,
    }
}

fn amount(value: u64, measure: Measure) -> String {
    match measure {
        Measure::Bytes => show::bytes(value),
        Measure::Reads => format!("{} pages", show::count(value)),
        Measure::Writes => format!("{} events", show::count(value)),
    }
}

fn map_section(map: &HeatMap, view: &HeatView) -> Markup {
    if !map.recorded {
        return html! { p.notice { "Not recorded: this server keeps the traffic of 256 namespaces." } };
    }
    let all = map.ranges.iter().flat_map(|range| values(range, view.measure));
    let (highest, total) = all.fold((0, 0u64), |(highest, total), value| (highest.max(*value), total + value));
    let step = map.step.as_ref().and_then(|step| Duration::try_from(*step).ok()).unwrap_or_default();
    let window = Window::of(map, step);
    let is_blank = total == 0 && !map.ranges.iter().any(|range| range.busiest.iter().any(|busy| busy.wide));
    html! {
        section aria-labelledby="map" {
            h2 #map { (view.namespace) " by " (view.measure.name()) }
            @if total == 0 { p.empty { "No " (view.measure.name()) " in the last half hour, on this server." } }
            @if !is_blank {
                div.mapped {
                    p.ranges aria-hidden="true" {
                        @for range in map.ranges.first().into_iter().chain(map.ranges.last()) { span { "range " (range.number) } }
                    }
                    (drawing(map, view, &window, highest))
                    p.scale aria-hidden="true" { span { (show::length(step * window.steps as u32)) " ago" } span { "now" } }
                }
                p.legend {
                    (chart::shade_legend("little", &format!("{} in {}", amount(highest, view.measure), show::length(step))))
                    " " span { "shades by orders of magnitude" }
                    " " span.key.wide-mark { "holds an id that was found wide" }
                    " " span { "in all " b data-field="total" data-value=(total) { (amount(total, view.measure)) } }
                }
                p.more { "Choose a row to look at its series: the wide one, or else the busiest." }
            }
        }
        (busiest(map, view))
    }
}

/// Which steps are drawn: not those before anything happened.
struct Window {
    first: usize,
    steps: usize,
    step: Duration,
}

impl Window {
    fn of(map: &HeatMap, step: Duration) -> Window {
        let all = map.ranges.first().map_or(0, |range| range.bytes.len());
        let busy = |at: &usize| map.ranges.iter().any(|range| range.bytes[*at] > 0 || range.reads[*at] > 0);
        let first = (0..all).find(busy).unwrap_or(all).min(all.saturating_sub(LEAST_STEPS));
        Window { first, steps: all - first, step }
    }

    fn cell(&self) -> f64 {
        WIDTH / self.steps.max(1) as f64
    }
}

fn drawing(map: &HeatMap, view: &HeatView, window: &Window, highest: u64) -> Markup {
    let height = map.ranges.len() * ROW;
    html! {
        svg.heat viewBox=(format!("0 0 {} {height}", WIDTH + MARGIN)) preserveAspectRatio="none" role="group"
            aria-label=(format!("{} by time and range of ids", view.measure.name())) {
            rect.ground x="0" y="0" width=(WIDTH) height=(height) {}
            @for (row, range) in map.ranges.iter().enumerate() { (range_row(range, row * ROW, view, window, highest)) }
        }
    }
}

fn range_row(range: &HeatRange, y: usize, view: &HeatView, window: &Window, highest: u64) -> Markup {
    let shown = values(range, view.measure).iter().skip(window.first).enumerate();
    let wide = range.busiest.iter().find(|busy| busy.wide);
    let cells = html! {
        @for (at, value) in shown.filter(|(_, value)| **value > 0) {
            rect class=(format!("shade-{}", chart::shade(*value, highest))) x=(format!("{:.1}", at as f64 * window.cell())) y=(y)
                width=(format!("{:.1}", window.cell())) height=(ROW) {
                title {
                    (show::length(window.step * (window.steps - 1 - at) as u32)) " ago, range " (range.number) ": "
                    (amount(*value, view.measure))
                }
            }
        }
        @if wide.is_some() {
            path.wide d=(format!("M{} {} l16 -5 v10 Z", WIDTH + 4.0, y + ROW / 2)) { title { "holds an id that was found wide" } }
        }
    };
    // To the wide one, which is what people look for; else to the busiest.
    match wide.or(range.busiest.first()) {
        Some(busy) => {
            let id = show::one_line(&busy.time_series_id);
            html! {
                a href=(place::series(&view.namespace, &busy.time_series_id)) aria-label=(format!("Range {}: {id}", range.number)) {
                    rect.hit x="0" y=(y) width=(WIDTH + MARGIN) height=(ROW) { title { (id) } }
                    (cells)
                }
            }
        }
        None => cells,
    }
}

fn busiest(map: &HeatMap, view: &HeatView) -> Markup {
    let ranged = |range: &HeatRange| range.busiest.iter().map(|busy| (range.number, busy.clone())).collect::<Vec<_>>();
    let mut all: Vec<(u32, BusySeries)> = map.ranges.iter().flat_map(ranged).collect();
    all.sort_by_key(|(_, busy)| (!busy.wide, std::cmp::Reverse(busy.bytes)));
    let most = all.iter().map(|(_, busy)| busy.bytes).max().unwrap_or(0);
    html! {
        section aria-labelledby="busiest" {
            h2 #busiest { "Busiest series" }
            @if all.is_empty() { p.more { "None lately." } } @else {
                div.scroll tabindex="0" role="region" aria-label="Busiest series" #busiest-table {
                    table.cards {
                        caption { "Wide ones first. About how much was read and written lately; every ten minutes it counts half." }
                        (layout::columns(&["Series", "Wide", "Lately#", "Beside the busiest", "Range#"]))
                        tbody {
                            @for (number, busy) in all.iter().take(LISTED) {
                                tr {
                                    @let place = place::series(&view.namespace, &busy.time_series_id);
                                    th scope="row" { a href=(place) { (show::short_id(&busy.time_series_id)) } }
                                    td data-label="Wide" { @if busy.wide { (layout::badge("warn", "wide")) } @else { "–" } }
                                    td.number data-label="Lately" { (show::bytes(busy.bytes)) }
                                    td data-label="Beside the busiest" { (chart::bar(busy.bytes, most, "done", "Compared with the busiest")) }
                                    td.number data-label="Range" { (number) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_nothing_is_not_drawn_unless_it_marks_a_wide_id() {
        let cells = || vec![0; 20];
        let mut range = HeatRange { bytes: cells(), reads: cells(), writes: cells(), ..Default::default() };
        let shown = |range: &HeatRange| {
            let map = HeatMap { recorded: true, ranges: vec![range.clone()], ..Default::default() };
            map_section(&map, &HeatView::default()).into_string()
        };
        let blank = shown(&range);
        assert!(blank.contains("in the last half hour") && !blank.contains("<svg"), "{blank}");
        range.busiest = vec![BusySeries { time_series_id: "a".to_owned(), bytes: 0, wide: true }];
        assert!(shown(&range).contains("<svg class=\"heat\""));
    }
}

//! One series: its partitions over time as a strip, how big they are, which are split; and its events.

use std::time::Duration;

use anabranch_api::{
    v1::{self, SeriesPartition, SeriesPartitions, split::State},
    wkt,
};
use maud::{Markup, html};

use super::{
    Page, chart, events, layout,
    place::{self, Place, SeriesView, SplitFilter, SplitName},
    show, splits,
};
use crate::operations::{Answer, Operations};

/// Height of a partition on the strip, and its width: the more there are, the narrower.
const HEIGHT: usize = 34;
const WIDTHS: (usize, usize) = (14, 64);
/// How wide a strip may be before it is scrolled.
const STRIP: usize = 1100;
/// Between partitions with time between them that holds nothing: where there are few, there is room to say how much.
const GAPS: (usize, usize) = (10, 56);
const FEW_GAPS: usize = 8;
/// How wide a tick is.
const TICK: usize = 72;
/// Partitions drawn on the strip.
const MOST: u32 = 400;
/// Rows of the table that are shown at once; the strip has all.
const LISTED: usize = 50;

pub(super) async fn draw(operations: &Operations, view: &SeriesView) -> Answer<Page> {
    let request = v1::GetSeriesPartitionsRequest {
        namespace: view.namespace.clone(),
        time_series_id: view.series.clone(),
        max_partitions: MOST,
        ..Default::default()
    };
    let found = operations.get_series_partitions(request).await?;
    let steps = [
        (Place::Overview.href(), html! { "Overview" }),
        (place::namespace(&view.namespace), html! { (view.namespace) }),
        (place::series(&view.namespace, &view.series), show::short_id(&view.series)),
    ];
    let body = html! {
        (layout::trail(&steps))
        h1 { (show::id(&view.series)) }
        (summary(&found, view))
        (partitions(&found, view))
        (events::section(operations, view).await?)
    };
    Ok(Page { title: show::one_line(&view.series), body, refresh: None })
}

fn summary(found: &SeriesPartitions, view: &SeriesView) -> Markup {
    let sum = |value: fn(&SeriesPartition) -> u64| found.partitions.iter().map(value).sum::<u64>();
    let least = if found.partitions.iter().any(|partition| partition.at_least) { "at least " } else { "" };
    let split = found.partitions.iter().filter(|partition| partition.served_until.is_some()).count();
    let wide = found.partitions.iter().filter(|partition| partition.bytes >= found.threshold_bytes).count();
    let board = SplitFilter { namespace: view.namespace.clone(), series: view.series.clone(), state: None };
    html! {
        dl.tiles {
            (layout::tile("Partitions", "partitions", &show::count(found.partitions.len() as u64), html! {
                @if wide == 0 { "· none of them wide" } @else { "· " (wide) " of them wide" }
            }))
            (layout::tile("Rows", "rows", &show::count(sum(|partition| partition.rows)), html! { (least) }))
            (layout::tile("Size", "bytes", &show::bytes(sum(|partition| partition.bytes)), html! { (least) }))
            (layout::tile("Split into pieces", "split", &show::count(split as u64), html! {
                @if split > 0 { "· " a href=(board.href()) { "its splits" } } @else { "partitions" }
            }))
        }
    }
}

fn partitions(found: &SeriesPartitions, view: &SeriesView) -> Markup {
    html! {
        section aria-labelledby="partitions" {
            h2 #partitions { "Partitions over time" }
            @if found.partitions.is_empty() {
                p.empty { "Nothing is stored of this series in any open slice. Is the id right? It is taken to the letter." }
            } @else {
                (strip(found, view))
                p.legend {
                    (chart::shade_legend("small", &format!("wide, from {} on", show::bytes(found.threshold_bytes))))
                    " " span.key.split-mark { "split into pieces" }
                }
                @if !found.cut_reason.is_empty() { p.notice { "Not everything: " (found.cut_reason) "." } }
                details #partition-details open[found.partitions.len() <= 12] {
                    summary {
                        @match found.partitions.len() {
                            all if all > LISTED => { "The newest " (LISTED) " of " (all) }
                            all => { "All " (all) }
                        }
                        " partitions as a table"
                    }
                    (table(found, view))
                }
            }
        }
    }
}

/// A span of time on the strip.
struct Span {
    start: i64,
    end: i64,
    x: usize,
}

impl Span {
    fn tick(&self) -> String {
        let length = Duration::from_nanos(self.end.abs_diff(self.start));
        show::tick(Some(&wkt::Timestamp::from_nanos(self.start)), length)
    }
}

/// Where each span of time lies on the strip.
struct Scale {
    /// Oldest first.
    spans: Vec<Span>,
    cell: usize,
    gap: usize,
}

impl Scale {
    fn of(partitions: &[SeriesPartition]) -> Scale {
        let mut times: Vec<(i64, i64)> = partitions.iter().map(times).collect();
        times.sort_unstable();
        times.dedup();
        let cell = (STRIP / times.len().max(1)).clamp(WIDTHS.0, WIDTHS.1);
        let are_few = times.windows(2).filter(|pair| pair[0].1 < pair[1].0).count() <= FEW_GAPS;
        let mut scale = Scale { spans: Vec::new(), cell, gap: if are_few { GAPS.1 } else { GAPS.0 } };
        for (start, end) in times {
            let is_after_gap = scale.spans.last().is_some_and(|last| last.end < start);
            let x = scale.end() + if is_after_gap { scale.gap } else { 0 };
            scale.spans.push(Span { start, end, x });
        }
        scale
    }

    /// Where the last ends.
    fn end(&self) -> usize {
        self.spans.last().map_or(0, |last| last.x + self.cell)
    }

    /// Spans with time between them that holds nothing.
    fn gaps(&self) -> impl Iterator<Item = (&Span, &Span)> {
        self.spans.iter().zip(self.spans.iter().skip(1)).filter(|(before, after)| before.end < after.start)
    }

    /// Where time begins, and where it goes on after a gap, as far apart as ticks need.
    fn ticks(&self) -> Vec<&Span> {
        let mut ticks: Vec<&Span> = Vec::new();
        for span in self.spans.first().into_iter().chain(self.gaps().map(|(_, after)| after)) {
            if ticks.last().is_none_or(|last| last.x + TICK <= span.x) {
                ticks.push(span);
            }
        }
        ticks
    }

    fn x(&self, partition: &SeriesPartition) -> usize {
        let found = self.spans.binary_search_by_key(&times(partition).0, |span| span.start);
        found.map_or(0, |at| self.spans[at].x)
    }
}

fn times(partition: &SeriesPartition) -> (i64, i64) {
    let nanos = |time: Option<wkt::Timestamp>| time.and_then(|time| time.to_nanos().ok()).unwrap_or_default();
    let interval = partition.interval.unwrap_or_default();
    (nanos(interval.start), nanos(interval.end))
}

/// Oldest left, a row for each event bucket; the darker the bigger.
fn strip(found: &SeriesPartitions, view: &SeriesView) -> Markup {
    let scale = Scale::of(&found.partitions);
    let rows = found.partitions.iter().map(|partition| partition.event_bucket).max().unwrap_or(0) as usize + 1;
    let height = rows * HEIGHT;
    let ticks = scale.ticks();
    let last_tick = ticks.last().map_or(0, |last| last.x);
    let width = scale.end().max(last_tick + TICK);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Partitions over time" #strip {
            svg.strip viewBox=(format!("0 0 {width} {}", height + 18)) width=(width) height=(height + 18)
                role="group" aria-label=(format!("{}, oldest left", show::counted(found.partitions.len() as u64, "partition"))) {
                @for partition in &found.partitions { (cell(partition, &scale, found.threshold_bytes, view)) }
                @for (before, after) in scale.gaps() { (gap(before, after, &scale, height / 2)) }
                @for tick in &ticks { text.tick x=(tick.x) y=(height + 13) { (tick.tick()) } }
                @if let Some(newest) = scale.spans.last().filter(|_| last_tick + 2 * TICK <= scale.end()) {
                    text.tick x=(scale.end()) y=(height + 13) text-anchor="end" { (newest.tick()) }
                }
            }
        }
    }
}

/// Time that holds nothing, drawn short.
fn gap(before: &Span, after: &Span, scale: &Scale, y: usize) -> Markup {
    let (from, until) = (before.x + scale.cell, after.x);
    let length = show::length(Duration::from_nanos(after.start.abs_diff(before.end)));
    html! {
        line.gap x1=(from + 2) y1=(y) x2=(until - 2) y2=(y) { title { "nothing for " (length) } }
        @if scale.gap == GAPS.1 { text.tick x=(from.midpoint(until)) y=(y - 6) text-anchor="middle" { (length) } }
    }
}

fn cell(partition: &SeriesPartition, scale: &Scale, threshold: u64, view: &SeriesView) -> Markup {
    let shade = chart::filled(partition.bytes, threshold);
    let (x, y) = (scale.x(partition), partition.event_bucket as usize * HEIGHT);
    let drawn = html! {
        rect class=(format!("shade-{shade}")) x=(x + 1) y=(y + 1) width=(scale.cell - 2) height=(HEIGHT - 2) rx="2" {
            title { (told(partition)) }
        }
        @if partition.served_until.is_some() {
            rect.split-line x=(x + 1) y=(y + HEIGHT - 7) width=(scale.cell - 2) height="5" {}
        }
    };
    match split_name(partition, view) {
        Some(name) => html! { a href=(name.href()) aria-label=(told(partition)) { (drawn) } },
        None => drawn,
    }
}

/// The split of a partition, if it has one.
fn split_name(partition: &SeriesPartition, view: &SeriesView) -> Option<SplitName> {
    (partition.split_state() != State::Unspecified).then(|| SplitName {
        namespace: view.namespace.clone(),
        time_slice: partition.time_slice.clone(),
        series: view.series.clone(),
        time_bucket: partition.time_bucket,
        event_bucket: partition.event_bucket,
    })
}

fn told(partition: &SeriesPartition) -> String {
    let interval = partition.interval.unwrap_or_default();
    let least = if partition.at_least { "at least " } else { "" };
    let split = match partition.split_state() {
        State::Unspecified => String::new(),
        state => format!(", split: {}", state.as_str_name()),
    };
    format!(
        "{} to {}, event bucket {}: {least}{} in {} rows{split}",
        show::second(interval.start.as_ref()),
        show::second(interval.end.as_ref()),
        partition.event_bucket,
        show::bytes(partition.bytes),
        show::count(partition.rows),
    )
}

fn table(found: &SeriesPartitions, view: &SeriesView) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Partitions" #partition-table {
            table.cards {
                (layout::columns(&["From", "Slice / buckets", "Rows#", "Size#", "Split", "Pieces#"]))
                tbody {
                    @for partition in found.partitions.iter().take(LISTED) {
                        @let least = if partition.at_least { "≥ " } else { "" };
                        tr data-partition=(format!("{}/{}/{}", partition.time_slice, partition.time_bucket, partition.event_bucket)) {
                            th scope="row" { (show::second(partition.interval.unwrap_or_default().start.as_ref())) }
                            td data-label="Slice / buckets" {
                                span { code { (partition.time_slice) } " / " (partition.time_bucket) " / " (partition.event_bucket) }
                            }
                            td.number data-label="Rows" data-field="rows" data-value=(partition.rows) { (least) (show::count(partition.rows)) }
                            td.number data-label="Size" data-field="bytes" data-value=(partition.bytes) { (least) (show::bytes(partition.bytes)) }
                            td data-label="Split" {
                                @match split_name(partition, view) {
                                    Some(name) => { a href=(name.href()) { (splits::badge(partition.split_state())) } }
                                    None => { span.more { "–" } }
                                }
                            }
                            td.number data-label="Pieces" {
                                @match partition.pieces {
                                    0 => { "–" }
                                    pieces => { (show::count(pieces.into())) " · " (show::bytes(partition.piece_bytes)) }
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

    const DAY: i64 = 86_400 * 1_000_000_000;

    fn partition(day: i64) -> SeriesPartition {
        let time = |day: i64| Some(wkt::Timestamp::from_nanos(day * DAY));
        let interval = v1::TimeInterval { start: time(day), end: time(day + 1) };
        SeriesPartition { interval: Some(interval), ..Default::default() }
    }

    #[test]
    fn each_run_has_a_tick_and_each_gap_its_length() {
        let scale = Scale::of(&[8, 7, 1, 0].map(partition));
        assert_eq!(scale.ticks().iter().map(|span| span.start / DAY).collect::<Vec<_>>(), [0, 7]);
        let gaps: Vec<String> =
            scale.gaps().map(|(before, after)| gap(before, after, &scale, 17).into_string()).collect();
        assert_eq!(gaps.len(), 1);
        assert!(gaps[0].contains(">5 d</text>"), "{}", gaps[0]);
    }

    #[test]
    fn ticks_of_many_runs_do_not_touch() {
        let days: Vec<SeriesPartition> = (0..90).map(|day| partition(2 * day)).collect();
        let scale = Scale::of(&days);
        assert_eq!((scale.gaps().count(), scale.gap), (89, GAPS.0));
        assert!(scale.ticks().windows(2).all(|pair| pair[0].x + TICK <= pair[1].x));
    }
}

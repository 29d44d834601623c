//! One series: its partitions over time as a strip, how big they are, which are split; and its events.

use anabranch_api::v1::{self, SeriesPartition, SeriesPartitions, split::State};
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
/// Between partitions with time between them that holds nothing.
const GAP: usize = 10;
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
            (layout::tile("Partitions", "partitions", &show::count(found.partitions.len() as u64), html! { (wide) " of them wide" }))
            (layout::tile("Rows", "rows", &show::count(sum(|partition| partition.rows)), html! { (least) }))
            (layout::tile("Size", "bytes", &show::bytes(sum(|partition| partition.bytes)), html! { (least) }))
            (layout::tile("Served from pieces", "split", &show::count(split as u64), html! {
                @if split > 0 { a href=(board.href()) { "its splits" } } @else { "partitions" }
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
                    " " span.key.split-mark { "served from pieces" }
                }
                @if !found.cut_reason.is_empty() { p.notice { "Not everything: " (found.cut_reason) "." } }
                details #partition-details open[found.partitions.len() <= 12] {
                    summary { "The newest " (found.partitions.len().min(LISTED)) " of " (found.partitions.len()) " partitions as a table" }
                    (table(found, view))
                }
            }
        }
    }
}

/// Where each span of time lies on the strip.
struct Scale {
    /// Starts of spans and their places, oldest first.
    places: Vec<(i64, usize)>,
    cell: usize,
    width: usize,
}

impl Scale {
    fn of(partitions: &[SeriesPartition]) -> Scale {
        let mut spans: Vec<(i64, i64)> = partitions.iter().map(span).collect();
        spans.sort_unstable();
        spans.dedup();
        let cell = (STRIP / spans.len().max(1)).clamp(WIDTHS.0, WIDTHS.1);
        let (mut places, mut x, mut end) = (Vec::new(), 0, None);
        for (start, until) in spans {
            if end.is_some_and(|end| end < start) {
                x += GAP;
            }
            places.push((start, x));
            x += cell;
            end = Some(until);
        }
        Scale { places, cell, width: x.max(220) }
    }

    fn x(&self, partition: &SeriesPartition) -> usize {
        let found = self.places.binary_search_by_key(&span(partition).0, |(start, _)| *start);
        found.map_or(0, |at| self.places[at].1)
    }
}

fn span(partition: &SeriesPartition) -> (i64, i64) {
    let nanos =
        |time: Option<anabranch_api::wkt::Timestamp>| time.and_then(|time| time.to_nanos().ok()).unwrap_or_default();
    let interval = partition.interval.unwrap_or_default();
    (nanos(interval.start), nanos(interval.end))
}

/// Oldest left, a row for each event bucket; the darker the bigger.
fn strip(found: &SeriesPartitions, view: &SeriesView) -> Markup {
    let scale = Scale::of(&found.partitions);
    let rows = found.partitions.iter().map(|partition| partition.event_bucket).max().unwrap_or(0) as usize + 1;
    let height = rows * HEIGHT;
    let interval = |partition: Option<&SeriesPartition>| partition.and_then(|partition| partition.interval);
    let begin = interval(found.partitions.last()).and_then(|interval| interval.start);
    let end = interval(found.partitions.first()).and_then(|interval| interval.start);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Partitions over time" #strip {
            svg.strip viewBox=(format!("0 0 {} {}", scale.width, height + 18)) width=(scale.width) height=(height + 18)
                role="group" aria-label=(format!("{} partitions, oldest left", found.partitions.len())) {
                @for partition in &found.partitions { (cell(partition, &scale, found.threshold_bytes, view)) }
                text.tick x="0" y=(height + 13) { (show::day(begin.as_ref())) }
                @if found.partitions.len() > 1 {
                    text.tick x=(scale.width) y=(height + 13) text-anchor="end" { (show::day(end.as_ref())) }
                }
            }
        }
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

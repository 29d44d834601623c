//! One split: its state and why, what a person can do, its segments with their pieces, and what comparisons found.

use std::time::Duration;

use anabranch_api::v1::{
    self, Split, SplitPiece, SplitSegment, post_split_data::PartitionStrategy, split::State, split_settings::Packing,
};
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{
    Page, chart, difference, layout,
    place::{self, Place, SplitFilter, SplitName},
    show, splits,
};
use crate::operations::{Answer, Operations};

const REFRESH: Duration = Duration::from_secs(2);
/// Pieces that the table lists; the drawing has all.
const LISTED: usize = 100;

pub(super) async fn draw(operations: &Operations, name: &SplitName) -> Answer<Page> {
    let request = v1::GetSplitRequest {
        namespace: name.namespace.clone(),
        time_slice: name.time_slice.clone(),
        time_series_id: name.series.clone(),
        time_bucket: name.time_bucket,
        event_bucket: name.event_bucket,
    };
    let split = operations.get_split(request).await?;
    let now = operations.engine.now();
    let differences = operations
        .list_split_differences(v1::ListSplitDifferencesRequest {
            namespace: name.namespace.clone(),
            time_series_id: name.series.clone(),
            time_slice: name.time_slice.clone(),
        })
        .await?
        .differences;
    let board = SplitFilter { namespace: name.namespace.clone(), ..SplitFilter::default() };
    let steps = [
        (Place::Splits(SplitFilter::default()).href(), html! { "Splits" }),
        (board.href(), html! { (name.namespace) }),
        (name.href(), show::short_id(&name.series)),
    ];
    let body = html! {
        (layout::trail(&steps))
        h1 { (show::id(&name.series)) " " (splits::badge(split.state())) }
        p {
            "The partition of " a href=(place::series(&name.namespace, &name.series)) { "this series" } " in slice "
            code { (name.time_slice) } ", time bucket " (name.time_bucket) ", event bucket " (name.event_bucket)
            ", of " a href=(place::namespace(&name.namespace)) { (name.namespace) } "."
        }
        (state(&split, now))
        (actions(&split, name))
        @for (at, segment) in split.segments.iter().enumerate() { (segment_section(segment, at + 1, split.segments.len(), now)) }
        @if let Some(segment) = &split.next_segment { (next_segment(segment)) }
        (difference::section(&differences, &split))
    };
    Ok(Page { title: format!("Split of {}", show::one_line(&name.series)), body, refresh: Some(REFRESH) })
}

fn state(split: &Split, now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="state" {
            h2 #state { "State" }
            @if !split.reason.is_empty() { p.reason { (show::one_line(&split.reason)) } }
            @if !split.set_aside_reason.is_empty() { p.notice { "Set aside: " (show::one_line(&split.set_aside_reason)) } }
            @if let Some(progress) = &split.progress { (splits::progress_bar(progress)) }
            dl.tiles {
                (layout::tile("State", "state", &splits::name(split.state()), html! { (show::ago(split.update_time.as_ref(), now)) }))
                (layout::tile("Split until", "served_until", &show::second(split.served_until.as_ref()), html! {
                    "·\u{a0}" (show::counted(split.segments.len() as u64, "segment"))
                }))
                (layout::tile("Generation", "generation", &split.generation.to_string(), html! { "epoch " (split.epoch) }))
                @let attempts = if split.segments.is_empty() { "Attempts" } else { "Attempts at the next segment" };
                (layout::tile(attempts, "attempts", &split.attempts.to_string(), html! {
                    @if let Some(after) = &split.retry_after { "again " (show::ago(Some(after), now)) }
                }))
                @if let Some(lease) = &split.lease {
                    (layout::tile("Worked on by", "worker", &show::one_line(&lease.worker), html! {
                        "lease ends " (show::ago(lease.until.as_ref(), now))
                    }))
                }
                @if let Some(found) = &split.not_wide {
                    (layout::tile("Sealed size", "not_wide", &show::bytes(found.bytes), html! { "up to " (show::second(found.watermark.as_ref())) }))
                }
            }
        }
    }
}

fn actions(split: &Split, name: &SplitName) -> Markup {
    let given_up = split.state() == State::Parked && split.segments.is_empty();
    html! {
        div.actions {
            @if splits::can_retry(split) {
                form method="post" action="/ui/actions/retry" { (named(name)) button.primary type="submit" { "Retry now" } }
            }
            @if !split.segments.is_empty() {
                form method="post" action="/ui/actions/verify" { (named(name)) button type="submit" { "Compare with the original" } }
            }
            @if !given_up {
                details.ask #abandon {
                    summary.button.danger { "Abandon…" }
                    form.stack method="post" action="/ui/actions/abandon" {
                        (named(name))
                        p {
                            "Reads go back to the original, and nothing is tried again until somebody retries. Pieces that are "
                            "there can't be used again: a retry makes new ones."
                        }
                        label for="abandon-reason" { "Why, for those who look later" }
                        input #abandon-reason name="reason" maxlength="200" autocomplete="off";
                        button.danger type="submit" { "Yes, abandon it" }
                    }
                }
            }
        }
    }
}

/// The split that a form means.
fn named(name: &SplitName) -> Markup {
    html! {
        input type="hidden" name="namespace" value=(name.namespace);
        input type="hidden" name="time_slice" value=(name.time_slice);
        input type="hidden" name="series" value=(name.series);
        input type="hidden" name="time_bucket" value=(name.time_bucket);
        input type="hidden" name="event_bucket" value=(name.event_bucket);
    }
}

fn segment_section(segment: &SplitSegment, number: usize, of: usize, now: Timestamp) -> Markup {
    let interval = segment.interval.unwrap_or_default();
    let id = format!("segment-{number}");
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { "Segment " (number) " of " (of) " " (layout::badge("good", "ready")) }
            p {
                (show::second(interval.start.as_ref())) " – " (show::second(interval.end.as_ref()))
                ", completed " (show::ago(segment.complete_time.as_ref(), now))
                " in " b { (show::latency(segment.time_taken.as_ref())) }
                ", last compared whole " (show::ago(segment.check_time.as_ref(), now)) "."
            }
            (before_and_after(segment))
            (pieces(segment, number))
        }
    }
}

fn next_segment(segment: &SplitSegment) -> Markup {
    let interval = segment.interval.unwrap_or_default();
    html! {
        section aria-labelledby="next-segment" {
            h2 #next-segment { "Next segment " (layout::badge("busy", "on its way")) }
            p { (show::second(interval.start.as_ref())) " – " (show::second(interval.end.as_ref())) ", as far as it is planned." }
            (before_and_after(segment))
            (pieces(segment, 0))
        }
    }
}

fn before_and_after(segment: &SplitSegment) -> Markup {
    let before = segment.pre_split_data.clone().unwrap_or_default();
    let after = segment.post_split_data.clone().unwrap_or_default();
    let most = before.bytes.max(after.bytes);
    let form = match after.packing() {
        Packing::Rows | Packing::Unspecified => "rows".to_owned(),
        Packing::Plain => "blocks".to_owned(),
        packing => format!("{} blocks", packing.as_str_name().to_lowercase()),
    };
    html! {
        div.before-after {
            div {
                b { "Before" } " " span.more { code { (before.table) } }
                (chart::bar(before.bytes, most, "before", "Size before"))
                span { b data-field="before_bytes" data-value=(before.bytes) { (show::bytes(before.bytes)) } " in "
                    b data-field="before_rows" data-value=(before.rows) { (show::count(before.rows)) } " rows of one partition" }
            }
            div {
                b { "After" } " " span.more { code { (after.table) } }
                (chart::bar(after.bytes, most, "after", "Size after"))
                @if after.rows > 0 {
                    span { b { (show::bytes(after.bytes)) } " in " b { (show::count(after.rows)) } " " (form)
                        " in " b { (show::counted(piece_list(segment).len() as u64, "piece")) }
                        @if before.bytes > 0 { ", " (format!("{:.0}\u{a0}%", after.bytes as f64 * 100.0 / before.bytes as f64)) " of the bytes" } }
                } @else { span.more { "not yet copied" } }
            }
        }
    }
}

fn piece_list(segment: &SplitSegment) -> &[SplitPiece] {
    match segment.post_split_data.as_ref().and_then(|data| data.partition_strategy.as_ref()) {
        Some(PartitionStrategy::TimeRangePartitionStrategy(strategy)) => &strategy.pieces,
        Some(PartitionStrategy::EventBucketPartitionStrategy(strategy)) => &strategy.pieces,
        None => &[],
    }
}

/// Pieces as bars, each as high as it is big; the newest first, as they are read.
fn pieces(segment: &SplitSegment, number: usize) -> Markup {
    let pieces = piece_list(segment);
    let most = pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0).max(1);
    let width = (pieces.len() * 14).max(60);
    html! {
        @if !pieces.is_empty() {
            h3 { "Pieces" }
            div.scroll tabindex="0" role="region" aria-label="Sizes of pieces" id=(format!("pieces-{number}")) {
                svg.pieces viewBox=(format!("0 0 {width} 70")) width=(width) height="70" role="img"
                    aria-label=(format!("{}, the newest left; the biggest has {}", show::counted(pieces.len() as u64, "piece"), show::bytes(most))) {
                    line.base x1="0" y1="64" x2=(width) y2="64" {}
                    @for (at, piece) in pieces.iter().enumerate() {
                        @let height = (piece.bytes as f64 * 58.0 / most as f64).max(1.0);
                        rect.piece x=(at * 14 + 1) y=(format!("{:.1}", 64.0 - height)) width="11" height=(format!("{height:.1}")) {
                            title { "piece " (piece.ordinal) ": " (show::bytes(piece.bytes)) ", " (show::count(piece.rows)) " rows" }
                        }
                    }
                }
            }
            p.more { "Newest left; the biggest has " (show::bytes(most)) "." }
            details id=(format!("piece-details-{number}")) {
                summary { "What each piece must hold: bounds, rows, bytes, checksum" }
                (piece_table(pieces, number))
            }
        }
    }
}

fn piece_table(pieces: &[SplitPiece], number: usize) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Pieces" id=(format!("piece-table-{number}")) {
            table.cards {
                (layout::columns(&["Piece#", "Newest", "Oldest", "Rows#", "Bytes#", "Checksum"]))
                tbody {
                    @for piece in pieces.iter().take(LISTED) {
                        @let newest = piece.newest.clone().unwrap_or_default();
                        @let oldest = piece.oldest.clone().unwrap_or_default();
                        tr data-piece=(piece.ordinal) {
                            th.number scope="row" { (piece.ordinal) }
                            td data-label="Newest" { (show::second(newest.event_time.as_ref())) }
                            td data-label="Oldest" { (show::second(oldest.event_time.as_ref())) }
                            td.number data-label="Rows" { (show::count(piece.rows)) }
                            td.number data-label="Bytes" { (show::bytes(piece.bytes)) }
                            td data-label="Checksum" { code.checksum { (piece.checksum) } }
                        }
                    }
                }
            }
        }
        @if pieces.len() > LISTED { p.more { "and " (pieces.len() - LISTED) " more; " code { "anabranch split show" } " lists all" } }
    }
}

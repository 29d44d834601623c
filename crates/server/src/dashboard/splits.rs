//! The split pipeline as a board: a column for each state, a card for each split.

use std::time::Duration;

use anabranch_api::v1::{self, Split, split::State};
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{
    Page, chart, layout,
    place::{self, SplitFilter, SplitName},
    show,
};
use crate::operations::{Answer, Operations};

const REFRESH: Duration = Duration::from_secs(2);
/// Splits fetched for a board, of all namespaces together.
const MOST: usize = 500;
/// Cards of a column that are shown.
const SHOWN: usize = 40;

/// What a state is called and what happens in it.
const PIPELINE: [(State, &str); 6] = [
    (State::Detected, "A read saw much of it; it waits for a worker."),
    (State::Planning, "The sealed span is read, and cuts are found."),
    (State::Planned, "The cuts are known."),
    (State::Splitting, "Rows are copied into pieces."),
    (State::Verifying, "Pieces are read back and compared with the plan."),
    (State::Completed, "Reads may use the pieces."),
];

const ASIDE: [(State, &str); 4] = [
    (State::Failed, "An attempt failed; it will be tried again."),
    (State::Parked, "Left for a person: retry it, or leave it."),
    (State::Invalidated, "Not used any more; it is split anew."),
    (State::NotWide, "Smaller than the threshold after all."),
];

/// A state as a word that stands out.
pub(super) fn badge(state: State) -> Markup {
    let kind = match state {
        State::Completed => "good",
        State::Failed | State::Parked => "bad",
        State::Invalidated => "warn",
        State::NotWide | State::Unspecified => "off",
        State::Detected | State::Planning | State::Planned | State::Splitting | State::Verifying => "busy",
    };
    layout::badge(kind, &name(state))
}

/// `NOT_WIDE` as people say it.
pub(super) fn name(state: State) -> String {
    let words = state.as_str_name().replace('_', " ").to_lowercase();
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().collect::<String>() + letters.as_str()).unwrap_or_default()
}

/// Whether an operator can let it begin again.
pub(super) fn can_retry(split: &Split) -> bool {
    matches!(split.state(), State::Failed | State::Parked | State::NotWide) || !split.set_aside_reason.is_empty()
}

pub(super) async fn draw(operations: &Operations, filter: &SplitFilter) -> Answer<Page> {
    let namespaces: Vec<String> = operations
        .list_namespaces(v1::ListNamespacesRequest::default())
        .namespaces
        .into_iter()
        .map(|namespace| namespace.name)
        .collect();
    let (splits, more) = fetch(operations, filter, &namespaces).await?;
    let now = operations.engine.now();
    let body = html! {
        h1 { "Splits" }
        p { "Wide partitions on their way into right-sized pieces. Originals are never changed." }
        (chooser(filter, &namespaces))
        @if more { p.notice { "There are more than " (show::count(MOST as u64)) " splits; these are the first. Choose a namespace or a series." } }
        h2 { "Pipeline" }
        div.board { @for (state, about) in PIPELINE { (column(state, about, &splits, now)) } }
        h2 { "Aside" }
        div.board { @for (state, about) in ASIDE { (column(state, about, &splits, now)) } }
    };
    Ok(Page { title: "Splits".to_owned(), body, refresh: Some(REFRESH) })
}

/// Splits that are meant, and whether there are more.
async fn fetch(operations: &Operations, filter: &SplitFilter, all: &[String]) -> Answer<(Vec<Split>, bool)> {
    let wanted = if filter.namespace.is_empty() { all } else { std::slice::from_ref(&filter.namespace) };
    let mut splits = Vec::new();
    for namespace in wanted {
        let request = v1::ListSplitsRequest {
            namespace: namespace.clone(),
            time_series_id: filter.series.clone(),
            page_size: (MOST - splits.len()) as u32,
            ..Default::default()
        };
        let answer = operations.list_splits(request).await?;
        splits.extend(answer.splits);
        if !answer.next_page_token.is_empty() || splits.len() >= MOST {
            return Ok((splits, true));
        }
    }
    Ok((splits, false))
}

fn chooser(filter: &SplitFilter, namespaces: &[String]) -> Markup {
    html! {
        form.row method="get" action="/ui/splits" {
            label for="namespace" { "Namespace" }
            select #namespace name="namespace" {
                option value="" { "all" }
                @for name in namespaces { option value=(name) selected[*name == filter.namespace] { (name) } }
            }
            label for="series" { "Series" }
            input #series name="series" value=(filter.series) placeholder="any" autocomplete="off" spellcheck="false";
            button type="submit" { "Show" }
        }
    }
}

fn column(state: State, about: &str, splits: &[Split], now: Timestamp) -> Markup {
    let here: Vec<&Split> = splits.iter().filter(|split| split.state() == state).collect();
    let id = place::column(state);
    html! {
        section.column.none[here.is_empty()] id=(id) aria-labelledby=(format!("{id}-name")) data-state=(state.as_str_name()) data-count=(here.len()) {
            h3 id=(format!("{id}-name")) { (name(state)) " " span.number { (here.len()) } }
            p.more { (about) }
            @if !here.is_empty() {
                ul { @for split in here.iter().take(SHOWN) { (card(split, now)) } }
            }
            @if here.len() > SHOWN { p.more { "and " (here.len() - SHOWN) " more" } }
        }
    }
}

fn card(split: &Split, now: Timestamp) -> Markup {
    let segments = split.segments.iter().chain(&split.next_segment);
    let size: u64 = segments.filter_map(|segment| segment.pre_split_data.as_ref()).map(|data| data.bytes).sum();
    let size = split.not_wide.as_ref().map_or(size, |found| found.bytes);
    html! {
        li.card {
            a href=(SplitName::of(split).href()) { (show::short_id(&split.time_series_id)) }
            span.more { (split.namespace) " · " code { (split.time_slice) } " · " (split.time_bucket) "/" (split.event_bucket) }
            span.more { @if size > 0 { (show::bytes(size)) " · " } (show::ago(split.update_time.as_ref(), now)) }
            @if let Some(progress) = &split.progress { (progress_bar(progress)) }
            @if !split.reason.is_empty() { span.reason { (show::one_line(&split.reason)) } }
            @if !split.set_aside_reason.is_empty() { span.reason { "Set aside: " (show::one_line(&split.set_aside_reason)) } }
        }
    }
}

/// How far work on a segment is.
pub(super) fn progress_bar(progress: &v1::SplitProgress) -> Markup {
    match progress.bytes_total {
        Some(total) => {
            let about = format!("{} of {} done", show::bytes(progress.bytes_done), show::bytes(total));
            html! { (chart::bar(progress.bytes_done, total, "done", &about)) span.more { (about) } }
        }
        None => html! { span.more { (show::bytes(progress.bytes_done)) " read so far" } },
    }
}

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
/// Where there are so many splits that they have to be gone through twice.
const SLOW_REFRESH: Duration = Duration::from_secs(10);
/// Splits fetched for a board, of all namespaces together.
const MOST: usize = 500;
/// Cards of a column that are shown; all of a state that were fetched when only that is asked for.
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

/// Splits that a board shows.
struct Board {
    splits: Vec<Split>,
    /// There are more of those that are done than are here.
    is_cut: bool,
}

/// Done, and nobody is needed: there may be very many of them.
fn is_calm(state: State) -> bool {
    matches!(state, State::Completed | State::NotWide)
}

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
    let board = fetch(operations, filter, &namespaces).await?;
    let now = operations.engine.now();
    let columns = |columns: &[(State, &str)]| {
        html! { div.board { @for (state, about) in columns { (column(*state, about, &board, filter, now)) } } }
    };
    let body = html! {
        h1 { "Splits" }
        p { "Wide partitions on their way into right-sized pieces. Originals are never changed." }
        (chooser(filter, &namespaces))
        @match filter.state {
            Some(state) => {
                p { a href=(SplitFilter { state: None, ..filter.clone() }.href()) { "All states" } }
                div.board.one { (column(state, about(state), &board, filter, now)) }
            }
            None => {
                h2 { "Pipeline" }
                (columns(&PIPELINE))
                h2 { "Aside" }
                (columns(&ASIDE))
            }
        }
    };
    let refresh = if board.is_cut { SLOW_REFRESH } else { REFRESH };
    Ok(Page { title: "Splits".to_owned(), body, refresh: Some(refresh) })
}

fn about(state: State) -> &'static str {
    PIPELINE.iter().chain(&ASIDE).find(|(known, _)| *known == state).map_or("", |(_, about)| about)
}

/// Splits that are meant. Where there are too many, those that are done give way to what is under way or needs a person.
async fn fetch(operations: &Operations, filter: &SplitFilter, all: &[String]) -> Answer<Board> {
    let wanted = if filter.namespace.is_empty() { all } else { std::slice::from_ref(&filter.namespace) };
    let states: Vec<State> = filter.state.into_iter().collect();
    let (mut splits, is_cut) = list(operations, filter, wanted, &states).await?;
    if is_cut && filter.state.is_none() {
        let open: Vec<State> =
            PIPELINE.iter().chain(&ASIDE).map(|(state, _)| *state).filter(|state| !is_calm(*state)).collect();
        splits.retain(|split| is_calm(split.state()));
        splits.extend(list(operations, filter, wanted, &open).await?.0);
    }
    let nanos = |split: &Split| split.update_time.and_then(|time| time.to_nanos().ok());
    splits.sort_by_key(|split| (split.set_aside_reason.is_empty(), std::cmp::Reverse(nanos(split))));
    Ok(Board { splits, is_cut })
}

/// The first of those in these states, or in any, and whether there are more.
async fn list(
    operations: &Operations,
    filter: &SplitFilter,
    wanted: &[String],
    states: &[State],
) -> Answer<(Vec<Split>, bool)> {
    let mut splits = Vec::new();
    for namespace in wanted {
        let request = v1::ListSplitsRequest {
            namespace: namespace.clone(),
            time_series_id: filter.series.clone(),
            states: states.iter().map(|state| (*state).into()).collect(),
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
            span.field {
                label for="namespace" { "Namespace" }
                select #namespace name="namespace" {
                    option value="" selected[filter.namespace.is_empty()] { "all" }
                    @for name in namespaces { option value=(name) selected[*name == filter.namespace] { (name) } }
                }
            }
            span.field.grows {
                label for="series" { "Series" }
                input #series name="series" value=(filter.series) placeholder="any" autocomplete="off" spellcheck="false";
            }
            @if let Some(state) = filter.state { input type="hidden" name="state" value=(state.as_str_name().to_lowercase()); }
            button type="submit" { "Show" }
        }
    }
}

fn column(state: State, about: &str, board: &Board, filter: &SplitFilter, now: Timestamp) -> Markup {
    let here: Vec<&Split> = board.splits.iter().filter(|split| split.state() == state).collect();
    let id = place::column(state);
    let shown = if filter.state.is_some() { MOST } else { SHOWN };
    let is_cut = board.is_cut && (is_calm(state) || filter.state.is_some() || here.len() >= MOST);
    let is_unknown = is_cut && here.is_empty();
    let listed = SplitFilter { state: Some(state), ..filter.clone() };
    html! {
        section.column.none[here.is_empty() && !is_unknown] id=(id) aria-labelledby=(format!("{id}-name")) data-state=(state.as_str_name()) data-count=(here.len()) {
            h3 id=(format!("{id}-name")) {
                (name(state)) " "
                span.number { @if is_unknown { "?" } @else { (show::count(here.len() as u64)) @if is_cut { "+" } } }
            }
            p.more { (about) }
            @if is_unknown { p.more { a href=(listed.href()) { "not counted here: list them" } } }
            @if !here.is_empty() {
                ul { @for split in here.iter().take(shown) { (card(split, now)) } }
            }
            @if here.len() > shown { p.more { a href=(listed.href()) { "and " (here.len() - shown) @if is_cut { " or more" } " others" } } }
            @if is_cut && filter.state.is_some() {
                p.more { "There are more. Choose a namespace or a series, or list them with " code { "anabranch split list" } "." }
            }
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
            span.more { (split.namespace) " · " code { (split.time_slice) } " · bucket " (split.time_bucket) "/" (split.event_bucket) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_is_not_said_to_be_none() {
        let shown = |state, is_cut| {
            let board = Board { splits: Vec::new(), is_cut };
            column(state, "", &board, &SplitFilter::default(), Timestamp::from_seconds(1)).into_string()
        };
        let unknown = shown(State::Completed, true);
        assert!(
            unknown.contains(">?</span>") && unknown.contains("list them") && !unknown.contains("none"),
            "{unknown}"
        );
        for none in [shown(State::Completed, false), shown(State::Parked, true)] {
            assert!(none.contains(">0</span>") && none.contains("none") && !none.contains("list them"), "{none}");
        }
    }
}

//! The overview: what needs a person first, then every namespace.

use std::time::Duration;

use anabranch_api::v1::{self, NamespaceOverview, Overview, Warning, split::State, warning::Kind};
use maud::{Markup, html};

use super::{
    Page, chart, layout,
    place::{self, HeatView, Place, SplitFilter},
    read_mode, show,
};
use crate::operations::{Answer, Operations};

const REFRESH: Duration = Duration::from_secs(2);
/// Namespaces that are listed one after the other, whether anything happens in them or not.
const UNFOLDED: usize = 20;

pub(super) fn draw(operations: &Operations) -> Answer<Page> {
    let overview = operations.get_overview(&v1::GetOverviewRequest::default())?;
    let body = html! {
        h1 { "Overview" }
        (warnings(&overview))
        section aria-labelledby="namespaces" {
            h2 #namespaces { "Namespaces" }
            @if overview.namespaces.is_empty() { (first_steps()) } @else { (namespaces(&overview)) }
        }
        (server(&overview))
    };
    Ok(Page { title: "Overview".to_owned(), body, refresh: Some(REFRESH) })
}

/// What needs a person.
pub(super) fn warnings(overview: &Overview) -> Markup {
    html! {
        section aria-labelledby="warnings" {
            h2 #warnings { "Needs a person" }
            @if overview.warnings.is_empty() {
                p.fine data-field="warnings" data-value="0" { "Nothing. Wide partitions are found and split by themselves." }
            } @else {
                ul.warnings data-field="warnings" data-value=(overview.warnings.len()) {
                    @for warning in &overview.warnings { (one_warning(warning)) }
                }
            }
        }
    }
}

fn one_warning(warning: &Warning) -> Markup {
    let (place, label) = where_to(warning);
    html! {
        li class=(if warning.urgent { "urgent" } else { "soon" }) {
            (layout::badge(if warning.urgent { "bad" } else { "warn" }, if warning.urgent { "now" } else { "soon" }))
            div {
                @if !warning.namespace.is_empty() { strong { (warning.namespace) } ": " }
                (show::one_line(&warning.message))
                @if let Some(since) = &warning.since { span.more { " Since " (show::second(Some(since))) "." } }
            }
            @if let Some(href) = place { a.go href=(href) { (label) } }
        }
    }
}

/// Where to look.
fn where_to(warning: &Warning) -> (Option<String>, &'static str) {
    let board = SplitFilter { namespace: warning.namespace.clone(), ..SplitFilter::default() };
    let column = |state| Some(format!("{}#{}", board.href(), place::column(state)));
    match warning.kind() {
        Kind::SplitsParked => (column(State::Parked), "Show"),
        Kind::SplitsFailed => (column(State::Failed), "Show"),
        Kind::SplitsSetAside => (column(State::Completed), "Show"),
        Kind::Demoted => (Some(board.href()), "Show its splits"),
        Kind::NoSlice | Kind::SplitsResting => (Some(place::namespace(&warning.namespace)), "Show"),
        Kind::TaskFailing => (Some(Place::Tasks.href()), "Show"),
        Kind::NotReady | Kind::EventsDropped | Kind::Unspecified => (None, ""),
    }
}

/// Those with trouble first, then those with traffic; where there are many, those without are folded away.
fn namespaces(overview: &Overview) -> Markup {
    let mut all: Vec<&NamespaceOverview> = overview.namespaces.iter().collect();
    all.sort_by_key(|namespace| (!is_troubled(overview, namespace), is_idle(namespace)));
    let busy = all.iter().take_while(|namespace| is_troubled(overview, namespace) || !is_idle(namespace)).count();
    let (seen, folded) = all.split_at(if all.len() > UNFOLDED { busy } else { all.len() });
    let about = format!(
        "Rates and read latency over {}; lines of events over ten minutes, each to its own highest; on this server.",
        show::duration(overview.window.as_ref())
    );
    html! {
        @if !seen.is_empty() { (table(seen, "namespace-table", &about)) }
        @if !folded.is_empty() {
            details #idle-namespaces open[seen.is_empty()] {
                summary { (folded.len()) " without traffic in the last ten minutes, on this server" }
                (table(folded, "idle-table", &about))
            }
        }
    }
}

fn is_troubled(overview: &Overview, namespace: &NamespaceOverview) -> bool {
    overview.warnings.iter().any(|warning| warning.namespace == namespace.name)
}

/// Nothing was written or read for ten minutes.
fn is_idle(namespace: &NamespaceOverview) -> bool {
    namespace.recent.iter().all(|step| step.events == 0 && step.pages == 0)
}

fn table(namespaces: &[&NamespaceOverview], id: &str, about: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Namespaces" id=(id) {
            table.cards {
                caption { (about) }
                thead { tr {
                    th scope="col" { "Namespace" }
                    th scope="col" { "Read mode" }
                    th.number scope="col" { "Events" }
                    th.number scope="col" { "Written" }
                    th.number scope="col" { "Pages read" }
                    th.number scope="col" { abbr title="Half of the pages took at most this" { "p50" } }
                    th.number scope="col" { abbr title="99 in a hundred pages took at most this" { "p99" } }
                    th scope="col" { "Ten minutes" }
                    th.number scope="col" { "Wide" }
                    th scope="col" { "Splits" }
                } }
                tbody { @for namespace in namespaces { (row(namespace)) } }
            }
        }
    }
}

fn row(namespace: &NamespaceOverview) -> Markup {
    let about = format!("Events of {} in the last ten minutes", namespace.name);
    html! {
        tr data-namespace=(namespace.name) {
            th scope="row" { a href=(place::namespace(&namespace.name)) { (namespace.name) } }
            td data-label="Read mode" { (read_mode::badge(namespace.read_mode())) }
            @if namespace.recorded {
                td.number data-label="Events" { (show::rate(namespace.events_per_second)) "/s" }
                td.number data-label="Written" { (show::byte_rate(namespace.written_bytes_per_second)) }
                td.number data-label="Pages read" { (show::rate(namespace.pages_per_second)) "/s" }
                td.number data-label="p50" { (show::latency(namespace.read_p50.as_ref())) }
                td.number data-label="p99" { (show::latency(namespace.read_p99.as_ref())) }
                td data-label="Ten minutes" { (chart::traffic(&namespace.recent, |step| step.events, &about)) }
            } @else {
                td colspan="6" { "not recorded: this server keeps the traffic of 256 namespaces" }
            }
            td.number data-label="Wide" data-field="wide" data-value=(namespace.wide_partitions) { (show::count(namespace.wide_partitions)) }
            td data-label="Splits" { (splits(namespace)) }
        }
    }
}

/// Running, completed, failed, parked.
pub(super) fn splits(namespace: &NamespaceOverview) -> Markup {
    let sum = |states: &[State]| -> u64 {
        namespace.splits.iter().filter(|counted| states.contains(&counted.state())).map(|counted| counted.count).sum()
    };
    let running = sum(&[State::Detected, State::Planning, State::Planned, State::Splitting, State::Verifying]);
    let completed = sum(&[State::Completed]);
    let failed = sum(&[State::Failed]);
    let parked = sum(&[State::Parked]);
    let board = SplitFilter { namespace: namespace.name.clone(), ..SplitFilter::default() };
    let name = &namespace.name;
    let about = format!("Splits of {name}: {running} running, {completed} completed, {failed} failed, {parked} parked");
    html! {
        a.counts href=(board.href()) aria-label=(about) {
            span.some[running > 0] data-field="running" data-value=(running) { (show::count(running)) " running" }
            span data-field="completed" data-value=(completed) { (show::count(completed)) " done" }
            span.bad[failed > 0] data-field="failed" data-value=(failed) { (show::count(failed)) " failed" }
            // Red is what waits for a person; of these, somebody may have given some up.
            span data-field="parked" data-value=(parked) { (show::count(parked)) " parked" }
        }
    }
}

fn server(overview: &Overview) -> Markup {
    html! {
        section aria-labelledby="server" {
            h2 #server { "This server" }
            dl.tiles {
                (layout::tile("Splits being worked on", "splits_running", &show::count(overview.splits_running), html! {
                    "· " (show::count(overview.splits_waiting)) " waiting"
                }))
                (layout::tile("Events in the write queue", "queued_events", &show::count(overview.queued_events), html! {}))
                (layout::tile("Namespaces", "namespaces", &show::count(overview.namespaces.len() as u64), html! {}))
            }
            p.more { a href=(HeatView::default().href()) { "Where ids are busy: heat map" } }
        }
    }
}

/// For a server without anything in it.
fn first_steps() -> Markup {
    html! {
        div.empty {
            p { "There is no namespace yet. Make one and write an event:" }
            pre { code {
                "anabranch namespace create plays\n"
                "anabranch write plays --series profile:123 --item title=Dark\n"
                "anabranch read plays profile:123"
            } }
            p { "Or over HTTP: " a href="/docs" { "what it takes and answers" } "." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_and_what_is_parked_are_counted_apart() {
        let count = |state: State, count| v1::SplitStateCount { state: state.into(), count };
        let counted = vec![count(State::Failed, 3), count(State::Parked, 1)];
        let drawn = splits(&NamespaceOverview { splits: counted, ..Default::default() }).into_string();
        assert!(drawn.contains("3 failed<") && drawn.contains("1 parked<"), "{drawn}");
    }

    #[test]
    fn a_demotion_leads_to_the_splits_of_its_namespace() {
        let kind = Kind::Demoted.into();
        let drawn = one_warning(&Warning { kind, namespace: "ledger".to_owned(), ..Default::default() }).into_string();
        assert!(drawn.contains("href=\"/ui/splits?namespace=ledger\">Show its splits<"), "{drawn}");
    }
}

//! One namespace: how it fares, its slices and how big their partitions are, its read mode, its settings.

use std::time::Duration;

use anabranch_api::v1::{self, Backfill, NamespaceOverview, Overview, backfill};
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{
    Page, chart, layout, overview,
    place::{self, HeatView, Measure, Place},
    read_mode, settings, show, sizes, slices, tuning,
};
use crate::operations::{Answer, Operations};

const REFRESH: Duration = Duration::from_secs(2);

pub(super) async fn draw(operations: &Operations, name: &str) -> Answer<Page> {
    let namespace = operations.get_namespace(v1::GetNamespaceRequest { name: name.to_owned() })?;
    let request = v1::GetOverviewRequest { namespace: name.to_owned(), ..Default::default() };
    let overview = operations.get_overview(&request)?;
    let latest = v1::ListSlicesRequest { namespace: name.to_owned(), latest: sizes::LATEST };
    let measured = operations.list_slices(latest).await?;
    let decided = v1::ListTuningDecisionsRequest { namespace: name.to_owned() };
    let decided = operations.list_tuning_decisions(decided).await?;
    let now = operations.engine.now();
    let mode = namespace.splits.as_ref().map(v1::SplitUse::read_mode).unwrap_or_default();
    let body = html! {
        (layout::trail(&[(Place::Overview.href(), html! { "Overview" }), (place::namespace(name), html! { (name) })]))
        h1 { (name) " " (read_mode::badge(mode)) }
        @if !overview.warnings.is_empty() { (overview::warnings(&overview)) }
        @if let Some(traffic) = overview.namespaces.first() { (traffic_section(traffic, &overview)) }
        (find(name))
        (slices::section(&namespace, now))
        (sizes::section(name, &measured.slices, now))
        (tuning::section(&namespace, &measured.slices, &decided.decisions, now))
        (read_mode::section(&namespace, now))
        (backfills(&namespace.backfills, now))
        (settings::section(&namespace))
    };
    Ok(Page { title: name.to_owned(), body, refresh: Some(REFRESH) })
}

fn traffic_section(traffic: &NamespaceOverview, overview: &Overview) -> Markup {
    let heat = HeatView { namespace: traffic.name.clone(), measure: Measure::Bytes };
    html! {
        section aria-labelledby="traffic" {
            h2 #traffic { "Traffic" }
            @if !traffic.recorded { p { "Not recorded: this server keeps the traffic of 256 namespaces." } }
            dl.tiles {
                (layout::tile("Events written", "events", &format!("{}/s", show::rate(traffic.events_per_second)), html! {
                    "· " (show::byte_rate(traffic.written_bytes_per_second))
                    (chart::traffic(&traffic.recent, |step| step.events, "Events in the last ten minutes"))
                }))
                (layout::tile("Pages read", "pages", &format!("{}/s", show::rate(traffic.pages_per_second)), html! {
                    "· " (show::byte_rate(traffic.read_bytes_per_second))
                    (chart::traffic(&traffic.recent, |step| step.pages, "Pages in the last ten minutes"))
                }))
                (layout::tile("Read latency, half / 99\u{a0}%", "latency", &show::latency(traffic.read_p50.as_ref()), html! {
                    "/ " (show::latency(traffic.read_p99.as_ref()))
                }))
                (layout::tile("Wide partitions found", "wide", &show::count(traffic.wide_partitions), overview::splits(traffic)))
            }
            p.more {
                "Rates over " (show::duration(overview.window.as_ref())) "; lines over ten minutes, each to its own highest; "
                "on this server. "
                a href=(heat.href()) { "Where ids are busy: heat map" } "."
            }
        }
    }
}

/// The way to a series, which can't be listed: there may be millions.
fn find(name: &str) -> Markup {
    html! {
        section aria-labelledby="find" {
            h2 #find { "Look at a series" }
            form.row method="get" action="/ui/series" {
                input type="hidden" name="namespace" value=(name);
                label for="series-id" { "Its id" }
                input #series-id name="id" required placeholder="profile:123" autocomplete="off" spellcheck="false";
                button type="submit" { "Show" }
            }
        }
    }
}

fn backfills(windows: &[Backfill], now: Timestamp) -> Markup {
    html! {
        @if !windows.is_empty() {
            section aria-labelledby="backfills" {
                h2 #backfills { "Backfill windows" }
                p { "Time in which old events are accepted. While one is open, nothing in it is split." }
                div.scroll tabindex="0" role="region" aria-label="Backfill windows" #backfill-table {
                    table.cards {
                        (layout::columns(&["Window", "State", "Events of", "Expires", "Why"]))
                        tbody { @for window in windows { (window_row(window, now)) } }
                    }
                }
            }
        }
    }
}

fn window_row(window: &Backfill, now: Timestamp) -> Markup {
    let interval = window.interval.unwrap_or_default();
    let kind = if window.state() == backfill::State::Closed { "off" } else { "warn" };
    html! {
        tr {
            th scope="row" { code { (show::one_line(&window.id)) } }
            td data-label="State" { (layout::badge(kind, window.state().as_str_name())) }
            td data-label="Events of" { (show::second(interval.start.as_ref())) " – " (show::second(interval.end.as_ref())) }
            td data-label="Expires" { (show::ago(window.expire_time.as_ref(), now)) }
            td.prose data-label="Why" { (show::one_line(&window.reason)) }
        }
    }
}

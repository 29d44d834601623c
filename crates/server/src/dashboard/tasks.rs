//! Background tasks: when each last ran, what it did, what it waits for, what failed.

use std::time::Duration;

use anabranch_api::v1::TaskStatus;
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{Page, layout, show};
use crate::operations::Operations;

const REFRESH: Duration = Duration::from_secs(2);

/// What each task is for.
const ABOUT: [(&str, &str); 10] = [
    ("bus", "Takes suspicions of wide partitions from the bus and opens records for them"),
    ("comparisons", "Reads both sides of splits beside requests and compares them"),
    ("heartbeat", "Compares this server's clock with those of the others"),
    ("lifecycle", "Makes slices ahead of time, closes and drops old ones"),
    ("measure", "Measures by sampling how big the partitions of slices are"),
    ("orphans", "Drops tables that no slice claims"),
    ("refresh", "Reads what other servers changed"),
    ("splits", "Brings splits forward: plans, copies, verifies"),
    ("sweep", "Looks at all split records: what was left over, has grown, is to be checked again"),
    ("tuner", "Compares slices with the density target and proposes other settings"),
];

pub(super) fn draw(operations: &Operations) -> Page {
    let tasks = operations.list_tasks().tasks;
    let now = operations.engine.now();
    let body = html! {
        h1 { "Tasks" }
        p { "What this server does in the background. Every task can be run again at any time. One that failed is run again by itself." }
        section aria-label="All tasks" { div.scroll tabindex="0" role="region" aria-label="Background tasks" #task-table {
            table.cards {
                (layout::columns(&["Task", "State", "Last ran", "What it did", "Waits for", "Runs#", "Failures#"]))
                tbody { @for task in &tasks { (row(task, now)) } }
            }
        }
        @if tasks.is_empty() { p.empty { "None has run yet." } } }
    };
    Page { title: "Tasks".to_owned(), body, refresh: Some(REFRESH) }
}

/// Whether it failed when it last ran.
fn is_failing(task: &TaskStatus) -> bool {
    let nanos = |time: Option<&anabranch_api::wkt::Timestamp>| time.and_then(|time| time.to_nanos().ok());
    nanos(task.last_failure_time.as_ref()) > nanos(task.last_run_time.as_ref())
}

fn state(task: &TaskStatus) -> Markup {
    match (is_failing(task), task.waits_for.is_empty(), task.runs) {
        (true, ..) => layout::badge("bad", "failing"),
        (_, true, _) => layout::badge("plain", "at work"),
        (_, _, 0) => layout::badge("off", "not yet run"),
        _ => layout::badge("good", "fine"),
    }
}

fn next_run(next: &anabranch_api::wkt::Timestamp, now: Timestamp) -> Markup {
    let is_due = next.to_nanos().is_ok_and(|nanos| nanos < now.nanos().saturating_add(1_000_000_000));
    if is_due {
        html! { "now" }
    } else {
        show::ago(Some(next), now)
    }
}

fn row(task: &TaskStatus, now: Timestamp) -> Markup {
    let about = ABOUT.iter().find(|(name, _)| *name == task.name).map_or("", |(_, about)| about);
    html! {
        tr data-task=(task.name) {
            th scope="row" { (task.name) @if !about.is_empty() { span.more.under { (about) } } }
            td data-label="State" { (state(task)) }
            td.when data-label="Last ran" { (show::ago(task.last_run_time.as_ref(), now)) }
            td data-label="What it did" { @if task.did.is_empty() { "–" } @else { (show::one_line(&task.did)) } }
            td data-label="Waits for" { span {
                span data-field="waits_for" data-value=(task.waits_for) {
                    @if task.waits_for.is_empty() { "nothing" } @else { (show::one_line(&task.waits_for)) }
                }
                @if let Some(next) = &task.next_run_time { span.more.under { "next run " (next_run(next, now)) } }
            } }
            td.number data-label="Runs" { (show::count(task.runs)) }
            td.number data-label="Failures" {
                span data-field="failures" data-value=(task.failures) { (show::count(task.failures)) }
                @if task.failures > 0 {
                    span.more.under { (show::ago(task.last_failure_time.as_ref(), now)) ": " (show::one_line(&task.error)) }
                }
            }
        }
    }
}

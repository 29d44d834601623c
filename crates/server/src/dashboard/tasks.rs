//! Background tasks: when each last ran, what it did, what it waits for, what failed.

use std::time::Duration;

use anabranch_api::v1::TaskStatus;
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{Page, layout, show};
use crate::operations::Operations;

const REFRESH: Duration = Duration::from_secs(2);

/// What each task is for, and what it waits for between two runs.
const ABOUT: [(&str, &str, &str); 7] = [
    ("bus", "Takes suspicions of wide partitions from the bus and opens records for them", "the next suspicion"),
    ("comparisons", "Reads both sides of splits beside requests and compares them", "the next read of a split"),
    ("heartbeat", "Compares this server's clock with those of the others", "the refresh interval"),
    (
        "lifecycle",
        "Makes slices ahead of time, closes and drops old ones",
        "the lifecycle interval, or a change of settings",
    ),
    ("refresh", "Reads what other servers changed", "the refresh interval"),
    ("splits", "Brings splits forward: plans, copies, verifies", "a partition that is due"),
    (
        "sweep",
        "Looks at all split records: what was left over, has grown, is to be checked again",
        "the sweep interval, or an operator",
    ),
];

pub(super) fn draw(operations: &Operations) -> Page {
    let tasks = operations.list_tasks().tasks;
    let now = operations.engine.now();
    let body = html! {
        h1 { "Tasks" }
        p { "What this server does in the background. Every task can be run again at any time; one that failed is." }
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

fn row(task: &TaskStatus, now: Timestamp) -> Markup {
    let (_, about, waits) = ABOUT.iter().find(|(name, ..)| *name == task.name).unwrap_or(&("", "", "–"));
    html! {
        tr data-task=(task.name) {
            th scope="row" { (task.name) @if !about.is_empty() { span.more.under { (about) } } }
            td data-label="State" { @if is_failing(task) { (layout::badge("bad", "failing")) } @else { (layout::badge("good", "fine")) } }
            td.when data-label="Last ran" { (show::ago(task.last_run_time.as_ref(), now)) }
            td data-label="What it did" { (show::one_line(&task.did)) }
            td data-label="Waits for" { (waits) }
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

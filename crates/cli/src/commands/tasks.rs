//! `anabranch tasks`: what the background tasks of a server do.

use anabranch_api::v1::{ListTasksRequest, TaskStatus};

use crate::{
    failure::Outcome,
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_count, show_time},
};

pub(crate) async fn run(session: &Session) -> Outcome {
    let client = session.connect().await?;
    let answer = client.list_tasks(ListTasksRequest {}).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&answer)?,
        Format::Jsonl => answer.tasks.iter().try_for_each(|task| out.json_line(task))?,
        Format::Table => out.text(&table(&answer.tasks).take_text(session.colors.stdout))?,
    }
    Ok(out.flush()?)
}

fn table(tasks: &[TaskStatus]) -> Table {
    let headers =
        ["task", "runs", "failures", "last run", "what it did", "waits for", "next run", "last failure", "why"];
    let mut table = Table::new(&headers).align_right(&[1, 2]);
    for task in tasks {
        table.row(vec![
            escaped(&task.name),
            show_count(task.runs),
            show_count(task.failures),
            show_time(task.last_run_time.as_ref()),
            escaped(&task.did),
            waits_for(task),
            show_time(task.next_run_time.as_ref()),
            show_time(task.last_failure_time.as_ref()),
            escaped(&task.error),
        ]);
    }
    table
}

fn waits_for(task: &TaskStatus) -> String {
    if task.waits_for.is_empty() { "nothing: it is at work".to_owned() } else { escaped(&task.waits_for) }
}

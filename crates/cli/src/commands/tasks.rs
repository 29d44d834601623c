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
    let headers = ["task", "runs", "failures", "last run", "what it did", "last failure", "why"];
    let mut table = Table::new(&headers).align_right(&[1, 2]);
    for task in tasks {
        table.row(vec![
            escaped(&task.name),
            show_count(task.runs),
            show_count(task.failures),
            show_time(task.last_run_time.as_ref()),
            escaped(&task.did),
            show_time(task.last_failure_time.as_ref()),
            escaped(&task.error),
        ]);
    }
    table
}

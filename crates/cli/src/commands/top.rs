//! `anabranch top`: rates, latencies, splits and tasks of a server, drawn again and again.

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use anabranch_api::{
    v1::{GetOverviewRequest, ListSplitsRequest, ListTasksRequest, Overview, Split, TaskStatus, split::State},
    wkt,
};
use anabranch_client::Client;

use super::overview;
use crate::{
    args::TopArgs,
    failure::{Failure, Outcome},
    interrupt::Signals,
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_count, show_elapsed, show_time},
};

const RUNNING: [State; 4] = [State::Planning, State::Planned, State::Splitting, State::Verifying];
/// Of splits and of tasks, as many as a screen has room for.
const MOST_LINES: usize = 10;
/// Namespaces that are asked for their splits.
const MOST_NAMESPACES: usize = 50;
/// To the upper left corner, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[J";

pub(crate) async fn run(session: &Session, args: &TopArgs) -> Outcome {
    if session.format != Format::Table {
        return Err(Failure::usage("`anabranch top` is for people")
            .hint("`anabranch overview` and `anabranch tasks` print JSON"));
    }
    let window = wkt::Duration::try_from(args.window).map_err(|_| Failure::usage("`--window` is too long"))?;
    let client = session.connect().await?;
    if args.once {
        return draw(session, &Frame::fetch(&client, window).await?, "");
    }
    let mut signals = Signals::listen()?;
    let clear = if stdout().is_terminal() { CLEAR } else { "" };
    loop {
        let frame = tokio::select! {
            frame = Frame::fetch(&client, window) => frame?,
            _ = signals.next() => return Ok(()),
        };
        draw(session, &frame, clear)?;
        tokio::select! {
            () = session.env.sleep(args.interval.max(Duration::from_millis(50))) => {}
            _ = signals.next() => return Ok(()),
        }
    }
}

/// What one picture shows.
struct Frame {
    overview: Overview,
    running: Vec<Split>,
    tasks: Vec<TaskStatus>,
}

impl Frame {
    async fn fetch(client: &Client, window: wkt::Duration) -> Outcome<Frame> {
        let request = GetOverviewRequest { window: Some(window), namespace: String::new() };
        let mut overview = client.get_overview(request).await?;
        overview.namespaces.sort_by(|one, other| load(other).total_cmp(&load(one)));
        let mut tasks = client.list_tasks(ListTasksRequest {}).await?.tasks;
        tasks.sort_by_key(|task| std::cmp::Reverse(task.last_run_time.and_then(|time| time.to_nanos().ok())));
        let mut running = Vec::new();
        if overview.splits_waiting + overview.splits_running > 0 {
            for namespace in
                overview.namespaces.iter().filter(|namespace| !namespace.splits.is_empty()).take(MOST_NAMESPACES)
            {
                let states = RUNNING.iter().map(|state| (*state).into()).collect();
                let page_size = MOST_LINES as u32;
                let request = ListSplitsRequest {
                    namespace: namespace.name.clone(),
                    states,
                    page_size,
                    ..ListSplitsRequest::default()
                };
                running.extend(client.list_splits(request).await?.splits);
            }
        }
        Ok(Frame { overview, running, tasks })
    }
}

/// What a namespace keeps a server busy with.
fn load(namespace: &anabranch_api::v1::NamespaceOverview) -> f64 {
    namespace.written_bytes_per_second + namespace.read_bytes_per_second
}

fn draw(session: &Session, frame: &Frame, before: &str) -> Outcome {
    let (overview, colors) = (&frame.overview, session.colors.stdout);
    let mut out = Out::new();
    out.text(before)?;
    out.line(format!(
        "Anabranch {}  {}  {} events queued  splits: {} running, {} waiting",
        escaped(&overview.version),
        show_time(overview.time.as_ref()),
        show_count(overview.queued_events),
        show_count(overview.splits_running),
        show_count(overview.splits_waiting)
    ))?;
    overview::warnings(&mut out, overview)?;
    out.line("")?;
    let shown = &overview.namespaces[..overview.namespaces.len().min(MOST_LINES)];
    match shown.is_empty() {
        true => out.line("no namespaces")?,
        false => out.text(&overview::table(shown).take_text(colors))?,
    }
    out.line("")?;
    match frame.running.is_empty() {
        true => out.line("no split is on its way")?,
        false => out.text(&splits(&frame.running).take_text(colors))?,
    }
    out.line("")?;
    out.text(&tasks(frame).take_text(colors))?;
    Ok(out.flush()?)
}

fn splits(running: &[Split]) -> Table {
    let mut table = Table::new(&["namespace", "slice", "series", "state", "done", "of"]).align_right(&[4, 5]);
    for split in running.iter().take(MOST_LINES) {
        let progress = split.progress.unwrap_or_default();
        table.row(vec![
            escaped(&split.namespace),
            escaped(&split.time_slice),
            escaped(&split.time_series_id),
            split.state().as_str_name().to_owned(),
            show_bytes(progress.bytes_done),
            progress.bytes_total.map_or_else(|| "?".to_owned(), show_bytes),
        ]);
    }
    table
}

fn tasks(frame: &Frame) -> Table {
    let now = frame.overview.time.and_then(|time| time.to_nanos().ok());
    let ago = |time: Option<wkt::Timestamp>| match (now, time.and_then(|time| time.to_nanos().ok())) {
        (Some(now), Some(then)) => {
            let nanos = u64::try_from(now.saturating_sub(then)).unwrap_or_default();
            format!("{} ago", show_elapsed(Duration::from_nanos(nanos)))
        }
        _ => "-".to_owned(),
    };
    let mut table = Table::new(&["task", "runs", "failures", "last run", "what it did"]).align_right(&[1, 2]);
    for task in frame.tasks.iter().take(MOST_LINES) {
        table.row(vec![
            escaped(&task.name),
            show_count(task.runs),
            show_count(task.failures),
            ago(task.last_run_time),
            escaped(&task.did),
        ]);
    }
    table
}

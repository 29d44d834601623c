//! `anabranch top`: rates, latencies, splits and tasks of a server, drawn again and again, until `q` or Ctrl-C.

use std::{fmt::Write as _, time::Duration};

use anabranch_api::{
    v1::{GetOverviewRequest, ListSplitsRequest, ListTasksRequest, Overview, Split, TaskStatus, split::State},
    wkt,
};
use anabranch_client::Client;

use super::overview;
use crate::{
    args::TopArgs,
    failure::{Failure, Outcome},
    output::{
        Format, Out,
        screen::{Screen, Wish},
        table::Table,
        text::escaped,
    },
    session::Session,
    times::{show_bytes, show_count, show_elapsed, show_time},
};

const RUNNING: [State; 4] = [State::Planning, State::Planned, State::Splitting, State::Verifying];
/// Of splits and of tasks, as many as a screen has room for.
const MOST_LINES: usize = 10;
/// Namespaces that are asked for their splits.
const MOST_NAMESPACES: usize = 50;
/// A server is asked no more often than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) async fn run(session: &Session, args: &TopArgs) -> Outcome {
    if session.format != Format::Table {
        return Err(Failure::usage("`anabranch top` is for people")
            .hint("`anabranch overview` and `anabranch tasks` print JSON"));
    }
    let window = wkt::Duration::try_from(args.window).map_err(|_| Failure::usage("`--window` is too long"))?;
    let client = session.connect().await?;
    // The terminal is left alone until there is something to show.
    let frame = Frame::fetch(&client, window).await?;
    if args.once {
        let mut out = Out::new();
        out.text(&picture(session, &frame, None))?;
        return Ok(out.flush()?);
    }
    let mut top = Top { session, client, window, frame, trouble: None, screen: Screen::open()? };
    top.watch(args.interval.max(LEAST_INTERVAL)).await
}

/// A terminal that shows how a server fares.
struct Top<'a> {
    session: &'a Session,
    client: Client,
    window: wkt::Duration,
    /// What was told last.
    frame: Frame,
    /// Why nothing was told since.
    trouble: Option<String>,
    screen: Screen,
}

impl Top<'_> {
    /// Until somebody has seen enough.
    async fn watch(&mut self, interval: Duration) -> Outcome {
        loop {
            self.draw()?;
            let env = self.session.env.clone();
            let Some(()) = self.unless_ended(env.sleep(interval)).await? else { return Ok(()) };
            let (client, window) = (self.client.clone(), self.window);
            let Some(fetched) = self.unless_ended(Frame::fetch(&client, window)).await? else { return Ok(()) };
            match fetched {
                Ok(frame) => (self.frame, self.trouble) = (frame, None),
                // It may come back, and what was seen last tells more than nothing.
                Err(failure) if self.screen.is_terminal() => self.trouble = Some(failure.message),
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Waits for something, and draws anew when the terminal's size changes meanwhile. `None` when somebody ends it.
    async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Outcome<Option<T>> {
        let mut work = std::pin::pin!(work);
        loop {
            let wish = tokio::select! {
                done = &mut work => return Ok(Some(done)),
                wish = self.screen.wish(&self.session.env) => wish,
            };
            match wish {
                Wish::Quit => return Ok(None),
                Wish::Redraw => self.draw()?,
            }
        }
    }

    fn draw(&self) -> Outcome {
        self.screen.draw(&picture(self.session, &self.frame, self.trouble.as_deref()))
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

fn picture(session: &Session, frame: &Frame, trouble: Option<&str>) -> String {
    let (overview, colors) = (&frame.overview, session.colors.stdout);
    let mut text = format!(
        "Anabranch {}  {}  {} events queued  splits: {} running, {} waiting\n",
        escaped(&overview.version),
        to_the_second(overview.time.as_ref()),
        show_count(overview.queued_events),
        show_count(overview.splits_running),
        show_count(overview.splits_waiting)
    );
    if let Some(trouble) = trouble {
        let _ = writeln!(text, "the server doesn't answer, this is what it told last: {}", escaped(trouble));
    }
    text.push_str(&overview::warnings(overview));
    let shown = &overview.namespaces[..overview.namespaces.len().min(MOST_LINES)];
    let namespaces = match shown.is_empty() {
        true => "no namespaces\n".to_owned(),
        false => overview::table(shown).take_text(colors),
    };
    let running = match frame.running.is_empty() {
        true => "no split is on its way\n".to_owned(),
        false => splits(&frame.running).take_text(colors),
    };
    let _ = write!(text, "\n{namespaces}\n{running}\n{}", tasks(frame).take_text(colors));
    text
}

/// A window has no room for nanoseconds.
fn to_the_second(time: Option<&wkt::Timestamp>) -> String {
    show_time(time.map(|time| wkt::Timestamp { nanos: 0, ..*time }).as_ref())
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
    let headers = ["task", "runs", "failures", "last run", "what it did", "waits for"];
    let mut table = Table::new(&headers).align_right(&[1, 2]);
    for task in frame.tasks.iter().take(MOST_LINES) {
        table.row(vec![
            escaped(&task.name),
            show_count(task.runs),
            show_count(task.failures),
            ago(task.last_run_time),
            escaped(&task.did),
            escaped(&task.waits_for),
        ]);
    }
    table
}

//! Writes many events: a thread reads and parses, batches are sent a few at a time, and what is acknowledged in order
//! is the point from which a later run can go on.

mod feed;
mod progress;
mod resume;
mod send;
pub(crate) mod source;

use std::time::Duration;

use anabranch_client::Client;
use futures_util::{StreamExt, stream::FuturesOrdered};
use serde_json::json;
use tokio::sync::mpsc;

pub(crate) use feed::BatchLimits;
pub(crate) use progress::Progress;
pub(crate) use resume::ResumePoint;

use self::{
    feed::Feed,
    send::{Sent, send},
    source::{BadLine, EventSource},
};
use crate::{
    failure::{Exit, Failure, Outcome},
    interrupt::Signals,
    output::{Format, Out, note},
    session::Session,
    times::{show_count, show_elapsed},
};

/// Requests under way at once: enough to keep the server's disk busy.
const IN_FLIGHT: usize = 4;
/// Batches that are parsed ahead.
const READ_AHEAD: usize = 2;
/// Bad lines that are kept to be shown; the rest is counted.
const KEPT_BAD_LINES: usize = 20;

/// What to write, where, and how.
pub(crate) struct Job {
    pub(crate) namespace: String,
    pub(crate) source: Box<dyn EventSource>,
    pub(crate) limits: BatchLimits,
    pub(crate) skip_bad: bool,
    pub(crate) queued: bool,
    pub(crate) resume: ResumePoint,
    /// What is said beside the progress bar.
    pub(crate) doing: &'static str,
    /// The size of the file, where it is known.
    pub(crate) file_bytes: Option<u64>,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    events: u64,
    bad_lines: u64,
    shown_bad_lines: Vec<BadLine>,
    elapsed: Duration,
    queued: bool,
}

impl Summary {
    fn skip(&mut self, bad: Vec<BadLine>) {
        self.bad_lines += bad.len() as u64;
        let room = KEPT_BAD_LINES.saturating_sub(self.shown_bad_lines.len());
        self.shown_bad_lines.extend(bad.into_iter().take(room));
    }

    /// Prints what was done, and to stderr which lines were left out.
    pub(crate) fn print(&self, session: &Session) -> Outcome {
        let verb = if self.queued { "queued" } else { "stored" };
        let mut out = Out::new();
        match session.format {
            Format::Table => {
                let rate = (self.events as f64 / self.elapsed.as_secs_f64().max(0.001)) as u64;
                let (events, elapsed) = (show_count(self.events), show_elapsed(self.elapsed));
                let plural = if self.events == 1 { "" } else { "s" };
                out.line(format!("{verb} {events} event{plural} in {elapsed} ({}/s)", show_count(rate)))?;
            }
            Format::Json | Format::Jsonl => {
                let key = if self.queued { "eventsQueued" } else { "eventsStored" };
                let skipped: Vec<_> =
                    self.shown_bad_lines.iter().map(|bad| json!({"line": bad.line, "reason": bad.reason})).collect();
                out.json_line(&json!({key: self.events, "linesSkipped": self.bad_lines, "skipped": skipped}))?;
            }
        }
        out.flush()?;
        if self.bad_lines > 0 {
            note(session.colors, &format!("{} lines were wrong and left out:", show_count(self.bad_lines)));
            self.shown_bad_lines
                .iter()
                .for_each(|bad| eprintln!("  - {}", crate::output::text::escaped(&bad.to_string())));
            let more = self.bad_lines - self.shown_bad_lines.len() as u64;
            if more > 0 {
                eprintln!("  - and {} more", show_count(more));
            }
        }
        Ok(())
    }
}

/// Writes everything, or says why not and from where to go on. `signals` are those that whoever began has listened for since: one that
/// came before this counts, too.
pub(crate) async fn run(session: &Session, client: &Client, mut job: Job, signals: &mut Signals) -> Outcome<Summary> {
    let begun = session.env.monotonic();
    let progress = Progress::new(job.doing, job.file_bytes);
    let mut summary = Summary { queued: job.queued, ..Summary::default() };
    let (feeder, mut feed) = mpsc::channel(READ_AHEAD);
    let (limits, skip_bad) = (job.limits, job.skip_bad);
    let source = job.source;
    let reader = session.env.thread("reader", move || feed::feed(source, limits, skip_bad, &feeder));
    reader.map_err(|error| Failure::other(format!("can't start a thread: {error}")))?;

    let mut in_flight = FuturesOrdered::new();
    let mut reading = true;
    let mut bad_line = None;
    let stopped = loop {
        if !reading && in_flight.is_empty() {
            break bad_line.map(|bad: BadLine| Failure::new(Exit::Refused, bad.to_string()));
        }
        tokio::select! {
            biased;
            _ = signals.next() => break Some(Failure::other("interrupted")),
            Some(sent) = in_flight.next() => match take_in(sent, &mut summary, &mut job.resume, &progress) {
                Ok(()) => {}
                Err(failure) => break Some(failure),
            },
            next = feed.recv(), if reading && in_flight.len() < IN_FLIGHT => match next {
                Some(Feed::Batch(batch)) => {
                    let client = client.clone();
                    in_flight.push_back(send(client, job.namespace.clone(), batch, job.queued, skip_bad));
                }
                // What stands before it is still written.
                Some(Feed::Bad(bad)) => (reading, bad_line) = (false, Some(bad)),
                None => reading = false,
            },
        }
    };
    progress.finish();
    summary.elapsed = session.env.monotonic().saturating_sub(begun);
    match stopped {
        None => job.resume.complete().map(|()| summary),
        Some(failure) => Err(job.resume.explain(failure)),
    }
}

/// Counts a batch, and moves the point from which a later run goes on.
fn take_in(sent: Outcome<Sent>, summary: &mut Summary, resume: &mut ResumePoint, progress: &Progress) -> Outcome {
    let sent = sent?;
    summary.events += sent.events;
    summary.skip(sent.bad);
    progress.set(summary.events, sent.bytes_read);
    resume.acknowledge(sent.last_line)
}

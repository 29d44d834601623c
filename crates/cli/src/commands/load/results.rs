//! What requests took: shown while they are sent, and in a table at the end.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, stderr},
    time::Duration,
};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::Ended;
use crate::{
    args::LoadArgs,
    failure::{Exit, Failure, Outcome},
    output::{Format, Out, table::Table},
    session::Session,
    times::show_count,
};

/// Kinds of failures that are told apart; the rest is counted together.
const MOST_REASONS: usize = 20;
const HIGHEST_MICROS: u64 = 3_600_000_000;

pub(super) struct Results {
    writes: Kind,
    reads: Kind,
    reasons: BTreeMap<String, u64>,
}

struct Kind {
    micros: Histogram<u64>,
    failed: u64,
    /// Events or records.
    size: u64,
}

impl Kind {
    fn new() -> Outcome<Self> {
        let micros = Histogram::new_with_bounds(1, HIGHEST_MICROS, 3);
        let micros = micros.map_err(|error| Failure::other(format!("can't make a histogram: {error}")))?;
        Ok(Kind { micros, failed: 0, size: 0 })
    }

    fn at(&self, percentile: f64) -> f64 {
        self.micros.value_at_percentile(percentile) as f64 / 1000.0
    }

    fn summary(&self, elapsed: Duration) -> Summary {
        Summary {
            requests: self.micros.len(),
            failed: self.failed,
            size: self.size,
            per_second: self.size as f64 / elapsed.as_secs_f64().max(0.001),
            p50_ms: self.at(50.0),
            p90_ms: self.at(90.0),
            p99_ms: self.at(99.0),
            p999_ms: self.at(99.9),
            max_ms: self.micros.max() as f64 / 1000.0,
        }
    }
}

/// One kind of request, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    requests: u64,
    failed: u64,
    /// Events stored, or records answered.
    size: u64,
    per_second: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    seconds: f64,
    seed: u64,
    writes: Summary,
    reads: Summary,
    failures: &'a BTreeMap<String, u64>,
}

impl Results {
    pub(super) fn new() -> Outcome<Self> {
        Ok(Results { writes: Kind::new()?, reads: Kind::new()?, reasons: BTreeMap::new() })
    }

    pub(super) fn take(&mut self, ended: &Ended) {
        let kind = if ended.is_write { &mut self.writes } else { &mut self.reads };
        kind.micros.saturating_record(u64::try_from(ended.took.as_micros()).unwrap_or(u64::MAX).max(1));
        kind.size += ended.size;
        if let Some(failure) = &ended.failure {
            kind.failed += 1;
            let reason = failure.message().to_owned();
            let known = self.reasons.contains_key(&reason) || self.reasons.len() < MOST_REASONS;
            *self.reasons.entry(if known { reason } else { "other".to_owned() }).or_default() += 1;
        }
    }

    pub(super) fn print(&self, session: &Session, args: &LoadArgs, elapsed: Duration) -> Outcome {
        let report = Report {
            seconds: elapsed.as_secs_f64(),
            seed: args.seed,
            writes: self.writes.summary(elapsed),
            reads: self.reads.summary(elapsed),
            failures: &self.reasons,
        };
        let mut out = Out::new();
        match session.format {
            Format::Json => out.json(&report)?,
            Format::Jsonl => out.json_line(&report)?,
            Format::Table => out.text(&table(&report).take_text(session.colors.stdout))?,
        }
        Ok(out.flush()?)
    }

    /// A run with failures is no success.
    pub(super) fn verdict(&self) -> Outcome {
        let failed = self.writes.failed + self.reads.failed;
        if failed == 0 {
            return Ok(());
        }
        let mut failure = Failure::new(Exit::Failure, format!("{} requests failed", show_count(failed)));
        for (reason, count) in &self.reasons {
            failure = failure.detail(format!("{} times: {reason}", show_count(*count)));
        }
        Err(failure)
    }
}

fn table(report: &Report<'_>) -> Table {
    let headers = ["", "requests", "failed", "size", "per second", "p50", "p90", "p99", "p99.9", "max"];
    let mut table = Table::new(&headers).align_right(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (name, unit, kind) in [("writes", "events", &report.writes), ("reads", "records", &report.reads)] {
        let time = |milliseconds: f64| format!("{milliseconds:.2} ms");
        table.row(vec![
            name.to_owned(),
            show_count(kind.requests),
            show_count(kind.failed),
            format!("{} {unit}", show_count(kind.size)),
            format!("{:.1}", kind.per_second),
            time(kind.p50_ms),
            time(kind.p90_ms),
            time(kind.p99_ms),
            time(kind.p999_ms),
            time(kind.max_ms),
        ]);
    }
    table
}

/// What is shown while it runs, on a terminal only.
pub(super) struct Live {
    bar: ProgressBar,
}

impl Live {
    pub(super) fn new(session: &Session, duration: Duration) -> Self {
        let shown = session.format == Format::Table && stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let length = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let bar = ProgressBar::with_draw_target(Some(length), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {elapsed}  {msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Live { bar }
    }

    pub(super) fn show(&self, results: &Results, elapsed: Duration) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        let told = |name: &str, kind: &Kind| {
            format!("{name} {}: p50 {:.1}, p99 {:.1} ms", show_count(kind.micros.len()), kind.at(50.0), kind.at(99.0))
        };
        let failed = results.writes.failed + results.reads.failed;
        let (writes, reads) = (told("writes", &results.writes), told("reads", &results.reads));
        self.bar.set_message(format!("{writes}   {reads}   failed {}", show_count(failed)));
    }

    /// Leaves no trace on the terminal.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

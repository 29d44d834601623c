//! The first pass over a file: is every line an event, and which span of time do they cover?

use anabranch_model::Timestamp;

use crate::{
    failure::{Exit, Outcome},
    ingest::{
        Progress,
        source::{BadLine, EventSource},
    },
    session::{MOST_DETAILS, refusal},
};

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    events: u64,
    /// Of the earliest and the latest event.
    span: Option<(Timestamp, Timestamp)>,
    /// The first of them.
    bad: Vec<BadLine>,
    bad_lines: u64,
}

impl Scan {
    /// Reads everything, and keeps what is wrong.
    pub(crate) fn of(mut source: Box<dyn EventSource>, progress: &Progress) -> Self {
        let mut scan = Scan::default();
        while let Some(next) = source.next_event() {
            match next {
                Ok(line) => {
                    scan.events += 1;
                    let nanos = line.event.event_time.and_then(|time| time.to_nanos().ok());
                    match nanos.map(Timestamp::checked) {
                        Some(Ok(time)) => scan.cover(time),
                        _ => scan.refuse(BadLine::new(line.line, "the time is outside of what events may have")),
                    }
                }
                Err(bad) => scan.refuse(bad),
            }
            if scan.events.is_multiple_of(1024) {
                progress.set(scan.events, source.bytes_read());
            }
        }
        progress.finish();
        scan
    }

    fn refuse(&mut self, bad: BadLine) {
        self.bad_lines += 1;
        if self.bad.len() < MOST_DETAILS {
            self.bad.push(bad);
        }
    }

    fn cover(&mut self, time: Timestamp) {
        let (earliest, latest) = self.span.unwrap_or((time, time));
        self.span = Some((earliest.min(time), latest.max(time)));
    }

    /// The times of the earliest and the latest event; `None` where there is none.
    pub(crate) fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.span
    }

    /// Refuses a file with lines that aren't events, naming them.
    pub(crate) fn check(&self) -> Outcome {
        if self.bad.is_empty() {
            return Ok(());
        }
        let failure = refusal(Exit::Refused, self.bad.iter().map(ToString::to_string).collect(), self.bad_lines);
        Err(failure.hint("nothing was written; correct these lines, or leave them out with --skip-bad"))
    }
}

//! The reading side: parses on a thread of its own and makes batches that a request can hold.

use anabranch_api::v1::Event;
use tokio::sync::mpsc::Sender;

use super::source::{BadLine, EventSource, Line, size};
use crate::times::show_count;

/// Most bytes of a batch, where the namespace allows more: small enough to be under way quickly.
const BATCH_BYTES: u64 = 1 << 20;

/// How big batches may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    events: usize,
    bytes: usize,
    /// What the namespace allows in a request, and so in an event.
    most_bytes: u64,
}

impl BatchLimits {
    /// What was asked for, as far as the namespace allows it.
    pub(crate) fn new(wanted_events: u32, namespace: &anabranch_api::v1::Namespace) -> Self {
        let limits = namespace.config.as_ref().and_then(|config| config.write_limits).unwrap_or_default();
        let events = wanted_events.min(limits.max_events_per_request.unwrap_or(u32::MAX));
        let most_bytes = limits.max_request_bytes.unwrap_or(u64::MAX);
        let bytes = usize::try_from(BATCH_BYTES.min(most_bytes)).unwrap_or(usize::MAX);
        BatchLimits { events: events as usize, bytes, most_bytes }
    }

    /// Refuses an event that no request can hold: a server that can't take in the request can't say which line it is.
    fn check(self, line: Line) -> Result<Line, BadLine> {
        let (bytes, most) = (size(&line.event) as u64, self.most_bytes);
        if bytes <= most {
            return Ok(line);
        }
        let (bytes, most) = (show_count(bytes), show_count(most));
        Err(BadLine::new(
            line.line,
            format!("{bytes} bytes; at most {most} are allowed in a request (max_request_bytes)"),
        ))
    }
}

/// Events of consecutive lines.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Event>,
    /// The line of each.
    pub(crate) lines: Vec<u64>,
    /// Lines among them that were left out.
    pub(crate) bad: Vec<BadLine>,
    pub(crate) last_line: u64,
    /// Bytes of the file up to its end.
    pub(crate) bytes_read: u64,
    bytes: usize,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.bad.is_empty()
    }

    fn has_room(&self, limits: BatchLimits, bytes: usize) -> bool {
        self.events.is_empty() || (self.events.len() < limits.events && self.bytes + bytes <= limits.bytes)
    }
}

/// What the reader found.
pub(crate) enum Feed {
    Batch(Batch),
    /// A line that is wrong: the last thing that is sent.
    Bad(BadLine),
}

/// Reads to the end, to a bad line, or until nobody listens any more.
pub(crate) fn feed(mut source: Box<dyn EventSource>, limits: BatchLimits, skip_bad: bool, feeder: &Sender<Feed>) {
    let mut batch = Batch::default();
    while let Some(next) = source.next_event() {
        match next.and_then(|line| limits.check(line)) {
            Ok(line) => {
                let bytes = size(&line.event);
                if !batch.has_room(limits, bytes)
                    && feeder.blocking_send(Feed::Batch(std::mem::take(&mut batch))).is_err()
                {
                    return;
                }
                batch.last_line = line.line;
                batch.lines.push(line.line);
                batch.events.push(line.event);
                batch.bytes += bytes;
            }
            Err(bad) if skip_bad && !bad.is_end => {
                batch.last_line = bad.line;
                batch.bad.push(bad);
            }
            Err(bad) => {
                if !batch.is_empty() {
                    let _ = feeder.blocking_send(Feed::Batch(batch));
                }
                let _ = feeder.blocking_send(Feed::Bad(bad));
                return;
            }
        }
        batch.bytes_read = source.bytes_read();
        let full = batch.bad.len() >= limits.events;
        if (full || source.would_wait()) && feeder.blocking_send(Feed::Batch(std::mem::take(&mut batch))).is_err() {
            return;
        }
    }
    if !batch.is_empty() {
        let _ = feeder.blocking_send(Feed::Batch(batch));
    }
}

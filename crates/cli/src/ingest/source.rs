//! Where events come from: a file of some format, one event at a time, each with its line.

use std::fmt;

use anabranch_api::v1::{Event, EventItem};
use xxhash_rust::xxh3::Xxh3;

/// An event and the line it began on.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) line: u64,
    pub(crate) event: Event,
}

/// A line that is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    pub(crate) line: u64,
    pub(crate) reason: String,
    /// The file itself can't be read on: nothing after it can be either.
    pub(crate) is_end: bool,
}

impl BadLine {
    pub(crate) fn new(line: u64, reason: impl Into<String>) -> Self {
        BadLine { line, reason: reason.into(), is_end: false }
    }

    /// Reading failed here.
    pub(crate) fn unreadable(line: u64, error: &impl fmt::Display) -> Self {
        BadLine { line, reason: format!("can't be read: {error}"), is_end: true }
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// A file that is being read.
pub(crate) trait EventSource: Send {
    /// The next event, or what is wrong with its line; `None` at the end.
    fn next_event(&mut self) -> Option<Result<Line, BadLine>>;

    /// Bytes of the file that lie behind.
    fn bytes_read(&self) -> u64;

    /// Whether [`EventSource::next_event`] would have to wait for whoever writes into a pipe.
    fn would_wait(&self) -> bool;
}

/// Bytes of an event as the server counts them.
pub(crate) fn size(event: &Event) -> usize {
    let metadata = |item: &EventItem| item.value_metadata.as_ref().map_or(0, bytes::Bytes::len);
    let item = |item: &EventItem| item.event_item_key.len() + item.event_item_value.len() + metadata(item);
    event.time_series_id.len() + event.event_id.len() + event.event_items.iter().map(item).sum::<usize>()
}

/// An id made of an event's content, so that the same line always names the same event (W2).
pub(crate) fn content_id(event: &Event) -> String {
    let mut hash = Xxh3::new();
    let mut part = |bytes: Option<&[u8]>| {
        hash.update(&bytes.map_or(u64::MAX, |bytes| bytes.len() as u64).to_be_bytes());
        hash.update(bytes.unwrap_or_default());
    };
    part(Some(event.time_series_id.as_bytes()));
    let time = event.event_time.unwrap_or_default();
    part(Some(&time.seconds.to_be_bytes()));
    part(Some(&time.nanos.to_be_bytes()));
    let mut items: Vec<&EventItem> = event.event_items.iter().collect();
    items.sort_by(|left, right| left.event_item_key.cmp(&right.event_item_key));
    for item in items {
        part(Some(item.event_item_key.as_bytes()));
        part(Some(&item.event_item_value));
        part(item.value_metadata.as_deref());
    }
    format!("{:032x}", hash.digest128())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn event(items: &[(&str, &str)]) -> Event {
        let item = |(key, value): &(&str, &str)| EventItem {
            event_item_key: (*key).to_owned(),
            event_item_value: Bytes::copy_from_slice(value.as_bytes()),
            value_metadata: None,
        };
        Event { time_series_id: "s".to_owned(), event_items: items.iter().map(item).collect(), ..Event::default() }
    }

    #[test]
    fn the_same_content_has_the_same_id() {
        let id = content_id(&event(&[("a", "1"), ("b", "2")]));
        assert_eq!(id, content_id(&event(&[("b", "2"), ("a", "1")])));
        assert_ne!(id, content_id(&event(&[("a", "2"), ("b", "1")])));
        assert_ne!(content_id(&event(&[("a", "bc")])), content_id(&event(&[("ab", "c")])));
        // Imports of different versions must agree.
        assert_eq!(id, "f9269fdd40e658f2b2728e3db8d59f7f");
    }
}

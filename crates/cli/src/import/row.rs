//! One row of a foreign file as an event: the same rules for CSV and JSON.

use anabranch_api::v1::{Event, EventItem};
use bytes::Bytes;

use super::{mapping::Columns, time_format::TimeFormat};
use crate::{ingest::source::content_id, times::to_wire};

/// What holds for all rows.
#[derive(Clone, Debug)]
pub(crate) struct RowRules {
    pub(crate) time_format: TimeFormat,
    /// The series of every row, where no column says it.
    pub(crate) series: Option<String>,
    pub(crate) series_prefix: String,
    pub(crate) keep_empty: bool,
}

impl RowRules {
    /// Makes an event of fields that `field` finds by their index; the error names the column.
    pub(crate) fn event<'a>(
        &self,
        columns: &Columns,
        names: &[&str],
        field: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<Event, String> {
        let at = |index: usize, reason: &str| format!("column `{}`: {reason}", names.get(index).unwrap_or(&"?"));
        let text = |index: usize| -> Result<&str, String> {
            match field(index) {
                Some(bytes) => Ok(std::str::from_utf8(bytes).map_err(|_| at(index, "is not UTF-8"))?.trim()),
                None => Ok(""),
            }
        };
        let time_text = text(columns.time)?;
        let time = self.time_format.parse(time_text).map_err(|reason| at(columns.time, &reason))?;
        let series = match (columns.series, &self.series) {
            (Some(index), _) if text(index)?.is_empty() => {
                return Err(at(index, "is empty, and every row needs a series"));
            }
            (Some(index), _) => text(index)?,
            (None, given) => given.as_deref().unwrap_or_default(),
        };
        let mut event = Event {
            time_series_id: format!("{}{series}", self.series_prefix),
            event_time: Some(to_wire(time)),
            ..Event::default()
        };
        for (key, index) in &columns.items {
            if let Some(value) = field(*index).filter(|value| self.keep_empty || !value.is_empty()) {
                event.event_items.push(EventItem {
                    event_item_key: key.clone(),
                    event_item_value: Bytes::copy_from_slice(value),
                    value_metadata: None,
                });
            }
        }
        if event.event_items.is_empty() {
            return Err("holds no item: every event needs one that isn't empty (or say --keep-empty)".to_owned());
        }
        event.event_id = match columns.event_id.map(text).transpose()? {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => content_id(&event),
        };
        Ok(event)
    }
}

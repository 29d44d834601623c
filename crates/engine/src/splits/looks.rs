//! What the last sweep found in each slice, so that a slice in which nothing happened needn't be listed again: there may be very
//! many records, and nearly all of them rest for ever.

use std::{collections::BTreeMap, time::Duration};

use anabranch_model::TableName;
use anabranch_store::Version;

use crate::splits::summary::SplitSummary;

/// However little happens, every so many sweeps all is listed: what tells of changes may have been lost.
const LISTED_ANYWAY: u32 = 60;

/// What was found in a slice.
pub(crate) struct Look {
    /// What told of changes when it was listed.
    pub(crate) changes: Option<Version>,
    /// How often it had been opened again by then.
    pub(crate) reopened: u64,
    /// Whether anything may happen without anybody changing a record: work, a retry, more that is sealed.
    pub(crate) busy: bool,
    /// When, by the monotonic clock.
    pub(crate) at: Duration,
    pub(crate) summary: SplitSummary,
}

/// What was found in all slices.
#[derive(Default)]
pub(crate) struct Looks(BTreeMap<TableName, Look>);

impl Looks {
    /// What was found in a slice, if it must be the same still.
    pub(crate) fn still(
        &self,
        table: &TableName,
        changes: Option<Version>,
        reopened: u64,
        now: Duration,
        sweep_interval: Duration,
    ) -> Option<&SplitSummary> {
        let look = self.0.get(table)?;
        let old = now.saturating_sub(look.at) >= sweep_interval * LISTED_ANYWAY;
        let same = look.changes == changes && look.reopened == reopened && !look.busy && !old;
        same.then_some(&look.summary)
    }

    pub(crate) fn note(&mut self, table: TableName, look: Look) {
        self.0.insert(table, look);
    }

    pub(crate) fn retain(&mut self, is_there: impl Fn(&TableName) -> bool) {
        self.0.retain(|table, _| is_there(table));
    }
}

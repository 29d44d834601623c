//! Watches splits on their way and tells each state once, also those that were over between two looks.

use std::{collections::BTreeMap, time::Duration};

use anabranch_api::v1::{
    ListSplitsRequest, Split, post_split_data::PartitionStrategy, split::State, split_settings::Packing,
};
use anabranch_client::Client;

use super::narrator::Narrator;
use crate::{
    failure::{Failure, Outcome},
    times::{show_bytes, show_count, show_elapsed},
};

const ORDER: [State; 6] =
    [State::Detected, State::Planning, State::Planned, State::Splitting, State::Verifying, State::Completed];

/// What was told of each slice's split: the next state in [`ORDER`].
#[derive(Default)]
pub(super) struct Pipeline {
    told: BTreeMap<String, usize>,
}

impl Pipeline {
    /// Looks once. Answers whether everything is served.
    pub(super) async fn look(&mut self, client: &Client, namespace: &str, narrator: &Narrator) -> Outcome<bool> {
        let request = ListSplitsRequest { namespace: namespace.to_owned(), ..ListSplitsRequest::default() };
        let splits = client.list_splits(request).await?.splits;
        for split in &splits {
            self.tell(split, narrator)?;
        }
        Ok(!splits.is_empty() && splits.iter().all(|split| split.state() == State::Completed))
    }

    fn tell(&mut self, split: &Split, narrator: &Narrator) -> Outcome {
        let reached = match ORDER.iter().position(|state| *state == split.state()) {
            Some(reached) => reached,
            None if split.state() == State::NotWide => return Ok(()),
            None => return Err(Failure::other(format!("the split failed: {}", split.reason))),
        };
        let next = self.told.entry(split.time_slice.clone()).or_default();
        for state in ORDER.iter().skip(*next).take((reached + 1).saturating_sub(*next)) {
            if let Some((step, text)) = line(*state, split) {
                narrator.step(step, &format!("{}: {text}", split.time_slice))?;
            }
        }
        *next = (*next).max(reached + 1);
        Ok(())
    }

    /// How many splits there are.
    pub(super) fn count(&self) -> usize {
        self.told.len()
    }
}

/// What there is to say of a state. The pieces are known from PLANNED on, their bytes when it is COMPLETED.
fn line(state: State, split: &Split) -> Option<(&'static str, String)> {
    let segment = split.next_segment.as_ref().or(split.segments.last());
    let before = segment.and_then(|segment| segment.pre_split_data.as_ref());
    let after = segment.and_then(|segment| segment.post_split_data.as_ref());
    let pieces = match after.and_then(|after| after.partition_strategy.as_ref()) {
        Some(PartitionStrategy::TimeRangePartitionStrategy(strategy)) => strategy.piece_count,
        Some(PartitionStrategy::EventBucketPartitionStrategy(strategy)) => strategy.target_event_buckets,
        None => 0,
    };
    match state {
        State::Detected => Some(("detected", format!("`{}` is too wide there", split.time_series_id))),
        State::Planned => {
            let before = before?;
            let (rows, bytes) = (show_count(before.rows), show_bytes(before.bytes));
            Some(("planned", format!("{rows} rows, {bytes}, sealed; to be cut into {pieces} pieces")))
        }
        State::Splitting => Some(("splitting", "copying into pieces; the original stays as it is".to_owned())),
        State::Verifying => Some(("verifying", "reading every piece back, rows and checksums".to_owned())),
        State::Completed => {
            let (before, after) = (before?, after?);
            let packing = Packing::as_str_name(&after.packing()).to_ascii_lowercase();
            let (from, to) = (show_bytes(before.bytes), show_bytes(after.bytes));
            let took = segment.and_then(|segment| segment.time_taken).and_then(|took| Duration::try_from(took).ok());
            let took = show_elapsed(took.unwrap_or_default());
            Some(("split", format!("{from} became {to} in {pieces} pieces ({packing}), in {took}")))
        }
        _ => None,
    }
}

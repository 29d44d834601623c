//! The rpcs of splits: which ones are meant, page after page, and what operators ask for.

use std::collections::BTreeSet;

use anabranch_api::v1;
use anabranch_engine::{EngineError, Requested, SplitSelection};
use anabranch_model::{EventBucket, PartitionKey, Slice, TimeBucket, TimeSeriesId};
use anabranch_split::WideRow;

use super::{Answer, Operations};
use crate::{
    convert::{
        namespaces::read_mode,
        splits::{View, difference_message, split_message, task_message, verification_message},
    },
    failure::Failure,
};

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// Slices that are named to somebody who asked for another one.
const NAMED_SLICES: usize = 5;

/// The part of a request that says which splits are meant; all of these messages have the same fields.
macro_rules! selection {
    ($message:expr) => {
        SplitSelection {
            time_series_id: some($message.time_series_id.clone()),
            time_slice: some($message.time_slice.clone()),
            time_bucket: $message.time_bucket,
            event_bucket: $message.event_bucket,
        }
    };
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Where a list goes on: after the last split of the page before.
struct After {
    time_slice: String,
    place: (String, u32, u32),
}

impl After {
    /// Ids may hold anything, so that the series comes last.
    fn token(split: &v1::Split) -> String {
        format!("{}/{}/{}/{}", split.time_slice, split.time_bucket, split.event_bucket, split.time_series_id)
    }

    fn parse(token: &str) -> Result<Option<After>, EngineError> {
        if token.is_empty() {
            return Ok(None);
        }
        let mut parts = token.splitn(4, '/');
        let mut next = || parts.next();
        let parsed = (|| {
            let time_slice = next()?.to_owned();
            let (bucket, event_bucket) = (next()?.parse().ok()?, next()?.parse().ok()?);
            Some(After { time_slice, place: (next()?.to_owned(), bucket, event_bucket) })
        })();
        let wrong = || EngineError::invalid("page_token", "is not from a page of splits; begin again without one");
        parsed.map(Some).ok_or_else(wrong)
    }
}

/// The order within a slice.
fn place(row: &WideRow) -> (String, u32, u32) {
    let partition = &row.partition;
    (partition.time_series_id.to_string(), partition.time_bucket, partition.event_bucket)
}

impl Operations {
    pub(crate) async fn list_splits(&self, message: v1::ListSplitsRequest) -> Answer<v1::ListSplitsResponse> {
        let which = self.meant(&message.namespace, selection!(message))?;
        let states = states(&message.states)?;
        let after = After::parse(&message.page_token)?;
        let most = match message.page_size as usize {
            0 => DEFAULT_PAGE,
            size => size.min(MAX_PAGE),
        };
        let mut splits: Vec<v1::Split> = Vec::new();
        for time_slice in self.slices(&message.namespace, &which)? {
            let begun = after.as_ref().filter(|after| after.time_slice == time_slice);
            if after.as_ref().is_some_and(|after| time_slice > after.time_slice) {
                continue; // on an earlier page
            }
            let of_slice = SplitSelection { time_slice: Some(time_slice), ..which.clone() };
            let mut rows = self.engine.split_records(&message.namespace, &of_slice).await?;
            rows.retain(|row| begun.is_none_or(|after| place(row) > after.place));
            rows.sort_by_cached_key(place);
            for row in rows {
                let split = split_message(&row, View::List);
                if !states.is_empty() && !states.contains(&split.state) {
                    continue;
                }
                if splits.len() == most {
                    let next_page_token = splits.last().map(After::token).unwrap_or_default();
                    return Ok(v1::ListSplitsResponse { splits, next_page_token });
                }
                splits.push(split);
            }
        }
        Ok(v1::ListSplitsResponse { splits, next_page_token: String::new() })
    }

    pub(crate) async fn get_split(&self, message: v1::GetSplitRequest) -> Answer<v1::Split> {
        let series = TimeSeriesId::new(message.time_series_id.clone());
        let series = series.map_err(|error| Failure::invalid("time_series_id", error.to_string()))?;
        self.check_slice(&message.namespace, &message.time_slice)?;
        let partition = PartitionKey {
            series,
            time_bucket: TimeBucket(message.time_bucket),
            event_bucket: EventBucket(message.event_bucket),
        };
        let found = self.engine.split_record(&message.namespace, &message.time_slice, partition).await?;
        found.map(|row| split_message(&row, View::Full)).ok_or_else(|| {
            let v1::GetSplitRequest { namespace, time_slice, time_series_id, time_bucket, event_bucket } = message;
            let name = format!("{time_slice}/{time_bucket}/{event_bucket}/{time_series_id}");
            let message = format!(
                "`{namespace}` has no split of `{time_series_id}` in {time_slice}, time bucket {time_bucket}, event bucket \
                 {event_bucket}; `anabranch split list` shows those that are there"
            );
            Failure::not_found("NO_SUCH_SPLIT", "split", name, message)
        })
    }

    pub(crate) async fn request_split(&self, message: v1::RequestSplitRequest) -> Answer<v1::RequestSplitResponse> {
        let which = self.meant(&message.namespace, selection!(message))?;
        let Requested { rows, more } = self.engine.request_splits(&message.namespace, &which).await?;
        Ok(v1::RequestSplitResponse { splits: listed(&rows), more })
    }

    pub(crate) async fn retry_split(&self, message: v1::RetrySplitRequest) -> Answer<v1::RetrySplitResponse> {
        let which = self.meant(&message.namespace, selection!(message))?;
        check_named(&which, message.all)?;
        let rows = self.engine.retry_splits(&message.namespace, &which).await?;
        Ok(v1::RetrySplitResponse { splits: listed(&rows) })
    }

    pub(crate) async fn abandon_split(&self, message: v1::AbandonSplitRequest) -> Answer<v1::AbandonSplitResponse> {
        let which = self.meant(&message.namespace, selection!(message))?;
        check_named(&which, message.all)?;
        let reason = some(message.reason).unwrap_or_else(|| "by an operator".to_owned());
        let rows = self.engine.abandon_splits(&message.namespace, &which, &reason).await?;
        Ok(v1::AbandonSplitResponse { splits: listed(&rows) })
    }

    pub(crate) async fn verify_split(&self, message: v1::VerifySplitRequest) -> Answer<v1::VerifySplitResponse> {
        let which = self.meant(&message.namespace, selection!(message))?;
        let verified = self.engine.verify_splits(&message.namespace, &which).await?;
        let verifications = verified.into_iter().map(verification_message).collect();
        Ok(v1::VerifySplitResponse { verifications })
    }

    pub(crate) async fn list_split_differences(
        &self,
        message: v1::ListSplitDifferencesRequest,
    ) -> Answer<v1::ListSplitDifferencesResponse> {
        let (series, slice) = (some(message.time_series_id), some(message.time_slice));
        let mut found = self.engine.split_differences(&message.namespace).await?;
        found.retain(|kept| {
            series.as_deref().is_none_or(|series| series == kept.partition.time_series_id.as_str())
                && slice.as_ref().is_none_or(|slice| *slice == kept.partition.time_slice)
        });
        Ok(v1::ListSplitDifferencesResponse { differences: found.into_iter().map(difference_message).collect() })
    }

    pub(crate) async fn set_read_mode(&self, message: v1::SetReadModeRequest) -> Answer<v1::Namespace> {
        let mode = read_mode(message.read_mode)?;
        let by = some(message.by).unwrap_or_else(|| "operator".to_owned());
        let record = self.engine.set_read_mode(&message.namespace, mode, &by, &message.reason).await?;
        Ok(self.shown(message.namespace, &record))
    }

    pub(crate) fn list_tasks(&self) -> v1::ListTasksResponse {
        v1::ListTasksResponse { tasks: self.engine.tasks().into_iter().map(task_message).collect() }
    }

    /// A selection whose slice is there.
    fn meant(&self, namespace: &str, which: SplitSelection) -> Result<SplitSelection, EngineError> {
        match &which.time_slice {
            Some(time_slice) => self.check_slice(namespace, time_slice)?,
            // Also without a slice the namespace must be there.
            None => drop(self.engine.namespace(namespace)?),
        }
        Ok(which)
    }

    pub(super) fn check_slice(&self, namespace: &str, time_slice: &str) -> Result<(), EngineError> {
        let record = self.engine.namespace(namespace)?;
        let mut known: Vec<String> = record.slices.iter().map(Slice::name).collect();
        if known.iter().any(|slice| slice == time_slice) {
            return Ok(());
        }
        known.reverse();
        let more = if known.len() > NAMED_SLICES { ", …" } else { "" };
        known.truncate(NAMED_SLICES);
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let reason = format!("there is no slice `{time_slice}`; there are {known}{more}");
        Err(EngineError::invalid("time_slice", reason))
    }

    /// The slices that are meant, newest first. Their names are in the order of their time.
    fn slices(&self, namespace: &str, which: &SplitSelection) -> Result<Vec<String>, EngineError> {
        let record = self.engine.namespace(namespace)?;
        let wanted = |name: &String| which.time_slice.as_ref().is_none_or(|wanted| wanted == name);
        Ok(record.slices.iter().rev().map(Slice::name).filter(wanted).collect())
    }
}

fn listed(rows: &[WideRow]) -> Vec<v1::Split> {
    rows.iter().map(|row| split_message(row, View::List)).collect()
}

/// What changes splits must say which ones.
fn check_named(which: &SplitSelection, all: bool) -> Result<(), EngineError> {
    let named = which.time_series_id.is_some() || which.time_slice.is_some();
    if named || all {
        return Ok(());
    }
    Err(EngineError::invalid("time_series_id", "name a series or a slice, or set `all` to mean every split"))
}

fn states(wanted: &[i32]) -> Result<BTreeSet<i32>, EngineError> {
    for state in wanted {
        let known = v1::split::State::try_from(*state).is_ok_and(|state| state != v1::split::State::Unspecified);
        if !known {
            let reason = format!("{state} is no state; DETECTED, COMPLETED and FAILED are some");
            return Err(EngineError::invalid("states", reason));
        }
    }
    Ok(wanted.iter().copied().collect())
}

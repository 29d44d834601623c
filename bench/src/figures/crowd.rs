//! Many series in one namespace, written through the real engine: a few with long histories, many with short ones.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch_api::v1;
use anabranch_engine::{Engine, EngineOptions, TuningOptions, WriteRequest};
use anabranch_model::{NamespaceConfig, NamespaceName, Timestamp};
use anabranch_runtime::Env;
use anabranch_store_fjall::{FjallOptions, FjallStore};
use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::{
    events::{Event, ROW_BYTES, Random},
    history::{last_midnight, settle},
    wire,
};

pub(super) const NAMESPACE: &str = "crowd";
/// Between events of a series; all of them lie in the last hours.
const STEP: Duration = Duration::from_millis(1);
const EVENTS_PER_REQUEST: u64 = 5000;
const REQUESTS_AT_ONCE: usize = 4;
const SEALED_AFTER: Duration = Duration::from_secs(90);

/// So many series of so many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) series: u64,
    pub(super) bytes: u64,
    /// Whether values look like JSON; else they can't be compressed.
    pub(super) json: bool,
}

impl Kind {
    pub(super) fn series(&self, number: u64) -> String {
        format!("{}:{number:06}", self.name)
    }

    pub(super) fn events(&self) -> u64 {
        (self.bytes / ROW_BYTES).max(1)
    }

    fn length(&self) -> Duration {
        STEP * u32::try_from(self.events()).unwrap_or(u32::MAX)
    }
}

/// Makes them in a directory; the store is closed again when this answers.
pub(super) async fn make(directory: PathBuf, kinds: &[Kind]) -> Result<PathBuf> {
    let env = Env::system();
    let store = Arc::new(FjallStore::open(&directory, FjallOptions::default(), env.clone())?);
    let options = EngineOptions { tuning: TuningOptions::off(), ..EngineOptions::default() };
    let engine = Engine::start(store.clone(), env.clone(), options).await?;
    let mut config = NamespaceConfig::default();
    config.split.detect = false; // what is measured are reads of originals
    engine.create_namespace(NamespaceName::new(NAMESPACE)?, config).await?;
    let longest = kinds.iter().map(Kind::length).max().unwrap_or_default();
    let end = end_within_a_day(env.now(), longest);
    for kind in kinds {
        let series = (0..kind.series).map(|number| write(&engine, kind, number, end));
        let written = stream::iter(series).buffer_unordered(REQUESTS_AT_ONCE).try_collect::<Vec<()>>().await;
        written.with_context(|| format!("`{}` could not be written", kind.name))?;
    }
    settle(&store).await?;
    engine.shutdown().await?;
    Ok(directory)
}

/// Lets everything that was written count as sealed: nothing older than a second is accepted any more.
pub(super) async fn seal(directory: &Path) -> Result<()> {
    let env = Env::system();
    let store = Arc::new(FjallStore::open(directory, FjallOptions::default(), env.clone())?);
    let engine = Engine::start(store, env.clone(), EngineOptions::default()).await?;
    let sealed = |config: &mut NamespaceConfig| {
        config.accept_limit = Duration::from_secs(1);
        config.split.must_pay = false;
    };
    engine.update_namespace(NAMESPACE, sealed).await?;
    // Writes that were accepted under the old limit must have ended.
    env.sleep(SEALED_AFTER).await;
    engine.shutdown().await?;
    Ok(())
}

/// The latest end of histories that lie within one day, which is a time bucket: else each would have two partitions.
fn end_within_a_day(now: Timestamp, longest: Duration) -> Timestamp {
    let midnight = last_midnight(now);
    if now.nanos() - midnight.nanos() < longest.as_nanos() as i64 { midnight } else { now }
}

async fn write(engine: &Engine, kind: &Kind, number: u64, end: Timestamp) -> Result<()> {
    let (series, events) = (kind.series(number), kind.events());
    let mut random = Random::new(number);
    for first in (0..events).step_by(EVENTS_PER_REQUEST as usize) {
        let last = (first + EVENTS_PER_REQUEST).min(events);
        let event = |at: u64| {
            let time = Timestamp::from_nanos(end.nanos() - (events - at) as i64 * STEP.as_nanos() as i64);
            let new = if kind.json { Event::json } else { Event::new };
            new(series.clone(), time, at, &mut random).into_input()
        };
        let events = (first..last).map(event).collect();
        engine.write_sync(WriteRequest { namespace: NAMESPACE.to_owned(), events, timeout: None }).await?;
    }
    Ok(())
}

/// Asks for the latest page of a series.
pub(super) fn page(series: String, page_size: u32) -> Bytes {
    wire::encoded(&v1::ReadEventRecordsRequest {
        namespace: NAMESPACE.to_owned(),
        time_series_id: series,
        page_size,
        ..v1::ReadEventRecordsRequest::default()
    })
}

/// Removes a data set.
pub(super) fn remove(directory: &Path) -> Result<()> {
    std::fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortly_after_midnight_histories_end_at_midnight() {
        let midnight = 20_000 * 86_400;
        let end = |now| end_within_a_day(Timestamp::from_seconds(now), Duration::from_secs(420)).seconds();
        assert_eq!([end(midnight), end(midnight + 419), end(midnight + 420)], [midnight, midnight, midnight + 420]);
    }
}

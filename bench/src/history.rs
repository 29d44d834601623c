//! Data sets: one long history in a directory of its own, written through the real engine, so that a server can read it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch_api::{v1, wkt};
use anabranch_engine::{Engine, EngineOptions, WriteRequest};
use anabranch_model::{NamespaceConfig, NamespaceName, Timestamp};
use anabranch_runtime::Env;
use anabranch_store_fjall::{FjallOptions, FjallStore};
use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::{
    events::{Event, ROW_BYTES, Random},
    wire,
};

pub(crate) const NAMESPACE: &str = "history";
pub(crate) const SERIES: &str = "device:0001";
/// The same in every history, so that a bigger one is longer, not denser: 1 GB is 25 days of it.
const STEP: Duration = Duration::from_millis(600);
const ACCEPT_LIMIT: Duration = Duration::from_secs(40 * 86_400);
const EVENTS_PER_REQUEST: u64 = 10_000;
const REQUESTS_AT_ONCE: usize = 4;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// When this day began (UTC): time buckets that are a day long end there.
pub(crate) fn last_midnight(now: Timestamp) -> Timestamp {
    Timestamp::from_seconds(now.seconds().div_euclid(86_400) * 86_400)
}

/// One series with events at equal steps of time, the last one just before a midnight (UTC).
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) directory: PathBuf,
    pub(crate) events: u64,
    end: Timestamp,
}

impl History {
    /// Makes a history of so many bytes, the keys counted. The store is closed again when this answers.
    pub(crate) async fn make(directory: &Path, bytes: u64) -> Result<History> {
        let env = Env::system();
        let end = last_midnight(env.now());
        let history = History { directory: directory.to_owned(), events: bytes / ROW_BYTES, end };
        let store = Arc::new(FjallStore::open(directory, FjallOptions::default(), env.clone())?);
        let engine = Engine::start(store.clone(), env, EngineOptions::default()).await?;
        // The default but for the age of events: this history is older than a client's would be when it writes.
        let config = NamespaceConfig { accept_limit: ACCEPT_LIMIT, ..NamespaceConfig::default() };
        engine.create_namespace(NamespaceName::new(NAMESPACE)?, config).await?;
        history.write(&engine).await?;
        settle(&store).await?;
        engine.shutdown().await?;
        Ok(history)
    }

    async fn write(&self, engine: &Engine) -> Result<()> {
        let starts = (0..self.events).step_by(EVENTS_PER_REQUEST as usize);
        let writes = starts.map(|first| async move {
            let mut random = Random::new(first);
            let last = (first + EVENTS_PER_REQUEST).min(self.events);
            let event = |number| Event::new(SERIES.to_owned(), self.time(number), number, &mut random).into_input();
            let events = (first..last).map(event).collect();
            engine.write_sync(WriteRequest { namespace: NAMESPACE.to_owned(), events, timeout: None }).await
        });
        let written = stream::iter(writes).buffered(REQUESTS_AT_ONCE).try_collect::<Vec<_>>().await;
        written.context("the history could not be written").map(|_| ())
    }

    /// When the event of this number happened.
    pub(crate) fn time(&self, number: u64) -> Timestamp {
        let before_end = (self.events - number) as i64 * STEP.as_nanos() as i64;
        Timestamp::from_nanos(self.end.nanos() - before_end)
    }

    /// The number of an event such that a whole page lies before it.
    pub(crate) fn random_place(&self, page: u64, random: &mut Random) -> u64 {
        page + random.below(self.events - page)
    }

    /// Asks for the page that ends right before an event.
    pub(crate) fn page_before(&self, number: u64, page_size: u32) -> Bytes {
        let end = wkt::Timestamp::from_nanos(self.time(number).nanos());
        wire::encoded(&v1::ReadEventRecordsRequest {
            time_interval: Some(v1::TimeInterval { start: None, end: Some(end) }),
            page_size,
            ..request()
        })
    }

    /// Asks for a page from the latest event on, or from where a token stands.
    pub(crate) fn page_from(&self, page_size: u32, page_token: String) -> Bytes {
        wire::encoded(&v1::ReadEventRecordsRequest { page_size, page_token, ..request() })
    }
}

/// Waits until a store has written and merged what it owes, so that no figure pays for it.
pub(crate) async fn settle(store: &FjallStore) -> Result<()> {
    loop {
        let stats = store.stats()?;
        if stats.flushes_waiting == 0 && stats.compactions_running == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn request() -> v1::ReadEventRecordsRequest {
    v1::ReadEventRecordsRequest {
        namespace: NAMESPACE.to_owned(),
        time_series_id: SERIES.to_owned(),
        ..v1::ReadEventRecordsRequest::default()
    }
}

//! Durable writes: 8 connections, each with one request of 500 events under way, against 8 writers that send the same
//! batches, one for each series of a request, by the driver alone.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anabranch_api::v1;
use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinSet;

use super::{Site, bare::BareWriter};
use crate::{
    args::IngestLoad,
    events::{self, Event},
    figures::Bench,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, Connection},
};

const NAMESPACE: &str = "ingest";
/// Batches of one request that are under way at once: as many as the server has.
const BATCHES: usize = 32;

/// Events by their series.
type Batches = Vec<(String, Vec<Event>)>;

pub(super) async fn measure(bench: &Bench, site: &mut Site) -> Result<Vec<Measure>> {
    let load = bench.sizes.ingest;
    let events = load.timed_events() as f64;
    site.create_namespace(NAMESPACE).await?;
    let bare = Arc::new(site.bare_writer("bare_ingest").await?);
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        // A second ago: no event lies further ahead than a server accepts. Each run writes rows of its own.
        let begin = Env::system().now().saturating_sub(Duration::from_secs(1));
        let (mut server, mut alone, mut tried_again) = (0.0, 0.0, 0);
        // Who is first changes, so that neither side always finds the node as the other left it.
        for by_server in if run % 2 == 0 { [true, false] } else { [false, true] } {
            site.settle().await?;
            match by_server {
                true => (server, tried_again) = over_grpc(site, &load, begin).await?,
                false => alone = by_driver(&bare, &load, begin).await?,
            }
        }
        sheet.bounded("events/s, of the bare driver's", Unit::Ratio, Bound::AtLeast(0.75), alone / server);
        sheet.note("  over gRPC", Unit::PerSecond, events / server);
        sheet.note("  bare driver", Unit::PerSecond, events / alone);
        sheet.note("  writes over gRPC that were sent again", Unit::Count, f64::from(tried_again));
    }
    Ok(sheet.measures())
}

/// Seconds, and how many writes had to be sent again.
async fn over_grpc(site: &Site, load: &IngestLoad, begin: Timestamp) -> Result<(f64, u32)> {
    let encoded = |events: Vec<Event>| {
        let events = events.into_iter().map(Event::into_message).collect();
        wire::encoded(&v1::WriteEventRecordsRequest { namespace: NAMESPACE.to_owned(), events })
    };
    let mut writers = Vec::new();
    for requests in requests(load, begin, encoded) {
        writers.push((site.server.connect().await?, requests));
    }
    let (seconds, writers) = timed(writers, load.warm_up, post).await?;
    Ok((seconds, writers.iter().map(|connection| connection.tried_again).sum()))
}

async fn by_driver(bare: &Arc<BareWriter>, load: &IngestLoad, begin: Timestamp) -> Result<f64> {
    let by_series = |events: Vec<Event>| {
        let mut batches: BTreeMap<String, Vec<Event>> = BTreeMap::new();
        for event in events {
            batches.entry(event.series.clone()).or_default().push(event);
        }
        batches.into_iter().collect()
    };
    let writers = requests(load, begin, by_series).into_iter().map(|requests| (bare.clone(), requests)).collect();
    Ok(timed(writers, load.warm_up, write).await?.0)
}

/// The requests of each writer, ready to be sent.
fn requests<R>(load: &IngestLoad, begin: Timestamp, ready: impl Fn(Vec<Event>) -> R) -> Vec<Vec<R>> {
    let request = |writer, number| ready(events::ingest_request(load, begin, writer, number));
    let writer = |writer| (0..load.warm_up + load.requests).map(|number| request(writer, number)).collect();
    (0..load.writers).map(writer).collect()
}

async fn post(mut server: Connection, request: Bytes) -> Result<Connection> {
    server.write(request).await?;
    Ok(server)
}

async fn write(bare: Arc<BareWriter>, batches: Batches) -> Result<Arc<BareWriter>> {
    let alone = &bare;
    let write = |(series, events): (String, Vec<Event>)| async move { alone.write(&series, &events).await };
    let writes = stream::iter(batches).map(write);
    writes.buffer_unordered(BATCHES).try_collect::<()>().await?;
    Ok(bare)
}

/// Sends everything, the first requests of each writer before the rest; seconds for the rest.
async fn timed<W, R, F>(mut writers: Vec<(W, Vec<R>)>, warm_up: u32, send: fn(W, R) -> F) -> Result<(f64, Vec<W>)>
where
    W: Send + 'static,
    R: Send + 'static,
    F: Future<Output = Result<W>> + Send + 'static,
{
    let rest: Vec<_> = writers.iter_mut().map(|(_, requests)| requests.split_off(warm_up as usize)).collect();
    let writers = send_all(writers, send).await?;
    let began = Instant::now();
    let writers = send_all(writers.into_iter().zip(rest).collect(), send).await?;
    Ok((began.elapsed().as_secs_f64(), writers))
}

/// Sends the requests of each writer one after the other, all writers at once.
async fn send_all<W, R, F>(writers: Vec<(W, Vec<R>)>, send: fn(W, R) -> F) -> Result<Vec<W>>
where
    W: Send + 'static,
    R: Send + 'static,
    F: Future<Output = Result<W>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (mut writer, requests) in writers {
        tasks.spawn(async move {
            for request in requests {
                writer = send(writer, request).await?;
            }
            Ok(writer)
        });
    }
    tasks.join_all().await.into_iter().collect::<Result<_>>().context("a write failed")
}

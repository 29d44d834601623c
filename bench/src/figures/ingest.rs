//! Durable writes over gRPC: 8 connections, each with one request of 500 events under way, against 8 threads that
//! commit the same batches to fjall and sync each.

use std::time::{Duration, Instant};

use anabranch_api::v1;
use anabranch_runtime::Env;
use anyhow::{Result, anyhow};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::Bench;
use crate::{
    args::IngestLoad,
    bare::BareFjall,
    events,
    process::Process,
    report::{Bound, Measure, Sheet, Unit},
    wire::{self, Connection},
};

const NAMESPACE: &str = "ingest";

/// What one side needed.
struct Cost {
    seconds: f64,
    /// Until everything it owed, flushes and compactions too, was done.
    cpu: Duration,
}

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let load = bench.sizes.ingest;
    let events = load.timed_events() as f64;
    eprintln!("  preparing {} requests", load.writers * (load.warm_up + load.requests));
    let requests = prepare(&load);
    let mut sheet = Sheet::default();
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        // Who is first changes, so that neither side always finds the disk as the other left it.
        let (server, client, bare) = if run % 2 == 0 {
            let (server, client) = over_grpc(bench, &requests, run).await?;
            (server, client, fjall_alone(bench, &load, run).await?)
        } else {
            let bare = fjall_alone(bench, &load, run).await?;
            let (server, client) = over_grpc(bench, &requests, run).await?;
            (server, client, bare)
        };
        let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / events;
        let ratio = bare.seconds / server.seconds;
        sheet.bounded("events/s, of fjall alone", Unit::Ratio, Bound::AtLeast(0.6), ratio);
        sheet.note("  over gRPC", Unit::PerSecond, events / server.seconds);
        sheet.note("  fjall alone", Unit::PerSecond, events / bare.seconds);
        let ratio = server.cpu.as_secs_f64() / bare.cpu.as_secs_f64();
        sheet.bounded("CPU per event, times fjall alone", Unit::Ratio, Bound::AtMost(1.5), ratio);
        sheet.note("  server", Unit::Microseconds, micros(server.cpu));
        sheet.note("  fjall alone ", Unit::Microseconds, micros(bare.cpu));
        sheet.note("  client", Unit::Microseconds, micros(client));
    }
    Ok(sheet.measures())
}

/// The requests of each connection, encoded.
fn prepare(load: &IngestLoad) -> Vec<Vec<Bytes>> {
    // A second ago: no event lies further ahead than a server accepts, however many there are.
    let begin = Env::system().now().saturating_sub(Duration::from_secs(1));
    let request = |writer, request| {
        let events = events::ingest_request(load, begin, writer, request);
        let events = events.into_iter().map(events::Event::into_message).collect();
        wire::encoded(&v1::WriteEventRecordsRequest { namespace: NAMESPACE.to_owned(), events })
    };
    let writer = |writer| (0..load.warm_up + load.requests).map(|number| request(writer, number)).collect();
    (0..load.writers).map(writer).collect()
}

/// What the server and what the client needed.
async fn over_grpc(bench: &Bench, requests: &[Vec<Bytes>], run: u32) -> Result<(Cost, Duration)> {
    let directory = bench.path(&format!("ingest-{run}"));
    let server = bench.launcher.start(&directory, &[])?;
    let create = v1::CreateNamespaceRequest { name: NAMESPACE.to_owned(), ..Default::default() };
    server.connect().await?.call(wire::CREATE_NAMESPACE, wire::encoded(&create)).await?;
    let mut connections = Vec::new();
    for _ in requests {
        connections.push(server.connect().await?);
    }
    let warm_up = bench.sizes.ingest.warm_up as usize;
    let connections = send(connections, requests.iter().map(|requests| requests[..warm_up].to_vec())).await?;
    let (server_before, client_before) = (server.process().settled_cpu().await?, Process::own_cpu());
    let timed: Vec<_> = requests.iter().map(|requests| requests[warm_up..].to_vec()).collect();
    let began = Instant::now();
    send(connections, timed).await?;
    let seconds = began.elapsed().as_secs_f64();
    let client = Process::own_cpu() - client_before;
    let cpu = server.process().settled_cpu().await? - server_before;
    drop(server);
    std::fs::remove_dir_all(directory)?;
    Ok((Cost { seconds, cpu }, client))
}

/// Sends the requests of each connection one after the other, all connections at once.
async fn send(connections: Vec<Connection>, requests: impl IntoIterator<Item = Vec<Bytes>>) -> Result<Vec<Connection>> {
    let mut writers = JoinSet::new();
    for (mut connection, requests) in connections.into_iter().zip(requests) {
        writers.spawn(async move {
            for request in requests {
                connection.call(wire::WRITE_SYNC, request).await?;
            }
            Ok(connection)
        });
    }
    let joined = writers.join_all().await;
    joined.into_iter().collect::<Result<_>>().map_err(|error: anyhow::Error| anyhow!("a write failed: {error:#}"))
}

async fn fjall_alone(bench: &Bench, load: &IngestLoad, run: u32) -> Result<Cost> {
    let directory = bench.path(&format!("bare-{run}"));
    let mut bare = BareFjall::start(&directory, load)?;
    let before = bare.process().settled_cpu().await?;
    let seconds = bare.go()?;
    let cpu = bare.process().settled_cpu().await? - before;
    drop(bare);
    std::fs::remove_dir_all(directory)?;
    Ok(Cost { seconds, cpu })
}

//! The node, the server on it, and what is asked of both between measurements.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anabranch_api::{
    v1::{self, ReadMode, split::State},
    wkt,
};
use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use anabranch_testbed::{Cassandra, Memory, Shape};
use anyhow::{Context, Result, bail, ensure};
use prost::Message;
use scylla::client::session::Session;

use super::{
    bare::{self, BareWriter},
    client::Side,
    wide::Wide,
};
use crate::{
    events::{ROW_BYTES, Random},
    figures::Bench,
    process::Process,
    server::{Launcher, Server},
    wire::{self, Connection, PageOutline},
};

/// A node for servers, not the small one of the tests.
const HEAP_MIB: u32 = 3072;
const NAMESPACE: &str = "wide";
/// Longer than the longest history.
const ACCEPT_DAYS: u32 = 2;
/// The last event is so old, and sealed soon after it was written.
const AGE: Duration = Duration::from_secs(600);
/// The least that covers what a write may take.
const SEAL_MARGIN: Duration = Duration::from_secs(6);
/// As big as a piece, so that the small history is split too.
const THRESHOLD_BYTES: u64 = 4 << 20;
/// Below the threshold, and no more than a memtable's worth.
const ORDINARY_BYTES: u64 = 1_000_000;
const FEW: u32 = 10;
/// More than a page of so few rows takes, and less than a block.
const LESS_THAN_A_BLOCK: u64 = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A memtable is flushed when it is so old, while that is asked for.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
const SETTLE_PATIENCE: Duration = Duration::from_secs(180);
const SETTLE_LOOK: Duration = Duration::from_millis(500);

/// A node, and a server on it.
pub(crate) struct Site {
    pub(crate) node: SocketAddr,
    pub(crate) server: Server,
    launcher: Launcher,
    /// To the server, for all but reading and writing.
    connection: Connection,
    /// To the node, for the same.
    session: Session,
    histories: Option<[Wide; 2]>,
    ordinary: Option<Wide>,
    cassandra: Cassandra,
}

impl Site {
    pub(crate) async fn start(launcher: &Launcher) -> Result<Site> {
        eprintln!("  starting a node");
        let shape = Shape { memory: Memory::AsShipped(HEAP_MIB), ..Shape::of_nodes(1) };
        let cassandra = tokio::task::spawn_blocking(|| Cassandra::start_as(shape)).await??;
        let node = cassandra.addresses()[0];
        let server = serve(launcher, node, &[])?;
        let connection = server.connect().await?;
        let session = bare::connect(node).await?;
        Ok(Site {
            node,
            server,
            launcher: launcher.clone(),
            connection,
            session,
            histories: None,
            ordinary: None,
            cassandra,
        })
    }

    /// The node's process.
    pub(crate) fn store(&mut self) -> Process {
        Process(self.cassandra.node(1).process().pid())
    }

    pub(crate) fn by_server(&self) -> Side {
        Side::Server(self.server.grpc)
    }

    pub(crate) fn by_driver(&self) -> Side {
        Side::Bare(self.node)
    }

    /// Another server on the same rows, which reaches the node by way of this address.
    pub(crate) fn serve_by_way_of(&self, address: SocketAddr) -> Result<Server> {
        self.serve_beside("far", address, &[])
    }

    /// Another server on the same rows, which keeps next to nothing of the pieces that it read.
    pub(crate) async fn serve_from_the_node(&self, histories: &[Wide]) -> Result<Server> {
        let server = self.serve_beside("forgetful", self.node, &[("ANABRANCH_STORE_CACHE", "1MiB")])?;
        for history in histories {
            until_read_from(&mut server.connect().await?, history, true).await?;
        }
        Ok(server)
    }

    fn serve_beside(&self, name: &str, node: SocketAddr, settings: &[(&str, &str)]) -> Result<Server> {
        let directory = self.launcher.directory.join(name);
        std::fs::create_dir_all(&directory)?;
        serve(&Launcher { directory, ..self.launcher.clone() }, node, settings)
    }

    /// The small and the wide history, split, and splits served; made when they are first needed.
    pub(crate) async fn histories(&mut self, bench: &Bench) -> Result<[Wide; 2]> {
        let histories = match &self.histories {
            Some(histories) => histories.clone(),
            None => {
                let kinds = [("id:small", bench.sizes.small_bytes), ("id:wide", bench.sizes.wide_bytes)];
                let made = self.make(NAMESPACE, kinds).await?;
                self.histories.insert(made).clone()
            }
        };
        for history in &histories {
            self.set_mode(history, ReadMode::On).await?;
        }
        Ok(histories)
    }

    /// A history as most ids have one, which nothing splits; made when it is first needed.
    pub(crate) async fn ordinary(&mut self) -> Result<Wide> {
        if let Some(made) = &self.ordinary {
            return Ok(made.clone());
        }
        let [made] = self.write("ordinary", [("id:ordinary", ORDINARY_BYTES)]).await?;
        self.flush(&made.namespace).await?;
        self.settle().await?;
        Ok(self.ordinary.insert(made).clone())
    }

    /// Writes histories of so many bytes to a namespace of their own, seals and splits them.
    pub(crate) async fn make<const N: usize>(&mut self, namespace: &str, kinds: [(&str, u64); N]) -> Result<[Wide; N]> {
        let histories = self.write(namespace, kinds).await?;
        let accept_limit = Some(wkt::Duration { seconds: 1, nanos: 0 });
        let config = Some(v1::NamespaceConfig { accept_limit, ..v1::NamespaceConfig::default() });
        let update = v1::UpdateNamespaceRequest { name: namespace.to_owned(), config, ..Default::default() };
        self.ask::<v1::Namespace>(wire::UPDATE_NAMESPACE, &update).await?;
        for history in &histories {
            eprintln!("  splitting {}", history.series);
            let request = v1::RequestSplitRequest {
                namespace: namespace.to_owned(),
                time_series_id: history.series.clone(),
                ..v1::RequestSplitRequest::default()
            };
            self.ask::<v1::RequestSplitResponse>(wire::REQUEST_SPLIT, &request).await?;
            self.until_split(history).await?;
            self.set_mode(history, ReadMode::On).await?;
        }
        self.flush(namespace).await?;
        self.settle().await?;
        Ok(histories)
    }

    /// Writes histories of so many bytes to a namespace of their own.
    async fn write<const N: usize>(&mut self, namespace: &str, kinds: [(&str, u64); N]) -> Result<[Wide; N]> {
        let table = self.create_namespace(namespace).await?;
        let end = Timestamp::from_nanos(Env::system().now().saturating_sub(AGE).nanos());
        let histories = kinds.map(|(series, bytes)| Wide {
            namespace: namespace.to_owned(),
            series: series.to_owned(),
            table: table.clone(),
            events: bytes / ROW_BYTES,
            end,
        });
        for history in &histories {
            eprintln!("  writing {} events of {}", history.events, history.series);
            history.write(self.server.grpc).await?;
        }
        Ok(histories)
    }

    /// Makes a namespace where each series has one partition. Answers the table of today's slice, with its keyspace.
    pub(crate) async fn create_namespace(&mut self, name: &str) -> Result<String> {
        let now = Env::system().now().seconds();
        let day = 86_400;
        // Slices begin at multiples of their length: a length of which today's slice began long enough ago.
        let fits = |days: &u32| now.rem_euclid(i64::from(days * day)) > i64::from((ACCEPT_DAYS + 1) * day);
        let days = (8..=60).find(fits).context("no length of slice fits today")?;
        let length = |length: Duration| Some(wkt::Duration { seconds: length.as_secs() as i64, nanos: 0 });
        let config = v1::NamespaceConfig {
            seconds_per_slice: Some(days * day),
            seconds_per_bucket: Some(days * day),
            event_buckets: Some(1),
            accept_limit: length(Duration::from_secs(u64::from(ACCEPT_DAYS * day))),
            seal_margin: length(SEAL_MARGIN),
            split: Some(v1::SplitSettings {
                threshold_bytes: Some(THRESHOLD_BYTES),
                detect: Some(false),
                must_pay: Some(false),
                ..v1::SplitSettings::default()
            }),
            ..v1::NamespaceConfig::default()
        };
        let create = v1::CreateNamespaceRequest { name: name.to_owned(), config: Some(config), ..Default::default() };
        let made: v1::Namespace = self.ask(wire::CREATE_NAMESPACE, &create).await?;
        let begun = |slice: &&v1::Slice| slice.start.is_some_and(|start| start.seconds <= now);
        let slice = made.slices.iter().rfind(begun).context("no slice holds today")?;
        Ok(format!("{}.{}", keyspace(name), slice.name))
    }

    /// A table laid out as the server's, for the driver alone.
    pub(crate) async fn bare_writer(&mut self, namespace: &str) -> Result<BareWriter> {
        let table = self.create_namespace(namespace).await?;
        BareWriter::open(self.node, &table).await
    }

    /// Lets a namespace's reads use splits, or not, and waits until they do.
    pub(crate) async fn set_mode(&mut self, history: &Wide, mode: ReadMode) -> Result<()> {
        let namespace = history.namespace.clone();
        let request = v1::SetReadModeRequest { namespace, read_mode: mode.into(), ..v1::SetReadModeRequest::default() };
        self.ask::<v1::Namespace>(wire::SET_READ_MODE, &request).await?;
        until_read_from(&mut self.connection, history, mode == ReadMode::On).await
    }

    /// Gives a split up and splits anew; how long that took, from the second request to being served.
    pub(crate) async fn split_again(&mut self, history: &Wide) -> Result<Duration> {
        let (namespace, time_series_id) = (history.namespace.clone(), history.series.clone());
        let abandon = v1::AbandonSplitRequest { namespace, time_series_id, ..v1::AbandonSplitRequest::default() };
        self.ask::<v1::AbandonSplitResponse>(wire::ABANDON_SPLIT, &abandon).await?;
        let began = Instant::now();
        self.retry_split(history).await?;
        self.until_split(history).await?;
        until_read_from(&mut self.connection, history, true).await?;
        Ok(began.elapsed())
    }

    async fn retry_split(&mut self, history: &Wide) -> Result<()> {
        let (namespace, time_series_id) = (history.namespace.clone(), history.series.clone());
        let retry = v1::RetrySplitRequest { namespace, time_series_id, ..v1::RetrySplitRequest::default() };
        self.ask::<v1::RetrySplitResponse>(wire::RETRY_SPLIT, &retry).await.map(|_| ())
    }

    /// Waits until all of a history is served from a split.
    async fn until_split(&mut self, history: &Wide) -> Result<()> {
        let (namespace, time_series_id) = (history.namespace.clone(), history.series.clone());
        let list = v1::ListSplitsRequest { namespace, time_series_id, ..v1::ListSplitsRequest::default() };
        let began = Instant::now();
        loop {
            let found: v1::ListSplitsResponse = self.ask(wire::LIST_SPLITS, &list).await?;
            let split = found.splits.first().with_context(|| format!("nothing splits {}", history.series))?;
            if !split.segments.is_empty() {
                let data = split.segments.iter().flat_map(|segment| &segment.pre_split_data);
                let rows: u64 = data.map(|data| data.rows).sum();
                ensure!(rows == history.events, "{rows} of {} rows are split", history.events);
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "{} isn't split: {split:?}", history.series);
            match split.state() {
                // Nothing is sealed until writes that were accepted under the old limit must have ended.
                State::NotWide => self.retry_split(history).await?,
                State::Failed | State::Parked => bail!("the split of {} failed: {split:?}", history.series),
                _ => {}
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Writes what the node has in memory of a namespace to its disk, so that neither originals nor pieces are read from
    /// memory because they were written last.
    pub(crate) async fn flush(&self, namespace: &str) -> Result<()> {
        let keyspace = keyspace(namespace);
        let cql = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
        let tables = self.session.query_unpaged(cql, (&keyspace,)).await?.into_rows_result()?;
        let tables = tables.rows::<(String,)>()?.collect::<Result<Vec<_>, _>>()?;
        for period in [FLUSH_AFTER, Duration::ZERO] {
            for (table,) in &tables {
                let period = period.as_millis();
                let cql = format!("ALTER TABLE {keyspace}.{table} WITH memtable_flush_period_in_ms = {period}");
                self.session.query_unpaged(cql, ()).await?;
            }
            tokio::time::sleep(2 * period).await;
        }
        Ok(())
    }

    /// Waits until the node neither flushes nor compacts, and does little else.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        let (store, began) = (self.store(), Instant::now());
        let mut last = store.cpu()?;
        while began.elapsed() < SETTLE_PATIENCE {
            tokio::time::sleep(SETTLE_LOOK).await;
            let now = store.cpu()?;
            let tasks = self.session.query_unpaged("SELECT task_id FROM system_views.sstable_tasks", ()).await?;
            if tasks.into_rows_result()?.rows_num() == 0 && now - last < SETTLE_LOOK / 10 {
                break;
            }
            last = now;
        }
        Ok(())
    }

    /// Asks the server.
    async fn ask<A: Message + Default>(&mut self, method: &'static str, request: &impl Message) -> Result<A> {
        let answer = self.connection.call(method, wire::encoded(request)).await?;
        Ok(A::decode(answer.message()?)?)
    }
}

/// Waits until a history is read from pieces, or else from its original. Only pieces have blocks.
async fn until_read_from(connection: &mut Connection, history: &Wide, pieces: bool) -> Result<()> {
    let place = history.random_place(FEW, &mut Random::new(0));
    let began = Instant::now();
    loop {
        let answer = connection.call(wire::READ, history.page_before(place, FEW)).await?;
        let bytes = PageOutline::decode(answer.message()?)?.bytes_read();
        if (bytes > LESS_THAN_A_BLOCK) == pieces {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "{}: {bytes} bytes for {FEW} events, from where?", history.series);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn keyspace(namespace: &str) -> String {
    format!("anabranch_{namespace}")
}

fn serve(launcher: &Launcher, node: SocketAddr, settings: &[(&str, &str)]) -> Result<Server> {
    let store = format!("cassandra://{node}");
    let always = [("ANABRANCH_STORE_URL", store.as_str()), ("ANABRANCH_CASSANDRA_REPLICATION", "1")];
    launcher.start(&launcher.directory.join("unused"), &[&always[..], settings].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::wide::STEP;

    #[test]
    fn the_longest_history_is_accepted() {
        let events = 2_000_000_000 / ROW_BYTES;
        assert!(STEP * events as u32 + AGE < Duration::from_secs(u64::from(ACCEPT_DAYS) * 86_400));
    }
}

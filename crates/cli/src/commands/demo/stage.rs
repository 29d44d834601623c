//! What the story plays on: a server in this process with a namespace that seals within seconds.

use std::time::Duration;

use anabranch_api::{
    v1::{CreateNamespaceRequest, DeleteNamespaceRequest, NamespaceConfig, Slo, SplitSettings},
    wkt,
};
use anabranch_client::{Client, ClientOptions};
use anabranch_server::{ByteSize, Config, Server, StoreUrl};
use tempfile::TempDir;

use crate::{
    args::DemoArgs,
    commands::serve::refusal,
    failure::{Failure, Outcome},
    session::Session,
};

pub(super) const ACCEPT_LIMIT: Duration = Duration::from_secs(5);
pub(super) const SEAL_MARGIN: Duration = Duration::from_secs(5);
pub(super) const THRESHOLD_BYTES: u64 = 512 << 10;
pub(super) const PIECE_BYTES: u64 = 256 << 10;
pub(super) const PROMOTE_COMPARISONS: u32 = 40;
const PROMOTE_OVER: Duration = Duration::from_secs(2);

pub(super) struct Stage {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) server: Server,
    pub(super) back_end: String,
    dir: TempDir,
    is_shared: bool,
}

impl Stage {
    pub(super) async fn set(session: &Session, args: &DemoArgs) -> Outcome<Stage> {
        let dir = tempfile::Builder::new().prefix("anabranch-demo-").tempdir();
        let dir = dir.map_err(|error| Failure::other(format!("can't make a temporary directory: {error}")))?;
        let config = config(args, &dir)?;
        let is_shared = config.store.url != StoreUrl::Embedded;
        let back_end = match &config.store.url {
            StoreUrl::Embedded => format!("embedded (fjall), in {}", dir.path().display()),
            cluster @ StoreUrl::Cassandra { .. } => format!("Apache Cassandra, at {cluster}"),
        };
        // On a cluster there may be others.
        let namespace = match is_shared {
            true => format!("demo_{:08x}", session.env.random_u64() as u32),
            false => "demo".to_owned(),
        };
        let server = Server::start(config, session.env.clone()).await.map_err(|error| refusal(&error))?;
        let options = ClientOptions { request_timeout: session.global.timeout, ..ClientOptions::default() };
        let client = Client::connect_with(&server.grpc_addr().to_string(), options).await?;
        let request =
            CreateNamespaceRequest { name: namespace.clone(), config: Some(settings()?), workload: String::new() };
        client.create_namespace(request).await?;
        Ok(Stage { client, namespace, server, back_end, dir, is_shared })
    }

    /// What to make of the numbers, which depends on the store.
    pub(super) fn lesson(&self) -> &'static str {
        match self.is_shared {
            true => {
                "On a cluster every row costs its nodes, so that fewer rows are what pays: for whoever reads all of it, and for\n\
                 everybody else meanwhile."
            }
            false => {
                "On the embedded store rows are cheap, so that times may come out either way; what is read and kept gets less. On a\n\
                 cluster every row costs its nodes, and time is won too: `anabranch demo --store cassandra://HOST` shows it there."
            }
        }
    }

    /// Removes everything.
    pub(super) async fn strike(self) -> Outcome {
        let deleted = match self.is_shared {
            true => self
                .client
                .delete_namespace(DeleteNamespaceRequest {
                    confirm: self.namespace.clone(),
                    name: self.namespace,
                    grace: Some(wkt::Duration::default()),
                })
                .await
                .map(drop),
            false => Ok(()),
        };
        let stopped = self.server.shutdown().await;
        self.dir.close().map_err(|error| Failure::other(format!("can't remove the temporary directory: {error}")))?;
        stopped.map_err(|error| Failure::other(format!("the server didn't stop cleanly: {error}")))?;
        Ok(deleted?)
    }
}

fn config(args: &DemoArgs, dir: &TempDir) -> Outcome<Config> {
    let mut config = Config::default();
    config.store.data = dir.path().join("data");
    // As in earnest: an old history lies in tables, and neither it nor its pieces fit into the cache.
    (config.store.memtable, config.store.cache) = (ByteSize(1 << 20), ByteSize(2 << 20));
    let wrong = |error: anabranch_server::ConfigError| Failure::usage(error.to_string());
    config.set("listen.grpc", "127.0.0.1:0").map_err(wrong)?;
    config.set("listen.http", &args.http).map_err(wrong)?;
    config.set("store.url", &args.store).map_err(wrong)?;
    config.set("cassandra.replication", "1").map_err(wrong)?;
    config.engine.refresh_interval = Duration::from_millis(200);
    config.splits.sweep_interval = Duration::from_millis(250);
    config.limits.shutdown_grace = Duration::from_secs(2);
    Ok(config)
}

/// Small numbers, so that a minute shows what takes days in earnest.
fn settings() -> Outcome<NamespaceConfig> {
    let wire = |length: Duration| {
        wkt::Duration::try_from(length).map_err(|error| Failure::other(format!("{length:?} can't be sent: {error}")))
    };
    let split = SplitSettings {
        threshold_bytes: Some(THRESHOLD_BYTES),
        target_piece_bytes: Some(PIECE_BYTES),
        promote_comparisons: Some(PROMOTE_COMPARISONS),
        promote_over: Some(wire(PROMOTE_OVER)?),
        // The story measures by itself whether it pays, and tells it either way.
        must_pay: Some(false),
        ..SplitSettings::default()
    };
    Ok(NamespaceConfig {
        accept_limit: Some(wire(ACCEPT_LIMIT)?),
        seal_margin: Some(wire(SEAL_MARGIN)?),
        write_slo: Some(Slo {
            target: Some(wire(Duration::from_millis(500))?),
            max: Some(wire(Duration::from_secs(4))?),
        }),
        split: Some(split),
        ..NamespaceConfig::default()
    })
}

//! The server's configuration: what a TOML file may say, with a default for everything. Environment and flags are the
//! command line's to read; it hands them over by [`Config::set`].

mod check;
mod fields;
#[cfg(feature = "kafka")]
mod kafka;
mod section;
mod size;
mod url;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anabranch_engine::{EngineOptions, SplitOptions, TuningOptions};
use anabranch_model::NamespaceName;
use anabranch_split::WorkOptions;
use anabranch_store::PermitOptions;
use anabranch_store_cassandra::{CassandraOptions, Level, Replication, TlsOptions};
use anabranch_store_fjall::FjallOptions;
use jiff::fmt::serde::unsigned_duration::friendly::compact;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use check::Problem;
#[cfg(not(feature = "kafka"))]
pub(crate) use check::WITHOUT_KAFKA;
pub use fields::{Field, Kind};
pub use size::ByteSize;
pub use url::{BusUrl, StoreUrl};

use section::{Section, Setting, section};

/// On the embedded store, whole histories and splits are read by threads that give way to pages, so that two of them may always go
/// on. A cluster's nodes don't know who gives way.
const EMBEDDED_HEAVY_READS: usize = 2;

/// Everything that can be set. Unknown names are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the server listens.
    pub listen: Listen,
    /// Where data lies, and how much memory and disk it may use.
    pub store: Store,
    /// How a Cassandra cluster is used, where the store is one.
    pub cassandra: Cassandra,
    /// How detections of wide partitions reach the workers.
    pub bus: Bus,
    /// How Kafka is used, where the bus is one.
    pub kafka: Kafka,
    /// How much is taken at once.
    pub limits: Limits,
    /// How the engine behaves, for all namespaces.
    pub engine: Engine,
    /// How wide partitions are split, for all namespaces.
    pub splits: Splits,
    /// How partitions are measured and slices tuned, for all namespaces.
    pub tuning: Tuning,
    /// What is logged, and how.
    pub log: Log,
    /// Where traces are sent, and how many.
    pub traces: Traces,
}

section! {
    /// Where the server listens.
    Listen {
        /// Address for gRPC; port 0 takes any free one.
        grpc: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7400)),
        /// Address for HTTP/JSON, metrics and the pages; port 0 takes any free one.
        http: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7401)),
        /// Allows addresses other than loopback, though anybody who reaches them can read, write and delete.
        insecure: bool = false,
        /// Certificates for TLS on both addresses, as a PEM file, the server's own first.
        #[serde(skip_serializing_if = "Option::is_none")]
        tls_certificate: Option<PathBuf> = None,
        /// The private key of the certificate, as a PEM file.
        #[serde(skip_serializing_if = "Option::is_none")]
        tls_key: Option<PathBuf> = None,
    }
}

section! {
    /// Where data lies, and how much memory and disk it may use.
    Store {
        /// `embedded` for a store of this process alone, or `cassandra://HOST:PORT,HOST:PORT/PREFIX` for a cluster.
        url: StoreUrl = StoreUrl::Embedded,
        /// Directory of the embedded store; made when it isn't there.
        data: PathBuf = PathBuf::from("./anabranch-data"),
        /// Memory for blocks that were read: of tables of the embedded store, of pieces on a cluster.
        cache: ByteSize = ByteSize(defaults::store().cache_bytes),
        /// A table is flushed once this much of it is only in memory and in the journal.
        memtable: ByteSize = ByteSize(defaults::store().memtable_bytes),
        /// The same over all tables: past it the biggest are flushed early.
        memtable_total: ByteSize = ByteSize(defaults::store().memtable_total_bytes),
        /// Journals on disk may grow to this before tables are flushed to free them.
        journal: ByteSize = ByteSize(defaults::store().journal_bytes),
        /// Threads that flush and compact.
        workers: usize = defaults::store().workers,
        /// The most tables; each slice of each namespace is one.
        max_tables: usize = defaults::store().max_tables,
    }
}

section! {
    /// How a Cassandra cluster is used, where the store is one.
    Cassandra {
        /// Copies of each row in keyspaces that are made: `3`, or by data centre `east:3,west:3`.
        replication: Replication = defaults::cassandra().replication,
        /// How many replicas must have a row before it is acknowledged.
        write_consistency: Level = defaults::cassandra().write_consistency,
        /// How many replicas are asked for a row; together with writes it must see every acknowledged one.
        read_consistency: Level = defaults::cassandra().read_consistency,
        /// The data centre to talk to; without it, any node is as near as another.
        #[serde(skip_serializing_if = "Option::is_none")]
        local_datacenter: Option<String> = None,
        /// Who this is, where the cluster wants to know.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<String> = None,
        /// A file that holds the password and nothing else.
        #[serde(skip_serializing_if = "Option::is_none")]
        password_file: Option<PathBuf> = None,
        /// Whose signatures under the nodes' certificates are trusted (PEM); turns TLS on.
        #[serde(skip_serializing_if = "Option::is_none")]
        tls_ca: Option<PathBuf> = None,
        /// The certificate to show to the cluster (PEM).
        #[serde(skip_serializing_if = "Option::is_none")]
        tls_certificate: Option<PathBuf> = None,
        /// The private key of that certificate (PEM).
        #[serde(skip_serializing_if = "Option::is_none")]
        tls_key: Option<PathBuf> = None,
        /// Small namespaces that share one keyspace, separated by commas.
        shared_keyspace: String = String::new(),
        /// How long a node may take to accept a connection.
        #[serde(with = "compact::required")]
        connect_timeout: Duration = defaults::cassandra().connect_timeout,
        /// How long making or dropping a table may take.
        #[serde(with = "compact::required")]
        schema_timeout: Duration = defaults::cassandra().schema_timeout,
        /// Batches above this are cut between events.
        max_batch: ByteSize = ByteSize(defaults::cassandra().max_batch_bytes as u64),
        /// Reads, in thousandths, that may be sent to a second replica when the first is slow.
        hedge_permille: u32 = defaults::cassandra().hedge_permille,
        /// The least time before a slow read is sent to a second replica.
        #[serde(with = "compact::required")]
        hedge_after: Duration = defaults::cassandra().hedge_after,
        /// The most tables; each slice of each namespace is one.
        max_tables: usize = defaults::cassandra().max_tables,
    }
}

section! {
    /// How detections of wide partitions reach the workers.
    Bus {
        /// `in-process`, or `kafka://HOST:PORT,HOST:PORT/TOPIC` to share them between servers and workers.
        url: BusUrl = BusUrl::InProcess,
    }
}

section! {
    /// How Kafka is used, where the bus is one.
    Kafka {
        /// Workers of one group share the detections.
        group: String = "anabranch-workers".to_owned(),
        /// Partitions of topics that are made: the most workers that can share.
        partitions: u32 = 16,
        /// Copies of topics that are made.
        replication: u32 = 1,
        /// How long the broker may take to answer a call.
        #[serde(with = "compact::required")]
        timeout: Duration = Duration::from_secs(10),
        /// How long a detection waits for a broker that is away before it is dropped.
        #[serde(with = "compact::required")]
        patience: Duration = Duration::from_secs(300),
        /// A file of settings for librdkafka, `name=value` a line: `sasl.username` and the like. TLS and SCRAM aren't built in.
        #[serde(skip_serializing_if = "Option::is_none")]
        settings_file: Option<PathBuf> = None,
    }
}

section! {
    /// How much is taken at once.
    Limits {
        /// The largest gRPC message that is taken.
        max_message: ByteSize = ByteSize(8 << 20),
        /// The largest HTTP body that is taken; JSON needs a third more than gRPC for the same values.
        max_body: ByteSize = ByteSize(16 << 20),
        /// Requests worked on at once; one more is refused with RESOURCE_EXHAUSTED.
        max_requests: usize = 1024,
        /// Connections open at once; one more waits.
        max_connections: usize = 4096,
        /// How long requests under way may take to finish when the server is stopped.
        #[serde(with = "compact::required")]
        shutdown_grace: Duration = Duration::from_secs(20),
    }
}

section! {
    /// How the engine behaves, for all namespaces.
    Engine {
        /// Bytes of synchronous writes in flight.
        max_write_in_flight: ByteSize = ByteSize(defaults::engine().max_write_bytes_in_flight as u64),
        /// Pages being read at once.
        max_reads_in_flight: usize = defaults::engine().max_reads_in_flight,
        /// Pages that may wait to be read; one more is refused with RESOURCE_EXHAUSTED.
        max_reads_waiting: usize = defaults::engine().max_reads_waiting,
        /// Reads of the store in flight: partitions of pages, whole histories, splits, measuring.
        max_store_reads: usize = defaults::engine().permits.in_flight,
        /// How many of them may be of whole histories, splits and measuring; fewer while other reads are slow.
        max_heavy_store_reads: usize = defaults::engine().permits.heavy_in_flight,
        /// Reads of the store that may wait; one more is refused with RESOURCE_EXHAUSTED.
        max_store_reads_waiting: usize = defaults::engine().permits.waiting,
        /// Partitions of one read that are fetched at once, at most.
        max_fan_out: usize = defaults::engine().max_fan_out,
        /// Events that may wait in the queue of unsynced writes.
        queue_events: usize = defaults::engine().queue_events,
        /// Bytes that may wait in the queue of unsynced writes.
        queue_size: ByteSize = ByteSize(defaults::engine().queue_bytes as u64),
        /// How long stopping waits for the queue to be written.
        #[serde(with = "compact::required")]
        drain_timeout: Duration = defaults::engine().drain_timeout,
        /// Within this time a server knows what others changed, where a store is shared; it looks twice as often.
        #[serde(with = "compact::required")]
        refresh_interval: Duration = defaults::engine().refresh_interval,
        /// How far the clocks of servers that share a store may differ.
        #[serde(with = "compact::required")]
        max_clock_skew: Duration = defaults::engine().max_clock_skew,
        /// How long a worker may hold a lease.
        #[serde(with = "compact::required")]
        lease: Duration = defaults::engine().lease,
        /// How often slices are made, closed and dropped.
        #[serde(with = "compact::required")]
        lifecycle_interval: Duration = defaults::engine().lifecycle_interval,
        /// How long a call for metadata may take.
        #[serde(with = "compact::required")]
        meta_timeout: Duration = defaults::engine().meta_timeout,
        /// How long making or dropping a table may take.
        #[serde(with = "compact::required")]
        table_timeout: Duration = defaults::engine().table_timeout,
        /// How long a table without a slice is left alone before it is dropped; 0s drops none.
        #[serde(with = "compact::required")]
        orphans_after: Duration = defaults::engine().orphans_after,
        /// How long a deleted namespace can be restored, where the request doesn't say.
        #[serde(with = "compact::required")]
        delete_grace: Duration = defaults::engine().delete_grace,
    }
}

section! {
    /// How wide partitions are split, for all namespaces.
    Splits {
        /// Splits that are worked on at once; 0 leaves all of them to others.
        workers: usize = defaults::splits().concurrent,
        /// Bytes that all of them read and write per second; an eighth of it while reads are slow.
        bytes_per_second: ByteSize = ByteSize(defaults::splits().bytes_per_second),
        /// Bytes of the original between two checkpoints: after a crash not more is read again.
        checkpoint: ByteSize = ByteSize(defaults::splits().work.checkpoint_bytes),
        /// How often all split records are looked at for work that was left over.
        #[serde(with = "compact::required")]
        sweep_interval: Duration = defaults::splits().sweep_interval,
        /// How often a served segment is compared with its original, whole.
        #[serde(with = "compact::required")]
        scrub_interval: Duration = defaults::splits().scrub_interval,
        /// How long the tail of a split that grows slowly waits until it is looked at.
        #[serde(with = "compact::required")]
        extend_interval: Duration = defaults::splits().extend_interval,
        /// Attempts after which a split is parked for an operator.
        max_attempts: u32 = defaults::splits().work.max_attempts,
        /// How long to wait after the first failure; doubles with each.
        #[serde(with = "compact::required")]
        first_retry: Duration = defaults::splits().work.first_retry,
        /// The longest wait between two attempts.
        #[serde(with = "compact::required")]
        longest_retry: Duration = defaults::splits().work.longest_retry,
        /// Partitions that may wait for a worker; what doesn't fit is found by the next sweep.
        max_waiting: usize = defaults::splits().max_due,
        /// Comparisons beside reads that may wait; what doesn't fit isn't compared.
        max_comparisons: usize = defaults::splits().max_doubts,
        /// Detections that may be on their way to the workers.
        max_detections: usize = defaults::engine().bus_capacity,
    }
}

section! {
    /// How partitions are measured and slices tuned, for all namespaces.
    Tuning {
        /// How often the partitions of slices that take events are measured; 0s measures none.
        #[serde(with = "compact::required")]
        measure_interval: Duration = defaults::tuning().measure_interval,
        /// How many hundredths of one core's time measuring may take.
        measure_percent: u32 = defaults::tuning().measure_percent,
        /// How often the slice tuner looks at every namespace; 0s never.
        #[serde(with = "compact::required")]
        tune_interval: Duration = defaults::tuning().tune_interval,
    }
}

section! {
    /// What is logged, and how.
    Log {
        /// What is logged: error, warn, info, debug, trace, or by module as in `info,anabranch_engine=debug`.
        level: String = "info".to_owned(),
        /// `text` for people, `json` for programs.
        format: LogFormat = LogFormat::Text,
    }
}

section! {
    /// Where traces are sent, and how many.
    Traces {
        /// A collector that takes OTLP over gRPC: `http://HOST:4317`, or https; empty sends none.
        endpoint: String = String::new(),
        /// Of so many requests and splits one is traced; 1 traces all. One whose `traceparent` says so always is, or never.
        one_in: u32 = 100,
        /// Spans that may wait to be sent; what doesn't fit is dropped and counted.
        max_spans: usize = 8192,
        /// How long the collector may take.
        #[serde(with = "compact::required")]
        timeout: Duration = Duration::from_secs(5),
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line, for programs.
    Json,
}

/// What the store and the engine would do without a configuration.
mod defaults {
    pub(super) fn store() -> super::FjallOptions {
        super::FjallOptions::default()
    }

    pub(super) fn cassandra() -> super::CassandraOptions {
        super::CassandraOptions::new([""; 0])
    }

    pub(super) fn engine() -> super::EngineOptions {
        super::EngineOptions::default()
    }

    pub(super) fn splits() -> super::SplitOptions {
        super::SplitOptions::default()
    }

    pub(super) fn tuning() -> super::TuningOptions {
        super::TuningOptions::default()
    }
}

/// Why a configuration can't be read.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file isn't TOML, or says something that can't be set.
    #[error("the configuration can't be read: {0}")]
    Toml(#[from] toml::de::Error),
    /// There is no such setting.
    #[error("there is no setting `{path}`; `anabranch config` shows all")]
    Unknown {
        /// What was named.
        path: String,
    },
    /// A setting can't have this value.
    #[error("`{path}` can't be `{value}`: {reason}")]
    Value {
        /// Which setting.
        path: String,
        /// What it was to be.
        value: String,
        /// Why not.
        reason: String,
    },
}

/// The names in a list that is separated by commas.
fn shared_namespaces(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

impl Config {
    /// Reads a TOML file's text. What it doesn't say keeps its default.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        Ok(toml::from_str(text)?)
    }

    /// What the embedded store is opened with.
    pub fn store_options(&self) -> FjallOptions {
        FjallOptions {
            cache_bytes: self.store.cache.0,
            workers: self.store.workers,
            journal_bytes: self.store.journal.0,
            memtable_bytes: self.store.memtable.0,
            memtable_total_bytes: self.store.memtable_total.0,
            max_tables: self.store.max_tables,
            ..FjallOptions::default()
        }
    }

    /// What a cluster is connected with, where the store is one. Without the password, which lies in a file.
    pub(crate) fn cassandra_options(&self) -> Option<CassandraOptions> {
        let StoreUrl::Cassandra { nodes, prefix } = &self.store.url else { return None };
        let (cassandra, defaults) = (&self.cassandra, defaults::cassandra());
        let client = cassandra.tls_certificate.clone().zip(cassandra.tls_key.clone());
        Some(CassandraOptions {
            contact_points: nodes.clone(),
            keyspace_prefix: prefix.clone().unwrap_or(defaults.keyspace_prefix),
            shared_keyspace: shared_namespaces(&cassandra.shared_keyspace)
                .filter_map(|name| NamespaceName::new(name).ok())
                .collect(),
            replication: cassandra.replication.clone(),
            write_consistency: cassandra.write_consistency,
            read_consistency: cassandra.read_consistency,
            local_datacenter: cassandra.local_datacenter.clone(),
            tls: cassandra.tls_ca.clone().map(|ca| TlsOptions { ca, client }),
            connect_timeout: cassandra.connect_timeout,
            schema_timeout: cassandra.schema_timeout,
            metadata_timeout: self.engine.meta_timeout,
            max_batch_bytes: cassandra.max_batch.as_usize(),
            hedge_permille: cassandra.hedge_permille,
            hedge_after: cassandra.hedge_after,
            max_tables: cassandra.max_tables,
            ..defaults
        })
    }

    /// What the engine is started with.
    pub fn engine_options(&self) -> EngineOptions {
        let engine = &self.engine;
        EngineOptions {
            refresh_interval: engine.refresh_interval,
            max_clock_skew: engine.max_clock_skew,
            lease: engine.lease,
            lifecycle_interval: engine.lifecycle_interval,
            meta_timeout: engine.meta_timeout,
            table_timeout: engine.table_timeout,
            max_write_bytes_in_flight: engine.max_write_in_flight.as_usize(),
            queue_events: engine.queue_events,
            queue_bytes: engine.queue_size.as_usize(),
            drain_timeout: engine.drain_timeout,
            max_reads_in_flight: engine.max_reads_in_flight,
            max_reads_waiting: engine.max_reads_waiting,
            permits: PermitOptions {
                in_flight: engine.max_store_reads,
                heavy_in_flight: engine.max_heavy_store_reads,
                heavy_at_least: match self.store.url {
                    StoreUrl::Embedded => EMBEDDED_HEAVY_READS,
                    StoreUrl::Cassandra { .. } => 1,
                },
                heavy_bytes_beside: match self.store.url {
                    StoreUrl::Embedded => usize::MAX,
                    StoreUrl::Cassandra { .. } => defaults::engine().permits.heavy_bytes_beside,
                },
                waiting: engine.max_store_reads_waiting,
            },
            max_fan_out: engine.max_fan_out,
            splits: self.split_options(),
            bus_capacity: self.splits.max_detections,
            orphans_after: engine.orphans_after,
            delete_grace: engine.delete_grace,
            tuning: TuningOptions {
                measure_interval: self.tuning.measure_interval,
                measure_percent: self.tuning.measure_percent,
                tune_interval: self.tuning.tune_interval,
                ..TuningOptions::default()
            },
        }
    }

    fn split_options(&self) -> SplitOptions {
        let (splits, defaults) = (&self.splits, SplitOptions::default());
        SplitOptions {
            concurrent: splits.workers,
            bytes_per_second: splits.bytes_per_second.0,
            work: WorkOptions {
                checkpoint_bytes: splits.checkpoint.0,
                lease: self.engine.lease,
                max_attempts: splits.max_attempts,
                first_retry: splits.first_retry,
                longest_retry: splits.longest_retry,
                ..defaults.work
            },
            sweep_interval: splits.sweep_interval,
            scrub_interval: splits.scrub_interval,
            extend_interval: splits.extend_interval,
            max_due: splits.max_waiting,
            max_doubts: splits.max_comparisons,
            // The embedded store keeps its own.
            block_cache_bytes: match self.store.url {
                StoreUrl::Embedded => 0,
                StoreUrl::Cassandra { .. } => self.store.cache.as_usize(),
            },
            ..defaults
        }
    }
}

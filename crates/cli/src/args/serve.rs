//! `anabranch serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  anabranch serve
  anabranch serve --data /var/lib/anabranch --log-format json
  anabranch serve --grpc 127.0.0.1:0 --http 127.0.0.1:0   # any free ports; they are printed
  anabranch serve --grpc 0.0.0.0:7400 --insecure          # everyone may read, write and delete
  anabranch serve --store cassandra://10.0.0.1,10.0.0.2 --bus kafka://10.0.0.3

Settings come from defaults, then the file, then the environment, then flags; `anabranch config` shows the result. \
SIGINT and SIGTERM stop the server after it has finished its requests; a second one ends it at once.";

const WORKER_EXAMPLES: &str = "\
Examples:
  anabranch worker --store cassandra://10.0.0.1 --bus kafka://10.0.0.3 --http 127.0.0.1:7501 --split-workers 4

Runs the workers of `anabranch serve` without its listeners for reads and writes, on a store that several processes share; \
/healthz, /readyz, /metrics and /v1/tasks are served over HTTP. The embedded store can't be shared: there `anabranch serve` \
runs the workers itself, and this command is refused. Several workers never do the same work twice.";

/// Run a server on a data directory, or on a cluster
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) server: ServerFlags,
}

/// Split wide partitions on a shared store, and serve nobody
#[derive(Clone, Debug, Args)]
#[command(after_help = WORKER_EXAMPLES)]
pub(crate) struct WorkerArgs {
    /// Settings (TOML) [default: ./anabranch.toml if it is there]
    #[arg(long, value_name = "FILE", env = "ANABRANCH_CONFIG", hide_env = true)]
    config: Option<PathBuf>,
    /// The store: `embedded`, or `cassandra://HOST:PORT,HOST:PORT/PREFIX` for a cluster that several servers share
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// How detections of wide partitions reach workers: `in-process`, or `kafka://HOST:PORT,HOST:PORT/TOPIC`
    #[arg(long, value_name = "URL")]
    bus: Option<String>,
    /// Address for health and metrics over HTTP; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Listen on other addresses than this machine's own, without authentication
    #[arg(long)]
    insecure: bool,
    /// Splits that are worked on at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    split_workers: Option<u32>,
    /// How log lines look, `text` or `json`; they go to stderr
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    log_format: Option<LogFormat>,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,anabranch_engine=debug`
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl WorkerArgs {
    /// The same flags as a server has them.
    pub(crate) fn flags(&self) -> ServerFlags {
        ServerFlags {
            config: self.config.clone(),
            store: self.store.clone(),
            bus: self.bus.clone(),
            http: self.http.clone(),
            insecure: self.insecure,
            split_workers: self.split_workers.map(|workers| workers as usize),
            log_format: self.log_format,
            log_level: self.log_level.clone(),
            ..ServerFlags::default()
        }
    }
}

/// Flags that say the same as settings of the server.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerFlags {
    /// Settings (TOML) [default: ./anabranch.toml if it is there]
    #[arg(long, value_name = "FILE", env = "ANABRANCH_CONFIG", hide_env = true)]
    pub(crate) config: Option<PathBuf>,
    /// The store: `embedded`, or `cassandra://HOST:PORT,HOST:PORT/PREFIX` for a cluster that several servers share
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// How detections of wide partitions reach workers: `in-process`, or `kafka://HOST:PORT,HOST:PORT/TOPIC`
    #[arg(long, value_name = "URL")]
    pub(crate) bus: Option<String>,
    /// Where the embedded store's data is; made when it isn't there
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address for gRPC; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) grpc: Option<String>,
    /// Address for HTTP; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// Listen on other addresses than this machine's own, without authentication
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Certificate chain for TLS (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key for TLS (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Splits of wide partitions that are worked on at once; 0 leaves them to others
    #[arg(long, value_name = "N")]
    pub(crate) split_workers: Option<usize>,
    /// How log lines look, `text` or `json`; they go to stderr
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) log_format: Option<LogFormat>,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,anabranch_engine=debug`
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl ServerFlags {
    /// The settings that are given: path of the setting, the flag, its value.
    pub(crate) fn given(&self) -> Vec<(&'static str, &'static str, String)> {
        self.all().into_iter().filter_map(|(path, flag, value)| Some((path, flag, value?))).collect()
    }

    /// The flag that says the same as a setting, if there is one.
    pub(crate) fn flag_of(setting: &str) -> Option<&'static str> {
        ServerFlags::default().all().into_iter().find(|(path, ..)| *path == setting).map(|(_, flag, _)| flag)
    }

    fn all(&self) -> [(&'static str, &'static str, Option<String>); 11] {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let format = self.log_format.map(|format| match format {
            LogFormat::Text => "text".to_owned(),
            LogFormat::Json => "json".to_owned(),
        });
        [
            ("store.url", "--store", self.store.clone()),
            ("bus.url", "--bus", self.bus.clone()),
            ("store.data", "--data", path(&self.data)),
            ("listen.grpc", "--grpc", self.grpc.clone()),
            ("listen.http", "--http", self.http.clone()),
            ("listen.insecure", "--insecure", self.insecure.then(|| "true".to_owned())),
            ("listen.tls_certificate", "--tls-cert", path(&self.tls_cert)),
            ("listen.tls_key", "--tls-key", path(&self.tls_key)),
            ("splits.workers", "--split-workers", self.split_workers.map(|workers| workers.to_string())),
            ("log.format", "--log-format", format),
            ("log.level", "--log-level", self.log_level.clone()),
        ]
    }
}

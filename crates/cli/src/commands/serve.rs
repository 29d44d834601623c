//! `anabranch serve`: runs a server until it is told to stop.

use std::{io::IsTerminal, net::SocketAddr, path::Path};

use anabranch_server::{BusUrl, Config, LogFormat, Server, StartError, StoreUrl, Traces};
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{
    args::ServeArgs,
    config_layers,
    failure::{Exit, Failure, Outcome},
    interrupt::Signals,
    output::{Out, note},
    session::Session,
};

/// Where the other commands look for a server when nothing is said.
const USUAL_PORT: u16 = 7400;

pub(crate) async fn run(session: &Session, args: &ServeArgs) -> Outcome {
    let Prepared { config, mut signals, traces } = prepare(session, config_layers::load(&args.server)?)?;
    let starting = Server::start(config.clone(), session.env.clone());
    let server = tokio::select! {
        server = starting => server.map_err(|error| refusal(&error))?,
        signal = signals.next() => return Err(Failure::other(format!("{signal} while starting"))),
    };
    if let Err(failure) = greet(&config, server.grpc_addr(), server.http_addr()) {
        tracing::warn!("{failure}"); // nobody reads it; the server is needed all the same
    }

    let signal = signals.next().await;
    tracing::info!("{signal}: stopping; requests under way are finished, the next signal ends at once");
    let stopping = Box::pin(server.shutdown());
    let stopped = tokio::select! {
        stopped = stopping => stopped,
        signal = signals.next() => {
            return Err(Failure::other(format!("{signal} once more: ended without waiting for requests")));
        }
    };
    if stopped.is_ok() {
        tracing::info!("stopped; everything acknowledged is stored");
    }
    if let Some(traces) = traces {
        traces.flush().await;
    }
    stopped.map_err(|error| Failure::other(format!("the server didn't stop cleanly: {error}")))
}

pub(super) fn refusal(error: &StartError) -> Failure {
    let exit = match error {
        StartError::Config(_) | StartError::Tls(_) | StartError::NotShared { .. } | StartError::File { .. } => {
            Exit::Usage
        }
        _ => Exit::Failure,
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        StartError::Store(_) => failure.hint("`anabranch doctor` looks at the data directory and the configuration"),
        StartError::InUse { .. } => failure.hint("--grpc 127.0.0.1:0 --http 127.0.0.1:0 takes any free ports"),
        _ => failure,
    }
}

/// What every process that runs until it is told to stop begins with: checked settings, an ear for signals, a log and traces.
pub(super) struct Prepared {
    pub(super) config: Config,
    pub(super) signals: Signals,
    pub(super) traces: Option<Traces>,
}

pub(super) fn prepare(session: &Session, layers: config_layers::Layers) -> Outcome<Prepared> {
    layers.check()?;
    for unknown in &layers.unknown_variables {
        note(session.colors, unknown);
    }
    let traces = start_log(session, &layers.config)?;
    Ok(Prepared { config: layers.config, signals: Signals::listen()?, traces })
}

/// The log, and traces beside it where they are wanted.
fn start_log(session: &Session, config: &Config) -> Outcome<Option<Traces>> {
    // Libraries are quieter than we are, unless they are named.
    let level = match config.log.level.contains(['=', ',']) {
        true => config.log.level.clone(),
        false => format!(
            "{},h2=warn,hyper=warn,tower=warn,fjall=warn,lsm_tree=warn,scylla=error,librdkafka=error",
            config.log.level
        ),
    };
    let wrong = |error: tracing_subscriber::filter::ParseError| {
        Failure::usage(format!("log.level can't be `{}`: {error}", config.log.level))
    };
    let filter = EnvFilter::builder().parse(&level).map_err(wrong)?;
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match config.log.format {
        LogFormat::Text => log.with_ansi(session.colors.stderr).with_target(false).with_filter(filter).boxed(),
        LogFormat::Json => log.json().with_filter(filter).boxed(),
    };
    let traces = Traces::start(&config.traces, &session.env).map_err(|error| refusal(&error))?;
    let started = tracing_subscriber::registry().with(log).with(traces.as_ref().map(Traces::layer)).try_init();
    started.map_err(|error| Failure::other(format!("can't start the log: {error}")))?;
    Ok(traces)
}

/// Says what it listens on and what to type next.
fn greet(config: &Config, grpc: SocketAddr, http: SocketAddr) -> Outcome {
    let scheme = if config.listen.tls_certificate.is_some() { "https" } else { "http" };
    let program = program_name();
    let mut out = Out::new();
    out.line(format!("Anabranch {}", env!("CARGO_PKG_VERSION")))?;
    out.line("")?;
    out.line(format!("  gRPC  {scheme}://{grpc}"))?;
    out.line(format!("  HTTP  {scheme}://{http}"))?;
    match &config.store.url {
        StoreUrl::Embedded => out.line(format!("  data  {}", shown(&config.store.data)))?,
        cluster @ StoreUrl::Cassandra { .. } => out.line(format!("  store {cluster}"))?,
    }
    if config.bus.url != BusUrl::InProcess {
        out.line(format!("  bus   {}", config.bus.url))?;
    }
    out.line("")?;
    out.line("What to type next, in another terminal:")?;
    out.line("")?;
    if grpc.port() != USUAL_PORT || scheme == "https" {
        out.line(format!("  export ANABRANCH_SERVER={scheme}://{}", reachable(grpc)))?;
    }
    let mut trust = String::new();
    if let Some(certificate) = &config.listen.tls_certificate {
        trust = format!(" --cacert {}", shown(certificate));
        out.line(format!("  export ANABRANCH_TLS_CA={}", shown(certificate)))?;
    }
    out.line(format!("  {program} namespace create plays"))?;
    out.line(format!("  {program} write plays --series profile:123 --item title=Dark"))?;
    out.line(format!("  {program} read plays profile:123"))?;
    let body = "'{\"timeSeriesId\":\"profile:123\"}'";
    out.line(format!("  curl{trust} {scheme}://{}/v1/namespaces/plays/events:read -d {body}", reachable(http)))?;
    out.line("")?;
    out.line(format!("The dashboard is at {scheme}://{}/", reachable(http)))?;
    out.line(if std::io::stdout().is_terminal() { "Ctrl-C stops it." } else { "SIGINT or SIGTERM stops it." })?;
    Ok(out.flush()?)
}

/// How this program was called, so that the lines can be typed as they stand.
fn program_name() -> String {
    let called = std::env::args().next().unwrap_or_default();
    if called.contains('/') && !called.contains(' ') { called } else { "anabranch".to_owned() }
}

/// An address that one can connect to from here.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        let loopback = match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(loopback);
    }
    address
}

fn shown(path: &Path) -> String {
    crate::output::text::escaped(&path.display().to_string())
}

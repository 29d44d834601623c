//! `anabranch worker`: splits wide partitions on a shared store until it is told to stop.

use anabranch_server::{StartError, Worker};

use super::serve::{Prepared, prepare, refusal};
use crate::{
    args::WorkerArgs,
    config_layers,
    failure::{Failure, Outcome},
    output::Out,
    session::Session,
};

pub(crate) async fn run(session: &Session, args: &WorkerArgs) -> Outcome {
    let Prepared { config, mut signals, traces } = prepare(session, config_layers::load(&args.flags())?)?;
    let starting = Worker::start(config.clone(), session.env.clone());
    let worker = tokio::select! {
        worker = starting => worker.map_err(|error| refused(&error))?,
        signal = signals.next() => return Err(Failure::other(format!("{signal} while starting"))),
    };
    let mut out = Out::new();
    let scheme = if config.listen.tls_certificate.is_some() { "https" } else { "http" };
    out.line(format!("Anabranch {} worker, {} splits at once", env!("CARGO_PKG_VERSION"), config.splits.workers))?;
    out.line(format!("  health and metrics  {scheme}://{}", worker.http_addr()))?;
    out.flush()?;

    let signal = signals.next().await;
    tracing::info!("{signal}: stopping; what is under way goes on from its last checkpoint");
    let stopped = worker.shutdown().await;
    if let Some(traces) = traces {
        traces.flush().await;
    }
    stopped.map_err(|error| Failure::other(format!("the worker didn't stop cleanly: {error}")))
}

fn refused(error: &StartError) -> Failure {
    let failure = refusal(error);
    match error {
        StartError::NotShared { .. } => failure.hint("`anabranch tasks` shows what the workers of a server do"),
        _ => failure,
    }
}

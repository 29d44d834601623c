//! `anabranch advise`: looks at a table that is already there, and says what splitting would make of it.

mod show;

use anabranch_advise::{Report, advise};
use anabranch_server::cluster_options;
use anabranch_store_cassandra::ForeignError;

use super::serve::refusal;
use crate::{
    args::{AdviseArgs, ServerFlags},
    config_layers,
    failure::{Exit, Failure, Outcome},
    interrupt::Signals,
    output::{Format, Out},
    session::Session,
};

pub(crate) async fn run(session: &Session, args: &AdviseArgs) -> Outcome {
    let flags = ServerFlags { config: args.config.clone(), store: args.store.clone(), ..ServerFlags::default() };
    let config = config_layers::load(&flags)?.config;
    let options = cluster_options(&config).map_err(|error| refusal(&error))?;
    let options = options.ok_or_else(|| {
        Failure::usage("there is no cluster to look at").hint("--store cassandra://HOST:PORT names one")
    })?;
    let mut signals = Signals::listen()?;
    let time_column = args.time_column.as_deref();
    let looking = advise(&options, session.env.clone(), &args.keyspace, &args.table, time_column, args.limits());
    let report = tokio::select! {
        report = looking => report.map_err(|error| refused(&error))?,
        signal = signals.next() => return Err(Failure::other(format!("{signal}: ended; nothing was written"))),
    };
    print(session, &report)
}

fn print(session: &Session, report: &Report) -> Outcome {
    let mut out = Out::new();
    match session.format {
        Format::Table => out.text(&show::text(report, session.colors.stdout))?,
        Format::Json => out.json(report)?,
        Format::Jsonl => out.json_line(report)?,
    }
    Ok(out.flush()?)
}

fn refused(error: &ForeignError) -> Failure {
    let exit = match error {
        ForeignError::NoKeyspace { .. } | ForeignError::NoTable { .. } | ForeignError::NoColumn { .. } => {
            Exit::NotFound
        }
        ForeignError::NoTime { .. } => Exit::Refused,
        ForeignError::Connect(_) | ForeignError::Unreadable { .. } => Exit::Unavailable,
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        ForeignError::NoKeyspace { .. } | ForeignError::NoTable { .. } | ForeignError::NoColumn { .. } => {
            failure.hint("names are taken exactly as they are spelt, without quotes")
        }
        ForeignError::NoTime { columns, .. }
            if columns.iter().any(|it| it.ends_with(" bigint") || it.ends_with(" int")) =>
        {
            failure.hint("--time-column names a column of numbers of which only some are times")
        }
        ForeignError::Unreadable { .. } => failure.hint("the role needs SELECT on the table, and nothing else"),
        _ => failure,
    }
}

//! What commands do: each takes its arguments and a session, and prints its answer.

mod advise;
mod backfill;
mod block;
mod bus;
mod completions;
mod config;
mod count;
mod demo;
mod doctor;
mod heatmap;
mod import;
mod load;
mod namespace;
mod namespace_show;
mod overview;
mod plan;
mod read;
mod retention;
mod series;
mod serve;
mod slice;
mod split;
mod tasks;
mod top;
mod tune;
mod worker;
mod write;

use crate::{
    args::{BusCommand, Command, OutputChoice},
    failure::{Failure, Outcome},
    session::Session,
};

/// Runs one command.
pub(crate) async fn run(session: &Session, command: Command) -> Outcome {
    if session.global.output == OutputChoice::Toml && !matches!(command, Command::Plan(_)) {
        return Err(Failure::usage("`--output toml` is only for `anabranch plan`"));
    }
    match command {
        Command::Serve(args) => Box::pin(serve::run(session, &args)).await,
        Command::Namespace(command) => Box::pin(namespace::run(session, command)).await,
        Command::Plan(args) => plan::run(session, &args),
        Command::Advise(args) => Box::pin(advise::run(session, &args)).await,
        Command::Write(args) => Box::pin(write::run(session, &args)).await,
        Command::Read(args) => Box::pin(read::run(session, &args)).await,
        Command::Count(args) => Box::pin(count::run(session, &args)).await,
        Command::Import(args) => Box::pin(import::run(session, &args)).await,
        Command::Backfill(command) => Box::pin(backfill::run(session, command)).await,
        Command::Block(command) => Box::pin(block::run(session, command)).await,
        Command::Retention(args) => Box::pin(retention::run(session, &args)).await,
        Command::Split(command) => Box::pin(split::run(session, command)).await,
        Command::Bus(BusCommand::Tail(args)) => Box::pin(bus::tail(session, &args)).await,
        Command::Demo(args) => Box::pin(demo::run(session, &args)).await,
        Command::Load(args) => Box::pin(load::run(session, &args)).await,
        Command::Top(args) => Box::pin(top::run(session, &args)).await,
        Command::Overview(args) => overview::run(session, &args).await,
        Command::Series(args) => Box::pin(series::run(session, &args)).await,
        Command::HeatMap(args) => heatmap::run(session, &args).await,
        Command::Slice(command) => Box::pin(slice::run(session, command)).await,
        Command::Tune(command) => Box::pin(tune::run(session, command)).await,
        Command::Tasks => tasks::run(session).await,
        Command::Worker(args) => Box::pin(worker::run(session, &args)).await,
        Command::Doctor(args) => doctor::run(session, &args),
        Command::Config(args) => config::run(session, &args),
        Command::Completions(args) => completions::run(&args),
    }
}

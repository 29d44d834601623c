//! `anabranch demo`: a server of its own, one series that grows wide, and what becomes of it.

mod cost;
mod narrator;
mod pipeline;
mod stage;
mod story;

use crate::{
    args::DemoArgs,
    failure::{Failure, Outcome},
    interrupt::Signals,
    session::Session,
};

use narrator::Narrator;
use stage::Stage;
use story::Story;

pub(crate) async fn run(session: &Session, args: &DemoArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let stage = tokio::select! {
        stage = Box::pin(Stage::set(session, args)) => stage?,
        signal = signals.next() => return Err(Failure::other(format!("{signal} while starting"))),
    };
    let narrator = Narrator::new(session);
    let told = tokio::select! {
        told = Box::pin(tell(session, args, &stage, narrator)) => told,
        signal = signals.next() => interrupted(args, signal),
    };
    // Whatever came of the story, nothing of it stays behind.
    let struck = tokio::select! {
        struck = Box::pin(stage.strike()) => struck,
        signal = signals.next() => Err(Failure::other(format!("{signal} once more: ended without cleaning up"))),
    };
    told.and(struck)
}

async fn tell(session: &Session, args: &DemoArgs, stage: &Stage, narrator: Narrator) -> Outcome {
    let mut story = Story::new(session, args, stage, narrator);
    story.tell().await?;
    if args.stay { story.go_on().await } else { Ok(()) }
}

/// With `--stay` that is how it is meant to end.
fn interrupted(args: &DemoArgs, signal: &str) -> Outcome {
    if args.stay { Ok(()) } else { Err(Failure::other(format!("{signal}: ended before the end of the story"))) }
}

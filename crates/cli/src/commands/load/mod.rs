//! `anabranch load`: made-up traffic at a given rate, with what it took.

mod results;
mod schedule;

use std::{sync::Arc, time::Duration};

use anabranch_api::v1::GetNamespaceRequest;
use anabranch_client::{Client, ClientError, RetryPolicy};
use anabranch_runtime::{Env, Task};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    args::LoadArgs,
    failure::{Failure, Outcome},
    interrupt::Signals,
    session::Session,
};

use results::{Live, Results};
use schedule::{Call, Schedule};

/// How often what is shown changes.
const SHOWN_EVERY: Duration = Duration::from_millis(250);

/// A request that ended.
struct Ended {
    is_write: bool,
    /// Events stored or records answered.
    size: u64,
    /// From the moment when it was due.
    took: Duration,
    failure: Option<ClientError>,
}

pub(crate) async fn run(session: &Session, args: &LoadArgs) -> Outcome {
    if args.writes_per_second == 0 && args.reads_per_second == 0 {
        return Err(Failure::usage("there is nothing to send: neither writes nor reads"));
    }
    // Nothing is tried again: what fails shall be seen.
    let client = session.connect_with(RetryPolicy::NEVER).await?;
    client.get_namespace(GetNamespaceRequest { name: args.namespace.clone() }).await?;
    let mut signals = Signals::listen()?;
    let (ended, mut arrived) = mpsc::channel(args.concurrency as usize);
    let sender =
        Sender { client, env: session.env.clone(), ended, room: Arc::new(Semaphore::new(args.concurrency as usize)) };
    let sending: Task<()> = session.env.spawn(sender.send(Schedule::new(args)));

    let mut results = Results::new()?;
    let live = Live::new(session, args.duration);
    let begun = session.env.monotonic();
    let mut shown = Duration::ZERO;
    loop {
        let next = tokio::select! {
            next = arrived.recv() => next,
            _ = signals.next() => {
                sending.abort();
                break;
            }
        };
        let Some(ended) = next else { break };
        results.take(&ended);
        let elapsed = session.env.monotonic().saturating_sub(begun);
        if elapsed >= shown {
            live.show(&results, elapsed);
            shown = elapsed + SHOWN_EVERY;
        }
    }
    live.finish();
    results.print(session, args, session.env.monotonic().saturating_sub(begun))?;
    results.verdict()
}

/// Sends what is due when it is due.
struct Sender {
    client: Client,
    env: Env,
    ended: mpsc::Sender<Ended>,
    room: Arc<Semaphore>,
}

impl Sender {
    async fn send(self, schedule: Schedule) {
        let begun = self.env.monotonic();
        for (due, call) in schedule {
            let elapsed = self.env.monotonic().saturating_sub(begun);
            if due > elapsed {
                self.env.sleep(due.saturating_sub(elapsed)).await;
            }
            let Ok(room) = self.room.clone().acquire_owned().await else { return };
            let (client, env, ended) = (self.client.clone(), self.env.clone(), self.ended.clone());
            self.env.spawn(async move {
                let is_write = matches!(call, Call::Write(_));
                let answer = match call {
                    Call::Write(write) => {
                        client.write_sync(write.at(env.now())).await.map(|answer| u64::from(answer.events_stored))
                    }
                    Call::Read(read) => client.read(read).await.map(|page| page.records.len() as u64),
                };
                let took = env.monotonic().saturating_sub(begun).saturating_sub(due);
                let (size, failure) = match answer {
                    Ok(size) => (size, None),
                    Err(failure) => (0, Some(failure)),
                };
                drop(room);
                let _ = ended.send(Ended { is_write, size, took, failure }).await; // nobody listens after an interrupt
            });
        }
    }
}

//! The states of a segment, one file each, each with one `next`: the folder is the diagram.
//!
//! ```text
//! DETECTED → PLANNING → PLANNED → SPLITTING → VERIFYING → COMPLETED
//!               ↓                                  ↓
//!           NOT_WIDE          any of them → FAILED → where it failed, or PLANNING in the next generation
//!                                                ↓
//!                                             PARKED
//! INVALIDATED, when what was served turned out to differ from the original → DETECTED, in the next generation
//! ```

mod detected;
mod failed;
mod planned;
mod planning;
mod splitting;
mod verifying;

use tracing::Instrument as _;

use crate::{
    SplitError, TRACE,
    record::{State, WideRow},
    records::Loaded,
    work::{Ground, Work},
};

/// A split that so many workers in a row have taken up and got no further with probably ends them. Far more than an operator who
/// restarts servers, or a machine that is short of memory, brings about in a row.
const MOST_ABANDONED: u32 = 20;

/// What became of an effort.
#[derive(Clone, Debug)]
pub enum Effort {
    /// The record is where it rests: served, too small, parked, or waiting for its next attempt.
    Rests(Box<Loaded>),
    /// Somebody else works on it, or did meanwhile.
    Elsewhere,
}

impl Work {
    /// Works on a partition's record until it rests. Whatever fails on the way is written into the record.
    pub async fn advance(&self, loaded: &Loaded, ground: &Ground) -> Result<Effort, SplitError> {
        if self.rests(&loaded.row) {
            return Ok(Effort::Rests(Box::new(loaded.clone())));
        }
        let Some(mut loaded) = self.records.take(loaded, &self.worker, self.options.lease).await? else {
            return Ok(Effort::Elsewhere);
        };
        if loaded.row.abandoned > MOST_ABANDONED {
            loaded = match failed::abandoned(self, &loaded).await {
                Err(SplitError::LeaseLost) => return Ok(Effort::Elsewhere),
                parked => parked?,
            };
        }
        while loaded.row.lease.is_some() {
            let state = tracing::trace_span!(target: TRACE, "state", otel.name = loaded.row.state.name());
            loaded = match self.next(&loaded, ground).instrument(state).await {
                Ok(next) => next,
                Err(SplitError::LeaseLost) => return Ok(Effort::Elsewhere),
                Err(error) => match failed::record(self, &loaded, &error).await {
                    Ok(loaded) => loaded,
                    Err(SplitError::LeaseLost) => return Ok(Effort::Elsewhere),
                    Err(_) => return Err(error), // the lease runs out, and somebody goes on from the checkpoint (S5)
                },
            };
        }
        Ok(Effort::Rests(Box::new(loaded)))
    }

    async fn next(&self, loaded: &Loaded, ground: &Ground) -> Result<Loaded, SplitError> {
        match &loaded.row.state {
            State::Detected => detected::next(self, loaded, ground).await,
            State::Planning(draft) => planning::next(self, loaded, draft, ground).await,
            State::Planned(plan) => planned::next(self, loaded, plan).await,
            State::Splitting(copying) => splitting::next(self, loaded, copying).await,
            State::Verifying(checking) => verifying::next(self, loaded, checking).await,
            State::Failed(failure) => failed::next(self, loaded, failure).await,
            State::Invalidated { .. } => self.step(loaded, State::Detected).await,
            State::Completed { .. } | State::NotWide { .. } | State::Parked { .. } => {
                release(self, loaded, loaded.row.state.clone()).await
            }
        }
    }

    /// Whether there is nothing to do for a worker now.
    pub fn rests(&self, row: &WideRow) -> bool {
        match &row.state {
            State::Completed { .. } | State::NotWide { .. } | State::Parked { .. } => true,
            State::Failed(failure) => failure.waits(self.env.now(), self.options.longest_retry),
            _ => false,
        }
    }
}

/// Writes a state in which the record rests, and lets go of the lease.
async fn release(work: &Work, loaded: &Loaded, state: State) -> Result<Loaded, SplitError> {
    work.records.step(loaded, WideRow { state, lease: None, ..loaded.row.clone() }).await
}

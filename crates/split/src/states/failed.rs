//! FAILED: waits, then goes on where it failed; after a mismatch from planning, in the next generation. After too many attempts
//! the split is parked for an operator; to wait for a store that is away, or has too much to do, isn't one.

use std::sync::atomic::Ordering;

use anabranch_model::Timestamp;
use anabranch_store::ErrorKind;

use crate::{
    SplitError,
    record::{Draft, Failure, State, Target, WideRow},
    records::Loaded,
    work::Work,
};

/// Goes on after a failure whose time has come.
pub(crate) async fn next(work: &Work, loaded: &Loaded, failure: &Failure) -> Result<Loaded, SplitError> {
    let resume = (*failure.resume).clone();
    work.step(loaded, resume).await
}

/// Writes a failure down and lets go of the record.
pub(crate) async fn record(work: &Work, loaded: &Loaded, error: &SplitError) -> Result<Loaded, SplitError> {
    let reason = error.to_string();
    if matches!(error, SplitError::Mismatch { .. }) {
        work.mismatches.fetch_add(1, Ordering::Relaxed);
    }
    if let SplitError::Store(error) = error
        && matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unknown | ErrorKind::Overloaded)
    {
        return wait(work, loaded, reason).await;
    }
    let exhausted = loaded.row.attempts >= work.options.max_attempts;
    let state = match error {
        SplitError::Stuck { .. } => State::parked(reason),
        _ if exhausted => State::parked(format!("{} attempts failed; the last: {reason}", loaded.row.attempts)),
        SplitError::Mismatch { .. } => return next_generation(work, loaded, reason).await,
        _ => failure(work, loaded.row.attempts, reason, loaded.row.state.clone()),
    };
    super::release(work, loaded, state).await
}

/// The store is away, or has too much to do, and that is nothing an operator could do to this split: it waits, with all its attempts
/// left.
async fn wait(work: &Work, loaded: &Loaded, reason: String) -> Result<Loaded, SplitError> {
    let (attempts, waits) = (loaded.row.attempts.saturating_sub(1), loaded.row.waits.saturating_add(1));
    let state = failure(work, waits, reason, loaded.row.state.clone());
    work.records.step(loaded, WideRow { state, attempts, waits, lease: None, ..loaded.row.clone() }).await
}

/// Whoever works on it dies, or stands still, and never gets to write down why.
pub(crate) async fn abandoned(work: &Work, loaded: &Loaded) -> Result<Loaded, SplitError> {
    let WideRow { abandoned, state, .. } = &loaded.row;
    let reason = format!(
        "{abandoned} workers in a row took it up in {} and died, or stood still, before they got any further: look into their logs, then \
         `anabranch split retry`",
        state.name()
    );
    super::release(work, loaded, State::parked(reason)).await
}

/// The pieces that were written stay where they are and are never used.
async fn next_generation(work: &Work, loaded: &Loaded, reason: String) -> Result<Loaded, SplitError> {
    let generation = loaded.row.generation.next();
    let resume = match target(&loaded.row) {
        Some(target) => {
            let target = Target { generation, ..target.clone() };
            let piece_bytes = target.target_piece_bytes;
            State::Planning(Draft { target, pieces: Vec::new(), piece_bytes })
        }
        None => State::Detected,
    };
    let state = failure(work, loaded.row.attempts, reason, resume);
    work.records.step(loaded, WideRow { state, generation, next_ordinal: 0, lease: None, ..loaded.row.clone() }).await
}

/// The `failures`th in a row.
fn failure(work: &Work, failures: u32, reason: String, resume: State) -> State {
    let retry_after = retry_after(work, failures);
    State::Failed(Failure { reason, retry_after, resume: Box::new(resume) })
}

/// Back-off with jitter: from half of the wait to all of it.
fn retry_after(work: &Work, failures: u32) -> Timestamp {
    let wait = work.options.first_retry * 2u32.saturating_pow(failures.saturating_sub(1).min(16));
    let wait = wait.min(work.options.longest_retry);
    let jitter = work.env.random_below((wait.as_nanos() as u64 / 2).max(1));
    work.env.now().saturating_add(wait / 2 + std::time::Duration::from_nanos(jitter))
}

fn target(row: &WideRow) -> Option<&Target> {
    match &row.state {
        State::Planning(draft) => Some(&draft.target),
        State::Planned(plan) => Some(&plan.target),
        State::Splitting(copying) => Some(&copying.plan.target),
        State::Verifying(checking) => Some(&checking.plan.target),
        _ => None,
    }
}

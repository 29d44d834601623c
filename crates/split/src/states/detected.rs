//! DETECTED: decides what the next segment covers, and writes that down before its first row is read.

use anabranch_model::Interval;

use crate::{
    SplitError,
    record::{Draft, State, Strategy, Target},
    records::Loaded,
    work::{Ground, Work},
};

pub(crate) async fn next(work: &Work, loaded: &Loaded, ground: &Ground) -> Result<Loaded, SplitError> {
    let begin = loaded.row.served_until().unwrap_or(ground.bucket.start);
    let watermark = ground.sealed_until.min(ground.bucket.end);
    let span = Interval::new(begin, watermark);
    // Spreading by hash cuts across all time, so all of it must be sealed.
    let spreads = matches!(ground.strategy, Strategy::EventBucket { .. });
    if span.is_empty() || (spreads && watermark < ground.bucket.end) {
        let state = match loaded.row.served.last() {
            Some(segment) => State::Completed { at: segment.completed },
            None => State::NotWide { bytes: 0, watermark },
        };
        return super::release(work, loaded, state).await;
    }
    let target = Target {
        span,
        generation: loaded.row.generation,
        strategy: ground.strategy,
        form: ground.form,
        as_of: ground.as_of,
        target_piece_bytes: ground.target_piece_bytes,
        threshold_bytes: ground.threshold_bytes,
        begun: work.env.now(),
    };
    let piece_bytes = target.target_piece_bytes;
    work.step(loaded, State::Planning(Draft { target, pieces: Vec::new(), piece_bytes })).await
}

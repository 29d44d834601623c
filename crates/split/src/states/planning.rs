//! PLANNING: reads the span once, in order, from its checkpoint, and finds the cuts.

use anabranch_store::After;

use crate::{
    SplitError,
    cut::Cutter,
    record::{Draft, MAX_GENERATIONS, Plan, State, Target, WideRow},
    records::Loaded,
    work::{Ground, Work},
};

pub(crate) async fn next(work: &Work, loaded: &Loaded, draft: &Draft, ground: &Ground) -> Result<Loaded, SplitError> {
    if draft.target.generation.0 > MAX_GENERATIONS {
        let reason = format!("{MAX_GENERATIONS} generations of this slice are used up");
        return Err(SplitError::Stuck { reason });
    }
    let target = &draft.target;
    let series = loaded.row.partition.time_series_id.clone();
    let mut cutter = Cutter::new(series, draft.pieces.clone(), draft.piece_bytes);
    let after = cutter.last().cloned().map(After::Event);
    let mut source = work.source(&loaded.row, target.span, after);
    loop {
        while let Some(row) = source.take() {
            cutter.push(&row);
            // Not in the middle of an event: the checkpoint goes on after its last event.
            let between = source.peek().is_some_and(|next| next.position != row.position);
            if between && source.bytes_read() >= work.options.checkpoint_bytes && source.fetched() > 0 {
                let (pieces, piece_bytes) = cutter.into_parts();
                return work.step(loaded, State::Planning(Draft { target: target.clone(), pieces, piece_bytes })).await;
            }
        }
        if source.is_exhausted() {
            return conclude(work, loaded, target, cutter, ground).await;
        }
        work.fetch(&mut source).await?;
    }
}

async fn conclude(
    work: &Work,
    loaded: &Loaded,
    target: &Target,
    cutter: Cutter,
    ground: &Ground,
) -> Result<Loaded, SplitError> {
    let bytes = cutter.bytes();
    let all_sealed = target.span.end >= ground.bucket.end;
    match loaded.row.served.last() {
        None if bytes < target.threshold_bytes => {
            let state = State::NotWide { bytes, watermark: target.span.end };
            return super::release(work, loaded, state).await;
        }
        // The tail is extended once it makes a piece, or when nothing more can come.
        Some(segment) if bytes == 0 || (bytes < target.target_piece_bytes && !all_sealed) => {
            let (state, looked_until) = (State::Completed { at: segment.completed }, target.span.end);
            let row = WideRow { state, looked_until, lease: None, ..loaded.row.clone() };
            return work.records.step(loaded, row).await;
        }
        _ => {}
    }
    let (mut pieces, _) = cutter.into_parts();
    for (ordinal, piece) in (loaded.row.next_ordinal..).zip(&mut pieces) {
        piece.ordinal = ordinal;
    }
    let next_ordinal = loaded.row.next_ordinal + pieces.len() as u32;
    let plan = Plan { target: target.clone(), pieces };
    work.step_with(loaded, |row| {
        row.state = State::Planned(plan);
        row.next_ordinal = next_ordinal;
    })
    .await
}

//! VERIFYING: reads every piece back from the store and serves the segment only if each holds exactly what was planned (S2).

use crate::{
    SplitError,
    readback::read_back,
    record::{Checking, Content, Segment, State, Stored, WideRow},
    records::Loaded,
    work::{Tenure, Work},
};

pub(crate) async fn next(work: &Work, loaded: &Loaded, checking: &Checking) -> Result<Loaded, SplitError> {
    let Checking { plan, mut proven, mut stored } = checking.clone();
    let mut since_checkpoint = 0;
    let mut tenure = Tenure::of(work, loaded);
    while let Some(piece) = plan.pieces.get(proven) {
        let found = read_back(&mut tenure, &plan.target, piece).await?;
        if Content::from(found.content) != piece.content {
            let reason = format!(
                "piece {} holds {} rows of {} bytes instead of {} rows of {} bytes, or others",
                piece.ordinal, found.content.rows, found.content.bytes, piece.content.rows, piece.content.bytes
            );
            return Err(SplitError::Mismatch { reason });
        }
        stored.rows += found.stored.rows;
        stored.bytes += found.stored.bytes;
        proven += 1;
        since_checkpoint += piece.content.bytes;
        let due = since_checkpoint >= work.options.checkpoint_bytes || tenure.is_checkpoint_due();
        if due && proven < plan.pieces.len() {
            return work.step(&tenure.loaded, State::Verifying(Checking { plan, proven, stored })).await;
        }
    }
    let loaded = &tenure.loaded;
    let now = work.env.now();
    let pre_split_data = Stored {
        rows: plan.pieces.iter().map(|piece| piece.content.rows).sum(),
        bytes: plan.pieces.iter().map(|piece| piece.content.bytes).sum(),
    };
    let segment = Segment {
        span: plan.target.span,
        generation: plan.target.generation,
        strategy: plan.target.strategy,
        form: plan.target.form,
        as_of: plan.target.as_of,
        checked: now,
        pieces: plan.pieces,
        pre_split_data,
        post_split_data: stored,
        took: now.since(plan.target.begun),
        completed: now,
    };
    let mut served = loaded.row.served.clone();
    served.push(segment);
    let state = State::Completed { at: now };
    let mut row = WideRow { served, state, lease: None, ..loaded.row.clone() };
    row.try_anew();
    work.records.step(loaded, row).await
}

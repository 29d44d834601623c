//! PLANNING: reads the span once, in order, from its checkpoint, and finds the cuts.

use anabranch_model::{Position, Row};
use anabranch_store::After;

use crate::{
    SplitError,
    cut::Cutter,
    record::{Draft, MAX_GENERATIONS, Plan, State, Strategy, Target, WideRow},
    records::Loaded,
    spread::Spreader,
    work::{Breath, Ground, Tenure, Work},
};

pub(crate) async fn next(work: &Work, loaded: &Loaded, draft: &Draft, ground: &Ground) -> Result<Loaded, SplitError> {
    if draft.target.generation.0 > MAX_GENERATIONS {
        let reason = format!("{MAX_GENERATIONS} generations of this slice are used up");
        return Err(SplitError::Stuck { reason });
    }
    let target = &draft.target;
    let mut divider = Divider::new(&loaded.row, draft, ground);
    let after = divider.last().cloned().map(After::Event);
    let mut source = work.source(&loaded.row, target.span, after);
    let mut tenure = Tenure::of(work, loaded);
    let mut last: Option<Position> = None;
    let mut planned = 0;
    let mut breath = Breath::default();
    loop {
        while let Some(row) = source.take() {
            // Not in the middle of an event: the checkpoint goes on after its last event. Whether that is over only the next row tells,
            // and that may come with another fetch: it is read again (S5).
            let between = last.as_ref().is_some_and(|last| *last != row.position);
            let due = planned >= work.options.checkpoint_bytes || tenure.is_checkpoint_due();
            if between && due {
                return work.step(&tenure.loaded, State::Planning(divider.into_draft(target))).await;
            }
            planned += row.bytes() as u64;
            breath.after(row.bytes()).await;
            divider.push(&row);
            if last.as_ref() != Some(&row.position) {
                last = Some(row.position);
            }
        }
        if source.is_exhausted() {
            return conclude(work, &tenure.loaded, target, divider, ground).await;
        }
        work.fetch(&mut source).await?;
        tenure.keep().await?;
    }
}

/// Divides a stream of events among pieces, one way or the other.
enum Divider {
    Cut(Cutter),
    Spread(Spreader),
}

impl Divider {
    fn new(row: &WideRow, draft: &Draft, ground: &Ground) -> Self {
        let (series, pieces) = (row.partition.time_series_id.clone(), draft.pieces.clone());
        match draft.target.strategy {
            Strategy::TimeRange => Divider::Cut(Cutter::new(series, pieces, draft.piece_bytes)),
            Strategy::EventBucket { .. } => Divider::Spread(Spreader::new(series, ground.event_buckets, pieces)),
        }
    }

    fn push(&mut self, row: &Row) {
        match self {
            Divider::Cut(cutter) => cutter.push(row),
            Divider::Spread(spreader) => spreader.push(row),
        }
    }

    fn last(&self) -> Option<&Position> {
        match self {
            Divider::Cut(cutter) => cutter.last(),
            Divider::Spread(spreader) => spreader.last(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Divider::Cut(cutter) => cutter.bytes(),
            Divider::Spread(spreader) => spreader.bytes(),
        }
    }

    fn into_draft(self, target: &Target) -> Draft {
        let (pieces, piece_bytes) = match self {
            Divider::Cut(cutter) => cutter.into_parts(),
            Divider::Spread(spreader) => (spreader.into_buckets(), target.target_piece_bytes),
        };
        Draft { target: target.clone(), pieces, piece_bytes }
    }

    /// What each piece must hold, and the first ordinal after them.
    fn into_plan(self, target: &Target, first_ordinal: u32) -> (Plan, u32) {
        let (strategy, pieces, count) = match self {
            Divider::Cut(cutter) => {
                let (mut pieces, _) = cutter.into_parts();
                for (ordinal, piece) in (first_ordinal..).zip(&mut pieces) {
                    piece.ordinal = ordinal;
                }
                let count = pieces.len() as u32;
                (Strategy::TimeRange, pieces, count)
            }
            Divider::Spread(spreader) => {
                let (strategy, pieces) = spreader.into_pieces(target.target_piece_bytes, first_ordinal);
                let count = match strategy {
                    Strategy::EventBucket { pieces, .. } => pieces,
                    Strategy::TimeRange => pieces.len() as u32,
                };
                (strategy, pieces, count)
            }
        };
        (Plan { target: Target { strategy, ..target.clone() }, pieces }, first_ordinal + count)
    }
}

async fn conclude(
    work: &Work,
    loaded: &Loaded,
    target: &Target,
    divider: Divider,
    ground: &Ground,
) -> Result<Loaded, SplitError> {
    let bytes = divider.bytes();
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
    let (plan, next_ordinal) = divider.into_plan(target, loaded.row.next_ordinal);
    work.step_with(loaded, |row| {
        row.state = State::Planned(plan);
        row.next_ordinal = next_ordinal;
    })
    .await
}

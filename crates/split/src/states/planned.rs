//! PLANNED: sees to it that there is room for the pieces, and a table.

use anabranch_store::StoreError;

use crate::{
    SplitError,
    record::{Copying, Plan, State},
    records::Loaded,
    work::Work,
};

/// Not begun without this many times the span's size of free space: pieces, and what merging them takes.
const ROOM: u64 = 3;

pub(crate) async fn next(work: &Work, loaded: &Loaded, plan: &Plan) -> Result<Loaded, SplitError> {
    let bytes: u64 = plan.pieces.iter().map(|piece| piece.content.bytes).sum();
    if let Some(free) = work.store.free_bytes()
        && free < bytes.saturating_mul(ROOM)
    {
        let reason = format!("{free} bytes are free; splitting {bytes} needs {ROOM} times as many");
        return Err(StoreError::Unavailable { reason }.into());
    }
    let partition = &loaded.row.partition;
    let table = plan.target.generation.table(&partition.namespace, &partition.time_slice);
    work.store.create_table(&table).await?;
    work.step(loaded, State::Splitting(Copying { plan: plan.clone(), copied: None, bytes: 0 })).await
}

//! PLANNED: sees to it that the table for the pieces is there.

use crate::{
    SplitError,
    record::{Copying, Plan, State},
    records::Loaded,
    work::Work,
};

pub(crate) async fn next(work: &Work, loaded: &Loaded, plan: &Plan) -> Result<Loaded, SplitError> {
    let partition = &loaded.row.partition;
    let table = plan.target.generation.table(&partition.namespace, &partition.time_slice);
    work.store.create_table(&table).await?;
    work.step(loaded, State::Splitting(Copying { plan: plan.clone(), copied: None, bytes: 0 })).await
}

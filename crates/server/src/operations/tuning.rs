//! The rpcs of measured slices and of the tuner.

use anabranch_api::v1;
use anabranch_engine::EngineError;

use super::{Answer, Operations};
use crate::convert::tuning::{decision_message, measured_slice_message, nodes_estimate_message};

/// Who it was, where nobody says.
const SOMEBODY: &str = "operator";

impl Operations {
    pub(crate) async fn list_slices(&self, message: v1::ListSlicesRequest) -> Answer<v1::ListSlicesResponse> {
        let latest = (message.latest > 0).then_some(message.latest as usize);
        let slices = self.engine.slice_sizes(&message.namespace, latest).await?;
        let target = self.engine.density_target();
        let shown = |(slice, sizes): &_| measured_slice_message(slice, Option::as_ref(sizes), target);
        let slices = slices.iter().map(shown).collect();
        Ok(v1::ListSlicesResponse { slices })
    }

    pub(crate) async fn get_slice(&self, message: v1::GetSliceRequest) -> Answer<v1::MeasuredSlice> {
        self.check_slice(&message.namespace, &message.time_slice)?;
        let slices = self.engine.slice_sizes(&message.namespace, None).await?;
        let found = slices.iter().find(|(slice, _)| slice.name() == message.time_slice);
        let gone = || EngineError::invalid("time_slice", "the slice has just been dropped");
        let (slice, sizes) = found.ok_or_else(gone)?;
        let mut answer = measured_slice_message(slice, sizes.as_ref(), self.engine.density_target());
        match self.engine.slice_estimate(&message.namespace, slice).await {
            Ok(estimate) => answer.nodes_estimate = estimate.map(nodes_estimate_message),
            // What was measured is worth showing without it.
            Err(error) => {
                tracing::warn!(slice = message.time_slice, %error, "the nodes can't be asked for their estimates");
            }
        }
        Ok(answer)
    }

    pub(crate) async fn list_tuning_decisions(
        &self,
        message: v1::ListTuningDecisionsRequest,
    ) -> Answer<v1::ListTuningDecisionsResponse> {
        let decisions = self.engine.tuning_decisions(&message.namespace).await?;
        Ok(v1::ListTuningDecisionsResponse { decisions: decisions.iter().map(decision_message).collect() })
    }

    pub(crate) async fn propose_tuning(&self, message: v1::ProposeTuningRequest) -> Answer<v1::TuningDecision> {
        Ok(decision_message(&self.engine.propose_tuning(&message.namespace).await?))
    }

    pub(crate) async fn apply_tuning(&self, message: v1::ApplyTuningRequest) -> Answer<v1::TuningDecision> {
        let applied = self.engine.apply_tuning(&message.namespace, message.number, who(&message.by)).await?;
        Ok(decision_message(&applied))
    }

    pub(crate) async fn reject_tuning(&self, message: v1::RejectTuningRequest) -> Answer<v1::TuningDecision> {
        let by = who(&message.by);
        let rejected = self.engine.reject_tuning(&message.namespace, message.number, by, &message.reason).await?;
        Ok(decision_message(&rejected))
    }
}

fn who(by: &str) -> &str {
    if by.is_empty() { SOMEBODY } else { by }
}

//! `TuningService`: the generated trait over [`Operations`](crate::operations::Operations).

use anabranch_api::v1::{
    ApplyTuningRequest, GetSliceRequest, ListSlicesRequest, ListSlicesResponse, ListTuningDecisionsRequest,
    ListTuningDecisionsResponse, MeasuredSlice, ProposeTuningRequest, RejectTuningRequest, TuningDecision,
    tuning_service_server::TuningService,
};
use tonic::{Request, Response, Status, async_trait};

use super::Services;

#[async_trait]
impl TuningService for Services {
    async fn list_slices(&self, request: Request<ListSlicesRequest>) -> Result<Response<ListSlicesResponse>, Status> {
        self.tracked("ListSlices", self.0.list_slices(request.into_inner())).await
    }

    async fn get_slice(&self, request: Request<GetSliceRequest>) -> Result<Response<MeasuredSlice>, Status> {
        self.tracked("GetSlice", self.0.get_slice(request.into_inner())).await
    }

    async fn list_tuning_decisions(
        &self,
        request: Request<ListTuningDecisionsRequest>,
    ) -> Result<Response<ListTuningDecisionsResponse>, Status> {
        self.tracked("ListTuningDecisions", self.0.list_tuning_decisions(request.into_inner())).await
    }

    async fn propose_tuning(&self, request: Request<ProposeTuningRequest>) -> Result<Response<TuningDecision>, Status> {
        self.tracked("ProposeTuning", Box::pin(self.0.propose_tuning(request.into_inner()))).await
    }

    async fn apply_tuning(&self, request: Request<ApplyTuningRequest>) -> Result<Response<TuningDecision>, Status> {
        self.tracked("ApplyTuning", Box::pin(self.0.apply_tuning(request.into_inner()))).await
    }

    async fn reject_tuning(&self, request: Request<RejectTuningRequest>) -> Result<Response<TuningDecision>, Status> {
        self.tracked("RejectTuning", Box::pin(self.0.reject_tuning(request.into_inner()))).await
    }
}

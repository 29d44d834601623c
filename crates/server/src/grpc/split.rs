//! `SplitService`: the generated trait over [`Operations`](crate::operations::Operations).

use std::future::ready;

use anabranch_api::v1::{
    AbandonSplitRequest, AbandonSplitResponse, GetSplitRequest, ListSplitDifferencesRequest,
    ListSplitDifferencesResponse, ListSplitsRequest, ListSplitsResponse, ListTasksRequest, ListTasksResponse,
    Namespace, RequestSplitRequest, RequestSplitResponse, RetrySplitRequest, RetrySplitResponse, SetReadModeRequest,
    Split, VerifySplitRequest, VerifySplitResponse, split_service_server::SplitService,
};
use tonic::{Request, Response, Status, async_trait};

use super::Services;

#[async_trait]
impl SplitService for Services {
    async fn list_splits(&self, request: Request<ListSplitsRequest>) -> Result<Response<ListSplitsResponse>, Status> {
        self.tracked("ListSplits", self.0.list_splits(request.into_inner())).await
    }

    async fn get_split(&self, request: Request<GetSplitRequest>) -> Result<Response<Split>, Status> {
        self.tracked("GetSplit", self.0.get_split(request.into_inner())).await
    }

    async fn request_split(
        &self,
        request: Request<RequestSplitRequest>,
    ) -> Result<Response<RequestSplitResponse>, Status> {
        self.tracked("RequestSplit", self.0.request_split(request.into_inner())).await
    }

    async fn retry_split(&self, request: Request<RetrySplitRequest>) -> Result<Response<RetrySplitResponse>, Status> {
        self.tracked("RetrySplit", self.0.retry_split(request.into_inner())).await
    }

    async fn abandon_split(
        &self,
        request: Request<AbandonSplitRequest>,
    ) -> Result<Response<AbandonSplitResponse>, Status> {
        self.tracked("AbandonSplit", self.0.abandon_split(request.into_inner())).await
    }

    async fn verify_split(
        &self,
        request: Request<VerifySplitRequest>,
    ) -> Result<Response<VerifySplitResponse>, Status> {
        self.tracked("VerifySplit", Box::pin(self.0.verify_split(request.into_inner()))).await
    }

    async fn list_split_differences(
        &self,
        request: Request<ListSplitDifferencesRequest>,
    ) -> Result<Response<ListSplitDifferencesResponse>, Status> {
        self.tracked("ListSplitDifferences", self.0.list_split_differences(request.into_inner())).await
    }

    async fn set_read_mode(&self, request: Request<SetReadModeRequest>) -> Result<Response<Namespace>, Status> {
        self.tracked("SetReadMode", self.0.set_read_mode(request.into_inner())).await
    }

    async fn list_tasks(&self, _: Request<ListTasksRequest>) -> Result<Response<ListTasksResponse>, Status> {
        self.tracked("ListTasks", ready(Ok(self.0.list_tasks()))).await
    }
}

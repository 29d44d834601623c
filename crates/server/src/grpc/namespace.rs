//! `NamespaceService`: the generated trait over [`Operations`](crate::operations::Operations).

use std::future::ready;

use anabranch_api::v1::{
    Backfill, BlockList, BlockSeriesRequest, CloseBackfillRequest, CreateNamespaceRequest, DeleteNamespaceRequest,
    DeleteNamespaceResponse, GetNamespaceRequest, ListBackfillsRequest, ListBackfillsResponse, ListNamespacesRequest,
    ListNamespacesResponse, Namespace, OpenBackfillRequest, RestoreNamespaceRequest, UnblockSeriesRequest,
    UpdateNamespaceRequest, namespace_service_server::NamespaceService,
};
use tonic::{Request, Response, Status, async_trait};

use super::Services;

#[async_trait]
impl NamespaceService for Services {
    async fn create_namespace(&self, request: Request<CreateNamespaceRequest>) -> Result<Response<Namespace>, Status> {
        self.tracked("CreateNamespace", Box::pin(self.0.create_namespace(request.into_inner()))).await
    }

    async fn get_namespace(&self, request: Request<GetNamespaceRequest>) -> Result<Response<Namespace>, Status> {
        self.tracked("GetNamespace", ready(self.0.get_namespace(request.into_inner()))).await
    }

    async fn list_namespaces(
        &self,
        request: Request<ListNamespacesRequest>,
    ) -> Result<Response<ListNamespacesResponse>, Status> {
        self.tracked("ListNamespaces", ready(Ok(self.0.list_namespaces(request.into_inner())))).await
    }

    async fn update_namespace(&self, request: Request<UpdateNamespaceRequest>) -> Result<Response<Namespace>, Status> {
        self.tracked("UpdateNamespace", Box::pin(self.0.update_namespace(request.into_inner()))).await
    }

    async fn delete_namespace(
        &self,
        request: Request<DeleteNamespaceRequest>,
    ) -> Result<Response<DeleteNamespaceResponse>, Status> {
        self.tracked("DeleteNamespace", self.0.delete_namespace(request.into_inner())).await
    }

    async fn restore_namespace(
        &self,
        request: Request<RestoreNamespaceRequest>,
    ) -> Result<Response<Namespace>, Status> {
        self.tracked("RestoreNamespace", Box::pin(self.0.restore_namespace(request.into_inner()))).await
    }

    async fn block_series(&self, request: Request<BlockSeriesRequest>) -> Result<Response<BlockList>, Status> {
        self.tracked("BlockSeries", Box::pin(self.0.block_series(request.into_inner()))).await
    }

    async fn unblock_series(&self, request: Request<UnblockSeriesRequest>) -> Result<Response<BlockList>, Status> {
        self.tracked("UnblockSeries", Box::pin(self.0.unblock_series(request.into_inner()))).await
    }

    async fn open_backfill(&self, request: Request<OpenBackfillRequest>) -> Result<Response<Backfill>, Status> {
        self.tracked("OpenBackfill", self.0.open_backfill(request.into_inner())).await
    }

    async fn close_backfill(&self, request: Request<CloseBackfillRequest>) -> Result<Response<Backfill>, Status> {
        self.tracked("CloseBackfill", self.0.close_backfill(request.into_inner())).await
    }

    async fn list_backfills(
        &self,
        request: Request<ListBackfillsRequest>,
    ) -> Result<Response<ListBackfillsResponse>, Status> {
        self.tracked("ListBackfills", ready(self.0.list_backfills(request.get_ref()))).await
    }
}

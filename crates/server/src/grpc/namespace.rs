//! `NamespaceService`: the generated trait over [`Operations`](crate::operations::Operations).

use std::future::ready;

use anabranch_api::v1::{
    Backfill, CloseBackfillRequest, CreateNamespaceRequest, DeleteNamespaceRequest, DeleteNamespaceResponse,
    GetNamespaceRequest, ListBackfillsRequest, ListBackfillsResponse, ListNamespacesRequest, ListNamespacesResponse,
    Namespace, OpenBackfillRequest, RestoreNamespaceRequest, UpdateNamespaceRequest,
    namespace_service_server::NamespaceService,
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
        _: Request<ListNamespacesRequest>,
    ) -> Result<Response<ListNamespacesResponse>, Status> {
        self.tracked("ListNamespaces", ready(Ok(self.0.list_namespaces()))).await
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

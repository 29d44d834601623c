//! Routes of namespaces and their backfill windows.

use std::{future::ready, sync::Arc};

use anabranch_api::v1::{
    BlockSeriesRequest, CloseBackfillRequest, CreateNamespaceRequest, DeleteNamespaceRequest, GetNamespaceRequest,
    ListBackfillsRequest, ListNamespacesRequest, OpenBackfillRequest, RestoreNamespaceRequest, UnblockSeriesRequest,
    UpdateNamespaceRequest,
};
use axum::{
    extract::{Request, State},
    response::Response,
};

use super::{
    Http, errors,
    message::{InPath, InQuery, fill, posts, query},
};

pub(super) async fn list(State(http): State<Arc<Http>>, request: Request) -> Response {
    let message = query::<ListNamespacesRequest>(request.uri(), &InQuery { bools: &["deleted"], ..InQuery::default() });
    http.answer("ListNamespaces", ready(message.map(|message| http.operations.list_namespaces(message)))).await
}

pub(super) async fn create(State(http): State<Arc<Http>>, request: Request) -> Response {
    let work = async {
        let message: CreateNamespaceRequest = http.message(request).await?;
        http.operations.create_namespace(message).await
    };
    http.answer("CreateNamespace", Box::pin(work)).await
}

pub(super) async fn show(State(http): State<Arc<Http>>, InPath(name): InPath<String>) -> Response {
    http.answer("GetNamespace", ready(http.operations.get_namespace(GetNamespaceRequest { name }))).await
}

pub(super) async fn update(State(http): State<Arc<Http>>, InPath(name): InPath<String>, request: Request) -> Response {
    let work = async {
        let mut message: UpdateNamespaceRequest = http.message(request).await?;
        fill(&mut message.name, "name", name)?;
        http.operations.update_namespace(message).await
    };
    http.answer("UpdateNamespace", Box::pin(work)).await
}

pub(super) async fn delete(State(http): State<Arc<Http>>, InPath(name): InPath<String>, request: Request) -> Response {
    let message = query::<DeleteNamespaceRequest>(request.uri(), &InQuery::default());
    let work = async {
        let mut message = message?;
        fill(&mut message.name, "name", name)?;
        http.operations.delete_namespace(message).await
    };
    http.answer("DeleteNamespace", work).await
}

/// `{namespace}:restore`: the verb is part of the segment.
pub(super) async fn restore(
    State(http): State<Arc<Http>>,
    InPath(segment): InPath<String>,
    request: Request,
) -> Response {
    let Some(name) = segment.strip_suffix(":restore").map(str::to_owned) else {
        return errors::no_such_route(request).await;
    };
    let work = async {
        let mut message: RestoreNamespaceRequest = http.message(request).await?;
        fill(&mut message.name, "name", name)?;
        http.operations.restore_namespace(message).await
    };
    http.answer("RestoreNamespace", Box::pin(work)).await
}

pub(super) async fn list_backfills(State(http): State<Arc<Http>>, InPath(namespace): InPath<String>) -> Response {
    let found = http.operations.list_backfills(&ListBackfillsRequest { namespace });
    http.answer("ListBackfills", ready(found)).await
}

pub(super) async fn open_backfill(
    State(http): State<Arc<Http>>,
    InPath(namespace): InPath<String>,
    request: Request,
) -> Response {
    let work = async {
        let mut message: OpenBackfillRequest = http.message(request).await?;
        fill(&mut message.namespace, "namespace", namespace)?;
        http.operations.open_backfill(message).await
    };
    http.answer("OpenBackfill", work).await
}

pub(super) async fn close_backfill(
    State(http): State<Arc<Http>>,
    InPath((namespace, segment)): InPath<(String, String)>,
    request: Request,
) -> Response {
    let Some(id) = segment.strip_suffix(":close").map(str::to_owned) else {
        return errors::no_such_route(request).await;
    };
    let work = async {
        let mut message: CloseBackfillRequest = http.message(request).await?;
        fill(&mut message.namespace, "namespace", namespace)?;
        fill(&mut message.id, "id", id)?;
        http.operations.close_backfill(message).await
    };
    http.answer("CloseBackfill", work).await
}

posts! {
    block: "BlockSeries" BlockSeriesRequest => block_series;
    unblock: "UnblockSeries" UnblockSeriesRequest => unblock_series;
}

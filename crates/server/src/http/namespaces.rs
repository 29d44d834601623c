//! Routes of namespaces and their backfill windows.

use std::{collections::BTreeMap, future::ready, sync::Arc};

use anabranch_api::v1::{
    CloseBackfillRequest, CreateNamespaceRequest, DeleteNamespaceRequest, GetNamespaceRequest, ListBackfillsRequest,
    OpenBackfillRequest, UpdateNamespaceRequest,
};
use axum::{
    extract::{Query, Request, State},
    response::Response,
};

use super::{
    Http, errors,
    message::{InPath, fill},
};
use crate::failure::Failure;

pub(super) async fn list(State(http): State<Arc<Http>>) -> Response {
    http.answer("ListNamespaces", ready(Ok(http.operations.list_namespaces()))).await
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
    let confirm = confirmation(&request);
    let work = async {
        let confirm = confirm?;
        http.operations.delete_namespace(DeleteNamespaceRequest { name, confirm }).await
    };
    http.answer("DeleteNamespace", work).await
}

/// The only thing that the query of a deletion may say.
fn confirmation(request: &Request) -> Result<String, Failure> {
    let query: Query<BTreeMap<String, String>> =
        Query::try_from_uri(request.uri()).map_err(|error| Failure::invalid("query", error.body_text()))?;
    let Query(mut query) = query;
    let confirm = query.remove("confirm").unwrap_or_default();
    match query.into_keys().next() {
        Some(other) => Err(Failure::invalid(other, "there is no such parameter; only `confirm` is known")),
        None => Ok(confirm),
    }
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

//! Routes of splits, read modes and background tasks.

use std::{future::ready, sync::Arc};

use anabranch_api::v1::{
    AbandonSplitRequest, GetSplitRequest, ListSplitDifferencesRequest, ListSplitsRequest, RequestSplitRequest,
    RetrySplitRequest, SetReadModeRequest, VerifySplitRequest,
};
use axum::{
    extract::{Request, State},
    response::Response,
};

use super::{
    Http,
    message::{InPath, InQuery, fill, posts, query},
};

pub(super) async fn list(
    State(http): State<Arc<Http>>,
    InPath(namespace): InPath<String>,
    request: Request,
) -> Response {
    let message = query::<ListSplitsRequest>(request.uri(), &InQuery { lists: &["states"], ..InQuery::default() });
    let work = async {
        let mut message = message?;
        fill(&mut message.namespace, "namespace", namespace)?;
        http.operations.list_splits(message).await
    };
    http.answer("ListSplits", Box::pin(work)).await
}

pub(super) async fn show(
    State(http): State<Arc<Http>>,
    InPath((namespace, time_slice, time_series_id, time_bucket, event_bucket)): InPath<(
        String,
        String,
        String,
        u32,
        u32,
    )>,
) -> Response {
    let message = GetSplitRequest { namespace, time_slice, time_series_id, time_bucket, event_bucket };
    http.answer("GetSplit", Box::pin(http.operations.get_split(message))).await
}

pub(super) async fn differences(
    State(http): State<Arc<Http>>,
    InPath(namespace): InPath<String>,
    request: Request,
) -> Response {
    let message = query::<ListSplitDifferencesRequest>(request.uri(), &InQuery::default());
    let work = async {
        let mut message = message?;
        fill(&mut message.namespace, "namespace", namespace)?;
        http.operations.list_split_differences(message).await
    };
    http.answer("ListSplitDifferences", Box::pin(work)).await
}

posts! {
    request: "RequestSplit" RequestSplitRequest => request_split;
    retry: "RetrySplit" RetrySplitRequest => retry_split;
    abandon: "AbandonSplit" AbandonSplitRequest => abandon_split;
    verify: "VerifySplit" VerifySplitRequest => verify_split;
    set_read_mode: "SetReadMode" SetReadModeRequest => set_read_mode;
}

pub(super) async fn tasks(State(http): State<Arc<Http>>) -> Response {
    http.answer("ListTasks", ready(Ok(http.operations.list_tasks()))).await
}

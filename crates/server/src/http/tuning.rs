//! Routes of measured slices and of the tuner.

use std::sync::Arc;

use anabranch_api::v1::{
    ApplyTuningRequest, GetSliceRequest, ListSlicesRequest, ListTuningDecisionsRequest, ProposeTuningRequest,
    RejectTuningRequest,
};
use axum::{
    extract::{Request, State},
    response::Response,
};

use super::{
    Http,
    message::{InPath, InQuery, fill, posts, query},
};

pub(super) async fn list_slices(
    State(http): State<Arc<Http>>,
    InPath(namespace): InPath<String>,
    request: Request,
) -> Response {
    let message = query::<ListSlicesRequest>(request.uri(), &InQuery::default());
    let work = async {
        let mut message = message?;
        fill(&mut message.namespace, "namespace", namespace)?;
        http.operations.list_slices(message).await
    };
    http.answer("ListSlices", Box::pin(work)).await
}

pub(super) async fn show_slice(
    State(http): State<Arc<Http>>,
    InPath((namespace, time_slice)): InPath<(String, String)>,
) -> Response {
    let message = GetSliceRequest { namespace, time_slice };
    http.answer("GetSlice", Box::pin(http.operations.get_slice(message))).await
}

pub(super) async fn decisions(State(http): State<Arc<Http>>, InPath(namespace): InPath<String>) -> Response {
    let message = ListTuningDecisionsRequest { namespace };
    http.answer("ListTuningDecisions", Box::pin(http.operations.list_tuning_decisions(message))).await
}

posts! {
    propose: "ProposeTuning" ProposeTuningRequest => propose_tuning;
    apply: "ApplyTuning" ApplyTuningRequest => apply_tuning;
    reject: "RejectTuning" RejectTuningRequest => reject_tuning;
}

//! Routes that show how the server, its namespaces and their series fare.

use std::{future::ready, sync::Arc};

use anabranch_api::v1::{GetHeatMapRequest, GetOverviewRequest, GetSeriesPartitionsRequest};
use axum::{
    extract::{Request, State},
    response::Response,
};

use super::{
    Http,
    message::{InPath, InQuery, fill, query},
};

pub(super) async fn overview(State(http): State<Arc<Http>>, request: Request) -> Response {
    let message = query::<GetOverviewRequest>(request.uri(), &InQuery::default());
    http.answer("GetOverview", ready(message.and_then(|message| http.operations.get_overview(&message)))).await
}

pub(super) async fn partitions(
    State(http): State<Arc<Http>>,
    InPath((namespace, series)): InPath<(String, String)>,
    request: Request,
) -> Response {
    let message = query::<GetSeriesPartitionsRequest>(request.uri(), &InQuery::default());
    let work = async {
        let mut message = message?;
        fill(&mut message.namespace, "namespace", namespace)?;
        fill(&mut message.time_series_id, "timeSeriesId", series)?;
        http.operations.get_series_partitions(message).await
    };
    http.answer("GetSeriesPartitions", Box::pin(work)).await
}

pub(super) async fn heat_map(State(http): State<Arc<Http>>, request: Request) -> Response {
    let message = query::<GetHeatMapRequest>(request.uri(), &InQuery::default());
    http.answer("GetHeatMap", ready(message.and_then(|message| http.operations.get_heat_map(&message)))).await
}

//! `ObserveService`: the generated trait over [`Operations`](crate::operations::Operations).

use std::future::ready;

use anabranch_api::v1::{
    GetHeatMapRequest, GetOverviewRequest, GetSeriesPartitionsRequest, HeatMap, Overview, SeriesPartitions,
    observe_service_server::ObserveService,
};
use tonic::{Request, Response, Status, async_trait};

use super::Services;

#[async_trait]
impl ObserveService for Services {
    async fn get_overview(&self, request: Request<GetOverviewRequest>) -> Result<Response<Overview>, Status> {
        self.tracked("GetOverview", ready(self.0.get_overview(request.get_ref()))).await
    }

    async fn get_series_partitions(
        &self,
        request: Request<GetSeriesPartitionsRequest>,
    ) -> Result<Response<SeriesPartitions>, Status> {
        self.tracked("GetSeriesPartitions", Box::pin(self.0.get_series_partitions(request.into_inner()))).await
    }

    async fn get_heat_map(&self, request: Request<GetHeatMapRequest>) -> Result<Response<HeatMap>, Status> {
        self.tracked("GetHeatMap", ready(self.0.get_heat_map(request.get_ref()))).await
    }
}

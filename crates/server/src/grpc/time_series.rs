//! `TimeSeriesService`: the generated trait over [`Operations`](crate::operations::Operations). The two rpcs that answer pages
//! have a shorter way in [`pages`](super::pages), which comes before this one.

use anabranch_api::v1::{
    AggregateEventRecordsRequest, AggregateEventRecordsResponse, ReadEventRecordsRequest, ReadEventRecordsResponse,
    SearchEventRecordsRequest, SearchEventRecordsResponse, WriteEventRecordsRequest, WriteEventRecordsResponse,
    WriteEventRecordsSyncResponse, time_series_service_server::TimeSeriesService,
};
use futures_util::{StreamExt, stream::BoxStream};
use tonic::{Request, Response, Status, async_trait};

use super::{Services, status::status};
use crate::{
    convert::reads::FoundPage,
    limits::{Permit, timeout},
    observe::Protocol::Grpc,
};

#[async_trait]
impl TimeSeriesService for Services {
    async fn write_event_records_sync(
        &self,
        request: Request<WriteEventRecordsRequest>,
    ) -> Result<Response<WriteEventRecordsSyncResponse>, Status> {
        let timeout = timeout(request.metadata().as_ref());
        let work = self.0.write_sync(request.into_inner(), timeout);
        self.0.observe.track(Grpc, "WriteEventRecordsSync", work).await.map(Response::new).map_err(status)
    }

    async fn write_event_records(
        &self,
        request: Request<WriteEventRecordsRequest>,
    ) -> Result<Response<WriteEventRecordsResponse>, Status> {
        let timeout = timeout(request.metadata().as_ref());
        let work = self.0.write(request.into_inner(), timeout);
        self.0.observe.track(Grpc, "WriteEventRecords", work).await.map(Response::new).map_err(status)
    }

    async fn read_event_records(
        &self,
        request: Request<ReadEventRecordsRequest>,
    ) -> Result<Response<ReadEventRecordsResponse>, Status> {
        let timeout = timeout(request.metadata().as_ref());
        let work = self.0.read(request.into_inner(), timeout);
        let tracked = self.0.observe.track(Grpc, "ReadEventRecords", work).await;
        tracked.map(|page| Response::new(page.into_message())).map_err(status)
    }

    async fn search_event_records(
        &self,
        request: Request<SearchEventRecordsRequest>,
    ) -> Result<Response<SearchEventRecordsResponse>, Status> {
        let timeout = timeout(request.metadata().as_ref());
        self.tracked("SearchEventRecords", self.0.search(request.into_inner(), timeout)).await
    }

    async fn aggregate_event_records(
        &self,
        request: Request<AggregateEventRecordsRequest>,
    ) -> Result<Response<AggregateEventRecordsResponse>, Status> {
        let timeout = timeout(request.metadata().as_ref());
        self.tracked("AggregateEventRecords", self.0.aggregate(request.into_inner(), timeout)).await
    }

    type StreamEventRecordsStream = BoxStream<'static, Result<ReadEventRecordsResponse, Status>>;

    async fn stream_event_records(
        &self,
        mut request: Request<ReadEventRecordsRequest>,
    ) -> Result<Response<Self::StreamEventRecordsStream>, Status> {
        let timeout = timeout(request.metadata().as_ref());
        let permit = request.extensions_mut().remove::<Permit>();
        let form = |page: FoundPage| Ok(page.into_message());
        let pages = self.0.stream(Grpc, request.into_inner(), timeout, permit, form);
        Ok(Response::new(pages.map(|page| page.map_err(status)).boxed()))
    }
}

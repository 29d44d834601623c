//! Every rpc once, whoever asks: a message in, a message or a failure out. Both protocols are thin layers over this.

mod observe;
mod splits;
mod tuning;
mod warnings;

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_api::v1;
use anabranch_engine::{Engine, EngineError, NamespaceRecord, error::bad_namespace_name};
use anabranch_model::{NamespaceConfig, NamespaceName, Slice, Timestamp};
use anabranch_runtime::{Env, Task};
use futures_util::{FutureExt, StreamExt, stream, stream::BoxStream};
use tokio::sync::mpsc;
use tonic::Code;
use tracing::Instrument as _;

use crate::{
    convert::{
        config::{ConfigPatch, block_list_message, blocked_series, series_ids},
        duration,
        events::write_request,
        namespaces::{backfill_message, backfill_request, namespace_message, slice_fate_message},
        reads::{FoundPage, read_request},
        searches::{aggregate_request, aggregate_response, search_request, search_response},
        timestamp,
    },
    failure::Failure,
    limits::Permit,
    observe::{Observe, Protocol},
};

/// Pages read ahead of a slow reader of a stream.
const READ_AHEAD: usize = 1;

/// What a request answers.
pub(crate) type Answer<T> = Result<T, Failure>;
/// Pages of a stream, as they are answered.
pub(crate) type Pages<T> = BoxStream<'static, Answer<T>>;

/// The engine as messages see it.
pub(crate) struct Operations {
    pub(crate) engine: Arc<Engine>,
    pub(crate) env: Env,
    pub(crate) observe: Arc<Observe>,
    /// Set when the server is told to stop: it isn't ready any more, though what is under way goes on.
    pub(crate) stopping: AtomicBool,
}

impl Operations {
    /// Whether requests are taken, or why not.
    pub(crate) fn check_ready(&self) -> Result<(), EngineError> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(EngineError::NotServing { reason: "this server is shutting down".to_owned() });
        }
        self.engine.check_ready()
    }

    pub(crate) async fn write_sync(
        &self,
        message: v1::WriteEventRecordsRequest,
        timeout: Option<Duration>,
    ) -> Answer<v1::WriteEventRecordsSyncResponse> {
        let begun = self.env.monotonic();
        let namespace = message.namespace.clone();
        let work = async { Ok(self.engine.write_sync(write_request(message, timeout)).await?) };
        let receipt = self.observe.in_namespace("WriteEventRecordsSync", &namespace, work).await?;
        let context = v1::ResponseContext { namespace, time_taken: self.since(begun), ..Default::default() };
        Ok(v1::WriteEventRecordsSyncResponse { events_stored: count(receipt.events), response_context: Some(context) })
    }

    pub(crate) async fn write(
        &self,
        message: v1::WriteEventRecordsRequest,
        timeout: Option<Duration>,
    ) -> Answer<v1::WriteEventRecordsResponse> {
        let namespace = message.namespace.clone();
        let work = async { Ok(self.engine.write_queued(write_request(message, timeout)).await?) };
        let events = self.observe.in_namespace("WriteEventRecords", &namespace, work).await?;
        Ok(v1::WriteEventRecordsResponse { events_queued: count(events) })
    }

    pub(crate) async fn read(
        &self,
        message: v1::ReadEventRecordsRequest,
        timeout: Option<Duration>,
    ) -> Answer<FoundPage> {
        let begun = self.env.monotonic();
        let (namespace, series) = (message.namespace.clone(), message.time_series_id.clone());
        let work = async { Ok(self.engine.read(read_request(message, timeout)?).await?) };
        let page = self.observe.in_namespace("ReadEventRecords", &namespace, work).await?;
        Ok(FoundPage { page, namespace, series, took: self.env.monotonic().saturating_sub(begun) })
    }

    pub(crate) async fn search(
        &self,
        message: v1::SearchEventRecordsRequest,
        timeout: Option<Duration>,
    ) -> Answer<v1::SearchEventRecordsResponse> {
        let begun = self.env.monotonic();
        let namespace = message.namespace.clone();
        let work = async { Ok(self.engine.search(&search_request(message, timeout)?).await?) };
        let page = self.observe.in_namespace("SearchEventRecords", &namespace, work).await?;
        Ok(search_response(page, namespace, self.env.monotonic().saturating_sub(begun)))
    }

    pub(crate) async fn aggregate(
        &self,
        message: v1::AggregateEventRecordsRequest,
        timeout: Option<Duration>,
    ) -> Answer<v1::AggregateEventRecordsResponse> {
        let begun = self.env.monotonic();
        let namespace = message.namespace.clone();
        let work = async { Ok(Box::pin(self.engine.aggregate(&aggregate_request(message, timeout)?)).await?) };
        let counted = self.observe.in_namespace("AggregateEventRecords", &namespace, work).await?;
        Ok(aggregate_response(counted, namespace, self.env.monotonic().saturating_sub(begun)))
    }

    /// Reads a history page after page, a little ahead of whoever takes them. Ends when nobody does any more. Pages are brought
    /// into their form beside that, by threads that give way, too: those that answer small reads only hand them on.
    pub(crate) fn stream<T: Send + 'static>(
        self: &Arc<Self>,
        protocol: Protocol,
        message: v1::ReadEventRecordsRequest,
        timeout: Option<Duration>,
        permit: Option<Permit>,
        form: fn(FoundPage) -> Answer<T>,
    ) -> Pages<T> {
        let (sender, pages) = mpsc::channel(READ_AHEAD);
        let this = self.clone();
        let span = tracing::Span::current();
        let work = async move {
            let _permit = permit;
            let scan = this.guarded(Box::pin(this.scan(message, timeout, form, &sender)));
            // A stream that ended by a failure must not look complete.
            if let Err(failure) = this.observe.track(protocol, "StreamEventRecords", scan).await {
                let _ = sender.send(Err(failure)).await;
            }
        };
        let reading = self.env.spawn_in_background(work.instrument(span));
        stream::unfold(Some((pages, reading)), async |rest| {
            let (mut pages, reading) = rest?;
            let page = match pages.recv().await {
                Some(Ok(page)) => page.await.unwrap_or_else(|| Err(cut_short())),
                Some(Err(failure)) => Err(failure),
                None => return reading.await.is_none().then(|| (Err(cut_short()), None)),
            };
            let rest = page.is_ok().then_some((pages, reading));
            Some((page, rest))
        })
        .boxed()
    }

    /// What panics is a failure like another.
    async fn guarded<T>(&self, work: impl Future<Output = Answer<T>>) -> Answer<T> {
        AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
            self.observe.panics.inc();
            Err(Failure::internal("the server failed while reading; its log has more"))
        })
    }

    async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        message: v1::ReadEventRecordsRequest,
        timeout: Option<Duration>,
        form: fn(FoundPage) -> Answer<T>,
        sender: &mpsc::Sender<Answer<Task<Answer<T>>>>,
    ) -> Answer<()> {
        let deadline = timeout.map(|timeout| self.env.monotonic() + timeout);
        let (namespace, series) = (message.namespace.clone(), message.time_series_id.clone());
        let mut begun = self.env.monotonic();
        let mut bulk = self.engine.bulk_read(&read_request(message, timeout)?).await?;
        while let Some(page) = bulk.next().await {
            let took = self.env.monotonic().saturating_sub(begun);
            let page = FoundPage { page: page?, namespace: namespace.clone(), series: series.clone(), took };
            let this = self.clone();
            let formed = self.env.spawn_in_background(async move { this.guarded(async { form(page) }).await });
            if sender.send(Ok(formed)).await.is_err() {
                return Ok(()); // nobody listens any more
            }
            begun = self.env.monotonic();
            if deadline.is_some_and(|deadline| begun >= deadline) {
                let message = "the time for the stream ran out; go on with the token of the last page";
                return Err(Failure::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message));
            }
        }
        Ok(())
    }

    pub(crate) async fn create_namespace(&self, message: v1::CreateNamespaceRequest) -> Answer<v1::Namespace> {
        let name = NamespaceName::new(message.name).map_err(|error| bad_namespace_name(&error))?;
        let patch = ConfigPatch::new(message.config.unwrap_or_default(), &[])?;
        let mut config = NamespaceConfig::default();
        patch.apply(&mut config, self.engine.now());
        let record = self.engine.create_planned_namespace(name.clone(), config, message.workload).await?;
        Ok(self.shown(name.into(), &record))
    }

    pub(crate) fn get_namespace(&self, message: v1::GetNamespaceRequest) -> Answer<v1::Namespace> {
        let record = self.engine.namespace(&message.name)?;
        Ok(self.shown(message.name, &record))
    }

    pub(crate) fn list_namespaces(&self, message: v1::ListNamespacesRequest) -> v1::ListNamespacesResponse {
        let namespaces = if message.deleted { self.engine.deleted_namespaces() } else { self.engine.namespaces() };
        let namespaces = namespaces.into_iter();
        let namespaces = namespaces.map(|(name, record)| self.shown(name.into(), &record)).collect();
        v1::ListNamespacesResponse { namespaces }
    }

    pub(crate) async fn update_namespace(&self, message: v1::UpdateNamespaceRequest) -> Answer<v1::Namespace> {
        let patch = ConfigPatch::new(message.config.unwrap_or_default(), &message.clear)?;
        let now = self.engine.now();
        let edit = |config: &mut NamespaceConfig| patch.apply(config, now);
        let record = match message.dry_run {
            true => self.engine.preview_update(&message.name, edit)?,
            false => self.engine.update_namespace(&message.name, edit).await?,
        };
        let slice_fates = self.slice_fates(&message.name, &record).await?;
        Ok(v1::Namespace { slice_fates, ..self.shown(message.name, &record) })
    }

    /// What retention does at once, with the sizes of those slices.
    async fn slice_fates(&self, name: &str, record: &NamespaceRecord) -> Answer<Vec<v1::SliceFate>> {
        let now = self.engine.now();
        let due: Vec<_> = record.slices.iter().filter_map(|slice| Some((slice, record.fate(slice, now)?))).collect();
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let sizes = self.engine.slice_sizes(name, None).await?;
        let bytes = |slice: &Slice| {
            let measured = sizes.iter().find(|(found, _)| found.interval.start == slice.interval.start);
            measured.and_then(|(_, sizes)| sizes.as_ref()).map(|sizes| sizes.counted.total_bytes())
        };
        Ok(due.into_iter().map(|(slice, fate)| slice_fate_message(slice, fate, bytes(slice))).collect())
    }

    pub(crate) async fn block_series(&self, message: v1::BlockSeriesRequest) -> Answer<v1::BlockList> {
        let record = self.engine.block_series(&message.namespace, blocked_series(&message.series)?).await?;
        Ok(block_list_message(&record))
    }

    pub(crate) async fn unblock_series(&self, message: v1::UnblockSeriesRequest) -> Answer<v1::BlockList> {
        let series = series_ids("time_series_ids", &message.time_series_ids)?;
        let record = self.engine.unblock_series(&message.namespace, &series).await?;
        Ok(block_list_message(&record))
    }

    pub(crate) async fn delete_namespace(
        &self,
        message: v1::DeleteNamespaceRequest,
    ) -> Answer<v1::DeleteNamespaceResponse> {
        let grace = message.grace.map(Duration::try_from).transpose();
        let grace = grace.map_err(|error| EngineError::invalid("grace", error.to_string()))?;
        let drop_at = self.engine.delete_namespace(&message.name, &message.confirm, grace).await?;
        Ok(v1::DeleteNamespaceResponse { drop_time: timestamp(drop_at) })
    }

    pub(crate) async fn restore_namespace(&self, message: v1::RestoreNamespaceRequest) -> Answer<v1::Namespace> {
        let record = self.engine.restore_namespace(&message.name).await?;
        Ok(self.shown(message.name, &record))
    }

    pub(crate) async fn open_backfill(&self, message: v1::OpenBackfillRequest) -> Answer<v1::Backfill> {
        let (interval, expire_after) = backfill_request(&message)?;
        self.check_kept(&message.namespace, interval.start)?;
        let v1::OpenBackfillRequest { namespace, reason, id, .. } = &message;
        let opened = match id.is_empty() {
            true => self.engine.open_backfill(namespace, interval, expire_after, reason).await?,
            false => self.engine.open_backfill_as(id, namespace, interval, expire_after, reason).await?,
        };
        Ok(backfill_message(&opened, self.engine.now()))
    }

    /// Refuses to take events that the retention would close a moment later.
    fn check_kept(&self, namespace: &str, from: Timestamp) -> Answer<()> {
        let record = self.engine.namespace(namespace)?;
        let kept_from = record.kept_from(self.engine.now());
        if from >= kept_from || kept_from <= record.closed_until {
            return Ok(());
        }
        let reason = format!(
            "what is written before {kept_from} has left the retention and would be gone at once; begin there, or keep events \
             longer with `anabranch retention {namespace} --delete-after TIME`"
        );
        Err(Failure::invalid("interval.start", reason))
    }

    pub(crate) async fn close_backfill(&self, message: v1::CloseBackfillRequest) -> Answer<v1::Backfill> {
        let closed = self.engine.close_backfill(&message.namespace, &message.id).await?;
        Ok(backfill_message(&closed, self.engine.now()))
    }

    pub(crate) fn list_backfills(&self, message: &v1::ListBackfillsRequest) -> Answer<v1::ListBackfillsResponse> {
        let now = self.engine.now();
        let backfills = self.engine.backfills(&message.namespace)?;
        let backfills = backfills.iter().map(|backfill| backfill_message(backfill, now)).collect();
        Ok(v1::ListBackfillsResponse { backfills })
    }

    /// A namespace as it is now.
    fn shown(&self, name: String, record: &NamespaceRecord) -> v1::Namespace {
        let clean = self.engine.clean_comparisons(&name).ok().flatten();
        namespace_message(name, record, clean, self.engine.now())
    }

    fn since(&self, begun: Duration) -> Option<anabranch_api::wkt::Duration> {
        duration(self.env.monotonic().saturating_sub(begun))
    }
}

/// A stream whose work was ended must not look complete either.
fn cut_short() -> Failure {
    let reason = "the stream was cut short; go on with the token of the last page".to_owned();
    EngineError::NotServing { reason }.into()
}

fn count(events: usize) -> u32 {
    u32::try_from(events).unwrap_or(u32::MAX)
}

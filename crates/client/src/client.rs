//! A connection to a server, and a method for every rpc that answers once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anabranch_api::v1::{
    self, namespace_service_client::NamespaceServiceClient, observe_service_client::ObserveServiceClient,
    split_service_client::SplitServiceClient, time_series_service_client::TimeSeriesServiceClient,
    tuning_service_client::TuningServiceClient,
};
use tonic::{
    Request,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use crate::{
    ClientError, ClientOptions,
    retry::{Repeat, with_retries},
};

/// Bytes that the server may send ahead of what was read.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Details of errors travel in headers.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// A client of one server, or of several that share a store: when one doesn't answer, the next is asked. Clones share the
/// connections; every method may be called from many tasks at once.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Arc<[Services]>,
    /// Counts up to the server that is asked.
    turn: Arc<AtomicUsize>,
    pub(crate) options: Arc<ClientOptions>,
}

/// What one server offers.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) series: TimeSeriesServiceClient<Channel>,
    pub(crate) namespaces: NamespaceServiceClient<Channel>,
    pub(crate) splits: SplitServiceClient<Channel>,
    pub(crate) observations: ObserveServiceClient<Channel>,
    pub(crate) tuning: TuningServiceClient<Channel>,
}

impl Services {
    fn over(channel: Channel, options: &ClientOptions) -> Services {
        let most = options.max_message_bytes;
        let series = TimeSeriesServiceClient::new(channel.clone());
        let namespaces = NamespaceServiceClient::new(channel.clone());
        let splits = SplitServiceClient::new(channel.clone());
        let observations = ObserveServiceClient::new(channel.clone());
        let tuning = TuningServiceClient::new(channel);
        Services {
            series: series.max_decoding_message_size(most).max_encoding_message_size(most),
            namespaces: namespaces.max_decoding_message_size(most).max_encoding_message_size(most),
            splits: splits.max_decoding_message_size(most).max_encoding_message_size(most),
            observations: observations.max_decoding_message_size(most).max_encoding_message_size(most),
            tuning: tuning.max_decoding_message_size(most).max_encoding_message_size(most),
        }
    }
}

impl Client {
    /// Connects to `127.0.0.1:7400`, `http://…` or `https://…`, or to several of them, separated by commas.
    pub async fn connect(address: &str) -> Result<Client, ClientError> {
        Client::connect_with(address, ClientOptions::default()).await
    }

    /// Connects with settings. One server has to answer.
    pub async fn connect_with(address: &str, options: ClientOptions) -> Result<Client, ClientError> {
        let mut last = ClientError::address(format!("`{address}` names no server"));
        for (at, one) in addresses(address).enumerate() {
            match endpoint(one, &options)?.connect().await {
                Ok(channel) => return Client::over(address, options, Some((at, channel))),
                Err(error) => last = ClientError::unreachable(one, &error),
            }
        }
        Err(last)
    }

    /// Connects when the first request is sent, and says then whether it worked.
    pub fn connect_lazily(address: &str, options: ClientOptions) -> Result<Client, ClientError> {
        Client::over(address, options, None)
    }

    /// With one connection that is there, if there is; the others are made when they are needed.
    fn over(address: &str, options: ClientOptions, there: Option<(usize, Channel)>) -> Result<Client, ClientError> {
        let services = |(at, one)| {
            let channel = match &there {
                Some((connected, channel)) if *connected == at => channel.clone(),
                _ => endpoint(one, &options)?.connect_lazy(),
            };
            Ok(Services::over(channel, &options))
        };
        let servers = addresses(address).enumerate().map(services).collect::<Result<_, ClientError>>()?;
        let turn = AtomicUsize::new(there.map_or(0, |(at, _)| at));
        Ok(Client { servers, turn: Arc::new(turn), options: Arc::new(options) })
    }

    /// Whose turn it is.
    pub(crate) fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// The server whose turn this is.
    pub(crate) fn services(&self, turn: usize) -> &Services {
        &self.servers[turn % self.servers.len()]
    }

    /// How many servers take turns.
    pub(crate) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Lets the next server be asked from now on, unless another request has moved on from this turn already: one more step could
    /// lead everybody back to the server that is away.
    pub(crate) fn move_on(&self, from: usize) {
        let _ = self.turn.compare_exchange(from, from.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Opens a window for events older than the accept limit. It gets an id here, where it has none: sent again, it is the same window.
    pub async fn open_backfill(&self, mut message: v1::OpenBackfillRequest) -> Result<v1::Backfill, ClientError> {
        if message.id.is_empty() {
            let chance = getrandom::u32().map_err(|error| ClientError::no_chance(&error))?;
            message.id = format!("bf-{chance:08x}");
        }
        self.open_named_backfill(message).await
    }

    /// A request with the time it may take.
    fn timed<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        request.set_timeout(self.options.request_timeout);
        request
    }
}

fn addresses(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

fn endpoint(address: &str, options: &ClientOptions) -> Result<Endpoint, ClientError> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let url = if address.contains("://") { address.to_owned() } else { format!("{scheme}://{address}") };
    let wrong = |error: &dyn std::fmt::Display| {
        ClientError::address(format!("`{address}` is not an address such as 127.0.0.1:7400: {error}"))
    };
    let endpoint = Endpoint::from_shared(url.clone()).map_err(|error| wrong(&error))?;
    let endpoint = endpoint
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        // A server whose machine is gone closes nothing: without this, a stream from it would wait for ever.
        .http2_keep_alive_interval(options.keep_alive)
        .keep_alive_timeout(options.keep_alive * 2)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .user_agent(concat!("anabranch/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| wrong(&error))?;
    let Some(tls) = &options.tls else {
        if url.starts_with("https://") {
            return Err(ClientError::address(format!("{address} needs TLS: name the certificates to trust")));
        }
        return Ok(endpoint);
    };
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca_certificates));
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
    }
    endpoint.tls_config(config).map_err(|error| ClientError::address(format!("TLS can't be used: {error}")))
}

/// Methods that send one message and get one: name, request, answer, what sending it twice does.
macro_rules! rpcs {
    ($($service:ident: $(#[$doc:meta])* $vis:vis $name:ident = $rpc:ident($request:ident) -> $answer:ident, $repeat:ident;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                $vis async fn $name(&self, message: v1::$request) -> Result<v1::$answer, ClientError> {
                    // The message is cloned per attempt: values are shared bytes, not copied ones.
                    let call = |services: &Services| {
                        let mut service = services.$service.clone();
                        let request = self.timed(message.clone());
                        async move { service.$rpc(request).await }
                    };
                    let answer = with_retries(self, Repeat::$repeat, call).await?;
                    Ok(answer.into_inner())
                }
            )*
        }
    };
}

rpcs! {
    series:
        /// Writes events; they are durable when this answers.
        pub write_sync = write_event_records_sync(WriteEventRecordsRequest) -> WriteEventRecordsSyncResponse, Write;
    series:
        /// Queues events to be written soon.
        pub write = write_event_records(WriteEventRecordsRequest) -> WriteEventRecordsResponse, Write;
    series:
        /// Reads one page of a history; [`Client::pages`] follows the tokens.
        pub read = read_event_records(ReadEventRecordsRequest) -> ReadEventRecordsResponse, Read;
    series:
        /// Looks through the histories of named series, one page of what is found.
        pub search = search_event_records(SearchEventRecordsRequest) -> SearchEventRecordsResponse, Read;
    series:
        /// Counts what the histories of named series hold, as far as the time allows; answers of several pages add up.
        pub aggregate = aggregate_event_records(AggregateEventRecordsRequest) -> AggregateEventRecordsResponse, Read;
    namespaces:
        /// Makes a namespace.
        pub create_namespace = create_namespace(CreateNamespaceRequest) -> Namespace, Never;
    namespaces:
        /// Shows one namespace.
        pub get_namespace = get_namespace(GetNamespaceRequest) -> Namespace, Read;
    namespaces:
        /// Shows all namespaces.
        pub list_namespaces = list_namespaces(ListNamespacesRequest) -> ListNamespacesResponse, Read;
    namespaces:
        /// Changes settings of a namespace.
        pub update_namespace = update_namespace(UpdateNamespaceRequest) -> Namespace, Write;
    namespaces:
        /// Deletes a namespace with everything in it.
        pub delete_namespace = delete_namespace(DeleteNamespaceRequest) -> DeleteNamespaceResponse, Never;
    namespaces:
        /// Brings back a namespace that was deleted.
        pub restore_namespace = restore_namespace(RestoreNamespaceRequest) -> Namespace, Write;
    namespaces:
        /// Puts series on the block list.
        pub block_series = block_series(BlockSeriesRequest) -> BlockList, Write;
    namespaces:
        /// Takes series off the block list.
        pub unblock_series = unblock_series(UnblockSeriesRequest) -> BlockList, Never;
    namespaces:
        open_named_backfill = open_backfill(OpenBackfillRequest) -> Backfill, Write;
    namespaces:
        /// Ends a window before it expires.
        pub close_backfill = close_backfill(CloseBackfillRequest) -> Backfill, Write;
    namespaces:
        /// Shows the windows of a namespace.
        pub list_backfills = list_backfills(ListBackfillsRequest) -> ListBackfillsResponse, Read;
    splits:
        /// Shows splits of a namespace, one page of them.
        pub list_splits = list_splits(ListSplitsRequest) -> ListSplitsResponse, Read;
    splits:
        /// Shows the split of one partition.
        pub get_split = get_split(GetSplitRequest) -> Split, Read;
    splits:
        /// Asks that partitions be looked at.
        pub request_split = request_split(RequestSplitRequest) -> RequestSplitResponse, Write;
    splits:
        /// Lets splits begin again at once.
        pub retry_split = retry_split(RetrySplitRequest) -> RetrySplitResponse, Write;
    splits:
        /// Gives splits up.
        pub abandon_split = abandon_split(AbandonSplitRequest) -> AbandonSplitResponse, Never;
    splits:
        /// Compares splits with their originals.
        pub verify_split = verify_split(VerifySplitRequest) -> VerifySplitResponse, Write;
    splits:
        /// Shows differences between splits and originals.
        pub list_split_differences = list_split_differences(ListSplitDifferencesRequest) -> ListSplitDifferencesResponse, Read;
    splits:
        /// Sets how far reads trust splits.
        pub set_read_mode = set_read_mode(SetReadModeRequest) -> Namespace, Write;
    splits:
        /// Shows the background tasks of the server.
        pub list_tasks = list_tasks(ListTasksRequest) -> ListTasksResponse, Read;
    observations:
        /// Shows what needs a person, and how each namespace fares.
        pub get_overview = get_overview(GetOverviewRequest) -> Overview, Read;
    observations:
        /// Shows the partitions of a series with their sizes.
        pub get_series_partitions = get_series_partitions(GetSeriesPartitionsRequest) -> SeriesPartitions, Read;
    observations:
        /// Shows where the ids of a namespace were read and written lately.
        pub get_heat_map = get_heat_map(GetHeatMapRequest) -> HeatMap, Read;
    tuning:
        /// Shows the slices of a namespace, with what was measured of each.
        pub list_slices = list_slices(ListSlicesRequest) -> ListSlicesResponse, Read;
    tuning:
        /// Shows one slice, with what was measured of it.
        pub get_slice = get_slice(GetSliceRequest) -> MeasuredSlice, Read;
    tuning:
        /// Shows what the tuner decided.
        pub list_tuning_decisions = list_tuning_decisions(ListTuningDecisionsRequest) -> ListTuningDecisionsResponse, Read;
    tuning:
        /// Lets the tuner decide now.
        pub propose_tuning = propose_tuning(ProposeTuningRequest) -> TuningDecision, Write;
    tuning:
        /// Applies a proposal to slices to come.
        pub apply_tuning = apply_tuning(ApplyTuningRequest) -> TuningDecision, Never;
    tuning:
        /// Says no to a proposal.
        pub reject_tuning = reject_tuning(RejectTuningRequest) -> TuningDecision, Never;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[tokio::test]
    async fn addresses_that_cannot_be_are_named() {
        let error = Client::connect("http://not an address").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Address);
        assert!(error.to_string().contains("not an address"), "{error}");
        let error = Client::connect("https://127.0.0.1:7400").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Address);
    }

    #[tokio::test]
    async fn of_several_servers_one_has_to_be_there() {
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let both = format!("{}, {}", free(), there.local_addr().unwrap());
        let client = Client::connect(&both).await.unwrap();
        assert_eq!(client.turn.load(Ordering::Relaxed), 1);
        let error = Client::connect(&format!("{},{}", free(), free())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }

    #[tokio::test]
    async fn requests_that_fail_together_move_on_together() {
        let client = Client::connect_lazily("127.0.0.1:1,127.0.0.1:2", ClientOptions::default()).unwrap();
        let away = client.turn();
        client.move_on(away);
        let next = client.turn();
        assert!(!std::ptr::eq(client.services(away), client.services(next)));
        client.move_on(away);
        assert_eq!(client.turn(), next, "a request that was slower to notice must not lead back");
        client.move_on(next);
        assert!(std::ptr::eq(client.services(away), client.services(client.turn())));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unavailable() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Client::connect(&free.to_string()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("anabranch serve"), "{error}");
    }
}

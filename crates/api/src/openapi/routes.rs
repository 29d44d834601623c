//! The table of HTTP routes: which method and path stands for which rpc. The server serves them; this only tells.

use Verb::{Delete, Get, Patch, Post};

/// One method of one path.
pub(super) struct Route {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) answers: Answers,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Patch,
    Delete,
}

pub(super) enum Answers {
    /// An rpc, with JSON for its messages.
    Rpc {
        /// `Service/Method`
        rpc: &'static str,
        /// Which field of the request each parameter of the path fills in.
        path_fields: &'static [(&'static str, &'static str)],
    },
    /// Plain text, for those who look after the server.
    Text {
        name: &'static str,
        summary: &'static str,
        /// When the answer isn't 200 though the server works as it should.
        unavailable: Option<&'static str>,
    },
}

/// Rpcs that have no route, and so are reached by gRPC only.
pub(super) const GRPC_ONLY: &[&str] = &[];

const NAMESPACE: &[(&str, &str)] = &[("namespace", "namespace")];
const NAME: &[(&str, &str)] = &[("namespace", "name")];

pub(super) const ROUTES: &[Route] = &[
    rpc(Post, "/v1/namespaces/{namespace}/events:writeSync", "TimeSeriesService/WriteEventRecordsSync", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/events:write", "TimeSeriesService/WriteEventRecords", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/events:read", "TimeSeriesService/ReadEventRecords", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/events:search", "TimeSeriesService/SearchEventRecords", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/events:aggregate", "TimeSeriesService/AggregateEventRecords", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/events:stream", "TimeSeriesService/StreamEventRecords", NAMESPACE),
    rpc(Get, "/v1/namespaces", "NamespaceService/ListNamespaces", &[]),
    rpc(Post, "/v1/namespaces", "NamespaceService/CreateNamespace", &[]),
    rpc(Get, "/v1/namespaces/{namespace}", "NamespaceService/GetNamespace", NAME),
    rpc(Patch, "/v1/namespaces/{namespace}", "NamespaceService/UpdateNamespace", NAME),
    rpc(Delete, "/v1/namespaces/{namespace}", "NamespaceService/DeleteNamespace", NAME),
    rpc(Post, "/v1/namespaces/{namespace}:restore", "NamespaceService/RestoreNamespace", NAME),
    rpc(Post, "/v1/namespaces/{namespace}/blockList:add", "NamespaceService/BlockSeries", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/blockList:remove", "NamespaceService/UnblockSeries", NAMESPACE),
    rpc(Get, "/v1/namespaces/{namespace}/backfills", "NamespaceService/ListBackfills", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/backfills", "NamespaceService/OpenBackfill", NAMESPACE),
    rpc(
        Post,
        "/v1/namespaces/{namespace}/backfills/{id}:close",
        "NamespaceService/CloseBackfill",
        &[("namespace", "namespace"), ("id", "id")],
    ),
    rpc(Get, "/v1/namespaces/{namespace}/splits", "SplitService/ListSplits", NAMESPACE),
    rpc(
        Get,
        "/v1/namespaces/{namespace}/splits/{timeSlice}/{timeSeriesId}/{timeBucket}/{eventBucket}",
        "SplitService/GetSplit",
        &[
            ("namespace", "namespace"),
            ("timeSlice", "time_slice"),
            ("timeSeriesId", "time_series_id"),
            ("timeBucket", "time_bucket"),
            ("eventBucket", "event_bucket"),
        ],
    ),
    rpc(Post, "/v1/namespaces/{namespace}/splits:request", "SplitService/RequestSplit", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/splits:retry", "SplitService/RetrySplit", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/splits:abandon", "SplitService/AbandonSplit", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/splits:verify", "SplitService/VerifySplit", NAMESPACE),
    rpc(Get, "/v1/namespaces/{namespace}/splits:differences", "SplitService/ListSplitDifferences", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/splits:setReadMode", "SplitService/SetReadMode", NAMESPACE),
    rpc(Get, "/v1/namespaces/{namespace}/slices", "TuningService/ListSlices", NAMESPACE),
    rpc(
        Get,
        "/v1/namespaces/{namespace}/slices/{timeSlice}",
        "TuningService/GetSlice",
        &[("namespace", "namespace"), ("timeSlice", "time_slice")],
    ),
    rpc(Get, "/v1/namespaces/{namespace}/tuning", "TuningService/ListTuningDecisions", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/tuning:propose", "TuningService/ProposeTuning", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/tuning:apply", "TuningService/ApplyTuning", NAMESPACE),
    rpc(Post, "/v1/namespaces/{namespace}/tuning:reject", "TuningService/RejectTuning", NAMESPACE),
    rpc(Get, "/v1/tasks", "SplitService/ListTasks", &[]),
    rpc(Get, "/v1/overview", "ObserveService/GetOverview", &[]),
    rpc(
        Get,
        "/v1/namespaces/{namespace}/series/{timeSeriesId}/partitions",
        "ObserveService/GetSeriesPartitions",
        &[("namespace", "namespace"), ("timeSeriesId", "time_series_id")],
    ),
    rpc(Get, "/v1/heatmap", "ObserveService/GetHeatMap", &[]),
    text("/healthz", "health", "Whether the process is alive.", None),
    text("/readyz", "readiness", "Whether the server is ready for requests.", Some("Not ready for requests.")),
    text("/metrics", "metrics", "Metrics, in Prometheus's text format.", None),
];

const fn rpc(
    verb: Verb,
    path: &'static str,
    rpc: &'static str,
    path_fields: &'static [(&'static str, &'static str)],
) -> Route {
    Route { verb, path, answers: Answers::Rpc { rpc, path_fields } }
}

const fn text(
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    unavailable: Option<&'static str>,
) -> Route {
    Route { verb: Get, path, answers: Answers::Text { name, summary, unavailable } }
}

impl Verb {
    /// As in a request line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Get => "GET",
            Post => "POST",
            Patch => "PATCH",
            Delete => "DELETE",
        }
    }

    /// Where the fields go that aren't in the path: into a body, or else into the query.
    pub(super) fn has_body(self) -> bool {
        matches!(self, Post | Patch)
    }
}

//! Every way in which a request can fail, as clients see it: the list that the pages are made of. The server's tests hold its
//! own answers against it.

/// One reason for a failure, as in `google.rpc.ErrorInfo`.
pub struct Reason {
    /// `NO_SUCH_NAMESPACE`
    pub name: &'static str,
    /// The name of the gRPC code.
    pub code: &'static str,
    /// The status over HTTP.
    pub http: u16,
    /// What happened and what to do.
    pub meaning: &'static str,
}

/// Every reason, what the client can mend first.
pub const REASONS: &[Reason] = &[
    reason(
        "INVALID_REQUEST",
        "INVALID_ARGUMENT",
        400,
        "Something in the request can't be used. Nothing was stored. `google.rpc.BadRequest` names every field and why.",
    ),
    reason("INVALID_JSON", "INVALID_ARGUMENT", 400, "The body isn't JSON. The message says where it stops being it."),
    reason("INVALID_PATH", "INVALID_ARGUMENT", 400, "A part of the path can't be read."),
    reason("BROKEN_BODY", "INVALID_ARGUMENT", 400, "The body broke off. Send it again."),
    reason(
        "BAD_PAGE_TOKEN",
        "INVALID_ARGUMENT",
        400,
        "The token isn't of this request, or not of this store. Begin again without it.",
    ),
    reason(
        "OUTSIDE_ACCEPTED_TIME",
        "OUT_OF_RANGE",
        400,
        "An event is older than `accept_limit` or further ahead than `drift_limit`. Nothing was stored. For old events open a \
         backfill.",
    ),
    reason("BODY_TOO_LARGE", "OUT_OF_RANGE", 413, "Send fewer events at once."),
    reason(
        "SERIES_BLOCKED",
        "PERMISSION_DENIED",
        403,
        "The series is on the block list. The message says since when and why.",
    ),
    reason(
        "FOREIGN_PAGE",
        "PERMISSION_DENIED",
        403,
        "A browser sent this for a page of another site. Requests from programs aren't affected.",
    ),
    reason("NO_SUCH_NAMESPACE", "NOT_FOUND", 404, "Create it, or correct the name. It may have been deleted."),
    reason("NO_SUCH_BACKFILL", "NOT_FOUND", 404, "No backfill window has this id."),
    reason("NO_SUCH_SPLIT", "NOT_FOUND", 404, "The partition has no split record: nobody suspected it to be wide."),
    reason(
        "NOT_BLOCKED",
        "NOT_FOUND",
        404,
        "A series that was to be taken off the block list isn't on it. Nothing was changed.",
    ),
    reason("NO_SUCH_ROUTE", "NOT_FOUND", 404, "Nothing is at this path."),
    reason("WRONG_METHOD", "UNIMPLEMENTED", 405, "The path is there, but not with this HTTP method."),
    reason(
        "NAMESPACE_EXISTS",
        "ALREADY_EXISTS",
        409,
        "The name is taken, maybe by a namespace that was deleted and is kept.",
    ),
    reason(
        "CONTENDED",
        "ABORTED",
        409,
        "Others changed the namespace again and again meanwhile. Nothing was changed: try again.",
    ),
    reason("SPLIT_BUSY", "ABORTED", 409, "A worker holds the split. Try again when it is done."),
    reason("NOTHING_PROPOSED", "FAILED_PRECONDITION", 400, "The tuner has no proposal that waits, or not this one."),
    reason(
        "STORE_REFUSED",
        "FAILED_PRECONDITION",
        400,
        "The store won't do this, and won't the next time. The message says why.",
    ),
    reason("NOT_BUILT", "UNIMPLEMENTED", 501, "What was asked for isn't there in this version."),
    reason(
        "OVERLOADED",
        "RESOURCE_EXHAUSTED",
        429,
        "A limit of the server is reached. Nothing was done. Try again after `google.rpc.RetryInfo` (`Retry-After`).",
    ),
    reason(
        "NO_SLICE",
        "RESOURCE_EXHAUSTED",
        429,
        "The time of an event would need one slice more than a namespace may have. Lengthen new slices, or keep events for less \
         long.",
    ),
    reason(
        "WRITE_FAILED",
        "UNAVAILABLE",
        503,
        "The store didn't take all events. `WriteOutcome` says which are stored, which aren't, and of which nobody knows. Sending \
         the same events again is safe.",
    ),
    reason(
        "WRITE_FAILED",
        "DEADLINE_EXCEEDED",
        504,
        "The same, since the store didn't answer in time: events may be stored all the same. Sending them again is safe.",
    ),
    reason(
        "DEADLINE_EXCEEDED",
        "DEADLINE_EXCEEDED",
        504,
        "The time for the request ran out before there was anything to answer.",
    ),
    reason("SLOW_BODY", "DEADLINE_EXCEEDED", 504, "The body didn't arrive in time."),
    reason(
        "NOT_SERVING",
        "UNAVAILABLE",
        503,
        "This server takes no writes at the moment: it is starting or stopping, its clock is off, or it can't refresh its \
         configuration. Nothing was done: try another server, or again.",
    ),
    reason("STORE_UNAVAILABLE", "UNAVAILABLE", 503, "The store didn't answer. Try again after `google.rpc.RetryInfo`."),
    reason(
        "DATA_DAMAGED",
        "DATA_LOSS",
        500,
        "Bytes in the store aren't what was written. Call whoever looks after it.",
    ),
    reason("INTERNAL", "INTERNAL", 500, "This should never happen. The message says what did; please report it."),
];

const fn reason(name: &'static str, code: &'static str, http: u16, meaning: &'static str) -> Reason {
    Reason { name, code, http, meaning }
}

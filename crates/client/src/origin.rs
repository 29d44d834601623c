//! Tells what a server said from what befell the connection to it. Servers and connections share the codes of gRPC, and a connection's
//! say little: one that breaks is `UNKNOWN`, a request that waited for it is `CANCELLED`, and so is one that ran out of time.

use std::error::Error;

use tonic::{Code, ConnectError, Status, TimeoutExpired};

/// Where a status comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A server answered it, or the message itself can't be sent or taken.
    Answer,
    /// No connection came about: nothing was sent.
    Unconnected,
    /// The connection broke: the request may have been done.
    Broken,
    /// No answer came in the time that the attempt had: the request may have been done.
    TimedOut,
}

/// Where this status comes from.
pub(crate) fn origin(status: &Status) -> Origin {
    let mut cause = status.source();
    // What came over the wire has no source. Of an answer that breaks off between two messages nothing else is left; servers have
    // better words than this code.
    if cause.is_none() && status.code() != Code::Unknown {
        return Origin::Answer;
    }
    while let Some(found) = cause {
        if found.is::<TimeoutExpired>() {
            return Origin::TimedOut;
        }
        if found.is::<ConnectError>() {
            return Origin::Unconnected;
        }
        // The connection carries on what this side has against the message.
        if found.is::<Status>() {
            return Origin::Answer;
        }
        cause = found.source();
    }
    Origin::Broken
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use super::*;

    fn with_source(code: Code, source: impl Error + Send + Sync + 'static) -> Status {
        let mut status = Status::new(code, "");
        status.set_source(Arc::new(source));
        status
    }

    #[test]
    fn what_a_server_says_is_told_from_what_befalls_a_connection() {
        let cases = [
            (Status::unavailable("the server is stopping"), Origin::Answer),
            (Status::cancelled("it was cancelled there"), Origin::Answer),
            (Status::unknown("missing grpc-status trailer"), Origin::Broken),
            (with_source(Code::Unknown, io::Error::from(io::ErrorKind::ConnectionReset)), Origin::Broken),
            (with_source(Code::Internal, io::Error::from(io::ErrorKind::BrokenPipe)), Origin::Broken),
            (with_source(Code::Cancelled, TimeoutExpired(())), Origin::TimedOut),
            (with_source(Code::Unavailable, ConnectError("refused".into())), Origin::Unconnected),
            (with_source(Code::OutOfRange, Status::out_of_range("the message is too long")), Origin::Answer),
        ];
        for (status, expected) in cases {
            assert_eq!(origin(&status), expected, "{status:?}");
        }
    }
}

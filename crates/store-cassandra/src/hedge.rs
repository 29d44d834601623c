//! The driver's side of the hedge: it sends the second read, to the next replica of its plan, and tells here when it does.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anabranch_store::hedge::{Hedge, Reservation};
use scylla::{
    errors::{RequestAttemptError, RequestError},
    observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId},
    policies::{
        retry::RetryDecision,
        speculative_execution::{Context, SpeculativeExecutionPolicy},
    },
};

/// Says when a read is slow.
#[derive(Debug)]
pub(crate) struct SlowReads(pub(crate) Arc<Hedge>);

impl SpeculativeExecutionPolicy for SlowReads {
    fn max_retry_count(&self, _: &Context) -> usize {
        1
    }

    fn retry_interval(&self, _: &Context) -> Duration {
        self.0.after()
    }
}

/// Hears when the second read is sent.
#[derive(Debug)]
pub(crate) struct SecondRead(pub(crate) Arc<Reservation>);

impl HistoryListener for SecondRead {
    fn log_request_start(&self) -> RequestId {
        RequestId(0)
    }

    fn log_request_success(&self, _: RequestId) {}

    fn log_request_error(&self, _: RequestId, _: &RequestError) {}

    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        self.0.spend();
        SpeculativeId(0)
    }

    fn log_attempt_start(&self, _: RequestId, _: Option<SpeculativeId>, _: SocketAddr) -> AttemptId {
        AttemptId(0)
    }

    fn log_attempt_success(&self, _: AttemptId) {}

    fn log_attempt_error(&self, _: AttemptId, _: &RequestAttemptError, _: &RetryDecision) {}
}

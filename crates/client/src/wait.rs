//! The one place of the client that waits. It sees only the interface and the model, and never runs in the simulation, so
//! that it can't and needn't take its time from `runtime`.

use std::{sync::Arc, time::Duration};

use tonic::{Status, TimeoutExpired};

/// Waits before the next attempt.
#[allow(clippy::disallowed_methods)] // a client lives in somebody else's program: the machine's clock is the only one
pub(crate) async fn wait(delay: Duration) {
    tokio::time::sleep(delay).await;
}

/// Gives an attempt so long, to the last byte of its answer: gRPC itself only looks at when the answer begins.
#[allow(clippy::disallowed_methods)] // as above
pub(crate) async fn within<T>(time: Duration, attempt: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::time::timeout(time, attempt).await.unwrap_or_else(|_| {
        let mut status = Status::deadline_exceeded(format!("no answer within {time:?}"));
        status.set_source(Arc::new(TimeoutExpired(())));
        Err(status)
    })
}

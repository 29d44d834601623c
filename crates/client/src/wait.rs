//! The one place of the client that waits. It sees only the interface and the model, and never runs in the simulation, so
//! that it can't and needn't take its time from `runtime`.

use std::time::Duration;

/// Waits before the next attempt.
#[allow(clippy::disallowed_methods)] // a client lives in somebody else's program: the machine's clock is the only one
pub(crate) async fn wait(delay: Duration) {
    tokio::time::sleep(delay).await;
}

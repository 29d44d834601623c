//! The engine over real stores: the promises of writes and reads.
#![allow(clippy::unwrap_used)]

use anabranch_engine::*;
use std::sync::Arc;

fn is_send<T: Send>(_: T) {}

#[test]
fn futures_may_move_between_threads() {
    fn check(engine: Arc<Engine>) {
        let e = engine.clone();
        is_send(async move {
            let _ = e.read(ReadRequest::default()).await;
            let _ = e.write_sync(WriteRequest::default()).await;
        });
    }
    let _ = check;
}

//! One node for all tests of this process, and for each test a store in keyspaces of its own.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use anabranch_runtime::Env;
use anabranch_store::Store;
use anabranch_store_cassandra::{CassandraOptions, CassandraStore, Replication};
use anabranch_testbed::Cassandra;

/// Ends with the process: a watchdog sees to it.
static NODE: OnceLock<Cassandra> = OnceLock::new();
static STORES: AtomicU32 = AtomicU32::new(0);

/// A prefix that no other test has.
pub(super) fn fresh_prefix() -> String {
    format!("t{}", STORES.fetch_add(1, Ordering::Relaxed))
}

/// How to reach the node.
pub(super) async fn options(prefix: &str) -> CassandraOptions {
    let start = || NODE.get_or_init(|| Cassandra::start(1).unwrap_or_else(|error| panic!("{error}"))).addresses();
    let addresses = Env::system().blocking(start).await.expect("the node starts");
    let mut options = CassandraOptions::new(addresses.iter().map(ToString::to_string));
    options.keyspace_prefix = prefix.to_owned();
    options.replication = Replication::Simple(1);
    options
}

/// A store that is empty.
pub(super) async fn fresh_store() -> (Arc<dyn Store>, ()) {
    (open(&fresh_prefix()).await, ())
}

/// The store with this prefix.
pub(super) async fn open(prefix: &str) -> Arc<dyn Store> {
    let store = CassandraStore::connect(options(prefix).await, Env::system()).await;
    Arc::new(store.unwrap_or_else(|error| panic!("{error}")))
}

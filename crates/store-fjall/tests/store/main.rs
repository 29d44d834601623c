//! The embedded store keeps the contract, and the traps of fjall that it was built around stay shut.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod crash;
mod drops;
mod groups;
mod opening;
mod reading;

use std::{path::Path, sync::Arc};

use anabranch_runtime::Env;
use anabranch_store::Store;
use anabranch_store_fjall::{FjallOptions, FjallStore};
use tempfile::TempDir;

/// Small caches and memtables: many stores are open at once, and flushes should happen.
fn small() -> FjallOptions {
    FjallOptions {
        cache_bytes: 8 << 20,
        memtable_bytes: 1 << 20,
        memtable_total_bytes: 4 << 20,
        ..FjallOptions::default()
    }
}

fn open(dir: &Path) -> FjallStore {
    FjallStore::open(dir, small(), Env::system()).unwrap()
}

fn fresh() -> (Arc<FjallStore>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Arc::new(open(dir.path())), dir)
}

mod contract {
    use super::*;

    anabranch_store::contract_suite!(async || {
        let (store, dir) = fresh();
        (store as Arc<dyn Store>, dir)
    });
}

mod durable {
    use super::*;

    anabranch_store::durable_suite!(|| tempfile::tempdir().unwrap(), async |dir: &TempDir| {
        Arc::new(open(dir.path())) as Arc<dyn Store>
    });
}

//! What is open: fjall, its tables, and the snapshot that readers share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64},
    },
};

use anabranch_model::TableName;
use anabranch_store::StoreError;
use fjall::{Keyspace, Snapshot};
use tokio::sync::oneshot;

use crate::{FjallOptions, directory::Directory};

/// A table. Whoever reads from it holds one: fjall's iterators fail once the last handle of their keyspace is gone.
pub(crate) struct Table {
    pub(crate) keyspace: Keyspace,
}

/// Everything that is open. The last one to let go of it closes fjall, then unlocks the directory.
pub(crate) struct Database {
    pub(crate) options: FjallOptions,
    tables: RwLock<BTreeMap<TableName, Arc<Table>>>,
    visible: RwLock<Arc<Snapshot>>,
    pub(crate) documents: Keyspace,
    pub(crate) registry: Keyspace,
    pub(crate) fjall: fjall::Database,
    pub(crate) counters: Counters,
    /// Whether fjall was seen to refuse every change from now on.
    pub(crate) poisoned: AtomicBool,
    pub(crate) directory: Directory,
    /// Dropped last, and so tells that all of it is closed.
    _open: oneshot::Sender<()>,
}

/// What happened since the store was opened.
#[derive(Default)]
pub(crate) struct Counters {
    /// Groups that were synced.
    pub(crate) groups: AtomicU64,
    /// Batches in them.
    pub(crate) batches: AtomicU64,
    /// Rows in them.
    pub(crate) rows: AtomicU64,
    /// Places in tables that were looked for.
    pub(crate) seeks: AtomicU64,
}

/// The handles of the keyspaces that aren't tables.
pub(crate) struct Internals {
    pub(crate) documents: Keyspace,
    pub(crate) registry: Keyspace,
}

impl Database {
    /// Puts together what was opened. Nothing may be under way in fjall.
    pub(crate) fn new(
        options: FjallOptions,
        directory: Directory,
        fjall: fjall::Database,
        internals: Internals,
        tables: BTreeMap<TableName, Arc<Table>>,
        open: oneshot::Sender<()>,
    ) -> Self {
        Database {
            options,
            tables: RwLock::new(tables),
            visible: RwLock::new(Arc::new(fjall.snapshot())),
            documents: internals.documents,
            registry: internals.registry,
            fjall,
            counters: Counters::default(),
            poisoned: AtomicBool::new(false),
            directory,
            _open: open,
        }
    }

    /// What readers see: whole batches, all of them durable.
    pub(crate) fn visible(&self) -> Arc<Snapshot> {
        self.visible.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows readers everything up to now. Only for the committer, between two changes and after a sync.
    pub(crate) fn publish(&self) {
        let snapshot = Arc::new(self.fjall.snapshot());
        let before = {
            let mut visible = self.visible.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *visible, snapshot)
        };
        drop(before); // may take a lock of fjall's: not while readers wait for ours
    }

    /// A table that is there now.
    pub(crate) fn table(&self, name: &TableName) -> Result<Arc<Table>, StoreError> {
        self.find(name).ok_or_else(|| StoreError::NoSuchTable { table: name.clone() })
    }

    pub(crate) fn find(&self, name: &TableName) -> Option<Arc<Table>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn table_count(&self) -> usize {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All tables, in order.
    pub(crate) fn tables(&self) -> Vec<(TableName, Arc<Table>)> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.iter().map(|(name, table)| (name.clone(), table.clone())).collect()
    }

    pub(crate) fn insert(&self, name: TableName, table: Table) {
        self.tables.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(table));
    }

    pub(crate) fn remove(&self, name: &TableName) -> Option<Arc<Table>> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner).remove(name)
    }
}

/// Locks; what it guards is never left half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

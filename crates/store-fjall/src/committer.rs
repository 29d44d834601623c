//! The one thread that changes anything. It takes a group of orders, applies them without a sync, syncs once, shows
//! readers the result, then answers. Tables are made and dropped here too, between groups: no write can meet a drop
//! halfway.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_runtime::Env;
use anabranch_store::{CasOutcome, StoreError};
use fjall::{AbstractTree, Keyspace, OwnedWriteBatch, PersistMode};
use tokio::sync::oneshot;

use crate::{
    database::{Database, Table},
    documents, error,
    layout::EncodedRows,
    queue::{DocumentAnswer, DocumentOrder, Order, Queue, Room, TableOrder, WriteAnswer, WriteOrder},
    tables::Registry,
};

/// Changes of documents, or of the list of tables, until they are flushed. A flush forgets all versions of a row but
/// the last, so that whoever lists them steps over this many at most.
const INTERNAL_CHANGES_PER_FLUSH: usize = 1000;
/// Bytes written until the sizes of memtables are added up again.
const BYTES_PER_CHECK: usize = 8 << 20;
/// How long to wait for flushes at a time.
const FLUSH_PAUSE: Duration = Duration::from_millis(2);
/// And in all: a worker that met a full disk never comes back.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// The committer's own.
pub(crate) struct Committer {
    database: Arc<Database>,
    queue: Arc<Queue>,
    registry: Registry,
    env: Env,
    fail_sync: Arc<AtomicBool>,
    internal_changes: usize,
    unchecked_bytes: usize,
}

/// What was taken from the queue and isn't synced yet, and who waits for it.
#[derive(Default)]
struct Group {
    rows: Vec<(Arc<Table>, EncodedRows)>,
    writes: Vec<Waiting<WriteAnswer>>,
    documents: Vec<Waiting<DocumentAnswer>>,
    /// Whether a document changed.
    dirty: bool,
}

/// Someone who waits, what to say if the sync succeeds, and the room it took in the queue.
struct Waiting<T> {
    sender: oneshot::Sender<T>,
    answer: T,
    room: Room,
}

impl<T> Waiting<T> {
    fn answer(self, change: impl FnOnce(T) -> T) {
        drop(self.room);
        let _ = self.sender.send(change(self.answer)); // nobody waits any more: fine
    }
}

impl Committer {
    /// `fail_sync` is for tests: set, it makes the next sync fail.
    pub(crate) fn new(
        database: Arc<Database>,
        queue: Arc<Queue>,
        registry: Registry,
        env: Env,
        fail_sync: Arc<AtomicBool>,
    ) -> Self {
        Committer { database, queue, registry, env, fail_sync, internal_changes: 0, unchecked_bytes: 0 }
    }

    /// Works until the queue is closed and empty, then makes everything durable.
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        let queue = self.queue.clone();
        // Whatever ends this thread, nobody may go on waiting for it.
        let _abandon = Abandon(&queue);
        let mut orders = Vec::new();
        while queue.take(&mut orders).is_some() {
            self.process(&mut orders);
            self.flush_internals();
            self.limit_memory();
        }
        self.database.fjall.persist(PersistMode::SyncAll).map_err(|error| error::unavailable(error.to_string()))?;
        crate::settle::settle(&self.database, &self.env);
        Ok(())
    }

    fn process(&mut self, orders: &mut Vec<Order>) {
        let mut group = Group::default();
        for order in orders.drain(..) {
            match order {
                Order::Write(write) => self.take_write(&mut group, write),
                Order::Document(document) => self.change_document(&mut group, document),
                Order::Create(order) => {
                    self.finish(&mut group);
                    self.create_table(order);
                }
                Order::Drop(order) => {
                    self.finish(&mut group);
                    self.drop_table(order);
                }
                Order::Run(work) => {
                    self.finish(&mut group);
                    work();
                }
            }
        }
        self.finish(&mut group);
    }

    fn take_write(&mut self, group: &mut Group, order: WriteOrder) {
        if !order.claim.take() {
            return;
        }
        let mut answers = Vec::with_capacity(order.batches.len());
        for batch in order.batches {
            // Looked up here, not when it was queued: a table that was dropped since takes no write. fjall would say
            // Ok.
            answers.push(self.database.table(&batch.table).map(|table| {
                self.unchecked_bytes += batch.bytes;
                group.rows.push((table, batch.rows));
            }));
        }
        group.writes.push(Waiting { sender: order.answer, answer: answers, room: order.room });
    }

    fn change_document(&mut self, group: &mut Group, order: DocumentOrder) {
        let answer = documents::change(&self.database, &order);
        // Whatever failed, the sync that follows finds out whether anything can still be changed.
        if matches!(answer, Ok(CasOutcome::Applied(_)) | Err(_)) {
            group.dirty = true;
            self.internal_changes += 1;
        }
        group.documents.push(Waiting { sender: order.answer, answer, room: order.room });
    }

    /// Applies the rows of a group as one batch of fjall's, syncs, publishes and answers.
    fn finish(&self, group: &mut Group) {
        let Group { rows, writes, documents, dirty } = std::mem::take(group);
        let changed = dirty || !rows.is_empty();
        let applied = self.apply(rows);
        let synced = if changed { self.sync() } else { Ok(()) };
        if synced.is_ok() && changed {
            self.database.publish();
            self.database.counters.groups.fetch_add(1, Ordering::Relaxed);
        }
        let outcome = applied.and(synced.clone());
        let settled = |answer: Result<(), StoreError>| answer.and_then(|()| outcome.clone());
        writes.into_iter().for_each(|write| write.answer(|answers| answers.into_iter().map(settled).collect()));
        let settled = |answer: DocumentAnswer| answer.and_then(|outcome| synced.clone().map(|()| outcome));
        documents.into_iter().for_each(|document| document.answer(settled));
    }

    fn apply(&self, rows: Vec<(Arc<Table>, EncodedRows)>) -> Result<(), StoreError> {
        let batches = rows.len() as u64;
        let count = rows.iter().map(|(_, rows)| rows.len()).sum();
        let mut batch = OwnedWriteBatch::with_capacity(self.database.fjall.clone(), count);
        for (table, rows) in rows {
            for (key, value) in rows {
                batch.insert(&table.keyspace, key, value);
            }
        }
        batch.commit().map_err(|error| error::change(&error))?;
        self.database.counters.batches.fetch_add(batches, Ordering::Relaxed);
        self.database.counters.rows.fetch_add(count as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        if self.fail_sync.swap(false, Ordering::Relaxed) {
            return Err(error::unknown("a sync was made to fail"));
        }
        self.database.fjall.persist(PersistMode::SyncData).map_err(|error| {
            if !self.database.poisoned.swap(true, Ordering::Relaxed) {
                tracing::error!(%error, "the journal could not be written or synced: no more writes until a restart");
            }
            error::unknown(error.to_string())
        })
    }

    fn create_table(&mut self, order: TableOrder) {
        self.internal_changes += 2;
        let answer = self.registry.create(&self.database, &order.table);
        self.database.publish();
        drop(order.room);
        let _ = order.answer.send(answer);
    }

    fn drop_table(&mut self, order: TableOrder) {
        self.internal_changes += 2;
        let answer = self.registry.drop(&self.database, &order.table).map(|dropped| self.delete_files(dropped));
        drop(order.room);
        let _ = order.answer.send(answer);
    }

    /// The files of a table go with its last handle; that may take long, and no write should wait for it.
    fn delete_files(&self, dropped: Option<Arc<Table>>) {
        let Some(table) = dropped else { return };
        // The database goes with it: it isn't closed while files are still being deleted.
        let both = (table, self.database.clone());
        if let Err(error) = self.env.thread("anabranch-drop", move || drop(both)) {
            tracing::warn!(%error, "no thread to delete the files of a dropped table");
        }
    }

    /// Keeps rewritten documents from piling up versions that every list would have to step over.
    fn flush_internals(&mut self) {
        if self.internal_changes >= INTERNAL_CHANGES_PER_FLUSH {
            self.internal_changes = 0;
            flush(&self.database.documents);
            flush(&self.database.registry);
        }
    }

    /// fjall bounds the memtable of each table, but not their sum.
    fn limit_memory(&mut self) {
        if self.unchecked_bytes < BYTES_PER_CHECK {
            return;
        }
        self.unchecked_bytes = 0;
        let options = &self.database.options;
        let mut sizes: Vec<(u64, Arc<Table>)> = self
            .database
            .tables()
            .into_iter()
            .map(|(_, table)| (table.keyspace.tree.active_memtable().size(), table))
            .collect();
        let mut total: u64 = sizes.iter().map(|(size, _)| size).sum();
        if total > options.memtable_total_bytes {
            sizes.sort_unstable_by_key(|(size, _)| *size);
            while total > options.memtable_total_bytes / 4 * 3
                && let Some((size, table)) = sizes.pop()
            {
                flush(&table.keyspace);
                total -= size;
            }
        }
        let deadline = self.env.monotonic() + FLUSH_PATIENCE;
        while self.database.fjall.outstanding_flushes() > options.workers && self.env.monotonic() < deadline {
            std::thread::park_timeout(FLUSH_PAUSE);
        }
    }
}

/// Starts to flush what a keyspace has in memory.
pub(crate) fn flush(keyspace: &Keyspace) {
    if let Err(error) = keyspace.rotate_memtable() {
        tracing::error!(keyspace = %&**keyspace.name(), %error, "a flush could not be started");
    }
}

struct Abandon<'a>(&'a Queue);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

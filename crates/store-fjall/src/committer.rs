//! The one thread that changes anything. It takes a group of orders, applies them without a sync, syncs once, shows readers the
//! result, then answers. Tables are made and dropped here too, between groups: no write can meet a drop halfway.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anabranch_runtime::Env;
use anabranch_store::{CasOutcome, StoreError};
use fjall::{AbstractTree, Keyspace, OwnedWriteBatch, PersistMode};
use tokio::sync::oneshot;

use crate::{
    database::{Database, Table},
    documents, error,
    queue::{DocumentOrder, Order, Queue, Room, TableOrder, WriteAnswer, WriteOrder},
    tables::Registry,
};

/// Changes of documents, or of the list of tables, until they are flushed: a flush forgets all versions of a row but the last, and
/// whoever lists them steps over as many at most.
const INTERNAL_CHANGES_PER_FLUSH: usize = 1000;
/// Bytes written until the sizes of memtables are added up again.
const BYTES_PER_CHECK: usize = 8 << 20;

/// The committer's own.
pub(crate) struct Committer {
    pub(crate) database: Arc<Database>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) registry: Registry,
    pub(crate) env: Env,
    /// For tests: the next sync fails.
    pub(crate) fail_sync: Arc<AtomicBool>,
    pub(crate) internal_changes: usize,
    pub(crate) unchecked_bytes: usize,
}

/// A group under way: what was applied since the last sync, and who waits for it.
#[derive(Default)]
struct Group {
    rows: Vec<(Arc<Table>, Vec<(bytes::Bytes, bytes::Bytes)>)>,
    row_count: usize,
    batches: usize,
    /// Answers of writes from here on wait for `rows` to be applied.
    applied: usize,
    writes: Vec<(oneshot::Sender<WriteAnswer>, WriteAnswer, Room)>,
    documents: Vec<(oneshot::Sender<Result<CasOutcome, StoreError>>, Result<CasOutcome, StoreError>, Room)>,
    dirty: bool,
}

impl Committer {
    /// Works until the queue is closed and empty, then makes everything durable.
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        let queue = self.queue.clone();
        // Whatever ends this thread, nobody may wait for it any longer.
        let _abandon = Abandon(&queue);
        let mut orders = Vec::new();
        while queue.take(&mut orders).is_some() {
            self.process(&mut orders);
            self.limit_memory();
        }
        self.database.fjall.persist(PersistMode::SyncAll).map_err(|error| error::unavailable(&error))
    }

    fn process(&mut self, orders: &mut Vec<Order>) {
        let mut group = Group::default();
        let mut orders = orders.drain(..).peekable();
        while let Some(order) = orders.next() {
            match order {
                Order::Write(write) => self.add_write(&mut group, write),
                Order::Document(document) => self.change_document(&mut group, document),
                Order::Create(order) => {
                    self.finish(&mut group);
                    let mut creations = vec![order];
                    while let Some(Order::Create(order)) = orders.next_if(|order| matches!(order, Order::Create(_))) {
                        creations.push(order);
                    }
                    self.create(creations);
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

    fn add_write(&self, group: &mut Group, order: WriteOrder) {
        if !order.claim.take() {
            return;
        }
        let mut answers = Vec::with_capacity(order.batches.len());
        for batch in order.batches {
            // Looked up here and not when it was queued: a table that was dropped since takes no write.
            answers.push(self.database.table(&batch.table).map(|table| {
                group.row_count += batch.rows.len();
                group.batches += 1;
                self.count(batch.bytes);
                group.rows.push((table, batch.rows));
            }));
        }
        group.writes.push((order.answer, answers, order.room));
    }

    fn count(&self, _bytes: usize) {}

    fn change_document(&mut self, group: &mut Group, order: DocumentOrder) {
        let answer = documents::change(&self.database, &order);
        if matches!(answer, Ok(CasOutcome::Applied(_)) | Err(StoreError::Unknown { .. })) {
            group.dirty = true;
            self.internal_changes += 1;
        }
        group.documents.push((order.answer, answer, order.room));
    }
}

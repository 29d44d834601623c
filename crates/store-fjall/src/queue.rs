//! What waits for the committer: a queue bounded in number and in bytes. Who asks waits for room, up to its own
//! timeout.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use anabranch_model::TableName;
use anabranch_store::{CasOutcome, StoreError, Version};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{FjallOptions, database::locked, error::closed, layout::EncodedBatch};

const KIB: u64 = 1024;

/// Something for the committer to do.
pub(crate) enum Order {
    /// Rows.
    Write(WriteOrder),
    /// A document.
    Document(DocumentOrder),
    /// A table to make.
    Create(TableOrder),
    /// A table to drop.
    Drop(TableOrder),
    /// Anything, between two groups.
    Run(Box<dyn FnOnce() + Send>),
}

/// The answers of an order of batches, in their order.
pub(crate) type WriteAnswer = Vec<Result<(), StoreError>>;

/// The answer of an order of a document.
pub(crate) type DocumentAnswer = Result<CasOutcome, StoreError>;

/// Batches to write.
pub(crate) struct WriteOrder {
    pub(crate) batches: Vec<EncodedBatch>,
    pub(crate) claim: Claim,
    pub(crate) answer: oneshot::Sender<WriteAnswer>,
    pub(crate) room: Room,
}

/// A document to change.
pub(crate) struct DocumentOrder {
    pub(crate) key: Vec<u8>,
    pub(crate) expected: Option<Version>,
    pub(crate) value: Option<Bytes>,
    pub(crate) answer: oneshot::Sender<DocumentAnswer>,
    pub(crate) room: Room,
}

/// A table to make or drop.
pub(crate) struct TableOrder {
    pub(crate) table: TableName,
    pub(crate) answer: oneshot::Sender<Result<(), StoreError>>,
    pub(crate) room: Room,
}

/// Who has an order: whoever asked may withdraw it until the committer takes it.
#[derive(Clone, Default)]
pub(crate) struct Claim(Arc<AtomicU8>);

impl Claim {
    const QUEUED: u8 = 0;
    const TAKEN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// For the committer; `false` when it was withdrawn.
    pub(crate) fn take(&self) -> bool {
        self.change(Self::TAKEN)
    }

    /// For who asked; `false` when the committer has it already.
    pub(crate) fn withdraw(&self) -> bool {
        self.change(Self::WITHDRAWN)
    }

    fn change(&self, to: u8) -> bool {
        self.0.compare_exchange(Self::QUEUED, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A place in the queue; given back when dropped.
pub(crate) struct Room {
    _batches: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

/// The queue.
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    batches: Arc<Semaphore>,
    batch_limit: usize,
    kib: Arc<Semaphore>,
    kib_limit: u64,
    group: usize,
    group_bytes: usize,
}

/// To make a table takes fjall some twenty syncs, so rows and documents wait for one such order at most, not for all
/// that came before them. Nobody can tell: what was ordered after an answer still comes after it.
#[derive(Default)]
struct State {
    changes: VecDeque<Order>,
    tables: VecDeque<Order>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(options: &FjallOptions) -> Self {
        let kib_limit = (options.commit_queue_bytes / KIB).max(1);
        Queue {
            state: Mutex::default(),
            filled: Condvar::new(),
            batches: Arc::new(Semaphore::new(options.commit_queue_batches)),
            batch_limit: options.commit_queue_batches,
            kib: Arc::new(Semaphore::new(usize::try_from(kib_limit).unwrap_or(usize::MAX >> 4))),
            kib_limit,
            group: options.group,
            group_bytes: usize::try_from(options.commit_queue_bytes / 4).unwrap_or(usize::MAX),
        }
    }

    /// Waits for room. More than all there is counts as all.
    pub(crate) async fn room(&self, batches: usize, bytes: usize) -> Result<Room, StoreError> {
        let batches = u32::try_from(batches.min(self.batch_limit)).unwrap_or(u32::MAX);
        let kib = u32::try_from((bytes as u64 / KIB + 1).min(self.kib_limit)).unwrap_or(u32::MAX);
        let batches = self.batches.clone().acquire_many_owned(batches).await.map_err(|_| closed())?;
        let bytes = self.kib.clone().acquire_many_owned(kib).await.map_err(|_| closed())?;
        Ok(Room { _batches: batches, _bytes: bytes })
    }

    /// Adds an order at the end.
    pub(crate) fn push(&self, order: Order) -> Result<(), StoreError> {
        let mut state = locked(&self.state);
        if state.closed {
            return Err(closed());
        }
        match order {
            Order::Write(_) | Order::Document(_) => state.changes.push_back(order),
            Order::Create(_) | Order::Drop(_) | Order::Run(_) => state.tables.push_back(order),
        }
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for orders and takes a group of them; `None` once the queue is closed and empty.
    pub(crate) fn take(&self, group: &mut Vec<Order>) -> Option<()> {
        let mut state = locked(&self.state);
        while state.changes.is_empty() && state.tables.is_empty() {
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut batches, mut bytes) = (0, 0);
        while batches < self.group
            && bytes < self.group_bytes
            && let Some(order) = state.changes.pop_front()
        {
            (batches, bytes) = match &order {
                Order::Write(write) => (
                    batches + write.batches.len(),
                    bytes + write.batches.iter().map(|batch| batch.bytes).sum::<usize>(),
                ),
                _ => (batches + 1, bytes),
            };
            group.push(order);
        }
        group.extend(state.tables.pop_front());
        Some(())
    }

    /// How many orders wait.
    pub(crate) fn len(&self) -> usize {
        let state = locked(&self.state);
        state.changes.len() + state.tables.len()
    }

    /// Lets nothing more in. What is in is still done.
    pub(crate) fn close(&self) {
        locked(&self.state).closed = true;
        self.batches.close();
        self.kib.close();
        self.filled.notify_all();
    }

    /// Lets nothing more in, and forgets what is in: whoever waits learns that its outcome isn't known.
    pub(crate) fn abandon(&self) {
        self.close();
        let mut state = locked(&self.state);
        let orders = (std::mem::take(&mut state.changes), std::mem::take(&mut state.tables));
        drop(state);
        drop(orders);
    }
}

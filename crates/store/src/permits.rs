//! Permits: every read of the store asks for one, so that one huge history can't slow down the others.
//!
//! | who waits | is served |
//! |---|---|
//! | [`ReadClass::Small`] | first: pages that somebody waits for |
//! | [`ReadClass::Bulk`] | next: whole histories; at least a fifth of the bytes while small reads wait too |
//! | [`ReadClass::Background`] | last: splits, comparisons, measuring; at least a twentieth |
//!
//! Within a class permits are shared between series by bytes (start-time fair queueing, in `queue`): a series that has
//! read much waits behind one that has read little, however many reads it has waiting. How many bulk and background reads
//! are in flight follows what small reads observe of the store (in `limit`): all that are allowed while nobody else is
//! there, down to [`PermitOptions::heavy_at_least`] while small reads are slower than they usually are. As long as there are small
//! reads, each of the others is short, too ([`PermitOptions::heavy_bytes_beside`]): a small read that comes late waits for one of them.
//! Small reads themselves have a fixed bound: held back by their own latency they would wait for each other.
//!
//! Where nobody waits, a permit costs one lock that nobody holds for long. The queue is bounded; a read that finds it
//! full is refused at once with [`StoreError::Overloaded`]. Writes and metadata need no permit: leases and
//! acknowledgements must not wait for reads.

mod limit;
mod queue;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_runtime::Env;
use tokio::sync::oneshot;

use crate::{
    StoreError,
    permits::{
        limit::BulkLimit,
        queue::{Lane, Place},
    },
};

/// What a read is for, which decides when it has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadClass {
    /// A page that somebody waits for.
    Small,
    /// Part of a whole history.
    Bulk,
    /// Nobody waits for it.
    Background,
}

impl ReadClass {
    /// All of them, in the order of their turns.
    pub const ALL: [ReadClass; 3] = [ReadClass::Small, ReadClass::Bulk, ReadClass::Background];

    /// For metrics.
    pub fn name(self) -> &'static str {
        match self {
            ReadClass::Small => "small",
            ReadClass::Bulk => "bulk",
            ReadClass::Background => "background",
        }
    }

    fn is_heavy(self) -> bool {
        self != ReadClass::Small
    }

    /// Which part of what others are served is owed to this class while it waits: a fifth of all is a quarter of the rest.
    fn owed_of(self, bytes: u64) -> u64 {
        match self {
            ReadClass::Small => 0,
            ReadClass::Bulk => bytes / 4,
            ReadClass::Background => bytes / 19,
        }
    }
}

/// How many reads there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitOptions {
    /// Reads in flight, of all classes.
    pub in_flight: usize,
    /// Bulk and background reads in flight, at most; fewer while small reads are slow.
    pub heavy_in_flight: usize,
    /// So many of them always may be, however slow small reads are; at least one.
    pub heavy_at_least: usize,
    /// The most that a bulk or background read brings while there are small reads, too.
    pub heavy_bytes_beside: usize,
    /// Reads that may wait; background ones only in the first half.
    pub waiting: usize,
}

impl Default for PermitOptions {
    fn default() -> Self {
        PermitOptions {
            in_flight: 128,
            heavy_in_flight: 16,
            heavy_at_least: 1,
            heavy_bytes_beside: 384 << 10,
            waiting: 4096,
        }
    }
}

/// What there is of one class, and was since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Reads in flight.
    pub in_flight: usize,
    /// Reads that wait.
    pub waiting: usize,
    /// Permits given.
    pub granted: u64,
    /// How many of them had to be waited for.
    pub waited: u64,
    /// How long, together.
    pub waited_for: Duration,
    /// Reads refused because too many were waiting.
    pub refused: u64,
}

/// Gives out permits.
pub struct Permits {
    env: Env,
    options: PermitOptions,
    state: Mutex<State>,
}

struct State {
    lanes: [Lane<oneshot::Sender<Permit>>; 3],
    counts: [ClassCount; 3],
    /// Bytes that a class must get before those that come earlier.
    owed: [u64; 3],
    limit: BulkLimit,
}

/// The right to read once. Gone with [`Permit::done`], or when it is dropped.
pub struct Permit {
    permits: Arc<Permits>,
    class: ReadClass,
    flow: u64,
    /// What the flow was charged.
    charged: u64,
    /// How long it was waited for.
    waited: Duration,
    /// The most that it should bring.
    max_bytes: usize,
    granted: Duration,
    /// Whether no heavy read was in flight when this began.
    alone: bool,
    /// Bytes read, when that is known.
    read: Option<u64>,
}

impl Permits {
    /// Nothing is in flight.
    pub fn new(env: Env, options: PermitOptions) -> Self {
        let heavy = options.heavy_in_flight.clamp(1, options.in_flight.max(1));
        let state = State {
            lanes: std::array::from_fn(|_| Lane::default()),
            counts: [ClassCount::default(); 3],
            owed: [0; 3],
            limit: BulkLimit::new(options.heavy_at_least, heavy),
        };
        let options = PermitOptions { in_flight: options.in_flight.max(1), ..options };
        Permits { env, options, state: Mutex::new(state) }
    }

    /// Waits for the turn of a read. `flow` tells series apart: permits of a class are shared between flows by bytes.
    /// Waits for at most `patience`.
    pub async fn acquire(
        self: &Arc<Self>,
        class: ReadClass,
        flow: u64,
        patience: Duration,
    ) -> Result<Permit, StoreError> {
        let began = self.env.monotonic();
        let (turn, place) = {
            let mut state = self.state();
            let lane = &state.lanes[class as usize];
            if lane.is_empty() && state.has_room(class, &self.options) {
                let charged = state.lanes[class as usize].begin(flow);
                return Ok(state.grant(self, class, flow, charged, Duration::ZERO, began));
            }
            let waiting: usize = state.lanes.iter().map(Lane::len).sum();
            let room = if class == ReadClass::Background { self.options.waiting / 2 } else { self.options.waiting };
            if waiting >= room {
                state.counts[class as usize].refused += 1;
                let reason = format!("{waiting} reads wait for the store already");
                return Err(StoreError::Overloaded { reason });
            }
            let (sender, turn) = oneshot::channel();
            (turn, state.lanes[class as usize].push(flow, began, sender))
        };
        let leaving = Leaving { permits: self, class, place };
        let granted = self.env.timeout(patience, turn).await;
        drop(leaving);
        match granted {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => {
                self.state().counts[class as usize].refused += 1;
                let reason = format!("a read waited {patience:?} for its turn");
                Err(StoreError::Overloaded { reason })
            }
        }
    }

    /// What there is of each class.
    pub fn counts(&self) -> [(ReadClass, ClassCount); 3] {
        let state = self.state();
        ReadClass::ALL.map(|class| {
            let waiting = state.lanes[class as usize].len();
            (class, ClassCount { waiting, ..state.counts[class as usize] })
        })
    }

    /// How many bulk and background reads may be in flight now.
    pub fn heavy_limit(&self) -> usize {
        self.state().limit.now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out what is free. The permits are sent once the lock is released: one that nobody takes comes back at once.
    fn hand_out(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut turns = Vec::new();
        let now = self.env.monotonic();
        while let Some(class) = state.next(&self.options) {
            let Some(waiter) = state.lanes[class as usize].pop() else { break };
            let waited = now.saturating_sub(waiter.since);
            turns.push((waiter.turn, state.grant(self, class, waiter.flow, waiter.charged, waited, now)));
        }
        drop(state);
        for (turn, permit) in turns {
            let _ = turn.send(permit);
        }
    }
}

impl State {
    fn has_room(&self, class: ReadClass, options: &PermitOptions) -> bool {
        let all: usize = self.counts.iter().map(|count| count.in_flight).sum();
        all < options.in_flight && (!class.is_heavy() || self.heavy() < self.limit.now())
    }

    fn heavy(&self) -> usize {
        self.counts[ReadClass::Bulk as usize].in_flight + self.counts[ReadClass::Background as usize].in_flight
    }

    /// Whose turn it is, if anybody waits for whom there is room: first who is owed something, then in the order of classes.
    fn next(&self, options: &PermitOptions) -> Option<ReadClass> {
        let ready = |class: &ReadClass| !self.lanes[*class as usize].is_empty() && self.has_room(*class, options);
        let is_owed = |class: &ReadClass| {
            self.lanes[*class as usize].next_charge().is_some_and(|charge| self.owed[*class as usize] >= charge)
        };
        let all = ReadClass::ALL.into_iter();
        all.clone().filter(ready).find(is_owed).or_else(|| all.clone().find(ready))
    }

    fn grant(
        &mut self,
        permits: &Arc<Permits>,
        class: ReadClass,
        flow: u64,
        charged: u64,
        waited: Duration,
        now: Duration,
    ) -> Permit {
        let alone = self.heavy() == 0;
        for other in ReadClass::ALL {
            let owed = &mut self.owed[other as usize];
            *owed = if self.lanes[other as usize].is_empty() {
                0 // nothing is saved up by who isn't there
            } else if other == class {
                owed.saturating_sub(charged)
            } else {
                *owed + other.owed_of(charged)
            };
        }
        let count = &mut self.counts[class as usize];
        count.in_flight += 1;
        count.granted += 1;
        count.waited += u64::from(!waited.is_zero());
        count.waited_for += waited;
        let brief = class.is_heavy() && !self.limit.is_quiet(now);
        let max_bytes = if brief { permits.options.heavy_bytes_beside } else { usize::MAX };
        Permit { permits: permits.clone(), class, flow, charged, waited, max_bytes, granted: now, alone, read: None }
    }
}

impl Permit {
    /// How long it was waited for.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The most that the read should bring.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The read is done and brought so many bytes.
    pub fn done(mut self, bytes: u64) {
        self.read = Some(bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let now = self.permits.env.monotonic();
        let mut state = self.permits.state();
        let class = self.class as usize;
        state.counts[class].in_flight -= 1;
        state.lanes[class].settle(self.flow, self.charged, self.read);
        if self.class.is_heavy() {
            let wanted =
                ReadClass::ALL.iter().any(|class| class.is_heavy() && !state.lanes[*class as usize].is_empty());
            state.limit.heavy_done(now, wanted);
        } else if let Some(bytes) = self.read {
            let alone = self.alone && state.heavy() == 0;
            state.limit.small_done(now, now.saturating_sub(self.granted), bytes, alone);
        }
        if state.lanes.iter().all(Lane::is_empty) {
            return;
        }
        self.permits.hand_out(state);
    }
}

/// Leaves the queue, if still in it, whatever ends the waiting.
struct Leaving<'a> {
    permits: &'a Permits,
    class: ReadClass,
    place: Place,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.permits.state().lanes[self.class as usize].leave(self.place);
    }
}

#[cfg(test)]
mod tests;

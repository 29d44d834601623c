//! The queue behind `WriteEventRecords`: bounded, drained in the background in bigger batches. What falls out of the
//! window in it is dropped and counted.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_model::{Event, NamespaceName};
use anabranch_runtime::Env;
use tokio::sync::Notify;

use crate::{EngineError, WriteOutcome, engine::Engine, registry::Namespace, write::store_events};

/// What is written at once.
const COALESCED_EVENTS: usize = 5000;
const COALESCED_BYTES: usize = 4 << 20;
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LONGEST: Duration = Duration::from_secs(2);

pub(crate) struct Queue {
    most_events: usize,
    most_bytes: usize,
    inside: Mutex<Inside>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Default)]
struct Inside {
    entries: VecDeque<Entry>,
    /// Of entries and of what is being written.
    events: usize,
    bytes: usize,
    closed: bool,
}

struct Entry {
    namespace: NamespaceName,
    incarnation: u64,
    events: Vec<Event>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn new(most_events: usize, most_bytes: usize) -> Self {
        Queue { most_events, most_bytes, inside: Mutex::default(), filled: Notify::new(), emptied: Notify::new() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(
        &self,
        namespace: NamespaceName,
        incarnation: u64,
        events: Vec<Event>,
        bytes: usize,
        env: &Env,
    ) -> Result<(), EngineError> {
        let mut inside = self.inside();
        if inside.closed || env.is_killed() {
            return Err(EngineError::NotServing { reason: "this server is shutting down".to_owned() });
        }
        if inside.events + events.len() > self.most_events || inside.bytes + bytes > self.most_bytes {
            let what = format!("the write queue is full ({} events, {} bytes)", inside.events, inside.bytes);
            return Err(EngineError::Overloaded { what });
        }
        inside.events += events.len();
        inside.bytes += bytes;
        inside.entries.push_back(Entry { namespace, incarnation, events, bytes });
        drop(inside);
        self.filled.notify_one();
        Ok(())
    }

    /// Events and bytes inside.
    pub(crate) fn size(&self) -> (usize, usize) {
        let inside = self.inside();
        (inside.events, inside.bytes)
    }

    /// Entries of one namespace from the front, as many as are written at once.
    fn take(&self) -> Option<Entry> {
        let mut inside = self.inside();
        let mut taken = inside.entries.pop_front()?;
        while let Some(next) = inside.entries.front() {
            let same = next.namespace == taken.namespace && next.incarnation == taken.incarnation;
            let fits = taken.events.len() + next.events.len() <= COALESCED_EVENTS
                && taken.bytes + next.bytes <= COALESCED_BYTES;
            if !same || !fits {
                break;
            }
            let next = inside.entries.pop_front().expect("it was just looked at");
            taken.events.extend(next.events);
            taken.bytes += next.bytes;
        }
        Some(taken)
    }

    fn finished(&self, events: usize, bytes: usize) {
        let mut inside = self.inside();
        inside.events -= events.min(inside.events);
        inside.bytes -= bytes.min(inside.bytes);
        let empty = inside.events == 0;
        drop(inside);
        if empty {
            self.emptied.notify_waiters();
        }
    }

    /// Waits until nothing is inside.
    pub(crate) async fn drained(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.size().0 == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// Gives up what is inside; says how many events that were.
    pub(crate) fn discard(&self) -> usize {
        let mut inside = self.inside();
        inside.entries.clear();
        std::mem::take(&mut inside.events)
    }

    /// Takes nothing more, and lets the draining task end once nothing is inside.
    pub(crate) fn close(&self) {
        self.inside().closed = true;
        self.filled.notify_one();
    }
}

impl Engine {
    /// Writes what comes into the queue, until that is closed and empty.
    pub(crate) async fn drain_queue(&self) {
        loop {
            let Some(entry) = self.queue.take() else {
                if self.queue.inside().closed {
                    return;
                }
                self.queue.filled.notified().await;
                continue;
            };
            let (events, bytes) = (entry.events.len(), entry.bytes);
            self.write_queued_entry(entry).await;
            self.queue.finished(events, bytes);
            let (events, bytes) = self.queue.size();
            self.metrics.queued_events.set(events as i64);
            self.metrics.queued_bytes.set(bytes as i64);
        }
    }

    /// Tries until everything is stored, can't be any more, or was given up.
    async fn write_queued_entry(&self, entry: Entry) {
        let mut events = entry.events;
        let mut pause = RETRY_FIRST;
        while !events.is_empty() && !self.is_drained() {
            let namespace = match self.registry.get(entry.namespace.as_str()) {
                Ok(namespace) if namespace.record.incarnation == entry.incarnation => namespace,
                _ => return self.drop_queued(&entry.namespace, "namespace_deleted", events.len()),
            };
            // Only a clock that can be relied on says what has fallen out of the window.
            if self.heartbeat.check_clock().is_err() {
                self.env.sleep(pause).await;
                pause = (pause * 2).min(RETRY_LONGEST);
                continue;
            }
            self.drop_outside_window(&namespace, &mut events);
            if events.is_empty() {
                return;
            }
            let max = namespace.record.config_at(self.env.now()).write_slo.max;
            let deadline = self.env.monotonic() + max;
            match store_events(self, &namespace, events.clone(), deadline).await {
                Ok(_) => return,
                Err(EngineError::WriteFailed { outcome, reason, .. }) => {
                    tracing::warn!(namespace = %entry.namespace, reason, "a queued write will be tried again");
                    events = not_known_to_be_stored(&events, &outcome);
                }
                Err(EngineError::Refused(_)) => {} // time has passed: what is outside the window is dropped above
                Err(error) => {
                    tracing::warn!(namespace = %entry.namespace, %error, "a queued write will be tried again");
                }
            }
            self.env.sleep(pause).await;
            pause = (pause * 2).min(RETRY_LONGEST);
        }
    }

    fn drop_outside_window(&self, namespace: &Namespace, events: &mut Vec<Event>) {
        let before = events.len();
        let now = self.env.now();
        events.retain(|event| namespace.record.accepts_time(event.position.time, now));
        if events.len() < before {
            self.drop_queued(&namespace.name, "window", before - events.len());
        }
    }

    fn drop_queued(&self, namespace: &NamespaceName, reason: &str, events: usize) {
        self.metrics.events_dropped.with_label_values(&[namespace.as_str(), reason]).inc_by(events as u64);
        tracing::error!(%namespace, reason, events, "dropped events from the write queue");
    }
}

fn not_known_to_be_stored(events: &[Event], outcome: &WriteOutcome) -> Vec<Event> {
    let again = outcome.not_stored.iter().chain(&outcome.unknown);
    again.filter_map(|index| events.get(*index as usize).cloned()).collect()
}

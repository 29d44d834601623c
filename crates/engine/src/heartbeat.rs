//! Servers on a shared store tell each other the time. One whose clock differs from most others by more than `max_clock_skew` takes
//! no writes, plans nothing and uses no splits: what it holds for sealed may not be.
//!
//! A heartbeat was written between the two looks of which the first did not see it and the second did. So its time must lie
//! between theirs, give or take the allowed difference; nobody has to know how long a call took.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use anabranch_store::{MetaKey, Store, StoreError, Version};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::EngineError;

const SCOPE: &str = "servers";
/// A server that wasn't heard of for so many refreshes doesn't count.
const FORGET_AFTER: u32 = 10;
/// What is left of servers that are gone is removed after this.
const REMOVE_AFTER: Duration = Duration::from_secs(3600);
const MOST_SERVERS: usize = 1000;

#[derive(Serialize, Deserialize)]
struct Beat {
    at: Timestamp,
}

/// What is known of another server.
#[derive(Clone, Copy)]
struct Peer {
    version: Version,
    /// When it was last heard of, by the monotonic clock.
    heard: Duration,
    /// Whether its last heartbeat agreed with this server's clock; `None` before there were two.
    agrees: Option<bool>,
}

/// The heartbeats of one server.
pub(crate) struct Heartbeat {
    store: Arc<dyn Store>,
    env: Env,
    id: String,
    max_clock_skew: Duration,
    refresh_interval: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    own: Option<Version>,
    /// When the others were last looked at, by this server's wall clock.
    looked: Option<Timestamp>,
    peers: BTreeMap<String, Peer>,
    off: Option<String>,
}

impl Heartbeat {
    pub(crate) fn new(store: Arc<dyn Store>, env: Env, max_clock_skew: Duration, refresh_interval: Duration) -> Self {
        let id = format!("{:016x}", env.random_u64());
        Heartbeat { store, env, id, max_clock_skew, refresh_interval, state: Mutex::default() }
    }

    /// What this server is called among the others.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses when this server's clock is believed to be wrong.
    pub(crate) fn check_clock(&self) -> Result<(), EngineError> {
        match &self.state().off {
            Some(reason) => Err(EngineError::NotServing { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Tells the others the time, and hears theirs.
    pub(crate) async fn beat(&self) -> Result<(), StoreError> {
        let key = MetaKey::new(SCOPE, self.id.clone());
        let own = self.state().own;
        let beat = Beat { at: self.env.now() };
        let value = Bytes::from(serde_json::to_vec(&beat).expect("a time is plain data"));
        let told = self.store.compare_and_set(&key, own, Some(value)).await;
        match told {
            Ok(anabranch_store::CasOutcome::Applied(version)) => self.state().own = Some(version),
            // Perhaps our own, which came late.
            Ok(anabranch_store::CasOutcome::Conflict(found)) => {
                self.state().own = found.map(|document| document.version);
            }
            Err(error) => {
                self.state().own = self.store.load(&key).await?.map(|document| document.version);
                return Err(error);
            }
        }
        let heard = self.store.list(SCOPE, None, MOST_SERVERS).await?;
        let old = self.hear(heard);
        for (name, version) in old {
            self.store.compare_and_set(&MetaKey::new(SCOPE, name), Some(version), None).await?;
        }
        Ok(())
    }

    /// Compares what was heard with this server's clock. Answers what is left of servers that are gone.
    fn hear(&self, heard: Vec<(String, anabranch_store::Versioned)>) -> Vec<(String, Version)> {
        let (now, monotonic) = (self.env.now(), self.env.monotonic());
        let mut state = self.state();
        let looked = state.looked.replace(now);
        let mut old = Vec::new();
        for (name, document) in heard.into_iter().filter(|(name, _)| *name != self.id) {
            let Ok(beat) = serde_json::from_slice::<Beat>(&document.value) else { continue };
            let known = state.peers.get(&name).copied();
            if known.is_some_and(|known| known.version == document.version) {
                if known.is_some_and(|known| monotonic.saturating_sub(known.heard) > REMOVE_AFTER) {
                    old.push((name, document.version));
                }
                continue;
            }
            // Written after the last look, if this isn't the first time that the server is seen.
            let not_before =
                looked.filter(|_| known.is_some()).map(|looked| looked.saturating_sub(self.max_clock_skew));
            let ahead = beat.at > now.saturating_add(self.max_clock_skew);
            let behind = not_before.is_some_and(|not_before| beat.at < not_before);
            let agrees = if ahead || behind { Some(false) } else { known.map(|_| true) };
            state.peers.insert(name, Peer { version: document.version, heard: monotonic, agrees });
        }
        let forget = self.refresh_interval * FORGET_AFTER;
        state.peers.retain(|_, peer| monotonic.saturating_sub(peer.heard) <= forget.max(REMOVE_AFTER * 2));
        let fresh = state.peers.values().filter(|peer| monotonic.saturating_sub(peer.heard) <= forget);
        let (agree, differ) = fresh.fold((0, 0), |(agree, differ), peer| match peer.agrees {
            Some(true) => (agree + 1, differ),
            Some(false) => (agree, differ + 1),
            None => (agree, differ),
        });
        let off = differ > agree;
        state.off = off.then(|| {
            format!(
                "this server's clock differs from that of {differ} of {} others by more than {:?} (max_clock_skew)",
                agree + differ,
                self.max_clock_skew
            )
        });
        old
    }
}

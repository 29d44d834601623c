//! Servers on a shared store tell each other the time. One whose clock differs by more than `max_clock_skew` from more others than
//! it agrees with takes no writes, plans nothing, closes no slice and uses no splits: what it holds for sealed may not be.
//!
//! A heartbeat says what its server's clock shows, and which heartbeats of others it has heard. Whoever reads one knows that it was
//! made before now, and after the heartbeat of its own that is heard in it: between these two times the other's clock must have
//! shown what it says. However long calls take, that is true; the less they take, the closer the bounds.
//!
//! Nobody relies on a clock that hasn't been compared, neither after a start nor after it was set. While it is compared heartbeats come
//! quickly, and it takes so long that whoever relies on its own clock has told it in between: a server that can't tell the others the
//! time for so long stops, too. Where others were heard of, one of them must have agreed; those that stay silent are waited for until
//! they are forgotten. A server that is stopped in good order takes its heartbeat away, so that nobody waits for it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use anabranch_store::{CasOutcome, MetaKey, Store, StoreError, Version, Versioned};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{EngineError, impatience::Impatience};

const SCOPE: &str = "servers";
/// A server that wasn't heard of for so many refreshes doesn't count.
const FORGET_AFTER: u32 = 10;
/// What is left of servers that are gone is removed after this.
const REMOVE_AFTER: Duration = Duration::from_secs(3600);
const MOST_SERVERS: usize = 1000;
/// A clock was set when it moved against the monotonic one by more than this share of `max_clock_skew`.
const SET_SHARE: u128 = 10;
/// While a clock is compared heartbeats come so many times as often.
const HASTE: u32 = 10;
/// Heartbeats of which the bounds count: old ones don't, since clocks drift.
const KEPT_BOUNDS: usize = 16;
/// Own heartbeats that may still be heard of.
const KEPT_BEATS: usize = 64;

/// What one server tells the others.
#[derive(Serialize, Deserialize)]
struct Beat {
    /// What its clock shows.
    at: Timestamp,
    /// The latest heartbeat that it has heard of each other server.
    heard: BTreeMap<String, Timestamp>,
}

/// By how many nanoseconds another clock is ahead of this one: at least, and at most.
#[derive(Clone, Copy)]
struct Bounds {
    least: i64,
    most: i64,
}

/// What is known of another server.
struct Peer {
    version: Version,
    at: Timestamp,
    /// When it was last heard of, by the monotonic clock.
    heard: Duration,
    /// When a heartbeat was seen that wasn't there at the look before: before that, it may be gone.
    beaten: Option<Duration>,
    bounds: VecDeque<Bounds>,
    /// Whether it was seen to agree since either clock was set. Bounds widen again once nobody hurries; that takes nothing back.
    agreed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opinion {
    Agrees,
    Differs,
    /// Perhaps one, perhaps the other.
    Open,
}

impl Peer {
    fn add(&mut self, new: Bounds, max_clock_skew: Duration) {
        let known = self.known();
        if new.least > known.most || new.most < known.least {
            self.forget_bounds(); // its clock was set
        }
        self.bounds.push_back(new);
        if self.bounds.len() > KEPT_BOUNDS {
            self.bounds.pop_front();
        }
        self.agreed |= self.opinion(max_clock_skew) == Opinion::Agrees;
    }

    fn forget_bounds(&mut self) {
        self.bounds.clear();
        self.agreed = false;
    }

    fn known(&self) -> Bounds {
        let least = self.bounds.iter().map(|bounds| bounds.least).max();
        let most = self.bounds.iter().map(|bounds| bounds.most).min();
        Bounds { least: least.unwrap_or(i64::MIN), most: most.unwrap_or(i64::MAX) }
    }

    fn opinion(&self, max_clock_skew: Duration) -> Opinion {
        let allowed = i64::try_from(max_clock_skew.as_nanos()).unwrap_or(i64::MAX);
        let Bounds { least, most } = self.known();
        if least > allowed || most < -allowed {
            Opinion::Differs
        } else if -allowed <= least && most <= allowed {
            Opinion::Agrees
        } else {
            Opinion::Open
        }
    }
}

/// One moment by both clocks.
#[derive(Clone, Copy)]
struct Moment {
    wall: Timestamp,
    monotonic: Duration,
}

impl Moment {
    fn now(env: &Env) -> Self {
        Moment { wall: env.now(), monotonic: env.monotonic() }
    }

    /// By how much the wall clock went faster than the monotonic one since an earlier moment.
    fn gained_nanos(&self, since: &Moment) -> i128 {
        let wall = i128::from(self.wall.nanos()) - i128::from(since.wall.nanos());
        wall - (self.monotonic.as_nanos() as i128 - since.monotonic.as_nanos() as i128)
    }
}

/// The heartbeats of one server.
pub(crate) struct Heartbeat {
    store: Arc<dyn Store>,
    env: Env,
    id: String,
    max_clock_skew: Duration,
    refresh_interval: Duration,
    /// One that hangs doesn't cost all of the time for which a server may be silent.
    impatience: Impatience,
    /// Held while the others are spoken to: whoever has left says nothing more.
    speaking: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    own: Option<Version>,
    /// What was told lately, by a clock that wasn't set since.
    beats: VecDeque<Timestamp>,
    /// When the others were last told the time, by the monotonic clock.
    told: Option<Duration>,
    /// When the others were last looked at.
    looked: Option<Moment>,
    /// Since when the clock is being compared, by the monotonic one; `None` once it was.
    comparing: Option<Duration>,
    peers: BTreeMap<String, Peer>,
    off: Option<String>,
    left: bool,
}

impl Heartbeat {
    /// No heartbeat takes longer than `longest`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        env: Env,
        max_clock_skew: Duration,
        refresh_interval: Duration,
        longest: Duration,
    ) -> Self {
        let id = format!("{:016x}", env.random_u64());
        let impatience = Impatience::new(refresh_interval / 2, longest);
        let (speaking, state) = (tokio::sync::Mutex::default(), Mutex::default());
        Heartbeat { store, env, id, max_clock_skew, refresh_interval, impatience, speaking, state }
    }

    /// What this server is called among the others.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses unless this server's clock is known to agree with those of the others.
    pub(crate) fn check_clock(&self) -> Result<(), EngineError> {
        if self.refresh_interval.is_zero() {
            return Ok(()); // nobody else is there
        }
        let now = Moment::now(&self.env);
        let state = self.state();
        let refuse = |reason: String| Err(EngineError::NotServing { reason });
        if state.left {
            return refuse("this server is stopping".to_owned());
        }
        if let Some(reason) = &state.off {
            return refuse(reason.clone());
        }
        let Some((told, looked)) = state.told.zip(state.looked).filter(|_| state.comparing.is_none()) else {
            return refuse("this server's clock is still being compared with those of the others".to_owned());
        };
        let silent = now.monotonic.saturating_sub(told);
        if silent > self.patience() {
            return refuse(format!("this server could not tell the others the time for {silent:?}"));
        }
        if self.was_set(&looked, &now) {
            return refuse("this server's clock was set, and has to be compared with those of the others".to_owned());
        }
        Ok(())
    }

    /// Refuses unless another server's clock is known to agree with this one's, or no other was heard of for long: for what can't be
    /// taken back, such as sealing time and closing slices. One that is merely silent may be right.
    pub(crate) fn check_vouched(&self) -> Result<(), EngineError> {
        self.check_clock()?;
        let state = self.state();
        let mut peers = self.fresh(&state).peekable();
        let silent = peers.peek().is_none();
        if silent || peers.any(|(_, peer)| peer.opinion(self.max_clock_skew) == Opinion::Agrees) {
            return Ok(());
        }
        let reason = "no other server has shown yet that its clock agrees with this one's".to_owned();
        Err(EngineError::NotServing { reason })
    }

    /// How long a server may be silent and still rely on its clock.
    fn patience(&self) -> Duration {
        self.refresh_interval * 2
    }

    /// Whether the wall clock was set between two moments.
    fn was_set(&self, earlier: &Moment, later: &Moment) -> bool {
        later.gained_nanos(earlier).unsigned_abs() > self.max_clock_skew.as_nanos() / SET_SHARE
    }

    /// How long to wait until the next heartbeat. Chance sees to it that two servers don't beat in step: bounds that are always the
    /// same come no closer.
    pub(crate) fn pause(&self) -> Duration {
        let jitter = self.env.random_below(1 + self.refresh_interval.as_nanos() as u64 / 4);
        let usual = self.refresh_interval.saturating_sub(Duration::from_nanos(jitter));
        if self.state().comparing.is_some() { usual / HASTE } else { usual }
    }

    /// Compares clocks for the first time; over at once where no other server was heard of. What fails is left to later heartbeats.
    pub(crate) async fn begin(&self) {
        if self.refresh_interval.is_zero() {
            return;
        }
        let end = self.env.monotonic() + self.patience() * 2;
        while self.env.monotonic() < end {
            if self.beat().await.is_ok() && self.state().comparing.is_none() {
                return;
            }
            self.env.sleep(self.pause()).await;
        }
    }

    /// Hears the others' time, and tells them this server's.
    pub(crate) async fn beat(&self) -> Result<(), StoreError> {
        self.impatience.call(&self.env, self.hear_and_tell()).await
    }

    async fn hear_and_tell(&self) -> Result<(), StoreError> {
        let _speaking = self.speaking.lock().await;
        if self.state().left {
            return Ok(());
        }
        let look = Moment::now(&self.env);
        let heard = self.store.list(SCOPE, None, MOST_SERVERS).await?;
        let old = self.hear(look, heard);
        self.tell().await?;
        for (name, version) in old {
            self.store.compare_and_set(&MetaKey::new(SCOPE, name), Some(version), None).await?;
        }
        Ok(())
    }

    /// Relies on the clock no longer, and takes back what was told: whoever starts next has no reason to wait for this server.
    pub(crate) async fn leave(&self) -> Result<(), StoreError> {
        if self.refresh_interval.is_zero() {
            return Ok(());
        }
        self.state().left = true;
        let _speaking = self.speaking.lock().await;
        let key = MetaKey::new(SCOPE, self.id.clone());
        if let Some(told) = self.store.load(&key).await? {
            self.store.compare_and_set(&key, Some(told.version), None).await?;
        }
        Ok(())
    }

    async fn tell(&self) -> Result<(), StoreError> {
        // Once more where an earlier one, which was given up, has arrived after all.
        if self.tell_once().await? || self.tell_once().await? {
            return Ok(());
        }
        Err(StoreError::Unknown { reason: "earlier heartbeats came late".to_owned() })
    }

    /// Whether it is what this server has told last.
    async fn tell_once(&self) -> Result<bool, StoreError> {
        let key = MetaKey::new(SCOPE, self.id.clone());
        let begun = self.env.monotonic();
        let (own, value) = {
            let mut state = self.state();
            let at = self.env.now();
            state.beats.push_back(at);
            if state.beats.len() > KEPT_BEATS {
                state.beats.pop_front();
            }
            let heard = self.fresh(&state).map(|(name, peer)| (name.clone(), peer.at)).collect();
            let value = serde_json::to_vec(&Beat { at, heard }).expect("times are plain data");
            (state.own, Bytes::from(value))
        };
        match self.store.compare_and_set(&key, own, Some(value)).await {
            Ok(CasOutcome::Applied(version)) => {
                let mut state = self.state();
                state.own = Some(version);
                // Whoever was silent for long is new to the others.
                if state.told.replace(begun).is_some_and(|told| begun.saturating_sub(told) > self.patience()) {
                    state.looked = None;
                }
                Ok(true)
            }
            Ok(CasOutcome::Conflict(found)) => {
                self.state().own = found.map(|document| document.version);
                Ok(false)
            }
            Err(error) => {
                self.state().own = self.store.load(&key).await?.map(|document| document.version);
                Err(error)
            }
        }
    }

    /// Servers that were heard of lately.
    fn fresh<'a>(&self, state: &'a State) -> impl Iterator<Item = (&'a String, &'a Peer)> {
        let (now, forget) = (self.env.monotonic(), self.refresh_interval * FORGET_AFTER);
        state.peers.iter().filter(move |(_, peer)| now.saturating_sub(peer.heard) <= forget)
    }

    /// Compares what a look that began then has heard with this server's clock. Answers what is left of servers that are gone.
    fn hear(&self, look: Moment, heard: Vec<(String, Versioned)>) -> Vec<(String, Version)> {
        let now = Moment::now(&self.env);
        let mut state = self.state();
        let looked = state.looked.replace(look);
        if looked.is_none_or(|looked| self.was_set(&looked, &look)) {
            state.comparing = Some(look.monotonic);
            state.beats.clear();
            state.peers.values_mut().for_each(Peer::forget_bounds);
        }
        let alone = heard.iter().all(|(name, _)| *name == self.id);
        let mut old = Vec::new();
        for (name, document) in heard.into_iter().filter(|(name, _)| *name != self.id) {
            let Ok(beat) = serde_json::from_slice::<Beat>(&document.value) else { continue };
            let known = state.peers.get(&name).map(|known| (known.version, known.heard));
            if let Some((_, heard)) = known.filter(|(version, _)| *version == document.version) {
                if now.monotonic.saturating_sub(heard) > REMOVE_AFTER {
                    old.push((name, document.version));
                }
                continue;
            }
            let echo = beat.heard.get(&self.id).filter(|echo| state.beats.contains(echo));
            let new = Bounds {
                least: beat.at.nanos().saturating_sub(now.wall.nanos()),
                most: echo.map_or(i64::MAX, |echo| beat.at.nanos().saturating_sub(echo.nanos())),
            };
            let (version, at) = (document.version, beat.at);
            let peer = state.peers.entry(name).or_insert_with(|| Peer {
                version,
                at,
                heard: now.monotonic,
                beaten: None,
                bounds: VecDeque::new(),
                agreed: false,
            });
            (peer.version, peer.at, peer.heard) = (version, at, now.monotonic);
            if known.is_some() || looked.is_some() {
                peer.beaten = Some(now.monotonic);
            }
            peer.add(new, self.max_clock_skew);
        }
        let forget = (self.refresh_interval * FORGET_AFTER).max(REMOVE_AFTER * 2);
        state.peers.retain(|_, peer| now.monotonic.saturating_sub(peer.heard) <= forget);
        self.conclude(&mut state, look, alone);
        old
    }

    /// Whether this server may rely on its clock.
    fn conclude(&self, state: &mut State, look: Moment, alone: bool) {
        let opinions: Vec<(Opinion, &Peer)> =
            self.fresh(state).map(|(_, peer)| (peer.opinion(self.max_clock_skew), peer)).collect();
        let others = opinions.len();
        let differ = opinions.iter().filter(|(opinion, _)| *opinion == Opinion::Differs).count();
        // Whoever was ended before it could be compared speaks for nobody.
        let agree = opinions.iter().filter(|(opinion, peer)| *opinion != Opinion::Differs && peer.agreed).count();
        let off = differ > agree;
        // Whoever was heard of since is known to agree or not, and not all are silent: those may be the ones that are right.
        let compared = state.comparing.is_some_and(|since| {
            let heard_since = |peer: &Peer| peer.beaten.is_some_and(|beaten| beaten >= since);
            look.monotonic.saturating_sub(since) >= self.patience()
                && (agree > 0 || others == 0)
                && !opinions.iter().any(|(opinion, peer)| *opinion == Opinion::Open && heard_since(peer))
        });
        if off {
            // It is over only once it was compared anew, quickly, and agrees: bounds that are wide prove nothing.
            state.comparing = Some(look.monotonic);
        } else if alone || compared {
            state.comparing = None;
        }
        state.off = off.then(|| {
            let allowed = self.max_clock_skew;
            format!(
                "this server's clock differs from that of {differ} of {others} others by more than {allowed:?} (max_clock_skew)"
            )
        });
    }
}

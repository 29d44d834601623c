//! Lets one server of many do a piece of background work. It saves doubled work and nothing else: what holders write is safe
//! without it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_model::Timestamp;
use anabranch_runtime::Env;
use anabranch_store::{CasOutcome, MetaKey, Store, StoreError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Held {
    holder: String,
    until: Timestamp,
}

/// The right to a piece of work, for a while.
pub(crate) struct Lease {
    store: Arc<dyn Store>,
    env: Env,
    key: MetaKey,
    holder: String,
    length: Duration,
    /// Until when this server surely holds it.
    held: Mutex<Option<Timestamp>>,
    /// Who else held it when it was last tried.
    other: Mutex<Option<Held>>,
}

impl Lease {
    pub(crate) fn new(store: Arc<dyn Store>, env: Env, work: &str, holder: &str, length: Duration) -> Self {
        Lease {
            store,
            env,
            key: MetaKey::new("leases", work),
            holder: holder.to_owned(),
            length,
            held: Mutex::default(),
            other: Mutex::default(),
        }
    }

    /// What to wait for where another server had the lease when it was last tried.
    pub(crate) fn waits_for(&self) -> String {
        match &*self.other.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(held) => format!("server {}, which has the lease until {}", held.holder, held.until),
            None => "another server, which was quicker".to_owned(),
        }
    }

    /// Takes the lease, or holds it for longer. Says whether this server may work now.
    pub(crate) async fn take(&self) -> Result<bool, StoreError> {
        if !self.store.capabilities().shared {
            return Ok(true); // there is nobody else
        }
        let now = self.env.now();
        let known = *self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some_and(|until| now.saturating_add(self.length / 2) < until) {
            return Ok(true);
        }
        let found = self.store.load(&self.key).await?;
        let held = found.as_ref().and_then(|document| serde_json::from_slice::<Held>(&document.value).ok());
        // One that ends much later than it should was given by a clock that was wrong.
        let other = held.filter(|held| held.holder != self.holder && held.until.is_ahead_of(now, self.length));
        let is_held = other.is_some();
        *self.other.lock().unwrap_or_else(PoisonError::into_inner) = other;
        if is_held {
            return Ok(false);
        }
        let held = Held { holder: self.holder.clone(), until: now.saturating_add(self.length) };
        let value = Bytes::from(serde_json::to_vec(&held).expect("a lease is plain data"));
        let expected = found.map(|document| document.version);
        let taken = self.store.compare_and_set(&self.key, expected, Some(value)).await?;
        let taken = matches!(taken, CasOutcome::Applied(_));
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = taken.then_some(held.until);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_runtime::run_simulated;
    use anabranch_store::MemoryStore;

    use super::*;

    #[test]
    fn one_of_two_works_until_it_is_gone() {
        run_simulated(1, Timestamp::from_seconds(1000), |env| async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
            let lease =
                |holder: &str| Lease::new(store.clone(), env.clone(), "measure", holder, Duration::from_secs(30));
            let (first, second) = (lease("a"), lease("b"));
            assert!(first.take().await.unwrap());
            for _ in 0..10 {
                assert!(!second.take().await.unwrap());
                assert!(
                    second.waits_for().starts_with("server a, which has the lease until 1970-"),
                    "{}",
                    second.waits_for()
                );
                env.sleep(Duration::from_secs(10)).await;
                assert!(first.take().await.unwrap(), "it is held for as long as it is used");
            }
            env.sleep(Duration::from_secs(31)).await;
            assert!(second.take().await.unwrap());
            assert!(!first.take().await.unwrap());
        });
    }

    /// S5: what a clock that was far ahead has promised to its server holds nobody off for so long.
    #[test]
    fn a_lease_that_a_wrong_clock_has_given_is_not_waited_for_s5() {
        run_simulated(1, Timestamp::from_seconds(1000), |env| async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
            let lease = |env: Env, holder| Lease::new(store.clone(), env, "measure", holder, Duration::from_secs(30));
            assert!(lease(env.node(3600 * 1_000_000_000), "wrong").take().await.unwrap());
            assert!(lease(env.clone(), "right").take().await.unwrap());
            assert!(!lease(env.node(500_000_000), "another").take().await.unwrap());
        });
    }
}

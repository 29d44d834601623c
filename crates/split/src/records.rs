//! Records in the store. Every change is conditional on the version that it was made from, so on epoch and owner too (S4); each
//! carries a nonce, so that after a lost answer a look tells whether it was done.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch_model::{NamespaceName, Timestamp};
use anabranch_runtime::Env;
use anabranch_store::{CasOutcome, MetaKey, Store, StoreError, Version};
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    SplitError,
    record::{Epoch, Lease, State, WidePartition, WideRow},
};

/// Records of a slice are spread over this many scopes.
pub const SHARDS: u64 = 16;
const LIST_PAGE: usize = 256;
const ATTEMPTS: usize = 5;

/// A record and the version it was loaded with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What is stored.
    pub row: WideRow,
    version: Version,
}

/// The records of all wide partitions.
#[derive(Clone)]
pub struct Records {
    store: Arc<dyn Store>,
    env: Env,
    timeout: Duration,
}

impl Records {
    /// Records of a store.
    pub fn new(store: Arc<dyn Store>, env: Env, timeout: Duration) -> Self {
        Records { store, env, timeout }
    }

    /// The record of a partition, if it has one.
    pub async fn load(&self, partition: &WidePartition) -> Result<Option<Loaded>, SplitError> {
        let Some(document) = self.timed(self.store.load(&key(partition))).await? else { return Ok(None) };
        Ok(Some(Loaded { row: parse(&document.value)?, version: document.version }))
    }

    /// All records of a slice.
    pub async fn of_slice(&self, namespace: &NamespaceName, time_slice: &str) -> Result<Vec<Loaded>, SplitError> {
        let mut found = Vec::new();
        for shard in 0..SHARDS {
            let scope = scope(namespace, time_slice, shard);
            let mut after: Option<String> = None;
            loop {
                let page = self.timed(self.store.list(&scope, after.as_deref(), LIST_PAGE)).await?;
                let last = page.len() < LIST_PAGE;
                after = page.last().map(|(name, _)| name.clone());
                for (_, document) in page {
                    found.push(Loaded { row: parse(&document.value)?, version: document.version });
                }
                if last {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Takes down that a partition may be wide, of which a read has `seen` so many bytes; an operator who asks has seen
    /// enough. One that is being worked on, parked, or was found too small for what was seen stays as it is.
    pub async fn detect(&self, partition: &WidePartition, seen: Option<u64>) -> Result<Loaded, SplitError> {
        for _ in 0..ATTEMPTS {
            let Some(loaded) = self.load(partition).await? else {
                let row = WideRow::detected(partition.clone(), self.env.now());
                match self.put(None, row).await? {
                    Some(loaded) => return Ok(loaded),
                    None => continue,
                }
            };
            let again = match &loaded.row.state {
                State::Completed { .. } => true,
                State::NotWide { bytes, .. } => seen.is_none_or(|seen| seen >= bytes.saturating_add(bytes / 2)),
                State::Parked { .. } => seen.is_none(),
                _ => false,
            };
            if !again {
                return Ok(loaded);
            }
            let mut row = WideRow { state: State::Detected, ..loaded.row.clone() };
            row.try_anew();
            if let Some(loaded) = self.put(Some(loaded.version), row).await? {
                return Ok(loaded);
            }
        }
        Err(SplitError::LeaseLost)
    }

    /// Changes a record, whoever works on it: that worker finds its lease lost. `change` may be called several times and says
    /// whether there is anything to change. `None` when there is no record.
    pub async fn change(
        &self,
        partition: &WidePartition,
        mut change: impl FnMut(&mut WideRow) -> bool,
    ) -> Result<Option<Loaded>, SplitError> {
        for _ in 0..ATTEMPTS {
            let Some(loaded) = self.load(partition).await? else { return Ok(None) };
            let mut row = loaded.row.clone();
            if !change(&mut row) {
                return Ok(Some(loaded));
            }
            if let Some(loaded) = self.put(Some(loaded.version), row).await? {
                return Ok(Some(loaded));
            }
        }
        Err(SplitError::LeaseLost)
    }

    /// Ends the use of a partition's segments. Work begins anew in the next generation.
    pub async fn invalidate(&self, partition: &WidePartition, reason: &str) -> Result<Option<Loaded>, SplitError> {
        self.change(partition, |row| {
            row.invalidate(reason);
            true
        })
        .await
    }

    /// Takes the lease of a record that nobody holds: raises the epoch and counts an attempt, or goes on with the one that somebody
    /// abandoned. `None` when somebody holds it, or was quicker.
    pub async fn take(&self, loaded: &Loaded, worker: &str, lease: Duration) -> Result<Option<Loaded>, SplitError> {
        let now = self.env.now();
        let held = loaded.row.lease.as_ref().is_some_and(|held| held.holds(now, lease) && held.worker != worker);
        if held {
            return Ok(None);
        }
        let mut row = loaded.row.clone();
        row.epoch = Epoch(row.epoch.0 + 1);
        // Whoever is killed has not failed: only that nobody gets any further with it counts.
        if row.lease.is_some() {
            row.abandoned += 1;
        } else {
            row.attempts += 1;
        }
        row.lease = Some(Lease { worker: worker.to_owned(), until: now.saturating_add(lease) });
        self.put(Some(loaded.version), row).await
    }

    /// Writes the next step of a record; fails with [`SplitError::LeaseLost`] when somebody else changed it.
    pub async fn step(&self, loaded: &Loaded, mut row: WideRow) -> Result<Loaded, SplitError> {
        row.abandoned = 0;
        self.renew(loaded, row).await
    }

    /// Writes that a record is still worked on, which is no step: nobody has got any further with it yet.
    pub(crate) async fn renew(&self, loaded: &Loaded, row: WideRow) -> Result<Loaded, SplitError> {
        self.put(Some(loaded.version), row).await?.ok_or(SplitError::LeaseLost)
    }

    /// `None` when the document isn't the expected one any more.
    async fn put(&self, expected: Option<Version>, mut row: WideRow) -> Result<Option<Loaded>, SplitError> {
        row.nonce = self.env.random_u64();
        row.updated = self.env.now();
        let key = key(&row.partition);
        let value = Bytes::from(serde_json::to_vec(&row).expect("records are plain data"));
        for _ in 0..ATTEMPTS {
            match self.timed(self.store.compare_and_set(&key, expected, Some(value.clone()))).await {
                Ok(CasOutcome::Applied(version)) => {
                    if row.lease.is_none() {
                        self.tell_of_change(&row.partition).await;
                    }
                    return Ok(Some(Loaded { row, version }));
                }
                Ok(CasOutcome::Conflict(Some(found))) => {
                    // Perhaps an earlier attempt of this very step that was believed lost.
                    let own = parse(&found.value)?.nonce == row.nonce;
                    #[cfg(feature = "plant")]
                    let own = own || crate::plant::is_planted(crate::plant::Bug::BelievesAnyNonce);
                    return Ok(own.then_some(Loaded { row, version: found.version }));
                }
                Ok(CasOutcome::Conflict(None)) => return Ok(None),
                Err(SplitError::Store(StoreError::Unknown { .. })) => {} // the same step again: own nonce tells
                Err(error) => return Err(error),
            }
        }
        Err(SplitError::Store(StoreError::Unknown { reason: "the outcome of a step can't be learnt".to_owned() }))
    }

    /// What tells of changes in the slices of a namespace: it differs whenever a record was made, or came to its rest or out of it. Steps
    /// of a worker in between don't count.
    pub async fn changes(&self, namespace: &NamespaceName) -> Result<BTreeMap<String, Version>, SplitError> {
        let mut found = BTreeMap::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.timed(self.store.list(&changes_scope(namespace), after.as_deref(), LIST_PAGE)).await?;
            let last = page.len() < LIST_PAGE;
            after = page.last().map(|(name, _)| name.clone());
            found.extend(page.into_iter().map(|(name, document)| (name, document.version)));
            if last {
                return Ok(found);
            }
        }
    }

    /// Tells everybody that a record of a slice changed. When that fails they find out later, by looking at all of them.
    async fn tell_of_change(&self, partition: &WidePartition) {
        let key = MetaKey::new(changes_scope(&partition.namespace), partition.time_slice.clone());
        let Ok(known) = self.timed(self.store.load(&key)).await else { return };
        let told = self.store.compare_and_set(&key, known.map(|known| known.version), Some(Bytes::from_static(b"1")));
        // A conflict means that somebody else has told since: whoever hears that finds this change, too.
        let _ = self.timed(told).await;
    }

    /// Takes a record away, unless somebody has changed it.
    pub async fn remove(&self, loaded: &Loaded) -> Result<(), SplitError> {
        let key = key(&loaded.row.partition);
        self.timed(self.store.compare_and_set(&key, Some(loaded.version), None)).await.map(|_| ())
    }

    /// Takes every record of a slice away, when the slice is dropped.
    pub async fn remove_slice(&self, namespace: &NamespaceName, time_slice: &str) -> Result<(), SplitError> {
        for loaded in self.of_slice(namespace, time_slice).await? {
            self.remove(&loaded).await?;
        }
        let key = MetaKey::new(changes_scope(namespace), time_slice);
        if let Some(known) = self.timed(self.store.load(&key)).await? {
            self.timed(self.store.compare_and_set(&key, Some(known.version), None)).await?;
        }
        Ok(())
    }

    async fn timed<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, SplitError> {
        match self.env.timeout(self.timeout, call).await {
            Ok(result) => result.map_err(SplitError::Store),
            Err(_) => Err(SplitError::Store(StoreError::Unknown { reason: "metadata call timed out".to_owned() })),
        }
    }

    /// What the clock shows.
    pub fn now(&self) -> Timestamp {
        self.env.now()
    }
}

fn scope(namespace: &NamespaceName, time_slice: &str, shard: u64) -> String {
    format!("wide_row/{namespace}/{time_slice}/{shard:02x}")
}

fn changes_scope(namespace: &NamespaceName) -> String {
    format!("wide_row_changes/{namespace}")
}

fn key(partition: &WidePartition) -> MetaKey {
    let name = partition.name();
    let shard = xxh3_64(name.as_bytes()) % SHARDS;
    MetaKey::new(scope(&partition.namespace, &partition.time_slice, shard), name)
}

fn parse(value: &[u8]) -> Result<WideRow, SplitError> {
    serde_json::from_slice(value).map_err(|error| {
        let reason = format!("a split record can't be read (perhaps written by a newer version): {error}");
        SplitError::Store(StoreError::Corrupt { reason })
    })
}

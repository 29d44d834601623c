//! The namespaces that this server knows. Readers take a snapshot without waiting; changes go through the store by
//! compare-and-set; a refresh brings in what other servers changed.
//!
//! A refresh waits for no change: a server whose configuration is old answers nothing. So what it has listed may be older than what a
//! change has published meanwhile, and the later of both counts.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_model::{Interval, NamespaceName, Timestamp};
use anabranch_runtime::Env;
use anabranch_store::{CasOutcome, MetaKey, Store, StoreError, Version, Versioned};
use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::{EngineError, NamespaceRecord, engine::EngineOptions, error::no_such_namespace};

const SCOPE: &str = "namespaces";
const LIST_PAGE: usize = 256;
const CHANGE_ATTEMPTS: usize = 8;

/// A namespace as this server knows it.
pub(crate) struct Namespace {
    pub(crate) name: NamespaceName,
    pub(crate) record: NamespaceRecord,
    version: Version,
    /// When this server first knew each slice, by the slice's start. One that ends elsewhere is another.
    slice_known: BTreeMap<Timestamp, (Timestamp, Duration)>,
}

impl Namespace {
    fn known_since(&self, slice: Interval) -> Option<Duration> {
        self.slice_known.get(&slice.start).filter(|(end, _)| *end == slice.end).map(|(_, since)| *since)
    }

    /// Whether this is what became of a stored record that was read at some time.
    fn is_newer_than(&self, version: Version, record: &NamespaceRecord) -> bool {
        match self.record.incarnation == record.incarnation {
            true => self.version > version,
            false => self.record.created > record.created,
        }
    }

    /// Whether that record is of another namespace, which got the same name after this one was gone.
    fn comes_before(&self, record: &NamespaceRecord) -> bool {
        self.record.incarnation != record.incarnation && self.record.created <= record.created
    }
}

type Snapshot = BTreeMap<NamespaceName, Arc<Namespace>>;

/// A refresh that is under way: the names that were published or taken away since it began, and what was known of them before.
#[derive(Default)]
struct Listing(Mutex<Touched>);

type Touched = BTreeMap<NamespaceName, Option<Arc<Namespace>>>;

impl Listing {
    fn touched(&self) -> MutexGuard<'_, Touched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Registry {
    store: Arc<dyn Store>,
    env: Env,
    /// Zero when no other server can change anything.
    refresh_interval: Duration,
    meta_timeout: Duration,
    namespaces: ArcSwap<Snapshot>,
    /// Held while something is published, never over an await.
    listings: Mutex<Vec<Weak<Listing>>>,
    /// Changes of this server come one after another: they would only get into each other's way.
    changing: tokio::sync::Mutex<()>,
    refreshed_nanos: AtomicU64,
}

impl Registry {
    pub(crate) fn new(store: Arc<dyn Store>, env: Env, options: &EngineOptions) -> Self {
        let shared = store.capabilities().shared;
        Registry {
            refresh_interval: if shared { options.refresh_interval } else { Duration::ZERO },
            meta_timeout: options.meta_timeout,
            namespaces: ArcSwap::default(),
            listings: Mutex::default(),
            changing: tokio::sync::Mutex::new(()),
            refreshed_nanos: AtomicU64::new(0),
            store,
            env,
        }
    }

    /// How far ahead a change must be stated so that every server knows it in time.
    pub(crate) fn notice(&self) -> Duration {
        self.refresh_interval * 2
    }

    pub(crate) fn refresh_interval(&self) -> Duration {
        self.refresh_interval
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.namespaces.load_full()
    }

    pub(crate) fn get(&self, name: &str) -> Result<Arc<Namespace>, EngineError> {
        match self.namespaces.load().get(name) {
            Some(namespace) if !namespace.record.deleting => Ok(namespace.clone()),
            // Whoever has lost touch can't know that it isn't there.
            _ => self.check_fresh().and(Err(no_such_namespace(name))),
        }
    }

    /// Slices over all namespaces: each is a table.
    pub(crate) fn slice_count(&self) -> usize {
        self.namespaces.load().values().map(|namespace| namespace.record.slices.len()).sum()
    }

    /// Refuses when this server has lost touch with what others may have changed: a slice it doesn't know could hold
    /// events that it would then miss (W1).
    pub(crate) fn check_fresh(&self) -> Result<(), EngineError> {
        if self.refresh_interval.is_zero() {
            return Ok(());
        }
        let refreshed = Duration::from_nanos(self.refreshed_nanos.load(Ordering::Acquire));
        let age = self.env.monotonic().saturating_sub(refreshed);
        if age <= self.notice() {
            return Ok(());
        }
        let reason = format!("this server's configuration is {age:?} old and can't be refreshed");
        Err(EngineError::NotServing { reason })
    }

    /// How long a write into this slice has to wait until every server that answers reads knows the slice.
    pub(crate) fn wait_for_slice(&self, namespace: &Namespace, slice: Interval) -> Duration {
        let known = namespace.known_since(slice).unwrap_or_else(|| self.env.monotonic());
        (known + self.notice()).saturating_sub(self.env.monotonic())
    }

    /// Loads everything anew.
    pub(crate) async fn refresh(&self) -> Result<(), EngineError> {
        let begun = self.env.monotonic();
        let listing = Arc::new(Listing::default());
        self.listings().push(Arc::downgrade(&listing));
        let listed = self.list().await?;
        self.bring_in(&listing, listed)?;
        self.refreshed_nanos.fetch_max(begun.as_nanos() as u64, Ordering::AcqRel);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<(NamespaceName, Versioned)>, EngineError> {
        let mut listed = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.timed(self.store.list(SCOPE, after.as_deref(), LIST_PAGE)).await?;
            let last = page.len() < LIST_PAGE;
            after = page.last().map(|(name, _)| name.clone());
            for (name, document) in page {
                listed.push((NamespaceName::new(name).map_err(|error| corrupt(&error.to_string()))?, document));
            }
            if last {
                return Ok(listed);
            }
        }
    }

    /// Publishes what was listed, but for what is known to be later.
    fn bring_in(&self, listing: &Listing, listed: Vec<(NamespaceName, Versioned)>) -> Result<(), EngineError> {
        let mut listings = self.listings();
        let known = self.snapshot();
        let touched = listing.touched().clone();
        let mut fresh = Snapshot::new();
        for (name, document) in listed {
            let there = known.get(&name);
            if let Some(same) = there.filter(|there| there.version == document.version) {
                fresh.insert(name, same.clone());
                continue;
            }
            let record = parse(&document.value)?;
            let gone = touched.get(&name).and_then(Option::as_ref).filter(|_| there.is_none());
            if gone.is_some_and(|gone| !gone.comes_before(&record)) {
                continue; // it was taken away since
            }
            let later = there.filter(|there| there.is_newer_than(document.version, &record)).cloned();
            let namespace =
                later.unwrap_or_else(|| Arc::new(self.namespace(name.clone(), record, document.version, there)));
            fresh.insert(name, namespace);
        }
        // What isn't listed is gone, unless it was made since.
        for (name, namespace) in known.iter().filter(|(name, _)| touched.contains_key(*name)) {
            fresh.entry(name.clone()).or_insert_with(|| namespace.clone());
        }
        let is_same =
            |left: Option<&Arc<Namespace>>, right: &Arc<Namespace>| left.is_some_and(|left| Arc::ptr_eq(left, right));
        let changed = fresh.iter().filter(|(name, namespace)| !is_same(known.get(*name), namespace));
        let gone = known.iter().filter(|(name, _)| !fresh.contains_key(*name));
        changed.chain(gone).for_each(|(name, _)| touch(&mut listings, name, known.get(name)));
        self.namespaces.store(Arc::new(fresh));
        Ok(())
    }

    fn listings(&self) -> MutexGuard<'_, Vec<Weak<Listing>>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a namespace.
    pub(crate) async fn create(&self, name: &NamespaceName, record: NamespaceRecord) -> Result<(), EngineError> {
        let _changing = self.changing.lock().await;
        for _ in 0..CHANGE_ATTEMPTS {
            if self.compare_and_set(name, None, record.clone()).await? {
                return Ok(());
            }
            // Somebody's is there; or ours, which came late; or none, and the change was lost on its way.
            let Some(document) = self.timed(self.store.load(&key(name))).await? else { continue };
            if parse(&document.value)?.incarnation != record.incarnation {
                return Err(EngineError::NamespaceExists { name: name.clone() });
            }
            self.publish(name, &document.value, document.version)?;
            return Ok(());
        }
        Err(EngineError::Contended { name: name.clone() })
    }

    /// Changes a namespace's record. `apply` may be called several times, on what is stored at that moment; when it
    /// changes nothing, nothing is written.
    pub(crate) async fn change<T>(
        &self,
        name: &NamespaceName,
        mut apply: impl FnMut(&mut NamespaceRecord) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let _changing = self.changing.lock().await;
        for _ in 0..CHANGE_ATTEMPTS {
            let Some(document) = self.timed(self.store.load(&key(name))).await? else {
                self.unpublish(name);
                return Err(no_such_namespace(name.as_str()));
            };
            let before = parse(&document.value)?;
            let mut after = before.clone();
            let result = apply(&mut after)?;
            if after == before {
                self.publish(name, &document.value, document.version)?;
                return Ok(result);
            }
            if self.compare_and_set(name, Some(document.version), after).await? {
                return Ok(result);
            }
        }
        Err(EngineError::Contended { name: name.clone() })
    }

    /// Whether this very namespace, not another of its name, is still marked as going.
    pub(crate) async fn is_going(&self, name: &NamespaceName, incarnation: u64) -> Result<bool, EngineError> {
        let Some(document) = self.timed(self.store.load(&key(name))).await? else { return Ok(false) };
        let record = parse(&document.value)?;
        Ok(record.deleting && record.incarnation == incarnation)
    }

    /// Takes the record of a namespace that is marked as going away.
    pub(crate) async fn remove(&self, name: &NamespaceName, incarnation: u64) -> Result<(), EngineError> {
        let _changing = self.changing.lock().await;
        for _ in 0..CHANGE_ATTEMPTS {
            let Some(document) = self.timed(self.store.load(&key(name))).await? else { break };
            let record = parse(&document.value)?;
            if !record.deleting || record.incarnation != incarnation {
                return self.publish(name, &document.value, document.version);
            }
            let removal = self.timed(self.store.compare_and_set(&key(name), Some(document.version), None)).await;
            match removal {
                Ok(CasOutcome::Applied(_)) => break,
                Ok(CasOutcome::Conflict(_)) => {}
                Err(EngineError::Store(StoreError::Unknown { .. })) => {} // the next load tells
                Err(error) => return Err(error),
            }
        }
        self.unpublish(name);
        Ok(())
    }

    /// Says whether the document had the expected version. After an unknown outcome the nonce tells.
    async fn compare_and_set(
        &self,
        name: &NamespaceName,
        expected: Option<Version>,
        mut record: NamespaceRecord,
    ) -> Result<bool, EngineError> {
        record.nonce = self.env.random_u64();
        let value = Bytes::from(serde_json::to_vec(&record).expect("records are plain data"));
        let outcome = self.timed(self.store.compare_and_set(&key(name), expected, Some(value.clone()))).await;
        match outcome {
            Ok(CasOutcome::Applied(version)) => {
                self.publish(name, &value, version)?;
                Ok(true)
            }
            Ok(CasOutcome::Conflict(_)) => Ok(false),
            Err(EngineError::Store(StoreError::Unknown { .. })) => {
                let Some(document) = self.timed(self.store.load(&key(name))).await? else { return Ok(false) };
                let done = parse(&document.value)?.nonce == record.nonce;
                if done {
                    self.publish(name, &document.value, document.version)?;
                }
                Ok(done)
            }
            Err(error) => Err(error),
        }
    }

    /// Lets everybody see what is stored, unless something later is seen already.
    fn publish(&self, name: &NamespaceName, value: &[u8], version: Version) -> Result<(), EngineError> {
        let record = parse(value)?;
        let mut listings = self.listings();
        let mut snapshot = Snapshot::clone(&self.namespaces.load());
        let known = snapshot.get(name);
        if known.is_some_and(|known| known.is_newer_than(version, &record)) {
            return Ok(());
        }
        let namespace = self.namespace(name.clone(), record, version, known);
        touch(&mut listings, name, known);
        snapshot.insert(name.clone(), Arc::new(namespace));
        self.namespaces.store(Arc::new(snapshot));
        Ok(())
    }

    fn unpublish(&self, name: &NamespaceName) {
        let mut listings = self.listings();
        let mut snapshot = Snapshot::clone(&self.namespaces.load());
        let gone = snapshot.remove(name);
        touch(&mut listings, name, gone.as_ref());
        self.namespaces.store(Arc::new(snapshot));
    }

    fn namespace(
        &self,
        name: NamespaceName,
        record: NamespaceRecord,
        version: Version,
        known: Option<&Arc<Namespace>>,
    ) -> Namespace {
        let known = known.filter(|known| known.record.incarnation == record.incarnation);
        let now = self.env.monotonic();
        let since = |slice: Interval| known.and_then(|known| known.known_since(slice)).unwrap_or(now);
        let slices = record.slices.iter().map(|slice| slice.interval);
        let slice_known = slices.map(|slice| (slice.start, (slice.end, since(slice)))).collect();
        Namespace { name, record, version, slice_known }
    }

    async fn timed<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, EngineError> {
        match self.env.timeout(self.meta_timeout, call).await {
            Ok(result) => result.map_err(EngineError::Store),
            Err(_) => Err(EngineError::Store(StoreError::Unknown { reason: "metadata call timed out".to_owned() })),
        }
    }
}

/// Tells every refresh that is under way that what it lists of this name may be older.
fn touch(listings: &mut Vec<Weak<Listing>>, name: &NamespaceName, known: Option<&Arc<Namespace>>) {
    listings.retain(|listing| {
        let listing = listing.upgrade();
        if let Some(listing) = &listing {
            listing.touched().insert(name.clone(), known.cloned());
        }
        listing.is_some()
    });
}

fn key(name: &NamespaceName) -> MetaKey {
    MetaKey::new(SCOPE, name.as_str())
}

fn parse(value: &[u8]) -> Result<NamespaceRecord, EngineError> {
    serde_json::from_slice(value).map_err(|error| corrupt(&error.to_string()))
}

fn corrupt(reason: &str) -> EngineError {
    let reason = format!("a namespace record can't be read (perhaps written by a newer version): {reason}");
    EngineError::Store(StoreError::Corrupt { reason })
}

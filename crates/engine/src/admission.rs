//! Who may read, and when. A page is admitted first: so many at once, so many that wait, and one more is refused at once, before
//! queues grow. Every read of the store that it then makes asks for a permit; see [`anabranch_store::permits`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_runtime::Env;
use anabranch_store::{FairStore, Permits, ReadClass, Store};
use prometheus::{
    CounterVec, Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{EngineError, EngineOptions};

/// The doors between requests and the store.
pub(crate) struct Admission {
    pub(crate) permits: Arc<Permits>,
    /// The store as each class of reads sees it.
    stores: [Arc<dyn Store>; 3],
    pages: Semaphore,
    /// Whole histories get half of the places: pages that somebody waits for must find one.
    bulk_pages: Semaphore,
    waiting: AtomicUsize,
    max_waiting: usize,
}

/// A place among the pages that are read.
pub(crate) struct Place<'a> {
    _page: SemaphorePermit<'a>,
    _bulk: Option<SemaphorePermit<'a>>,
}

impl Admission {
    pub(crate) fn new(store: &Arc<dyn Store>, env: &Env, options: &EngineOptions) -> Self {
        let permits = Arc::new(Permits::new(env.clone(), options.permits));
        let fair = |class| Arc::new(FairStore::new(store.clone(), permits.clone(), class)) as Arc<dyn Store>;
        Admission {
            stores: ReadClass::ALL.map(fair),
            permits,
            pages: Semaphore::new(options.max_reads_in_flight),
            bulk_pages: Semaphore::new((options.max_reads_in_flight / 2).max(1)),
            waiting: AtomicUsize::new(0),
            max_waiting: options.max_reads_waiting,
        }
    }

    /// The store, for reads of one class.
    pub(crate) fn store(&self, class: ReadClass) -> &Arc<dyn Store> {
        &self.stores[class as usize]
    }

    /// Lets a page in, after at most `patience`.
    pub(crate) async fn page(&self, env: &Env, class: ReadClass, patience: Duration) -> Result<Place<'_>, EngineError> {
        let late = || EngineError::Overloaded { what: "too many reads are in flight".to_owned() };
        if class == ReadClass::Small {
            if let Ok(page) = self.pages.try_acquire() {
                return Ok(Place { _page: page, _bulk: None });
            }
            let _waiting = self.wait()?;
            let page = env.timeout(patience, self.pages.acquire()).await.ok().and_then(Result::ok);
            return Ok(Place { _page: page.ok_or_else(late)?, _bulk: None });
        }
        // A stream was let in as a request; its next pages may not be refused because others came meanwhile, only be late.
        let admitted = env.timeout(patience, async {
            let bulk = self.bulk_pages.acquire().await.ok();
            self.pages.acquire().await.ok().map(|page| Place { _page: page, _bulk: bulk })
        });
        admitted.await.ok().flatten().ok_or_else(late)
    }

    fn wait(&self) -> Result<Waiting<'_>, EngineError> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Waiting(&self.waiting);
        if waiting < self.max_waiting {
            return Ok(place);
        }
        Err(EngineError::Overloaded { what: format!("{waiting} reads wait already, and no more may") })
    }
}

/// One of those that wait.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What permits, and calls of the store that were sent twice, are counted as, read off when somebody asks.
pub(crate) struct PermitMetrics {
    permits: Arc<Permits>,
    store: Arc<dyn Store>,
    in_flight: IntGaugeVec,
    waiting: IntGaugeVec,
    heavy_limit: IntGauge,
    granted: IntCounterVec,
    waits: IntCounterVec,
    wait_seconds: CounterVec,
    refused: IntCounterVec,
    hedged: IntCounter,
    hedge_after: Gauge,
    metadata_retries: IntCounter,
}

impl PermitMetrics {
    pub(crate) fn new(permits: Arc<Permits>, store: Arc<dyn Store>) -> Self {
        let labels = &["class"];
        let gauge =
            |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), labels).expect("names are constants");
        let counter =
            |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), labels).expect("names are constants");
        let seconds = Opts::new("anabranch_permit_wait_seconds_total", "What reads of the store waited for permits");
        PermitMetrics {
            permits,
            store,
            in_flight: gauge("anabranch_permits_in_flight", "Reads of the store in flight"),
            waiting: gauge("anabranch_permits_waiting", "Reads of the store that wait for a permit"),
            heavy_limit: IntGauge::new(
                "anabranch_permits_heavy_limit",
                "Bulk and background reads that may be in flight",
            )
            .expect("names are constants"),
            granted: counter("anabranch_permits_granted_total", "Permits given to reads of the store"),
            waits: counter("anabranch_permit_waits_total", "Permits that had to be waited for"),
            wait_seconds: CounterVec::new(seconds, labels).expect("names are constants"),
            refused: counter("anabranch_permits_refused_total", "Reads of the store refused for want of a permit"),
            hedged: IntCounter::new("anabranch_hedged_reads_total", "Reads sent to a second replica")
                .expect("names are constants"),
            hedge_after: Gauge::new(
                "anabranch_hedge_after_seconds",
                "After which time a read is sent to a second replica",
            )
            .expect("names are constants"),
            metadata_retries: IntCounter::new(
                "anabranch_metadata_retries_total",
                "Reads and changes of metadata that were sent again",
            )
            .expect("names are constants"),
        }
    }

    fn collectors(&self) -> [&dyn Collector; 10] {
        [
            &self.in_flight,
            &self.waiting,
            &self.heavy_limit,
            &self.granted,
            &self.waits,
            &self.wait_seconds,
            &self.refused,
            &self.hedged,
            &self.hedge_after,
            &self.metadata_retries,
        ]
    }
}

impl Collector for PermitMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.collectors().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let raise = |counters: &IntCounterVec, class: &str, total: u64| {
            let counter = counters.with_label_values(&[class]);
            counter.inc_by(total.saturating_sub(counter.get()));
        };
        if let Some(hedging) = self.store.hedging() {
            self.hedged.inc_by(hedging.doubled.saturating_sub(self.hedged.get()));
            self.hedge_after.set(hedging.after.as_secs_f64());
        }
        self.metadata_retries.inc_by(self.store.metadata_retries().saturating_sub(self.metadata_retries.get()));
        self.heavy_limit.set(self.permits.heavy_limit() as i64);
        for (class, count) in self.permits.counts() {
            let class = class.name();
            self.in_flight.with_label_values(&[class]).set(count.in_flight as i64);
            self.waiting.with_label_values(&[class]).set(count.waiting as i64);
            raise(&self.granted, class, count.granted);
            raise(&self.waits, class, count.waited);
            raise(&self.refused, class, count.refused);
            let seconds = self.wait_seconds.with_label_values(&[class]);
            seconds.inc_by((count.waited_for.as_secs_f64() - seconds.get()).max(0.0));
        }
        self.collectors().into_iter().flat_map(Collector::collect).collect()
    }
}

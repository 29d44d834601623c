//! One world: the shared store, the servers on it, the oracle and the trace. Everybody who acts holds it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use anabranch_bus::LocalBus;
use anabranch_engine::{Engine, EngineError, Page, ReadRequest};
use anabranch_model::{Interval, NamespaceName};
use anabranch_runtime::{Env, Task};
use anabranch_store::MemoryStore;
use tokio::sync::Notify;

use crate::{
    bus::FaultyBus,
    clocks::{Clocks, spoil},
    dice::Dice,
    faults::{FaultyStore, Sky},
    lagging::Lagging,
    oracle::{Oracle, Violation},
    piece_plants::PieceBugs,
    plan::{MAX_CLOCK_SKEW, Plan},
    plant::Plant,
    reached::Tally,
    replicas::Replicas,
    trace::Trace,
    witness::Witness,
};

/// Detections on their way at once; few, so that some are dropped.
const BUS_CAPACITY: usize = 20;

/// Everything that the actors of one seed share.
pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) plan: Plan,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) sky: Arc<Sky>,
    pub(crate) trace: Trace,
    pub(crate) plant: Option<Plant>,
    /// Ends the run early when a promise was broken.
    pub(crate) failed: Arc<Notify>,
    pub(crate) witness: Arc<Witness>,
    pub(crate) bus: Arc<LocalBus>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) clocks: Clocks,
    replicas: Arc<Replicas>,
    lagging: Lagging,
    piece_bugs: PieceBugs,
    oracle: Mutex<Oracle>,
    servers: Vec<Mutex<Slot>>,
    /// Backfill windows that may be open.
    windows: Mutex<Vec<(usize, Interval)>>,
    over: AtomicBool,
    numbers: AtomicU64,
}

/// The place of one server; empty while it is down.
#[derive(Default)]
struct Slot {
    env: Option<Env>,
    engine: Option<Arc<Engine>>,
}

/// A server that is up, or was a moment ago.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) index: usize,
    pub(crate) env: Env,
    pub(crate) engine: Arc<Engine>,
}

impl World {
    pub(crate) fn new(env: Env, plan: Plan, plant: Option<Plant>, trace: Trace) -> Arc<World> {
        let mut store = MemoryStore::new(env.node(0)).with_sync_latency(plan.sync_latency);
        if !plan.ordered_partitions {
            store = store.without_ordered_partitions();
        }
        let failed = Arc::new(Notify::new());
        Arc::new(World {
            witness: Arc::new(Witness::new(env.clone(), trace.clone(), failed.clone())),
            bus: Arc::new(LocalBus::new(BUS_CAPACITY)),
            tally: Arc::default(),
            clocks: Clocks::new(plan.servers),
            replicas: Arc::default(),
            lagging: Lagging::default(),
            piece_bugs: PieceBugs::default(),
            store: Arc::new(store),
            sky: Arc::new(Sky::new(plan.weather)),
            oracle: Mutex::new(Oracle::new(plan.namespaces.iter().map(|(_, config)| config.clone()))),
            servers: (0..plan.servers).map(|_| Mutex::default()).collect(),
            windows: Mutex::default(),
            over: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
            failed,
            trace,
            plant,
            env,
            plan,
        })
    }

    /// Never held over an await.
    pub(crate) fn oracle(&self) -> MutexGuard<'_, Oracle> {
        self.oracle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes down a broken promise and ends the run.
    pub(crate) fn check(&self, actor: &str, verdict: Result<(), Violation>) -> bool {
        let Err(violation) = verdict else { return true };
        self.trace.log(actor, format_args!("VIOLATION of {}: {}", violation.invariant, violation.what));
        self.oracle().report(violation);
        self.over.store(true, Ordering::Release);
        self.failed.notify_one();
        false
    }

    /// Takes over what the witness saw. Says whether all is well.
    pub(crate) fn check_witness(&self) -> bool {
        self.check("witness", self.witness.violation().map_or(Ok(()), Err))
    }

    /// Clients finish what they are at, and begin nothing new.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// A number that nobody else has.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::AcqRel)
    }

    pub(crate) fn namespace(&self, at: usize) -> &NamespaceName {
        &self.plan.namespaces[at].0
    }

    /// Whether this bug is planted and shows itself now.
    pub(crate) fn planted(&self, plant: Plant, dice: &Dice, percent: u64) -> bool {
        self.plant == Some(plant) && dice.percent(percent)
    }

    pub(crate) fn add_window(&self, namespace: usize, interval: Interval) {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() > 2 {
            windows.remove(0);
        }
        windows.push((namespace, interval));
    }

    pub(crate) fn window(&self, namespace: usize, dice: &Dice) -> Option<Interval> {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let of: Vec<Interval> = windows.iter().filter(|(at, _)| *at == namespace).map(|(_, span)| *span).collect();
        (!of.is_empty()).then(|| dice.pick(&of))
    }

    fn slot(&self, index: usize) -> MutexGuard<'_, Slot> {
        self.servers[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn server(&self, index: usize) -> Option<Server> {
        let slot = self.slot(index);
        let (env, engine) = (slot.env.clone()?, slot.engine.clone()?);
        (!env.is_killed()).then_some(Server { index, env, engine })
    }

    /// Some server that is up.
    pub(crate) fn any_server(&self, dice: &Dice) -> Option<Server> {
        let first = dice.below(self.servers.len() as u64) as usize;
        (0..self.servers.len()).find_map(|at| self.server((first + at) % self.servers.len()))
    }

    /// Starts a server. `None` when that didn't work this time.
    pub(crate) async fn start_server(
        self: &Arc<Self>,
        index: usize,
        dice: &Dice,
        crashed: Arc<Notify>,
    ) -> Option<Server> {
        // Two of them differ by less than half of what is allowed: calls take time, and so much less can be told apart.
        let most = MAX_CLOCK_SKEW.as_nanos() as u64 / 5;
        let skew = dice.below(most * 2 + 1) as i64 - most as i64;
        let env = self.env.node(skew);
        self.slot(index).env = Some(env.clone());
        self.clocks.put_right(index, self.env.monotonic());
        if self.sky.weather().clocks && dice.percent(20) {
            spoil(self, index, &env, skew, dice);
        }
        let name = format!("server {index}");
        let store = Arc::new(FaultyStore {
            inner: self.store.clone(),
            world: self.env.clone(),
            server: env.clone(),
            crashed,
            sky: self.sky.clone(),
            dice: Dice::new(&self.env),
            trace: self.trace.clone(),
            name: name.clone(),
            plant: self.plant,
            life: self.number(),
            witness: self.witness.clone(),
            piece_bugs: self.piece_bugs.of_server(),
            replicas: self.replicas.clone(),
            lagging: self.lagging.clone(),
            tally: self.tally.clone(),
            sees_all: false,
        });
        let bus = Arc::new(FaultyBus {
            inner: self.bus.clone(),
            world: self.env.clone(),
            sky: self.sky.clone(),
            dice: Dice::new(&self.env),
        });
        let start = Engine::start_on(store, bus, env.clone(), self.plan.options.clone());
        match env.spawn(start).await {
            Some(Ok(engine)) => {
                self.trace.log(&name, format_args!("is up, its clock off by {} ms", skew / 1_000_000));
                self.slot(index).engine = Some(engine.clone());
                Some(Server { index, env, engine })
            }
            failed => {
                let why = failed.and_then(Result::err).map_or("crashed".to_owned(), |error| error.to_string());
                self.trace.log(&name, format_args!("does not start: {why}"));
                self.stop_server(index);
                None
            }
        }
    }

    /// Ends a server as a crash would.
    pub(crate) fn stop_server(&self, index: usize) {
        let slot = std::mem::take(&mut *self.slot(index));
        if let Some(env) = slot.env {
            env.kill();
            self.bus.redeliver();
        }
    }
}

impl Server {
    /// Sends a request. `None` when the server dies over it: then nobody knows what it did.
    pub(crate) async fn call<T, F>(&self, request: impl FnOnce(Arc<Engine>) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.env.spawn(request(self.engine.clone())).await
    }

    /// Reads a page. `None` when the server dies over it.
    pub(crate) fn read(&self, request: ReadRequest) -> Task<Result<Page, EngineError>> {
        let engine = self.engine.clone();
        self.env.spawn(async move { engine.read(request).await })
    }
}

//! Runs one seed from its first moment to its verdict. A panic anywhere inside is a verdict too.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once},
    time::Duration,
};

use anabranch_model::Timestamp;
use anabranch_runtime::{Env, Task, run_simulated};

use crate::{
    admin::administer,
    clocks::set_clocks,
    cluster::{crash_store, create_namespaces, disturb, supervise},
    dice::Dice,
    finale::conclude,
    oracle::Violation,
    plan::Plan,
    plant::Plant,
    reached::Reached,
    scans::read,
    splits::steer,
    trace::Trace,
    witness::Figures,
    world::World,
    writers::write,
};

/// Clients must have come to an end so long after the world is over.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// How many lines of the trace to keep, from its end.
    pub kept_lines: usize,
    /// A bug to plant, to see whether it is found.
    pub plant: Option<Plant>,
}

impl Options {
    /// An ordinary run of a seed.
    pub fn new(seed: u64) -> Self {
        Options { seed, kept_lines: 60, plant: None }
    }
}

/// What a seed came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which seed.
    pub seed: u64,
    /// Of the whole trace: equal hashes mean equal runs.
    pub hash: u64,
    /// Lines in the whole trace.
    pub lines: u64,
    /// The last lines of the trace.
    pub trace: Vec<String>,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// What happened to splits.
    pub figures: Figures,
    /// Which faults were met.
    pub reached: Reached,
}

thread_local! {
    /// While a seed runs: the first panic in it.
    static PANIC: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Runs one seed.
pub fn run_seed(options: Options) -> Report {
    catch_panics();
    PANIC.with_borrow_mut(|panic| *panic = Some(None));
    let trace: RefCell<Option<Trace>> = RefCell::new(None);
    let figures = Cell::new((Figures::default(), Reached::default()));
    let start = Timestamp::from_seconds(1_774_656_000 + (options.seed.wrapping_mul(7919) % 86_400) as i64);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run_simulated(options.seed, start, |env| {
            let log = Trace::new(env.clone(), options.kept_lines.max(1));
            *trace.borrow_mut() = Some(log.clone());
            live(env, start, options, log, &figures)
        })
    }));
    let panic = PANIC.take().flatten();
    let violation = match (panic, outcome) {
        (Some(panic), _) => Some(Violation::new("panic", panic)),
        (None, Ok(violation)) => violation,
        (None, Err(_)) => Some(Violation::new("panic", "a panic without words")),
    };
    let (hash, lines, trace) = trace.take().map_or_else(Default::default, |trace| trace.finish());
    let (figures, reached) = figures.get();
    Report { seed: options.seed, hash, lines, trace, violation, figures, reached }
}

/// The whole life of a world.
async fn live(
    env: Env,
    start: Timestamp,
    options: Options,
    trace: Trace,
    figures: &Cell<(Figures, Reached)>,
) -> Option<Violation> {
    let dice = Dice::new(&env);
    let plan = Plan::draw(&dice, start);
    trace.log("seed", format_args!("{}: {}", options.seed, plan.describe()));
    let world = World::new(env.clone(), plan, options.plant, trace);
    let mut supervisors: Vec<Task<()>> = Vec::new();
    for index in 0..world.plan.servers {
        supervisors.push(env.spawn(supervise(world.clone(), index, Dice::new(&env))));
    }
    create_namespaces(&world, &dice).await;
    supervisors.push(env.spawn(crash_store(world.clone(), Dice::new(&env))));
    supervisors.push(env.spawn(disturb(world.clone(), Dice::new(&env))));
    supervisors.push(env.spawn(set_clocks(world.clone(), Dice::new(&env))));
    let mut clients: Vec<Task<()>> = Vec::new();
    for at in 0..world.plan.writers {
        clients.push(env.spawn(write(world.clone(), format!("writer {at}"), Dice::new(&env))));
    }
    for at in 0..world.plan.readers {
        clients.push(env.spawn(read(world.clone(), format!("reader {at}"), Dice::new(&env))));
    }
    for _ in 0..world.plan.admins {
        clients.push(env.spawn(administer(world.clone(), Dice::new(&env))));
    }
    clients.push(env.spawn(steer(world.clone(), Dice::new(&env))));

    let _ = env.timeout(world.plan.length, world.failed.notified()).await;
    world.end();
    if world.check_witness() && world.oracle().violation().is_none() {
        wait_for(&world, clients).await;
    }
    supervisors.iter().for_each(Task::abort);
    if world.check_witness() && world.oracle().violation().is_none() {
        conclude(&world, &dice).await;
        world.check_witness();
    }
    figures.set((world.witness.figures(), world.tally.reached()));
    for index in 0..world.plan.servers {
        world.stop_server(index);
    }
    world.oracle().violation().cloned()
}

/// Everybody who asked gets an answer.
async fn wait_for(world: &Arc<World>, clients: Vec<Task<()>>) {
    let all = futures_util::future::join_all(clients);
    if world.env.timeout(PATIENCE, all).await.is_err() {
        let what = format!("a request was not answered in {PATIENCE:?}");
        world.check("seed", Err(Violation::new("R2", what)));
    }
}

/// Panics in tasks are swallowed by their runtime, so they are caught where they begin.
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let caught = PANIC.try_with(|panic| match panic.try_borrow_mut() {
                Ok(mut panic) => match panic.as_mut() {
                    Some(first) => {
                        first.get_or_insert_with(|| info.to_string());
                        true
                    }
                    None => false,
                },
                Err(_) => false,
            });
            if !caught.unwrap_or(false) {
                usual(info);
            }
        }));
    });
}

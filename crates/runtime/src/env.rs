//! The surroundings of one server: its clock, its random numbers, its tasks.
#![allow(clippy::disallowed_methods)] // this is the door that the rest of the house has to use

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use anabranch_model::Timestamp;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::task::{AbortHandle, JoinHandle};

use crate::{background, pause::Pause};

/// Clock, randomness and task driver of one server. Clones share all three.
#[derive(Clone)]
pub struct Env {
    clock: Clock,
    random: Arc<Mutex<ChaCha8Rng>>,
    tasks: Arc<Mutex<Tasks>>,
    pause: Pause,
}

#[derive(Clone)]
enum Clock {
    System,
    Simulated { origin: tokio::time::Instant, start: Timestamp, skew_nanos: Arc<AtomicI64> },
}

#[derive(Default)]
struct Tasks {
    ended: bool,
    running: Vec<AbortHandle>,
}

/// The time given to [`Env::timeout`] has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// A started task. Dropping it lets the task go on.
pub struct Task<T>(JoinHandle<T>);

impl<T> Task<T> {
    /// Ends the task at its next wait.
    pub fn abort(&self) {
        self.0.abort();
    }
}

impl<T> Future for Task<T> {
    /// `None` when the task panicked or was ended.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context).map(Result::ok)
    }
}

impl Env {
    /// The machine's own clock, generator and threads.
    pub fn system() -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("every system that we run on has a random number generator");
        Env {
            clock: Clock::System,
            random: Arc::new(Mutex::new(ChaCha8Rng::from_seed(seed))),
            tasks: Arc::default(),
            pause: Pause::default(),
        }
    }

    /// Virtual time that begins at `start`; only inside [`crate::run_simulated`].
    pub(crate) fn simulated(seed: u64, start: Timestamp) -> Self {
        Env {
            clock: Clock::Simulated { origin: tokio::time::Instant::now(), start, skew_nanos: Arc::default() },
            random: Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))),
            tasks: Arc::default(),
            pause: Pause::default(),
        }
    }

    /// A simulated server of its own: the same time but for a skew of the clock, other random numbers (drawn from
    /// this one's), tasks that [`Env::kill`] ends together.
    #[must_use]
    pub fn node(&self, skew_nanos: i64) -> Self {
        let clock = match &self.clock {
            Clock::System => Clock::System,
            Clock::Simulated { origin, start, .. } => {
                Clock::Simulated { origin: *origin, start: *start, skew_nanos: Arc::new(AtomicI64::new(skew_nanos)) }
            }
        };
        let seed = self.random_u64();
        Env {
            clock,
            random: Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))),
            tasks: Arc::default(),
            pause: Pause::default(),
        }
    }

    /// Sets the wall clock of this simulated server to another skew, as an administrator or a time service may while it runs. Does
    /// nothing outside of a simulation.
    pub fn set_skew(&self, nanos: i64) {
        if let Clock::Simulated { skew_nanos, .. } = &self.clock {
            skew_nanos.store(nanos, Ordering::Release);
        }
    }

    /// What the wall clock shows.
    pub fn now(&self) -> Timestamp {
        match &self.clock {
            Clock::System => {
                let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
            }
            Clock::Simulated { origin, start, skew_nanos } => {
                let time = start.saturating_add(origin.elapsed());
                Timestamp::from_nanos(time.nanos().saturating_add(skew_nanos.load(Ordering::Acquire)))
            }
        }
    }

    /// Time since some fixed moment. Never goes back, and goes on while the machine is suspended.
    pub fn monotonic(&self) -> Duration {
        match &self.clock {
            Clock::System => boot_time(),
            Clock::Simulated { origin, .. } => origin.elapsed(),
        }
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Gives `future` at most this long.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(duration, future).await.map_err(|_| Elapsed)
    }

    /// Starts a task.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let handle = match &self.clock {
            Clock::System => tokio::spawn(future),
            Clock::Simulated { .. } => tokio::spawn(self.pause.over(future)),
        };
        self.started(handle)
    }

    /// Starts a task whose threads, and those of all that it starts, give way to others: for what nobody waits for, and for what
    /// takes so long that it may not hold up the rest.
    pub fn spawn_in_background<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let threads = match &self.clock {
            Clock::System => background::threads(),
            Clock::Simulated { .. } => None,
        };
        match threads {
            Some(threads) => self.started(threads.spawn(future)),
            None => self.spawn(future),
        }
    }

    fn started<T>(&self, handle: JoinHandle<T>) -> Task<T> {
        let mut tasks = locked(&self.tasks);
        if tasks.ended {
            handle.abort();
        } else {
            if tasks.running.len() == tasks.running.capacity() {
                tasks.running.retain(|task| !task.is_finished());
            }
            tasks.running.push(handle.abort_handle());
        }
        Task(handle)
    }

    /// Runs something that waits for a disk. `None` when it panicked.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match &self.clock {
            Clock::System => tokio::task::spawn_blocking(work).await.ok(),
            Clock::Simulated { .. } => Some(work()),
        }
    }

    /// Starts a thread, for what must not share one. Not for anything that the simulation runs.
    pub fn thread(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(work)
    }

    /// Ends every task started here, as a crash would, and lets no other start.
    pub fn kill(&self) {
        let mut tasks = locked(&self.tasks);
        tasks.ended = true;
        tasks.running.drain(..).for_each(|task| task.abort());
    }

    /// Stops every task of this simulated server, those that run now from their next wait on, as a suspended process stops;
    /// clocks go on. Does nothing outside of a simulation.
    pub fn pause(&self, duration: Duration) {
        if matches!(&self.clock, Clock::Simulated { .. }) {
            self.pause.begin(duration);
        }
    }

    /// Whether [`Env::pause`] held at any time since this moment of the monotonic clock.
    pub fn was_paused_since(&self, moment: Duration) -> bool {
        match &self.clock {
            Clock::System => false,
            Clock::Simulated { origin, .. } => self.pause.until() > Some(*origin + moment),
        }
    }

    /// Whether [`Env::kill`] was called.
    pub fn is_killed(&self) -> bool {
        locked(&self.tasks).ended
    }

    /// A random number.
    pub fn random_u64(&self) -> u64 {
        locked(&self.random).next_u64()
    }

    /// A random number below `limit`, which must not be 0. The tiny bias of the remainder doesn't matter here.
    pub fn random_below(&self, limit: u64) -> u64 {
        self.random_u64() % limit
    }

    /// Random bytes, good enough for keys.
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        locked(&self.random).fill_bytes(&mut bytes);
        bytes
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Other systems count suspension in their monotonic clock, or say nothing about it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

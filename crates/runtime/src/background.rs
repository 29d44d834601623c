//! Threads that give way: what runs on them loses the processor to the other threads that want it.

use std::{cell::Cell, sync::OnceLock, time::Duration};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::env::boot_time;

/// Beside threads that are always busy a tenth of a processor is left, and a hundredth to whoever calls [`let_others_run`]: splits and
/// whole histories still come to an end, and a lock that is held here is let go of.
const NICENESS: i32 = 10;
/// Threads that wait for a disk.
const MAX_BLOCKING: usize = 128;

/// How long a thread that gives way has the processor while another waits for it.
const LONGEST_TURN: Duration = Duration::from_micros(200);

thread_local! {
    /// On a thread that gives way: when it last did.
    static TURN: Cell<Option<Duration>> = const { Cell::new(None) };
}

static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();

/// Where background tasks are started; `None` where the system gives no threads of this kind.
pub(crate) fn threads() -> Option<&'static Handle> {
    let start = || {
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().thread_name("anabranch-background").max_blocking_threads(MAX_BLOCKING);
        builder.on_thread_start(give_way).build().ok()
    };
    THREADS.get_or_init(start).as_ref().map(Runtime::handle)
}

/// For loops that compute for long: lets a thread have the processor that should have had it already.
///
/// Linux lets a running thread have its slice, a millisecond and more, however much less its share is than that of those who wait. A
/// thread that gives way hands the rest of it over. For the others, any call of the kernel will do: since Linux 6.13 one may put off a
/// switch until the running thread enters it for whatever reason, or the clock ticks, up to 4 ms later.
#[inline]
pub fn let_others_run() {
    let Some(since) = TURN.get() else {
        let _ = rustix::process::getppid();
        return;
    };
    if boot_time().saturating_sub(since) >= LONGEST_TURN {
        rustix::thread::sched_yield();
        TURN.set(Some(boot_time()));
    }
}

/// On Linux, the calling thread alone.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn give_way() {
    // Going down is always allowed; without it, work is only less polite.
    if rustix::process::getpriority_process(None).is_ok_and(|now| now < NICENESS) {
        let _ = rustix::process::setpriority_process(None, NICENESS);
    }
    TURN.set(Some(boot_time()));
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn give_way() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::Env;

    fn niceness() -> i32 {
        rustix::process::getpriority_process(None).expect("every thread has one")
    }

    #[tokio::test]
    async fn what_a_background_task_starts_gives_way_too_and_nothing_else_does() {
        let env = Env::system();
        let usual = niceness();
        let inner = env.clone();
        let task = env.spawn_in_background(async move {
            let started = inner.spawn(async { niceness() });
            (niceness(), started.await.unwrap(), inner.blocking(niceness).await.unwrap())
        });
        let nicer = usual.max(NICENESS);
        assert_eq!(task.await.unwrap(), (nicer, nicer, nicer));
        assert_eq!((niceness(), env.blocking(niceness).await.unwrap()), (usual, usual));
    }

    #[tokio::test]
    async fn only_threads_that_give_way_hand_over_what_is_left_of_their_turn() {
        let_others_run();
        assert_eq!(TURN.get(), None);
        let task = Env::system().spawn_in_background(async {
            let long_ago = boot_time() - 2 * LONGEST_TURN;
            TURN.set(Some(long_ago));
            let_others_run();
            TURN.get().is_some_and(|since| since > long_ago)
        });
        assert_eq!(task.await, Some(true));
    }

    #[tokio::test]
    async fn background_tasks_end_with_the_others_of_their_server() {
        let env = Env::system();
        let task = env.spawn_in_background(std::future::pending::<()>());
        env.kill();
        assert_eq!(task.await, None);
    }
}

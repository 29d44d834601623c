//! Threads that give way: what runs on them loses the processor to the other threads that want it.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Beside threads that are always busy, a tenth of a processor is left: splits and whole histories still come to an end, and a lock
/// that is held here is let go of.
const NICENESS: i32 = 10;
/// Threads that wait for a disk.
const MAX_BLOCKING: usize = 128;

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
/// Since Linux 6.13 a kernel may put that off until the running thread enters it for whatever reason ("lazy" preemption), and a
/// thread that only computes does so when the clock ticks: with 250 ticks a second, one that gives way kept a page waiting for 4 ms.
/// Any call of the kernel will do, and this is the cheapest that has no effect. Unlike a yield it gives nothing up where nobody
/// waits, and no more than its share where somebody does.
#[inline]
pub fn let_others_run() {
    let _ = rustix::process::getppid();
}

/// On Linux, the calling thread alone.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn give_way() {
    // Going down is always allowed; without it, work is only less polite.
    if rustix::process::getpriority_process(None).is_ok_and(|now| now < NICENESS) {
        let _ = rustix::process::setpriority_process(None, NICENESS);
    }
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
    async fn background_tasks_end_with_the_others_of_their_server() {
        let env = Env::system();
        let task = env.spawn_in_background(std::future::pending::<()>());
        env.kill();
        assert_eq!(task.await, None);
    }
}

//! Virtual time: one thread, a clock that moves only when every task waits, the same run for the same seed.

use std::future::Future;

use anabranch_model::Timestamp;

use crate::Env;

/// Runs `work` in a simulation that begins at `start`. The same seed gives the same run.
pub fn run_simulated<F: Future>(seed: u64, start: Timestamp, work: impl FnOnce(Env) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(async move { work(Env::simulated(seed, start)).await })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn trace(seed: u64) -> Vec<(i64, u64)> {
        run_simulated(seed, Timestamp::from_seconds(1_000), |env| async move {
            let mut tasks = Vec::new();
            for _ in 0..5 {
                let node = env.node(0);
                let inner = node.clone();
                tasks.push(node.spawn(async move {
                    inner.sleep(Duration::from_millis(inner.random_below(1_000_000))).await;
                    (inner.now().nanos(), inner.random_u64())
                }));
            }
            let mut trace = Vec::new();
            for task in tasks {
                trace.push(task.await.unwrap());
            }
            trace
        })
    }

    #[test]
    fn the_same_seed_gives_the_same_run_and_another_another() {
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
    }

    #[test]
    fn a_killed_node_does_nothing_any_more() {
        run_simulated(1, Timestamp::from_seconds(0), |env| async move {
            let node = env.node(0);
            let inner = node.clone();
            let task = node.spawn(async move { inner.sleep(Duration::from_secs(1)).await });
            node.kill();
            assert_eq!(task.await, None);
            assert_eq!(node.spawn(async {}).await, None);
        });
    }

    #[test]
    fn clocks_may_be_skewed() {
        run_simulated(1, Timestamp::from_seconds(1), |env| async move {
            let ahead = env.node(500);
            assert_eq!(ahead.now().nanos() - env.now().nanos(), 500);
            assert_eq!(ahead.monotonic(), env.monotonic());
        });
    }
}

//! Calls of the store that are made again and again, each of which must come back soon: one that hangs, because it went to a node that
//! stands still, is given up and made anew, and may go another way.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anabranch_runtime::Env;
use anabranch_store::StoreError;

/// How long such a call may take: twice as long as the last one took, and after each that was given up twice as long as that.
pub(crate) struct Impatience {
    least: Duration,
    longest: Duration,
    limit: Mutex<Duration>,
}

impl Impatience {
    /// None is given up earlier than `least`, or later than `longest`.
    pub(crate) fn new(least: Duration, longest: Duration) -> Self {
        let least = least.min(longest);
        Impatience { least, longest, limit: Mutex::new(least) }
    }

    fn limit(&self) -> std::sync::MutexGuard<'_, Duration> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one of these calls.
    pub(crate) async fn call<T, E: From<StoreError>>(
        &self,
        env: &Env,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (begun, limit) = (env.monotonic(), *self.limit());
        let answer = env.timeout(limit, call).await;
        let next = if answer.is_ok() { env.monotonic().saturating_sub(begun) * 2 } else { limit * 2 };
        *self.limit() = next.clamp(self.least, self.longest);
        answer.unwrap_or_else(|_| Err(StoreError::Unknown { reason: format!("no answer for {limit:?}") }.into()))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::Timestamp;
    use anabranch_runtime::run_simulated;

    use super::*;

    #[test]
    fn a_call_that_hangs_is_given_up_soon_and_slow_ones_get_the_time_they_need() {
        run_simulated(7, Timestamp::from_seconds(1), |env| async move {
            let millis = Duration::from_millis;
            let calls = Impatience::new(millis(500), millis(5000));
            let call = async |takes: u64| {
                let begun = env.monotonic();
                let slowly = async {
                    env.sleep(millis(takes)).await;
                    Ok::<_, StoreError>(())
                };
                let answer = calls.call(&env, slowly).await;
                (answer.is_ok(), (env.monotonic() - begun).as_millis())
            };
            assert_eq!(call(100_000).await, (false, 500));
            assert_eq!(call(100_000).await, (false, 1000));
            assert_eq!(call(1500).await, (true, 1500));
            assert_eq!(call(100_000).await, (false, 3000));
            for _ in 0..3 {
                call(100_000).await;
            }
            assert_eq!(call(100_000).await, (false, 5000));
            assert_eq!(call(1).await, (true, 1));
            assert_eq!(call(100_000).await, (false, 500));
        });
    }
}

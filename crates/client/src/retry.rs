//! Which failures are tried again, and how long to wait before.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    Client, ClientError, RetryPolicy,
    client::Services,
    origin::{Origin, origin},
    wait::{wait, within},
};

/// The server's word for a refusal before anything was done: it starts or stops, its clock is being compared.
const NOT_SERVING: &str = "NOT_SERVING";

/// What sending a request twice does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Nothing: it only looks.
    Read,
    /// The same as sending it once: the same event twice leaves one row (W2), the same setting twice is that setting.
    Write,
    /// Something else than sending it once: an error that hides a success.
    Never,
}

/// Calls until an attempt succeeds, can't be helped, or was the last; each time the server whose turn it is. No server is waited for in
/// vain more often than each of the others: who calls waits all that time.
pub(crate) async fn with_retries<T, F>(
    client: &Client,
    repeat: Repeat,
    call: impl Fn(&Services) -> F,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, Status>>,
{
    let policy = &client.options.retry;
    let (mut attempt, mut timed_out) = (1, 0);
    loop {
        let turn = client.turn();
        let status = match within(client.options.request_timeout, call(client.services(turn))).await {
            Ok(answer) => return Ok(answer),
            Err(status) => status,
        };
        timed_out += usize::from(origin(&status) == Origin::TimedOut);
        if attempt >= policy.attempts || timed_out >= client.servers() || !may_help(repeat, &status) {
            return Err(status.into());
        }
        client.move_on(turn);
        wait(delay(policy, attempt, &status)).await;
        attempt += 1;
    }
}

/// Whether sending it again is safe and may end otherwise.
pub(crate) fn may_help(repeat: Repeat, status: &Status) -> bool {
    match origin(status) {
        Origin::Unconnected => true,
        Origin::Broken | Origin::TimedOut => repeat != Repeat::Never,
        Origin::Answer => may_change(repeat, status),
    }
}

/// Whether the next answer may be another one.
fn may_change(repeat: Repeat, status: &Status) -> bool {
    match status.code() {
        Code::Unavailable => repeat != Repeat::Never || was_refused(status),
        Code::DeadlineExceeded => repeat == Repeat::Read,
        // Nothing was done, and the server says whether to come again: a full queue empties, a full namespace doesn't.
        Code::ResourceExhausted => status.get_details_retry_info().is_some(),
        _ => false,
    }
}

fn was_refused(status: &Status) -> bool {
    status.get_details_error_info().is_some_and(|info| info.reason == NOT_SERVING)
}

/// How long to wait after this attempt, the first being 1.
pub(crate) fn delay(policy: &RetryPolicy, attempt: u32, status: &Status) -> Duration {
    let doubled = policy.first_delay.saturating_mul(1 << (attempt - 1).min(16)).min(policy.max_delay);
    let chance = getrandom::u32().unwrap_or(u32::MAX / 2);
    let jittered = doubled.mul_f64(0.5 + 0.5 * f64::from(chance) / f64::from(u32::MAX));
    let asked = status.get_details_retry_info().and_then(|info| info.retry_delay).unwrap_or_default();
    jittered.max(asked)
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use tonic::{ConnectError, TimeoutExpired};
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn only_what_is_safe_to_send_again_is() {
        let cases = [
            (Code::Unavailable, Repeat::Read, true),
            (Code::Unavailable, Repeat::Write, true),
            (Code::Unavailable, Repeat::Never, false),
            (Code::DeadlineExceeded, Repeat::Read, true),
            (Code::DeadlineExceeded, Repeat::Write, false),
            (Code::Aborted, Repeat::Write, false),
            (Code::ResourceExhausted, Repeat::Read, false),
            (Code::InvalidArgument, Repeat::Read, false),
        ];
        for (code, repeat, expected) in cases {
            assert_eq!(may_help(repeat, &Status::new(code, "")), expected, "{code:?} {repeat:?}");
        }
    }

    #[test]
    fn what_a_connection_may_have_lost_is_sent_again_if_that_is_safe() {
        let mut broken = Status::unknown("transport error");
        broken.set_source(Arc::new(io::Error::from(io::ErrorKind::ConnectionReset)));
        let mut timed_out = Status::cancelled("Timeout expired");
        timed_out.set_source(Arc::new(TimeoutExpired(())));
        for status in [broken, timed_out] {
            assert!(may_help(Repeat::Read, &status) && may_help(Repeat::Write, &status), "{status:?}");
            assert!(!may_help(Repeat::Never, &status), "it may have been done: {status:?}");
        }
        let mut unsent = Status::unavailable("");
        unsent.set_source(Arc::new(ConnectError("connection refused".into())));
        assert!(may_help(Repeat::Never, &unsent), "nobody has heard of it");
    }

    #[test]
    fn what_a_server_refused_before_it_began_is_sent_again_whatever_it_is() {
        let refused = |reason: &str| {
            let details = ErrorDetails::with_error_info(reason, "anabranch", []);
            Status::with_error_details(Code::Unavailable, "", details)
        };
        assert!(may_help(Repeat::Never, &refused("NOT_SERVING")));
        assert!(!may_help(Repeat::Never, &refused("STORE_UNAVAILABLE")), "it may have been done");
    }

    #[test]
    fn waits_double_within_bounds_and_honour_the_server() {
        let policy = RetryPolicy::default();
        let plain = Status::unavailable("");
        for (attempt, most) in [(1, 50), (2, 100), (4, 400), (9, 2000), (400, 2000)] {
            let most = Duration::from_millis(most);
            let waited = delay(&policy, attempt, &plain);
            assert!(waited >= most / 2 && waited <= most, "{attempt}: {waited:?}");
        }
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(7)));
        let asked = Status::with_error_details(Code::ResourceExhausted, "", details);
        assert!(may_help(Repeat::Never, &asked));
        assert_eq!(delay(&policy, 1, &asked), Duration::from_secs(7));
    }
}

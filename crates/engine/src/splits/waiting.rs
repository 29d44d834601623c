//! What keeps splits from being brought forward, as the last sweep found it: for those who look at background tasks.

use std::sync::{Mutex, PoisonError};

use anabranch_model::{NamespaceName, Timestamp};
use anabranch_split::{State, WideRow};

/// Split records that no worker of this server can bring forward now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Failed ones, which wait for their next attempt.
    failed: usize,
    /// When the first of them is tried again.
    pub(crate) next_attempt: Option<Timestamp>,
    /// Those whose time an open backfill may still write to.
    in_backfill: usize,
    /// A namespace with such a backfill.
    backfilled: Option<NamespaceName>,
    /// Those that another server works on.
    elsewhere: usize,
}

impl Waiting {
    /// Takes a record into account. `settled` says that no backfill may write to its time, `held` that another server has its lease.
    pub(crate) fn add(&mut self, row: &WideRow, is_stale: bool, settled: bool, held: bool, now: Timestamp) {
        let rests = matches!(row.state, State::Completed { .. } | State::NotWide { .. } | State::Parked { .. });
        if held {
            self.elsewhere += 1;
        } else if !settled && (!rests || is_stale) {
            self.in_backfill += 1;
            self.backfilled.get_or_insert_with(|| row.partition.namespace.clone());
        } else if let State::Failed(failure) = &row.state
            && failure.retry_after > now
        {
            self.failed += 1;
            let first = self.next_attempt.map_or(failure.retry_after, |first| first.min(failure.retry_after));
            self.next_attempt = Some(first);
        }
    }

    /// In words.
    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.failed > 0 {
            reasons.push(format!("the next attempt of {} that failed", self.failed));
        }
        if let Some(namespace) = &self.backfilled {
            reasons.push(format!("the end of a backfill, for example of `{namespace}`, for {}", self.in_backfill));
        }
        if self.elsewhere > 0 {
            reasons.push(format!("other servers, which work on {}", self.elsewhere));
        }
        reasons
    }
}

/// What the last sweep found.
#[derive(Default)]
pub(crate) struct LatestWaiting(Mutex<Waiting>);

impl LatestWaiting {
    pub(crate) fn replace(&self, found: Waiting) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    pub(crate) fn get(&self) -> Waiting {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the workers of a server wait for: `queued` partitions wait for them, they work on `busy`, at a pace that slow reads may have
/// slowed. Empty when they wait for nothing.
pub(crate) fn told(waiting: &Waiting, (queued, busy): (usize, usize), slowed: bool) -> String {
    if busy > 0 {
        let pace = if slowed { "reads to become faster: until then it works slowly" } else { "" };
        return pace.to_owned();
    }
    let mut reasons = waiting.reasons();
    if reasons.is_empty() && queued == 0 {
        reasons.push("a partition that is due".to_owned());
    }
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_splits_wait_for_is_said_with_its_reason() {
        let nothing = Waiting::default();
        assert_eq!(told(&nothing, (0, 0), false), "a partition that is due");
        assert_eq!(told(&nothing, (3, 2), false), "");
        assert_eq!(told(&nothing, (3, 2), true), "reads to become faster: until then it works slowly");
        let all = Waiting {
            failed: 2,
            next_attempt: Some(Timestamp::from_seconds(9)),
            in_backfill: 3,
            backfilled: Some(NamespaceName::new("plays").unwrap()),
            elsewhere: 1,
        };
        assert_eq!(
            told(&all, (0, 0), false),
            "the next attempt of 2 that failed; the end of a backfill, for example of `plays`, for 3; \
             other servers, which work on 1"
        );
    }
}

//! What background tasks do: when each last ran, what came of it, what failed, what it waits for.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use anabranch_model::Timestamp;

/// A background task, as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStatus {
    /// Which.
    pub name: &'static str,
    /// How often it came to an end.
    pub runs: u64,
    /// How often it failed.
    pub failures: u64,
    /// When it last came to an end.
    pub last_run: Option<Timestamp>,
    /// What it did then.
    pub did: String,
    /// When it last failed.
    pub last_failure: Option<Timestamp>,
    /// Why.
    pub error: String,
    /// What it waits for; empty while it is at work.
    pub waits_for: String,
    /// When it runs next at the latest, where that is known.
    pub next_run: Option<Timestamp>,
}

impl TaskStatus {
    /// Whether it failed when it last ran.
    pub fn is_failing(&self) -> bool {
        self.last_failure > self.last_run
    }
}

/// What most tasks wait for.
pub(crate) const INTERVAL: &str = "its interval";

/// The state of all background tasks.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<BTreeMap<&'static str, TaskStatus>>);

impl Tasks {
    pub(crate) fn ended(&self, name: &'static str, did: &str, at: Timestamp) {
        self.with(name, |task| {
            task.runs += 1;
            task.last_run = Some(at);
            did.clone_into(&mut task.did);
        });
    }

    pub(crate) fn failed(&self, name: &'static str, error: &dyn std::fmt::Display, at: Timestamp) {
        self.with(name, |task| {
            task.failures += 1;
            task.last_failure = Some(at);
            task.error = error.to_string();
        });
    }

    /// It is at work from now on.
    pub(crate) fn begins(&self, name: &'static str) {
        self.with(name, |task| {
            task.waits_for.clear();
            task.next_run = None;
        });
    }

    /// It has come to an end and waits, perhaps until `next_run` at the latest. One that failed waits for another attempt.
    pub(crate) fn waits(&self, name: &'static str, waits_for: &str, next_run: Option<Timestamp>) {
        self.with(name, |task| {
            task.waits_for = match task.is_failing() {
                true => format!("another attempt; the latest failed: {}", task.error),
                false => waits_for.to_owned(),
            };
            task.next_run = next_run;
        });
    }

    fn with(&self, name: &'static str, change: impl FnOnce(&mut TaskStatus)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(name).or_insert_with(|| TaskStatus { name, ..TaskStatus::default() }));
    }

    pub(crate) fn all(&self) -> Vec<TaskStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_says_what_it_waits_for_and_why() {
        let (tasks, at) = (Tasks::default(), Timestamp::from_seconds);
        tasks.waits("sweep", "its interval", Some(at(5)));
        let shown = |tasks: &Tasks| tasks.all().remove(0);
        assert_eq!((shown(&tasks).waits_for.as_str(), shown(&tasks).next_run), ("its interval", Some(at(5))));
        tasks.begins("sweep");
        assert_eq!((shown(&tasks).waits_for.as_str(), shown(&tasks).next_run), ("", None));
        tasks.failed("sweep", &"the store is away", at(6));
        tasks.waits("sweep", "its interval", Some(at(11)));
        assert_eq!(shown(&tasks).waits_for, "another attempt; the latest failed: the store is away");
        tasks.ended("sweep", "looked at 3 records", at(12));
        tasks.waits("sweep", "its interval", Some(at(17)));
        assert_eq!(shown(&tasks).waits_for, "its interval");
    }
}

//! What background tasks do: when each last ran, what came of it, what failed.

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
}

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

    fn with(&self, name: &'static str, change: impl FnOnce(&mut TaskStatus)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(name).or_insert_with(|| TaskStatus { name, ..TaskStatus::default() }));
    }

    pub(crate) fn all(&self) -> Vec<TaskStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

//! What happened, line by line: virtual time, actor, action, outcome. Its hash tells whether two runs were the same.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    sync::{Arc, Mutex, PoisonError},
};

use anabranch_engine::EngineError;
use anabranch_runtime::Env;
use xxhash_rust::xxh3::Xxh3Default;

/// The record of a run. Clones write to the same one.
#[derive(Clone)]
pub(crate) struct Trace {
    env: Env,
    inside: Arc<Mutex<Inside>>,
}

struct Inside {
    hasher: Xxh3Default,
    kept: VecDeque<String>,
    most_kept: usize,
    lines: u64,
}

impl Trace {
    /// Keeps the last `most_kept` lines.
    pub(crate) fn new(env: Env, most_kept: usize) -> Self {
        let inside = Inside { hasher: Xxh3Default::new(), kept: VecDeque::new(), most_kept, lines: 0 };
        Trace { env, inside: Arc::new(Mutex::new(inside)) }
    }

    /// Writes a line.
    pub(crate) fn log(&self, actor: &str, what: fmt::Arguments<'_>) {
        let millis = self.env.monotonic().as_millis();
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = if inside.kept.len() >= inside.most_kept {
            inside.kept.pop_front().unwrap_or_default()
        } else {
            String::new()
        };
        line.clear();
        let _ = write!(line, "{:>4}.{:03} {actor}: {what}", millis / 1000, millis % 1000); // a String takes everything
        inside.hasher.update(line.as_bytes());
        inside.hasher.update(b"\n");
        inside.kept.push_back(line);
        inside.lines += 1;
    }

    /// Takes something into the hash that would be too much to read.
    pub(crate) fn mark(&self, number: u64) {
        let millis = self.env.monotonic().as_millis() as u64;
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.hasher.update(&millis.to_be_bytes());
        inside.hasher.update(&number.to_be_bytes());
    }

    /// The hash so far, the number of lines, and those that were kept.
    pub(crate) fn finish(&self) -> (u64, u64, Vec<String>) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = std::mem::take(&mut inside.kept);
        (inside.hasher.digest(), inside.lines, kept.into())
    }
}

/// An answer in a few words, for the trace.
pub(crate) fn words<T>(answer: Option<&Result<T, EngineError>>) -> String {
    match answer {
        None => "no answer".to_owned(),
        Some(Ok(_)) => "done".to_owned(),
        Some(Err(error)) => format!("{:?}: {error}", error.kind()),
    }
}

//! Why a server can't be had, and what to do about it.

use std::{io, path::PathBuf};

use thiserror::Error;

/// Why a server can't be had.
#[derive(Debug, Error)]
pub enum TestbedError {
    /// A program isn't installed.
    #[error("{what} is not installed; {advice}")]
    Missing {
        /// Which.
        what: &'static str,
        /// What to do.
        advice: String,
    },
    /// Too little room.
    #[error("only {free_mib} MiB are free at {path}, {needed_mib} are needed: make room")]
    Disk {
        /// Where.
        path: PathBuf,
        /// What is left.
        free_mib: u64,
        /// What is wanted.
        needed_mib: u64,
    },
    /// The registry didn't give what was asked for.
    #[error("cannot download {artifact}: {reason}")]
    Download {
        /// What.
        artifact: String,
        /// Maven's last words, or how the digest differs.
        reason: String,
    },
    /// A server ended, or wasn't ready in time.
    #[error("{server} did not start: {reason}; the end of its log:\n{log}")]
    Start {
        /// Which.
        server: String,
        /// Ended, or too slow.
        reason: String,
        /// Its last lines.
        log: String,
    },
    /// What was asked for doesn't fit what is there.
    #[error("{0}")]
    Refused(String),
    /// The file system or the process table said no.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Names what was tried.
pub(crate) fn cannot(action: impl Into<String>) -> impl FnOnce(io::Error) -> TestbedError {
    let action = action.into();
    move |source| TestbedError::Io { action, source }
}

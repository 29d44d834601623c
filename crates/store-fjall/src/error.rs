//! Why a directory can't be opened, and what to do about it; and how fjall's errors become the contract's.

use std::path::PathBuf;

use anabranch_store::StoreError;
use thiserror::Error;

use crate::directory::FORMAT;

/// Why a directory can't be opened as a store.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "{} is in use by another process{}; stop it first, or name another directory",
        .dir.display(), .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Locked {
        /// Which directory.
        dir: PathBuf,
        /// Who, if it said so.
        pid: Option<u32>,
    },
    /// Made by a version of Anabranch that this one doesn't know.
    #[error(
        "{} has the format `{found}`, and this version of Anabranch understands `{FORMAT}`; open it with the version that \
         wrote it, or with a newer one than this", .dir.display()
    )]
    UnknownFormat {
        /// Which directory.
        dir: PathBuf,
        /// What its `FORMAT` says.
        found: String,
    },
    /// Not a store, and not empty either.
    #[error("{} holds something else than a store ({found}); name an empty or a new directory", .dir.display())]
    OtherContent {
        /// Which directory.
        dir: PathBuf,
        /// Some of what is there.
        found: String,
    },
    /// A file, say.
    #[error("{} is not a directory; name another one", .dir.display())]
    NotADirectory {
        /// What was named.
        dir: PathBuf,
    },
    /// Permissions, or a file system that is mounted read-only.
    #[error("{} is not writable: {source}; check its owner and permissions", .dir.display())]
    NotWritable {
        /// Which directory.
        dir: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A setting that can't be.
    #[error("the option `{option}` of the embedded store must be {rule}")]
    Option {
        /// Which.
        option: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// The files can't be understood.
    #[error("{} is damaged: {reason}; restore it from a backup, or report this with a copy of the directory", .dir.display())]
    Damaged {
        /// Which directory.
        dir: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The disk, or the system.
    #[error("can't {action} in {}: {source}", .dir.display())]
    Io {
        /// Which directory.
        dir: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The error of a read.
pub(crate) fn read(error: &fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(_) | fjall::Error::Storage(fjall::LsmError::Io(_)) => unavailable(error.to_string()),
        _ => StoreError::Corrupt { reason: error.to_string() },
    }
}

/// Why fjall takes no more changes until it is opened anew.
pub(crate) const POISONED: &str =
    "an earlier write or sync of the disk failed, and what it holds is not known; restart when the disk is well";

/// The error of a change that fjall refused: [`fjall::Error::Poisoned`] comes before anything is written, any other
/// may come after.
pub(crate) fn change(error: &fjall::Error) -> StoreError {
    match error {
        fjall::Error::Poisoned => unavailable(POISONED),
        _ => unknown(error.to_string()),
    }
}

pub(crate) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into() }
}

pub(crate) fn unknown(reason: impl Into<String>) -> StoreError {
    StoreError::Unknown { reason: reason.into() }
}

pub(crate) fn refused(reason: impl Into<String>) -> StoreError {
    StoreError::Refused { reason: reason.into() }
}

pub(crate) fn closed() -> StoreError {
    unavailable("the store is closed")
}

/// A read that panicked: only damaged files can make it.
pub(crate) fn panicked() -> StoreError {
    StoreError::Corrupt {
        reason: "reading it failed in a way that only damaged files explain; the log has more".to_owned(),
    }
}

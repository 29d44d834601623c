//! Why a command failed: what is printed, and the exit code.

use std::{fmt, io, path::Path, process::ExitCode};

/// How a command ends. The numbers are part of the interface and are listed in `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Whatever has no number of its own.
    Failure = 1,
    /// The command line is wrong.
    Usage = 2,
    /// What was asked for isn't there.
    NotFound = 3,
    /// The server refused the input.
    Refused = 4,
    /// No answer, or not in time: trying again may help.
    Unavailable = 5,
    /// Something that was to be compared wasn't: nothing is known of it.
    NotCompared = 6,
}

/// A failed command, in the words that the user will read.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    /// One line each: every violation, every bad line.
    pub(crate) details: Vec<String>,
    /// What to do.
    pub(crate) hints: Vec<String>,
    /// Whoever read our output has gone: nothing is printed, and that is no failure.
    reader_gone: bool,
}

/// What commands return.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), details: Vec::new(), hints: Vec::new(), reader_gone: false }
    }

    /// Something that has no exit code of its own.
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Failure::new(Exit::Failure, message)
    }

    /// A wrong command line that clap couldn't see.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, message)
    }

    /// A file that can't be used.
    pub(crate) fn file(action: &str, path: &Path, error: &io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failure };
        Failure::new(exit, format!("can't {action} {}: {error}", path.display()))
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Whether there is nobody left to tell.
    pub(crate) fn is_reader_gone(&self) -> bool {
        self.reader_gone
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.reader_gone { ExitCode::SUCCESS } else { ExitCode::from(self.exit as u8) }
    }
}

/// Only what is written to stdout fails with a bare `io::Error`; files go through [`Failure::file`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let mut failure = Failure::other(format!("can't write to the standard output: {error}"));
        failure.reader_gone = error.kind() == io::ErrorKind::BrokenPipe;
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

//! How far a file has been written, kept beside it so that a later run goes on from there.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    args::BatchArgs,
    failure::{Failure, Outcome},
};

/// What the file of `--resume` holds.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct State {
    format: u32,
    namespace: String,
    input: String,
    /// Everything up to and with this line is stored.
    line: u64,
}

const FORMAT: u32 = 1;

/// The point from which a later run can go on.
pub(crate) struct ResumePoint {
    state: State,
    file: Option<PathBuf>,
}

impl ResumePoint {
    /// As the user says, or as an earlier run left it.
    pub(crate) fn new(args: &BatchArgs, namespace: &str, input: &Path) -> Outcome<Self> {
        let input = fs::canonicalize(input).unwrap_or_else(|_| input.to_owned()).to_string_lossy().into_owned();
        let mut state = State { format: FORMAT, namespace: namespace.to_owned(), input, line: args.from_line - 1 };
        if let Some(file) = &args.resume
            && let Some(stored) = load(file)?
        {
            // A run that stored nothing leaves nothing to go on with.
            if stored.line > 0 && (&stored.namespace, &stored.input) != (&state.namespace, &state.input) {
                let message =
                    format!("{} belongs to another run: {} into `{}`", file.display(), stored.input, stored.namespace);
                return Err(Failure::usage(message).hint("name another file, or remove it to begin anew"));
            }
            state.line = stored.line;
        }
        // Before anything is sent: who can't keep how far it went is told at once.
        if let Some(file) = &args.resume {
            store(file, &state).map_err(|error| Failure::file("write", file, &error))?;
        }
        Ok(ResumePoint { state, file: args.resume.clone() })
    }

    /// The first line that is still to be written.
    pub(crate) fn next_line(&self) -> u64 {
        self.state.line + 1
    }

    /// Everything up to this line is stored.
    pub(crate) fn acknowledge(&mut self, line: u64) -> Outcome {
        self.state.line = line;
        match &self.file {
            Some(file) => store(file, &self.state).map_err(|error| Failure::file("write", file, &error)),
            None => Ok(()),
        }
    }

    /// Everything is stored: there is nothing to go on with.
    pub(crate) fn complete(&self) -> Outcome {
        let Some(file) = &self.file else { return Ok(()) };
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::file("remove", file, &error)),
            _ => Ok(()),
        }
    }

    /// Adds to a failure from where to go on.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        let line = self.state.line;
        match &self.file {
            _ if line == 0 => failure,
            Some(_) => failure.hint(format!("stored up to line {line}; the same command goes on from there")),
            None => failure.hint(format!("stored up to line {line}; go on with --from-line {}", line + 1)),
        }
    }
}

fn load(file: &Path) -> Outcome<Option<State>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file("read", file, &error)),
    };
    match serde_json::from_str::<State>(&text) {
        Ok(state) if state.format == FORMAT => Ok(Some(state)),
        _ => {
            let message = format!("{} is not what `--resume` of this version keeps", file.display());
            Err(Failure::usage(message).hint("name another file, or remove it to begin anew"))
        }
    }
}

/// The old state or the new one, whenever the process or the machine ends.
fn store(file: &Path, state: &State) -> io::Result<()> {
    let mut draft = file.as_os_str().to_owned();
    draft.push(".new");
    let mut target = File::create(&draft)?;
    serde_json::to_writer(&mut target, state)?;
    target.write_all(b"\n")?;
    target.sync_data()?;
    fs::rename(&draft, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_run_goes_on_where_the_last_one_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state");
        let args = BatchArgs { batch: 500, from_line: 1, resume: Some(file.clone()), skip_bad: false };
        let new = |namespace: &str| ResumePoint::new(&args, namespace, Path::new("-"));
        let mut point = new("plays").unwrap();
        assert_eq!(point.next_line(), 1);
        point.acknowledge(500).unwrap();
        assert_eq!(new("plays").unwrap().next_line(), 501);
        assert!(new("others").is_err());
        point.complete().unwrap();
        assert!(!file.exists());
        assert_eq!(new("plays").unwrap().next_line(), 1);
        assert_eq!(new("others").unwrap().next_line(), 1, "nothing was stored of `plays`");
        fs::write(&file, "").unwrap();
        assert!(new("plays").is_err());
    }

    #[test]
    fn a_place_that_cannot_be_kept_is_told_before_anything_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let resume = Some(dir.path().join("nowhere/state"));
        let args = BatchArgs { batch: 500, from_line: 1, resume, skip_bad: false };
        let failure = ResumePoint::new(&args, "plays", Path::new("-")).err().unwrap();
        assert!(failure.to_string().contains("nowhere/state"), "{failure}");
    }
}

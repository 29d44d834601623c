//! The file to import, which is read twice: what can't be (a pipe) is first copied to a temporary file.

use std::{
    fs::File,
    io::{self, Seek},
    path::{Path, PathBuf},
};

use crate::failure::{Failure, Outcome};

/// Something that can be read from its beginning as often as needed.
pub(crate) struct Input {
    path: PathBuf,
    copy: Option<tempfile::NamedTempFile>,
    bytes: u64,
}

impl Input {
    /// `-` is stdin.
    pub(crate) fn new(path: &Path) -> Outcome<Self> {
        let is_stdin = path == Path::new("-");
        if !is_stdin {
            let file = File::open(path).map_err(|error| Failure::file("read", path, &error))?;
            let metadata = file.metadata().map_err(|error| Failure::file("read", path, &error))?;
            if metadata.is_dir() {
                return Err(Failure::usage(format!("{} is a directory; name a file", path.display())));
            }
            if metadata.is_file() {
                return Ok(Input { path: path.to_owned(), copy: None, bytes: metadata.len() });
            }
            return Input::copied(path, file);
        }
        Input::copied(path, io::stdin())
    }

    fn copied(path: &Path, mut from: impl io::Read) -> Outcome<Self> {
        let mut copy = || -> io::Result<(tempfile::NamedTempFile, u64)> {
            let mut target = tempfile::NamedTempFile::with_prefix("anabranch-import-")?;
            let bytes = io::copy(&mut from, &mut target)?;
            target.as_file_mut().rewind()?;
            Ok((target, bytes))
        };
        let failed = |error: io::Error| {
            Failure::other(format!("can't copy the input to {}: {error}", std::env::temp_dir().display()))
                .hint("TMPDIR names another directory")
        };
        let (target, bytes) = copy().map_err(failed)?;
        Ok(Input { path: path.to_owned(), copy: Some(target), bytes })
    }

    /// From the beginning.
    pub(crate) fn open(&self) -> Outcome<File> {
        match &self.copy {
            Some(copy) => copy.reopen().map_err(|error| Failure::file("read", copy.path(), &error)),
            None => File::open(&self.path).map_err(|error| Failure::file("read", &self.path, &error)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

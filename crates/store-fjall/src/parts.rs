//! The parts that every store has from its first open on: fjall's list of keyspaces, our list of tables, the documents, a journal.
//!
//! fjall takes a directory without a manifest for one that was never finished, and deletes it; without its list of keyspaces it
//! deletes every table. So a file that a copy or a careless hand left out would cost everything, and the server would start as if
//! it were new. What must be there is written down, and looked for before fjall opens anything.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    path::Path,
};

use crate::{OpenError, directory::Directory};

const PARTS_FILE: &str = "PARTS";
const DRAFT: &str = "PARTS.new";
const KEYSPACES: &str = "keyspaces";
const MANIFEST: &str = "current";
/// Where fjall keeps its list of keyspaces.
const FJALLS_OWN: &str = "0";

/// Refuses a directory in which something is missing that must be there, or in which fjall would stumble.
pub(crate) fn check(directory: &Directory) -> Result<(), OpenError> {
    let damaged = |reason: String| OpenError::Damaged { dir: directory.path().to_owned(), reason };
    let failed =
        |source: io::Error| OpenError::Io { dir: directory.path().to_owned(), action: "look for files", source };
    let fjall = directory.fjall();
    if !fjall.exists() {
        return match directory.path().join(PARTS_FILE).exists() {
            true => Err(damaged("the directory fjall is missing".to_owned())),
            false => Ok(()),
        };
    }
    check_names(&fjall.join(KEYSPACES)).map_err(failed)?.map_err(damaged)?;
    let parts = match fs::read_to_string(directory.path().join(PARTS_FILE)) {
        Ok(parts) => parts,
        // The first open was cut short, or an older version made the store.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for part in parts.lines() {
        if !fjall.join(KEYSPACES).join(part).join(MANIFEST).is_file() {
            return Err(damaged(format!("the file fjall/{KEYSPACES}/{part}/{MANIFEST} is missing")));
        }
    }
    let mut files = fs::read_dir(&fjall).map_err(failed)?.flatten();
    if !files.any(|file| file.path().extension().is_some_and(|kind| kind == "jnl")) {
        return Err(damaged("the journal (fjall/*.jnl) is missing".to_owned()));
    }
    // It holds nothing, and some copies leave it out; the directory has a lock of its own.
    OpenOptions::new().create(true).append(true).open(fjall.join("lock")).map(drop).map_err(failed)
}

/// A directory that isn't a keyspace's number can't be there.
fn check_names(keyspaces: &Path) -> io::Result<Result<(), String>> {
    let entries = match fs::read_dir(keyspaces) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(())),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        // Files in between don't matter to it.
        if entry.file_type()?.is_dir() && name.to_str().is_none_or(|name| name.parse::<u64>().is_err()) {
            let reason = format!("fjall/{KEYSPACES} holds `{}`, which is no part of a store", name.to_string_lossy());
            return Ok(Err(reason));
        }
    }
    Ok(Ok(()))
}

/// Writes down, once, what must be there from now on. `keyspaces` are the directories of those that every store has.
pub(crate) fn note(directory: &Directory, keyspaces: [&Path; 2]) -> Result<(), OpenError> {
    let path = directory.path();
    if path.join(PARTS_FILE).exists() {
        return Ok(());
    }
    let names = keyspaces.into_iter().filter_map(|keyspace| keyspace.file_name()?.to_str());
    let text: String = std::iter::once(FJALLS_OWN).chain(names).map(|name| format!("{name}\n")).collect();
    let written = || -> io::Result<()> {
        let mut draft = File::create(path.join(DRAFT))?;
        draft.write_all(text.as_bytes())?;
        draft.sync_all()?;
        fs::rename(path.join(DRAFT), path.join(PARTS_FILE))?;
        File::open(path)?.sync_all()
    };
    written().map_err(|source| OpenError::Io { dir: path.to_owned(), action: "write the file PARTS", source })
}

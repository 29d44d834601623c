//! A store's directory: its lock and its format, and nothing of what fjall keeps in it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::FlockOperation;

use crate::OpenError;

/// What the file `FORMAT` of a directory says.
pub(crate) const FORMAT: &str = "anabranch-store 1";

const FORMAT_FILE: &str = "FORMAT";
const FORMAT_DRAFT: &str = "FORMAT.new";
const LOCK_FILE: &str = "LOCK";
const FJALL: &str = "fjall";

/// A process that ends may still hold the lock for a moment, and so does one that only looks.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A directory that this process alone may use, as long as this lives.
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Makes it if need be, locks it, and checks that it is a store, or nothing yet.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(path).map_err(|error| refusal(path, "make the directory", error))?;
        // Before anything is written: what isn't a store stays untouched.
        let is_new = check_content(path)?;
        let lock = lock(path)?;
        if is_new {
            write_format(path).map_err(|error| refusal(path, "write the file FORMAT", error))?;
        }
        Ok(Directory { path: path.to_owned(), _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where fjall's files are.
    pub(crate) fn fjall(&self) -> PathBuf {
        self.path.join(FJALL)
    }

    /// A crash while fjall made its files leaves some that it can't open, but nothing that was ever acknowledged. To be called when
    /// it is known that no part of a finished store is missing.
    pub(crate) fn forget_unfinished(&self) -> Result<(), OpenError> {
        let fjall = self.fjall();
        if !fjall.exists() || fjall.join("version").exists() {
            return Ok(());
        }
        if fs::read_dir(fjall.join("keyspaces")).is_ok_and(|mut entries| entries.next().is_some()) {
            let reason = "fjall/version is missing, and there are tables".to_owned();
            return Err(OpenError::Damaged { dir: self.path.clone(), reason });
        }
        fs::remove_dir_all(&fjall).map_err(|error| refusal(&self.path, "remove an unfinished store", error))
    }
}

/// Where fjall keeps its files in a store's directory.
pub(crate) fn fjall_in(dir: &Path) -> PathBuf {
    dir.join(FJALL)
}

/// What a directory says about its format; `None` when it says nothing.
pub(crate) fn format_of(dir: &Path) -> io::Result<Option<String>> {
    match fs::read(dir.join(FORMAT_FILE)) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Who has the directory open: `None` when nobody, the pid if it is known.
pub(crate) fn user_of(dir: &Path) -> io::Result<Option<Option<u32>>> {
    let mut file = match File::open(dir.join(LOCK_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Some(pid_in(&mut file))),
        Err(error) => Err(error.into()),
    }
}

/// Whether it is new: empty but for what an open that was cut short may have left.
fn check_content(path: &Path) -> Result<bool, OpenError> {
    let format = format_of(path).map_err(|error| refusal(path, "read the file FORMAT", error))?;
    match format {
        Some(found) if found == FORMAT => return Ok(false),
        Some(found) => return Err(OpenError::UnknownFormat { dir: path.to_owned(), found }),
        None => {}
    }
    let entries = fs::read_dir(path).map_err(|error| refusal(path, "list the files", error))?;
    let mut others: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| ![LOCK_FILE, FORMAT_DRAFT, "lost+found"].contains(&name.as_str()))
        .collect();
    if others.is_empty() {
        return Ok(true);
    }
    others.sort();
    let shown = others.iter().take(3).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let found = if others.len() > 3 { format!("{shown} and {} more", others.len() - 3) } else { shown };
    Err(OpenError::OtherContent { dir: path.to_owned(), found })
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let mut file = options.open(path.join(LOCK_FILE)).map_err(|error| refusal(path, "open the file LOCK", error))?;
    for attempt in 1..=LOCK_ATTEMPTS {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if attempt == LOCK_ATTEMPTS => {
                return Err(OpenError::Locked { dir: path.to_owned(), pid: pid_in(&mut file) });
            }
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::park_timeout(LOCK_PAUSE),
            Err(error) => return Err(refusal(path, "lock the file LOCK", error.into())),
        }
    }
    // For people only: the lock is what counts.
    let pid = format!("{}\n", std::process::id());
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(pid.as_bytes()));
    written.map_err(|error| refusal(path, "write the file LOCK", error))?;
    Ok(file)
}

fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// All of it or nothing, whenever the power fails.
fn write_format(path: &Path) -> io::Result<()> {
    let draft = path.join(FORMAT_DRAFT);
    let mut file = File::create(&draft)?;
    writeln!(file, "{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&draft, path.join(FORMAT_FILE))?;
    File::open(path)?.sync_all()?;
    match path.canonicalize()?.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Tells apart what a user can do something about.
fn refusal(path: &Path, action: &'static str, source: io::Error) -> OpenError {
    let dir = path.to_owned();
    match source.kind() {
        ErrorKind::NotADirectory => OpenError::NotADirectory { dir },
        ErrorKind::AlreadyExists if !path.is_dir() => OpenError::NotADirectory { dir },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => OpenError::NotWritable { dir, source },
        _ => OpenError::Io { dir, action, source },
    }
}

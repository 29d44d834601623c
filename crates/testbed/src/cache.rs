//! Where downloads and the data of running servers lie: outside of the tree, shared by all checkouts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::error::{TestbedError, cannot};

/// A ring of three nodes with its jars, and some data in it.
const NEEDED_MIB: u64 = 2048;

/// `$ANABRANCH_CACHE`, else `anabranch` in the user's cache folder. Made when it isn't there.
pub fn directory() -> Result<PathBuf, TestbedError> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = named("ANABRANCH_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("anabranch")))
        .or_else(|| named("HOME").map(|home| home.join(".cache").join("anabranch")))
        .unwrap_or_else(|| std::env::temp_dir().join("anabranch-cache"));
    fs::create_dir_all(&directory).map_err(cannot(format!("make {}", directory.display())))?;
    Ok(directory)
}

/// Refuses when the disk of `path` could fill up: a server whose disk is full fails in ways that don't say so.
pub fn check_room(path: &Path) -> Result<(), TestbedError> {
    let stat =
        rustix::fs::statvfs(path).map_err(|error| cannot(format!("measure {}", path.display()))(error.into()))?;
    judge(path, (stat.f_bavail * stat.f_frsize) >> 20)
}

fn judge(path: &Path, free_mib: u64) -> Result<(), TestbedError> {
    if free_mib < NEEDED_MIB {
        return Err(TestbedError::Disk { path: path.to_owned(), free_mib, needed_mib: NEEDED_MIB });
    }
    Ok(())
}

/// A fresh folder for the data of one server.
pub fn fresh_directory(kind: &str) -> Result<PathBuf, TestbedError> {
    let runs = directory()?.join("runs");
    fs::create_dir_all(&runs).map_err(cannot(format!("make {}", runs.display())))?;
    check_room(&runs)?;
    for attempt in 0..1000 {
        let fresh = runs.join(format!("{kind}-{}-{attempt}", std::process::id()));
        match fs::create_dir(&fresh) {
            Ok(()) => return Ok(fresh),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot(format!("make {}", fresh.display()))(error)),
        }
    }
    Err(TestbedError::Refused(format!("{} is full of old runs: delete them", runs.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_is_refused_before_anything_starts() {
        let error = judge(Path::new("somewhere"), NEEDED_MIB - 1).unwrap_err().to_string();
        assert!(error.contains("2047 MiB") && error.contains("2048"), "{error}");
        judge(Path::new("somewhere"), NEEDED_MIB).unwrap();
    }
}

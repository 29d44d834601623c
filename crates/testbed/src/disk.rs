//! A small disk of its own for one server, in memory, so that it can be filled to the last byte and nobody else's is.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::Command,
};

use crate::error::{TestbedError, cannot};

/// What is written at once while a disk is filled, down to single bytes at the end.
const CHUNK: usize = 1 << 20;

/// A disk that is mounted at a folder. It is taken away by the [watchdog](crate::watchdog) of the folder above, or by
/// [`SmallDisk::unmount`].
#[derive(Clone, Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of this size at a folder, which is made. Only root may.
    pub fn mount(path: &Path, mib: u32) -> Result<Self, TestbedError> {
        fs::create_dir_all(path).map_err(cannot(format!("make {}", path.display())))?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(path);
        run(command, path)?;
        Ok(SmallDisk { path: path.to_owned() })
    }

    /// Whether such a disk can be had here, and if not, why.
    pub fn can_be_had(folder: &Path) -> Result<(), TestbedError> {
        Self::mount(&folder.join("trial"), 1)?.unmount()
    }

    /// Writes until nothing more fits. How many bytes that took.
    pub fn fill(&self) -> Result<u64, TestbedError> {
        let what = || format!("fill {}", self.path.display());
        let mut file = File::options().create(true).append(true).open(self.filler()).map_err(cannot(what()))?;
        let (chunk, mut size) = (vec![b'x'; CHUNK], CHUNK);
        while size > 0 {
            match file.write(&chunk[..size]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => size /= 2,
                Err(error) => return Err(cannot(what())(error)),
            }
        }
        file.metadata().map(|metadata| metadata.len()).map_err(cannot(what()))
    }

    /// Gives the room back that was filled.
    pub fn give_back(&self) -> Result<(), TestbedError> {
        let what = || format!("empty {}", self.path.display());
        // A file that is gone keeps its room while anybody has it open, as a process that is just being started may.
        File::create(self.filler()).map_err(cannot(what()))?;
        fs::remove_file(self.filler()).map_err(cannot(what()))
    }

    /// Takes the disk away, with all that is on it.
    pub fn unmount(self) -> Result<(), TestbedError> {
        let mut command = Command::new("umount");
        command.arg(&self.path);
        run(command, &self.path)
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

fn run(mut command: Command, path: &Path) -> Result<(), TestbedError> {
    let output = command.output().map_err(cannot(format!("start {:?}", command.get_program())))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(TestbedError::Refused(format!("a small disk at {} can't be had: {}", path.display(), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchdog::Watchdog;

    #[test]
    fn a_disk_is_filled_to_the_last_byte_given_back_and_taken_away_by_the_watchdog() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("ring");
        let at = directory.join("node1").join("disk");
        let guard = Watchdog::over(&directory).unwrap();
        let Ok(disk) = SmallDisk::mount(&at, 2) else {
            // Not root: that nothing can be mounted must be told before anything is started.
            assert!(SmallDisk::can_be_had(place.path()).is_err());
            return;
        };
        assert!(disk.fill().unwrap() >= 1 << 20);
        assert_eq!(fs::write(at.join("more"), "x").unwrap_err().kind(), ErrorKind::StorageFull);
        let open_elsewhere = File::open(disk.filler()).unwrap();
        disk.give_back().unwrap();
        fs::write(at.join("more"), "x").unwrap();
        drop(open_elsewhere);
        drop(guard);
        assert!(!directory.exists());
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(&*at.to_string_lossy()), "{mounts}");
    }
}

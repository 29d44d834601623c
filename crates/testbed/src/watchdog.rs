//! Ends processes when the one who started them is gone, however it went: a shell holds the other end of a pipe, and
//! a pipe closes when a test panics, is killed, or simply ends.

use std::{
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::error::{TestbedError, cannot};

/// Waits for the pipe to close, ends each process whose id lies in a `pid` file in the folder or right below it, if its
/// command line still names that folder, takes away the disks that were mounted for them, and deletes the folder.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
read -r _
for file in "$1"/pid "$1"/*/pid; do
    pid=$(cat "$file" 2>/dev/null) || continue
    grep -qsF -- "$1" "/proc/$pid/cmdline" || continue
    kill -9 "$pid" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
done
umount -l "$1"/*/disk 2>/dev/null
rm -rf -- "$1"
"#;

/// Watches over one folder of processes.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Begins to watch over the processes with a `pid` file below `directory`.
    pub fn over(directory: &Path) -> Result<Self, TestbedError> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn().map_err(cannot("start a shell"))?;
        let pipe = shell.stdin.take();
        Ok(Watchdog { shell, pipe })
    }

    /// Stops watching: the processes and their folder stay.
    pub fn call_off(mut self) {
        // By its own id, and before the pipe closes.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        self.pipe = None;
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn victim(directory: &Path) -> Child {
        victim_in(&directory.join("node1"))
    }

    fn victim_in(node: &Path) -> Child {
        fs::create_dir_all(node).unwrap();
        // `sh` keeps its arguments in its command line, so the folder's name is in it.
        let child = Command::new("sh").args(["-c", "read -r _", "sh"]).arg(node).stdin(Stdio::piped()).spawn().unwrap();
        fs::write(node.join("pid"), child.id().to_string()).unwrap();
        child
    }

    #[test]
    fn a_process_of_the_folder_itself_ends_too() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("alone");
        let mut child = victim_in(&directory);
        drop(Watchdog::over(&directory).unwrap());
        assert!(!child.wait().unwrap().success());
        assert!(!directory.exists());
    }

    #[test]
    fn what_was_started_ends_with_the_guard_and_leaves_no_folder() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("ring");
        let mut child = victim(&directory);
        let guard = Watchdog::over(&directory).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _guard = guard;
            panic!("as a test does");
        }));
        assert!(panicked.is_err());
        assert!(!child.wait().unwrap().success());
        assert!(!directory.exists());
    }

    #[test]
    fn a_process_that_only_has_the_same_id_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (ours, theirs) = (place.path().join("ours"), place.path().join("theirs"));
        let mut other = victim(&theirs);
        fs::create_dir_all(ours.join("node1")).unwrap();
        fs::write(ours.join("node1").join("pid"), other.id().to_string()).unwrap();
        drop(Watchdog::over(&ours).unwrap());
        assert!(!ours.exists());
        assert!(other.try_wait().unwrap().is_none(), "it still runs");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

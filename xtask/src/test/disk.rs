//! Free disk before the tests start: a disk that fills up in the middle fails in a hundred ways, none
//! of which says so.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

const KIB_PER_GIB: u64 = 1024 * 1024;
/// Below this nothing is started.
const NEEDED_GIB: u64 = 2;
/// Below this a build from nothing may not fit.
const ADVISED_GIB: u64 = 8;

/// Refuses to start with too little free disk, and warns when it may become too little.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = process::output(Command::new("df").arg("-Pk").arg(root))?;
    let free_kib = free_kib(&text).context("`df -Pk` answered in an unknown form")?;
    match judge(free_kib)? {
        Some(warning) => eprintln!("warning: {warning}"),
        None => println!("{} GiB of disk are free", free_kib / KIB_PER_GIB),
    }
    Ok(())
}

/// An error below what is needed, a warning below what is advised.
fn judge(free_kib: u64) -> Result<Option<String>> {
    let free = free_kib as f64 / KIB_PER_GIB as f64;
    if free_kib < NEEDED_GIB * KIB_PER_GIB {
        bail!(
            "only {free:.1} GiB of disk are free and the tests need {NEEDED_GIB}: \
             make room (`cargo clean` gives back what builds took) and start again"
        );
    }
    let tight = free_kib < ADVISED_GIB * KIB_PER_GIB;
    Ok(tight.then(|| format!("only {free:.1} GiB of disk are free, {ADVISED_GIB} are advised")))
}

/// The fourth column of the last line of `df -Pk`.
fn free_kib(text: &str) -> Option<u64> {
    text.lines().last()?.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_available_column_is_read() {
        let text = "Filesystem 1024-blocks Used Available Capacity Mounted on\n\
                    /dev/vda 264072148 12082316 83886080 13% /\n";
        assert_eq!(free_kib(text), Some(83_886_080));
        assert_eq!(free_kib("nothing"), None);
    }

    #[test]
    fn too_little_disk_is_refused_and_a_tight_one_is_said() {
        assert!(judge(KIB_PER_GIB).is_err());
        assert!(judge(3 * KIB_PER_GIB).unwrap().is_some());
        assert_eq!(judge(80 * KIB_PER_GIB).unwrap(), None);
    }
}

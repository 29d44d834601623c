//! Manifests: every crate takes the lints of the workspace, those forbid `unsafe`, and the lock file
//! is part of the repository.

use super::Violation;
use super::tree::{File, Tree};

const ROOT: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut demand = |path: &str, section: &str, setting: &str| {
        let file = tree.file(path);
        if !file.is_some_and(|file| has_setting(file, section, setting)) {
            let message = format!("`{setting}` is missing under `{section}`: add it");
            violations.push(Violation::new(path, 1, message));
        }
    };
    demand(ROOT, "[workspace.lints.rust]", "unsafe_code = \"forbid\"");
    for package in &tree.packages {
        demand(&package.manifest, "[lints]", "workspace = true");
    }
    if !tree.holds(LOCK) {
        let message = "the lock file is missing or ignored: builds must not change by themselves";
        violations.push(Violation::new(LOCK, 1, message));
    }
    violations
}

fn has_setting(file: &File, section: &str, setting: &str) -> bool {
    let lines = file.text.lines().map(str::trim);
    lines
        .skip_while(|line| *line != section)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .any(|line| line == setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::places;
    use crate::workspace::Package;

    const GOOD_ROOT: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n";
    const GOOD_CRATE: &str = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::of(files);
        tree.packages.push(Package {
            name: "a".to_owned(),
            short: "a".to_owned(),
            manifest: "crates/a/Cargo.toml".to_owned(),
            depends_on: vec![],
        });
        places(&check(&tree))
    }

    #[test]
    fn a_crate_without_the_lints_of_the_workspace_is_found() {
        let bad = "[lints]\n\n[dependencies]\nworkspace = true\n";
        let files = [(ROOT, GOOD_ROOT), (LOCK, ""), ("crates/a/Cargo.toml", bad)];
        assert_eq!(found(&files), ["crates/a/Cargo.toml:1"]);
    }

    #[test]
    fn a_workspace_that_allows_unsafe_is_found() {
        let bad = "[workspace.lints.rust]\nunsafe_code = \"allow\"\n";
        let files = [(ROOT, bad), (LOCK, ""), ("crates/a/Cargo.toml", GOOD_CRATE)];
        assert_eq!(found(&files), ["Cargo.toml:1"]);
    }

    #[test]
    fn a_missing_lock_file_is_found_and_all_in_order_is_not() {
        let files = [(ROOT, GOOD_ROOT), ("crates/a/Cargo.toml", GOOD_CRATE)];
        assert_eq!(found(&files), ["Cargo.lock:1"]);
        let files = [files[0], files[1], (LOCK, "")];
        assert_eq!(found(&files), [""; 0]);
    }
}

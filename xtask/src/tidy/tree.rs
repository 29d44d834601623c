//! The files that the rules look at: everything that is, or would be, committed.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::tokens;
use crate::process;
use crate::workspace::{Package, Workspace};

/// The text files of the repository and the packages in them.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Sorted by path.
    pub(super) files: Vec<File>,
    pub(super) packages: Vec<Package>,
    /// The paths of every file, those without text too.
    pub(super) paths: Vec<String>,
}

/// A text file.
#[derive(Debug)]
pub(super) struct File {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    /// Reads all files that git tracks or would track.
    pub(super) fn read(workspace: &Workspace) -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(&workspace.root)
            // A tree that another user checked out, as build servers have it, is fine to read.
            .args(["-c", "safe.directory=*", "ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"]);
        let listing = process::output(&mut git)?;
        let mut tree = Self { packages: workspace.packages.clone(), ..Self::default() };
        for path in listing.split_terminator('\0') {
            tree.add(&workspace.root, path);
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn add(&mut self, root: &Path, path: &str) {
        // What is deleted but still in the index isn't part of the tree any more.
        let Ok(bytes) = std::fs::read(root.join(path)) else {
            return;
        };
        self.paths.push(path.to_owned());
        if let Ok(text) = String::from_utf8(bytes) {
            let path = path.to_owned();
            self.files.push(File { path, text });
        }
    }

    /// The file of this path, relative to the root.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The files whose name ends so: `.rs`.
    pub(super) fn ending(&self, end: &str) -> impl Iterator<Item = &File> {
        let end = end.to_owned();
        self.files.iter().filter(move |file| file.path.ends_with(&end))
    }

    /// Whether a path is a file, or a folder that holds one.
    pub(super) fn holds(&self, path: &str) -> bool {
        path.is_empty()
            || self.paths.iter().any(|file| {
                let rest = file.strip_prefix(path);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    }
}

impl File {
    /// Its lines with their numbers, counted from one.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }

    /// The lines of a Rust file without comments and without what is inside of literals.
    pub(super) fn code_lines(&self) -> Vec<(usize, String)> {
        let code = tokens::code_only(&self.text);
        let lines = code.lines().enumerate();
        lines.map(|(i, line)| (i + 1, line.to_owned())).collect()
    }

    /// Whether it holds nothing but tests.
    pub(super) fn is_test(&self) -> bool {
        let path = Path::new(&self.path);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        self.path.split('/').any(|part| part == "tests") || stem == "tests" || stem.ends_with("_tests")
    }

    /// The folder it lies in, empty for the root.
    pub(super) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

#[cfg(test)]
impl Tree {
    /// A tree of these files, without packages.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Self {
            files: files.iter().map(file).collect(),
            packages: Vec::new(),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
        }
    }
}

/// The places of violations as `path:line`, for tests to compare.
#[cfg(test)]
pub(super) fn places(violations: &[super::Violation]) -> Vec<String> {
    let place = |v: &super::Violation| format!("{}:{}", v.path, v.line);
    violations.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_by_its_files_and_a_beginning_of_a_name_is_not() {
        let tree = Tree::of(&[("docs/operations/metrics.md", "")]);
        assert!(tree.holds("docs/operations"));
        assert!(tree.holds("docs/operations/metrics.md"));
        assert!(!tree.holds("docs/oper"));
    }

    #[test]
    fn test_files_are_known_by_their_folder_or_name() {
        let tree = Tree::of(&[
            ("crates/model/tests/tokens.rs", ""),
            ("crates/model/src/page/tests.rs", ""),
            ("crates/model/src/page.rs", ""),
        ]);
        let tests: Vec<bool> = tree.files.iter().map(File::is_test).collect();
        assert_eq!(tests, [true, true, false]);
    }
}

//! The shape of Rust files: how they open, what they are called, how long they are, and that a
//! `lib.rs` is only the face of its crate.

use std::path::Path;

use super::Violation;
use super::tokens::has_word;
use super::tree::{File, Tree};

const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helpers", "types", "core", "misc"];
const MAX_LINES: usize = 600;
const MAX_TEST_LINES: usize = 900;

pub(super) fn check_opening(tree: &Tree) -> Vec<Violation> {
    tree.ending(".rs")
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| Violation::new(&file.path, 1, "open with `//!`: what this file is for"))
        .collect()
}

pub(super) fn check_names(tree: &Tree) -> Vec<Violation> {
    let complaint = |name: &str| format!("`{name}` says nothing: name it for its one idea");
    let mut violations = Vec::new();
    for file in tree.ending(".rs") {
        let stem = Path::new(&file.path).with_extension("");
        let parts = stem.iter().map(|part| part.to_string_lossy());
        if let Some(name) = parts.into_iter().find(|part| is_empty_name(part)) {
            violations.push(Violation::new(&file.path, 1, complaint(&name)));
        }
        for (line, code) in file.code_lines() {
            if let Some(name) = inline_module(&code).filter(|name| is_empty_name(name)) {
                violations.push(Violation::new(&file.path, line, complaint(name)));
            }
        }
    }
    for package in &tree.packages {
        let name = package.name.trim_start_matches("anabranch-");
        if is_empty_name(name) {
            violations.push(Violation::new(&package.manifest, 1, complaint(name)));
        }
    }
    violations
}

fn is_empty_name(name: &str) -> bool {
    EMPTY_NAMES.contains(&name)
}

/// The name of a module whose body follows in the same file.
fn inline_module(code: &str) -> Option<&str> {
    let code = code.trim();
    let code = code.strip_prefix("pub ").unwrap_or(code);
    let (name, body) = code.strip_prefix("mod ")?.split_once(' ')?;
    body.starts_with('{').then_some(name)
}

pub(super) fn check_face(tree: &Tree) -> Vec<Violation> {
    tree.ending("src/lib.rs")
        .flat_map(|file| {
            let lines = file.code_lines().into_iter();
            lines.filter(|(_, code)| code.contains("fn ") && has_word(code, "fn")).map(|(line, _)| {
                let message = "a lib.rs holds no logic: move the function to a module";
                Violation::new(&file.path, line, message)
            })
        })
        .collect()
}

pub(super) fn check_size(tree: &Tree) -> Vec<Violation> {
    let limit = |file: &File| match file.is_test() {
        true => MAX_TEST_LINES,
        false => MAX_LINES,
    };
    tree.ending(".rs")
        .filter(|file| file.text.lines().count() > limit(file))
        .map(|file| {
            let (lines, limit) = (file.text.lines().count(), limit(file));
            let message = format!("{lines} lines, more than {limit}: look for the second idea");
            Violation::new(&file.path, limit + 1, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::places;

    #[test]
    fn a_file_that_does_not_open_with_its_purpose_is_found() {
        let tree = Tree::of(&[("a.rs", "//! Good.\n"), ("b.rs", "use std::fmt;\n")]);
        assert_eq!(places(&check_opening(&tree)), ["b.rs:1"]);
    }

    #[test]
    fn a_name_that_says_nothing_is_found_in_folders_files_and_inline_modules() {
        let tree = Tree::of(&[
            ("crates/store/tests/common/mod.rs", ""),
            ("crates/store/src/utils.rs", ""),
            ("crates/store/src/block.rs", "mod commons;\nmod helpers {\n}\n"),
        ]);
        let expected =
            ["crates/store/tests/common/mod.rs:1", "crates/store/src/utils.rs:1", "crates/store/src/block.rs:2"];
        assert_eq!(places(&check_names(&tree)), expected);
    }

    #[test]
    fn a_crate_whose_name_says_nothing_is_found() {
        let mut tree = Tree::default();
        tree.packages.push(crate::workspace::Package {
            name: "anabranch-core".to_owned(),
            short: "center".to_owned(),
            manifest: "crates/center/Cargo.toml".to_owned(),
            depends_on: vec![],
        });
        assert_eq!(places(&check_names(&tree)), ["crates/center/Cargo.toml:1"]);
    }

    #[test]
    fn a_function_in_a_lib_rs_is_found_and_one_in_its_documentation_is_not() {
        let text = "//! fn main() {}\npub type Hook = fn(u8);\npub fn add() -> u8 {\n    1\n}\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", text), ("crates/a/src/b.rs", text)]);
        assert_eq!(places(&check_face(&tree)), ["crates/a/src/lib.rs:3"]);
    }

    #[test]
    fn a_long_file_is_found_and_a_test_may_be_longer() {
        let long = "\n".repeat(601);
        let tree = Tree::of(&[("src/a.rs", &long), ("tests/a.rs", &long), ("a.md", &long)]);
        assert_eq!(places(&check_size(&tree)), ["src/a.rs:601"]);
        let longer = "\n".repeat(901);
        let tree = Tree::of(&[("tests/a.rs", &longer)]);
        assert_eq!(places(&check_size(&tree)), ["tests/a.rs:901"]);
    }
}

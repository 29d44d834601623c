//! Invariants: each one that is said to be proven is cited, by its id, by a test.

use super::Violation;
use super::tokens::has_word;
use super::tree::{File, Tree};

/// The invariants that hold now; the list grows with what is built.
const PROVEN: &[&str] =
    &["W1", "W2", "W3", "R1", "R2", "R3", "R4", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "T1", "L1"];
const LINE_OF_PROVEN: usize = line!() as usize - 2;
const THIS_FILE: &str = "xtask/src/tidy/invariants.rs";

/// The simulation is a test from end to end.
const SIMULATION: &str = "crates/sim/";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let tests: Vec<&str> = tree.ending(".rs").filter(|file| !file.path.starts_with("xtask/")).map(test_text).collect();
    let proven = PROVEN.iter();
    proven
        .filter(|id| !tests.iter().any(|text| has_word(text, id)))
        .map(|id| {
            let message = format!("no test cites {id}: name the id in the test that proves it");
            Violation::new(THIS_FILE, LINE_OF_PROVEN, message)
        })
        .collect()
}

/// The part of a file that is tests.
fn test_text(file: &File) -> &str {
    if file.is_test() || file.path.starts_with(SIMULATION) {
        return &file.text;
    }
    let module = file.text.find("#[cfg(test)]");
    module.map_or("", |start| &file.text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const CITED: &str =
        "// W1 W2 W3\n#[cfg(test)]\nmod tests {\n    // W1, W2, W3, R1, R4\n    // S1 S2 S3 S4 S5 S6 S7 T1 L1\n}\n";

    #[test]
    fn an_invariant_that_no_test_cites_is_found() {
        let tree = Tree::of(&[
            ("crates/engine/src/write.rs", CITED),
            ("crates/engine/src/read.rs", "// R2: said, not proven\n"),
            ("crates/engine/tests/pages.rs", "// R30\n"),
        ]);
        let missing = check(&tree);
        let ids: Vec<&str> = missing.iter().map(|v| &v.message[14..16]).collect();
        assert_eq!(ids, ["R2", "R3"]);
    }

    #[test]
    fn test_files_test_modules_and_the_simulation_count() {
        let tree = Tree::of(&[
            ("crates/engine/src/write.rs", CITED),
            ("crates/engine/tests/pages.rs", "// R2\n"),
            ("crates/sim/src/oracle.rs", "// R3\n"),
        ]);
        assert_eq!(check(&tree), []);
    }
}

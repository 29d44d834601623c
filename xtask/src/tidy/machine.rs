//! What belongs to one machine or one way of working, and so to nobody who clones the repository:
//! absolute paths, private registries, the talk of a plan.

use super::Violation;
use super::tokens::has_word;
use super::tree::{File, Tree};

// Put together here so that this file doesn't break its own rule.
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
const OUTSIDE: &str = concat!("../sha", "red");
const TALK: &[&str] = &[
    concat!("issue", " #"),
    concat!("mile", "stone"),
    concat!("spr", "int"),
    concat!("deliver", "able"),
    concat!("stake", "holder"),
    concat!("acceptance ", "criteria"),
];

const PUBLIC_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.files {
        for (line, text) in file.lines() {
            if let Some(message) = complaint(file, text) {
                violations.push(Violation::new(&file.path, line, message));
            }
        }
    }
    violations
}

fn complaint(file: &File, text: &str) -> Option<String> {
    if let Some(home) = HOMES.iter().find(|home| has_path(text, home)) {
        return Some(format!("`{home}` is a path of one machine: make it relative"));
    }
    if text.contains(OUTSIDE) {
        return Some(format!("`{OUTSIDE}` lies outside of the repository: take it out"));
    }
    let lower = text.to_lowercase();
    if let Some(word) = TALK.iter().find(|word| says(&lower, word)) {
        return Some(format!("`{word}` is about the way of working: say what is true of the product"));
    }
    let private = match file.path.as_str() {
        "Cargo.lock" => is_private_source(text),
        path if path.starts_with(".cargo/") => replaces_the_registry(text),
        _ => false,
    };
    private.then(|| "dependencies come from crates.io only: take the registry out".to_owned())
}

/// Whether an absolute path begins with `home`: what stands before it isn't part of a longer path.
fn has_path(text: &str, home: &str) -> bool {
    text.match_indices(home).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"_-.}~*".contains(c))
    })
}

fn says(text: &str, word: &str) -> bool {
    match word.ends_with('#') {
        true => text.contains(word),
        false => has_word(text, word) || has_word(text, &format!("{word}s")),
    }
}

fn is_private_source(line: &str) -> bool {
    let source = line.strip_prefix("source = \"");
    source.is_some_and(|source| source.trim_end_matches('"') != PUBLIC_REGISTRY)
}

fn replaces_the_registry(line: &str) -> bool {
    let line = line.trim_start();
    ["[source", "[registries", "[registry", "replace-with"].iter().any(|setting| line.starts_with(setting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::places;

    fn found(path: &str, text: &str) -> Vec<String> {
        places(&check(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_any_file() {
        for home in HOMES {
            assert_eq!(found("a.md", &format!("\nsee `{home}me/notes`\n")), ["a.md:2"]);
            assert_eq!(found("a.md", &format!("https://example.org{home}page")), [""; 0]);
        }
    }

    #[test]
    fn a_path_out_of_the_repository_is_found() {
        assert_eq!(found("a.md", &format!("[x]({OUTSIDE}/x.md)")), ["a.md:1"]);
    }

    #[test]
    fn talk_about_the_way_of_working_is_found_as_whole_words() {
        for word in TALK {
            assert_eq!(found("a.rs", &format!("// For {word}, later")), ["a.rs:1"]);
        }
        assert_eq!(found("a.rs", &format!("// A{}er.", TALK[2])), [""; 0]);
    }

    #[test]
    fn a_private_registry_is_found() {
        let public = format!("source = \"{PUBLIC_REGISTRY}\"\n");
        assert_eq!(found("Cargo.lock", &public), [""; 0]);
        let private = "name = \"a\"\nsource = \"registry+https://mirror.example.org/index\"\n";
        assert_eq!(found("Cargo.lock", private), ["Cargo.lock:2"]);
        let config = "[alias]\n[source.crates-io]\nreplace-with = \"mirror\"\n";
        let expected = [".cargo/config.toml:2", ".cargo/config.toml:3"];
        assert_eq!(found(".cargo/config.toml", config), expected);
    }
}

//! What may not stand in Rust code: unfinished work, tests left out, and time taken from elsewhere
//! than `runtime`. Comments and literals are told apart from code by a small scanner.

use super::Violation;
use super::tree::Tree;

const UNFINISHED_CODE: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];
const UNFINISHED_WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// A fence that keeps an example in the documentation from being tested.
const UNTESTED_EXAMPLE: &str = concat!("```", "ignore");

const TIME: &[&str] = &["thread::sleep", "time::sleep", "SystemTime::now", "Instant::now"];
/// Who may ask for the time: the door to it, tools that measure, and what waits for real servers.
const TIMEKEEPERS: &[&str] = &[
    "crates/runtime/",
    "crates/client/src/wait.rs",
    "crates/sim/src/main.rs",
    "crates/testbed/",
    "crates/cli/tests/on_ring/",
    "xtask/",
    "bench/",
];

pub(super) fn check_unfinished(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.ending(".rs") {
        let mut found = |line, token: &str| {
            let message = format!("`{token}`: finish it, or take it out");
            violations.push(Violation::new(&file.path, line, message));
        };
        for (line, code) in file.code_lines() {
            let tokens = UNFINISHED_CODE.iter();
            tokens.filter(|token| code.contains(**token)).for_each(|token| found(line, token));
        }
        for (line, text) in file.lines() {
            let words = UNFINISHED_WORDS.iter();
            words.filter(|word| has_word(text, word)).for_each(|word| found(line, word));
            if text.contains(UNTESTED_EXAMPLE) {
                found(line, UNTESTED_EXAMPLE);
            }
        }
    }
    violations
}

pub(super) fn check_time(tree: &Tree) -> Vec<Violation> {
    let files = tree.ending(".rs");
    let files = files.filter(|file| !TIMEKEEPERS.iter().any(|home| file.path.starts_with(home)));
    let mut violations = Vec::new();
    for file in files {
        for (line, code) in file.code_lines() {
            for call in TIME.iter().filter(|call| code.contains(**call)) {
                let message = format!("`{call}`: take time from `runtime`, wait for a condition");
                violations.push(Violation::new(&file.path, line, message));
            }
        }
    }
    violations
}

/// Whether a text holds a word that isn't a part of a longer one.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Rust source with comments and the inside of literals blanked, line by line as it was.
pub(super) fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = at + opaque_length(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
            continue;
        }
        let blank = |&c: &char| if c == '\n' { '\n' } else { ' ' };
        code.extend(chars[at..end].iter().map(blank));
        at = end;
    }
    code
}

/// How long the comment or literal is that begins here; 0 when none does.
fn opaque_length(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => rest.iter().take_while(|c| **c != '\n').count(),
        ['/', '*', ..] => block_comment_length(rest),
        ['"', ..] => quoted_length(rest, '"'),
        ['\'', '\\', ..] => quoted_length(rest, '\''),
        ['\'', _, '\'', ..] => 3,
        ['r', ..] if !follows_a_name(chars, at) => raw_string_length(rest),
        _ => 0,
    }
}

fn block_comment_length(rest: &[char]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (at, depth) = (at + 2, depth + 1),
            ['*', '/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

fn quoted_length(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw_string_length(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    let open = 1 + hashes;
    if rest.get(open) != Some(&'"') {
        return 0;
    }
    let closes = |at: &usize| {
        let end = rest[*at] == '"';
        end && rest[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    let close = (open + 1..rest.len()).find(closes);
    close.map_or(rest.len(), |at| at + 1 + hashes)
}

/// Whether the `r` here is the end of a name, not the beginning of `r"…"`, `br"…"` or `cr"…"`.
fn follows_a_name(chars: &[char], at: usize) -> bool {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    match chars[..at] {
        [.., before, 'b' | 'c'] => is_part(&before),
        ['b' | 'c'] => false,
        [.., before] => is_part(&before),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::places;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_kept() {
        let cases = [
            ("a(); // dbg!", "a();"),
            ("a /* x /* y */ z */ b", "a                   b"),
            (r#"f("\" // no", 'x', '\'')"#, "f(          ,    ,     )"),
            (r##"f(r#"a" b"#, br"c")"##, "f(         , b    )"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("r#type + for_r", "r#type + for_r"),
            ("'\"' + x + '\"'", "    + x +"),
        ];
        for (source, expected) in cases {
            assert_eq!(code_only(source).trim_end(), expected, "{source}");
        }
        assert_eq!(code_only("\"a\nb\" c"), "  \n   c");
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_comments_and_not_in_literals() {
        let word = UNFINISHED_WORDS[0];
        let text = format!(
            "//! Page.\nfn f() {{ todo!() }}\n// {word}: later\nlet s = \"dbg!\";\n#[ignore = \"slow\"]\n\
             // METHOD{word}S\n/// {UNTESTED_EXAMPLE}\n"
        );
        let tree = Tree::of(&[("a.rs", &text)]);
        let found = places(&check_unfinished(&tree));
        assert_eq!(found, ["a.rs:2", "a.rs:5", "a.rs:3", "a.rs:7"]);
    }

    #[test]
    fn time_is_found_everywhere_but_with_its_keepers() {
        let text = "fn f() {\n    std::thread::sleep(x);\n    // Instant::now\n    Instant::now();\n}\n";
        let tree = Tree::of(&[("crates/store/src/a.rs", text), ("crates/runtime/src/a.rs", text)]);
        let expected = ["crates/store/src/a.rs:2", "crates/store/src/a.rs:4"];
        assert_eq!(places(&check_time(&tree)), expected);
    }
}

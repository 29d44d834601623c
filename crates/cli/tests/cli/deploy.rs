//! The files in `deploy/` can't be tried where there are no containers; that the program understands what they start it with can be.

use std::path::Path;

use crate::harness::alone;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// What follows each `command: >`, as far as it is indented deeper.
fn commands_of_compose(text: &str) -> Vec<Vec<String>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let begun = lines.iter().enumerate().filter(|(_, line)| line.trim() == "command: >");
    begun
        .map(|(at, line)| {
            let folded = lines[at + 1..].iter().take_while(|next| indent(next) > indent(line));
            folded.flat_map(|line| words(line)).collect()
        })
        .collect()
}

/// What stands behind this at the beginning of a line.
fn behind<'a>(text: &'a str, beginning: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.strip_prefix(beginning))
}

#[test]
fn the_program_understands_every_command_line_in_deploy() {
    let mut lines = commands_of_compose(&file("compose.yaml"));
    assert_eq!(lines.len(), 2, "a server, which the other server shares, and a worker");
    lines.extend(behind(&file("Containerfile"), "CMD ").map(|list| serde_json::from_str(list).unwrap()));
    for unit in ["anabranch.service", "anabranch-worker.service"] {
        lines.extend(behind(&file(unit), "ExecStart=/usr/local/bin/anabranch ").map(words));
    }
    assert_eq!(lines.len(), 5, "{lines:?}");
    for line in lines {
        // Everything is read before help is given.
        let args: Vec<&str> = line.iter().map(String::as_str).chain(["--help"]).collect();
        let said = alone(&args).ok();
        assert!(said.contains(&format!("Usage: anabranch {}", line[0])), "{line:?}: {said}");
    }
    alone(&["serve", "--no-such-flag", "--help"]).fails(2);
}

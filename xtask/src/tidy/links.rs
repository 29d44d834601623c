//! Links between pages: a relative link in Markdown leads to a file or folder of the repository.
//! Addresses elsewhere aren't asked.

use super::Violation;
use super::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for page in tree.ending(".md") {
        for (line, text) in prose(page) {
            for target in targets(&text).into_iter().filter(|target| is_relative(target)) {
                let leads_somewhere = resolve(page.folder(), target).is_some_and(|path| tree.holds(&path));
                if !leads_somewhere {
                    let message = format!("`{target}` leads nowhere: correct or remove the link");
                    violations.push(Violation::new(&page.path, line, message));
                }
            }
        }
    }
    violations
}

/// The lines of a page without its code, in which brackets mean something else.
fn prose(page: &File) -> Vec<(usize, String)> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for (line, text) in page.lines() {
        if text.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            lines.push((line, without_code(text)));
        }
    }
    lines
}

/// A line without what stands between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The targets of `[text](target)` and of `[label]: target`.
fn targets(text: &str) -> Vec<&str> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let labelled = text.starts_with('[').then(|| text.split_once("]: "));
    let labelled = labelled.flatten().map(|(_, target)| target);
    inline
        .chain(labelled)
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']))
        .collect()
}

fn is_relative(target: &str) -> bool {
    !target.starts_with('#') && !target.contains("://") && !target.starts_with("mailto:")
}

/// The path that a target means from a folder; `None` when it leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or(target);
    let (folder, target) = match target.strip_prefix('/') {
        Some(from_root) => ("", from_root),
        None => (folder, target),
    };
    let mut path: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                path.pop()?;
            }
            name => path.push(name),
        }
    }
    Some(path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::places;

    fn found(text: &str) -> Vec<String> {
        places(&check(&Tree::of(&[("docs/page.md", text), ("docs/decisions/0001-names.md", ""), ("README.md", "")])))
    }

    #[test]
    fn links_to_files_folders_places_and_addresses_are_fine() {
        let text = "[a](decisions/0001-names.md#why) [b](../README.md \"title\") [c](decisions)\n\
                    [d](#here) [e](https://example.org/x) [f](mailto:a@example.org)\n\
                    [g]: decisions/\n";
        assert_eq!(found(text), [""; 0]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        assert_eq!(found("# Page\nSee [a](gone.md) now.\n"), ["docs/page.md:2"]);
        assert_eq!(found("[a]: gone.md\n"), ["docs/page.md:1"]);
    }

    #[test]
    fn a_link_out_of_the_repository_is_found() {
        assert_eq!(found("[a](../../README.md)\n"), ["docs/page.md:1"]);
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(found("`f[0](x)`\n```\n[a](gone.md)\n```\n"), [""; 0]);
    }
}

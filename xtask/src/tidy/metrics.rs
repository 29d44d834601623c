//! Metrics: the code, the table in docs/metrics.md, the Grafana dashboard and the alerts name the same ones, and every alert is
//! explained in docs/operations.md.

use std::collections::BTreeSet;

use super::Violation;
use super::tree::{File, Tree};

const TABLE: &str = "docs/metrics.md";
const ALERTS: &str = "deploy/alerts.yaml";
const DASHBOARD: &str = "deploy/grafana-dashboard.json";
const EXPLAINED: &str = "docs/operations.md";
const PREFIX: &str = "anabranch_";
/// What Prometheus makes of a histogram.
const HISTOGRAM_ENDS: [&str; 3] = ["_bucket", "_sum", "_count"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let registered: Vec<(&File, usize, String)> = tree
        .ending(".rs")
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/") && !file.is_test())
        .flat_map(|file| literals(file).into_iter().map(move |(line, name)| (file, line, name)))
        .collect();
    let Some(table) = tree.file(TABLE) else {
        let first = registered.first();
        return first
            .map(|(file, line, _)| Violation::new(&file.path, *line, format!("there is no {TABLE}: write it")))
            .into_iter()
            .collect();
    };
    let documented = rows(table);
    let known: BTreeSet<&str> = documented.iter().map(|(_, name)| name.as_str()).collect();
    let mut violations = Vec::new();
    for (file, line, name) in &registered {
        if !known.contains(name.as_str()) {
            violations.push(Violation::new(&file.path, *line, format!("`{name}` has no row in {TABLE}: add it")));
        }
    }
    for (line, name) in &documented {
        if !registered.iter().any(|(_, _, registered)| registered == name) {
            violations.push(Violation::new(TABLE, *line, format!("nobody counts `{name}`: remove the row")));
        }
    }
    for file in [ALERTS, DASHBOARD].iter().filter_map(|path| tree.file(path)) {
        for (line, text) in file.lines() {
            for name in words(text).filter(|name| !is_known(name, &known)) {
                violations.push(Violation::new(&file.path, line, format!("`{name}` has no row in {TABLE}")));
            }
        }
    }
    violations.extend(unexplained(tree));
    violations
}

/// Alerts that docs/operations.md doesn't name.
fn unexplained(tree: &Tree) -> Vec<Violation> {
    let Some(alerts) = tree.file(ALERTS) else { return Vec::new() };
    let pages = tree.file(EXPLAINED).map_or("", |file| file.text.as_str());
    let named = |line: &str| line.trim().strip_prefix("- alert: ").map(|name| name.trim().to_owned());
    let named = alerts.lines().filter_map(|(line, text)| Some((line, named(text)?)));
    named
        .filter(|(_, name)| !pages.contains(&format!("`{name}`")))
        .map(|(line, name)| {
            Violation::new(ALERTS, line, format!("say in {EXPLAINED} what `{name}` means and what to do"))
        })
        .collect()
}

/// Whole string literals that name a metric.
fn literals(file: &File) -> Vec<(usize, String)> {
    let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let parts = line.split('"').skip(1).step_by(2);
        // `anabranch_engine=debug` and the like are no names.
        let names = parts.filter(|part| words(part).next() == Some(part) && !part.ends_with('_'));
        let names = names.filter(|name| !["anabranch_engine", "anabranch_server"].contains(name));
        found.extend(names.map(|name| (index + 1, name.to_owned())));
    }
    found
}

/// The names in the first column of the table.
fn rows(table: &File) -> Vec<(usize, String)> {
    let first = |text: &str| Some(text.strip_prefix("| `")?.split('`').next()?.to_owned());
    table.lines().filter_map(|(line, text)| Some((line, first(text)?))).collect()
}

/// Names of metrics in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.starts_with(PREFIX))
}

fn is_known(name: &str, known: &BTreeSet<&str>) -> bool {
    known.contains(name)
        || HISTOGRAM_ENDS.iter().any(|end| name.strip_suffix(end).is_some_and(|name| known.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::places;

    const CODE: &str =
        "fn f() {\n    count(\"anabranch_pages_total\", \"Pages\");\n    wide(\"anabranch_page_seconds\");\n}\n";
    const ROWS: &str = "| `anabranch_pages_total` | counter |\n| `anabranch_page_seconds` | histogram |\n";

    fn found(code: &str, table: &str, alerts: &str, page: &str) -> Vec<String> {
        let files = [("crates/engine/src/metrics.rs", code), (TABLE, table), (ALERTS, alerts), (EXPLAINED, page)];
        places(&check(&Tree::of(&files)))
    }

    #[test]
    fn code_table_and_alerts_that_agree_are_fine() {
        let alerts = "- alert: Slow\n  expr: rate(anabranch_page_seconds_bucket[5m]) > anabranch_pages_total\n";
        assert_eq!(found(CODE, ROWS, alerts, "`Slow`: look"), [""; 0]);
    }

    #[test]
    fn a_metric_without_a_row_and_a_row_without_a_metric_are_found() {
        assert_eq!(found(CODE, "| `anabranch_pages_total` |\n", "", ""), ["crates/engine/src/metrics.rs:3"]);
        let more = format!("{ROWS}| `anabranch_gone` |\n");
        assert_eq!(found(CODE, &more, "", ""), ["docs/metrics.md:3"]);
    }

    #[test]
    fn alerts_on_nothing_and_alerts_that_nobody_explains_are_found() {
        let alerts = "- alert: Slow\n  expr: anabranch_gone > 0\n";
        assert_eq!(found(CODE, ROWS, alerts, "`Slow`"), ["deploy/alerts.yaml:2"]);
        assert_eq!(found(CODE, ROWS, "- alert: Slow\n", "Slow"), ["deploy/alerts.yaml:1"]);
    }
}

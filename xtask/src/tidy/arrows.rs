//! Arrows between crates: the table on the architecture page says what each may depend on, and cargo
//! says what it does depend on.

use std::collections::BTreeMap;

use super::Violation;
use super::tree::{File, Tree};
use crate::workspace::Package;

const PAGE: &str = "docs/architecture.md";
const HEADER: [&str; 3] = ["crate", "its job", "may depend on"];
const NOTHING: &str = "nothing";
const ANY_PRODUCT_CRATE: &str = "any product crate";
/// Where the product's crates lie.
const PRODUCT: &str = "crates/";

/// A row of the table: the line it stands on and what its crate may depend on.
#[derive(Debug)]
struct Row {
    line: usize,
    allowed: Allowed,
}

#[derive(Debug)]
enum Allowed {
    Named(Vec<String>),
    AnyProductCrate,
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.file(PAGE) else {
        return vec![Violation::new(PAGE, 1, "the architecture page is missing")];
    };
    let rows = read_table(page);
    if rows.is_empty() {
        let message = format!("no table `| {} |`: write one", HEADER.join(" | "));
        return vec![Violation::new(PAGE, 1, message)];
    }
    let mut violations = check_rows(&rows, &tree.packages);
    for package in &tree.packages {
        match rows.get(&package.short) {
            Some(row) => violations.extend(check_package(package, row, tree)),
            None => {
                let message = format!("`{}` has no row in {PAGE}: add one", package.short);
                violations.push(Violation::new(&package.manifest, 1, message));
            }
        }
    }
    violations
}

fn read_table(page: &File) -> BTreeMap<String, Row> {
    page.lines()
        .skip_while(|(_, line)| cells(line) != HEADER)
        .skip(2)
        .map_while(|(line, text)| match cells(text)[..] {
            [name, _, allowed] => Some((line, name, allowed)),
            _ => None,
        })
        .map(|(line, name, allowed)| {
            let allowed = Allowed::read(allowed);
            (unquoted(name).to_owned(), Row { line, allowed })
        })
        .collect()
}

/// The cells of a table's line; none for any other line.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|');
    let inner = inner.and_then(|line| line.strip_suffix('|'));
    inner.map_or_else(Vec::new, |line| line.split('|').map(str::trim).collect())
}

fn unquoted(name: &str) -> &str {
    name.trim().trim_matches('`')
}

impl Allowed {
    fn read(cell: &str) -> Self {
        match cell {
            NOTHING => Self::Named(Vec::new()),
            ANY_PRODUCT_CRATE => Self::AnyProductCrate,
            names => Self::Named(names.split(',').map(|n| unquoted(n).to_owned()).collect()),
        }
    }

    fn allows(&self, target: &Package) -> bool {
        match self {
            Self::Named(names) => names.contains(&target.short),
            Self::AnyProductCrate => target.manifest.starts_with(PRODUCT),
        }
    }
}

/// Rows and names in the table that no crate stands behind.
fn check_rows(rows: &BTreeMap<String, Row>, packages: &[Package]) -> Vec<Violation> {
    let exists = |name: &String| packages.iter().any(|package| package.short == *name);
    let mut violations = Vec::new();
    for (name, row) in rows {
        let named = match &row.allowed {
            Allowed::Named(names) => names.as_slice(),
            Allowed::AnyProductCrate => &[],
        };
        for unknown in std::iter::once(name).chain(named).filter(|n| !exists(n)) {
            let message = format!("there is no crate `{unknown}`: take it out of the table");
            violations.push(Violation::new(PAGE, row.line, message));
        }
    }
    violations
}

fn check_package(package: &Package, row: &Row, tree: &Tree) -> Vec<Violation> {
    let targets = tree.packages.iter();
    targets
        .filter(|target| package.depends_on.contains(&target.name))
        .filter(|target| !row.allowed.allows(target))
        .map(|target| {
            let line = manifest_line(tree, package, &target.name);
            let (from, to) = (&package.short, &target.short);
            let message = format!("`{from}` may not depend on `{to}`: take it out, or change {PAGE}:{}", row.line);
            Violation::new(&package.manifest, line, message)
        })
        .collect()
}

fn manifest_line(tree: &Tree, package: &Package, dependency: &str) -> usize {
    let is_dependency = |line: &str| {
        let rest = line.strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    let lines = tree.file(&package.manifest).map(File::lines);
    lines.and_then(|mut lines| lines.find(|(_, line)| is_dependency(line))).map_or(1, |(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::places;

    const TABLE: &str = "# Map\n\n| crate | its job | may depend on |\n|---|---|---|\n\
                         | `model` | ids | nothing |\n| `store` | keeps | `model` |\n\
                         | `bench` | measures | any product crate |\n\nMore text.\n";

    fn package(folder: &str, depends_on: &[&str]) -> Package {
        let short = folder.rsplit('/').next().unwrap().to_owned();
        Package {
            name: format!("anabranch-{short}"),
            short,
            manifest: format!("{folder}/Cargo.toml"),
            depends_on: depends_on.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn check_with(model: &[&str], store: &[&str], bench: &[&str]) -> Vec<Violation> {
        let manifest = "[dependencies]\nanabranch-store-fjall.workspace = true\n\
                        anabranch-store.workspace = true\n";
        let mut tree = Tree::of(&[(PAGE, TABLE), ("crates/model/Cargo.toml", manifest)]);
        tree.packages = vec![package("crates/model", model), package("crates/store", store), package("bench", bench)];
        check(&tree)
    }

    #[test]
    fn arrows_that_the_table_lists_are_fine() {
        let bench = ["anabranch-model", "anabranch-store"];
        assert_eq!(check_with(&[], &["anabranch-model"], &bench), []);
    }

    #[test]
    fn an_arrow_that_the_table_does_not_list_is_found_in_the_manifest() {
        let violations = check_with(&["anabranch-store"], &[], &[]);
        assert_eq!(places(&violations), ["crates/model/Cargo.toml:3"]);
        assert!(violations[0].message.contains("docs/architecture.md:5"));
    }

    #[test]
    fn any_product_crate_does_not_mean_a_tool() {
        let violations = check_with(&[], &[], &["anabranch-bench"]);
        assert_eq!(places(&violations), ["bench/Cargo.toml:1"]);
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let mut tree = Tree::of(&[(PAGE, TABLE)]);
        tree.packages = vec![package("crates/model", &[]), package("crates/bus", &[]), package("bench", &[])];
        let expected = ["docs/architecture.md:6", "crates/bus/Cargo.toml:1"];
        assert_eq!(places(&check(&tree)), expected);
    }

    #[test]
    fn a_missing_page_or_table_is_found() {
        assert_eq!(check(&Tree::of(&[])).len(), 1);
        assert_eq!(check(&Tree::of(&[(PAGE, "# Map\n")])).len(), 1);
    }
}

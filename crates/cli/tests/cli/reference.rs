//! `docs/configuration.md` is what the program says of itself.

use crate::harness::alone;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
/// Set by `cargo xtask docs`: the page is written instead of compared.
const WRITE: &str = "ANABRANCH_WRITE_PAGES";

#[test]
fn the_page_in_docs_is_what_config_prints() {
    let wanted = alone(&["config", "--reference"]).ok();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(PAGE, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(PAGE).unwrap_or_default();
    let differs = found.lines().zip(wanted.lines()).position(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "docs/configuration.md is not what `anabranch config --reference` prints, from line {} on: run `cargo xtask docs`",
        differs.unwrap_or_else(|| found.lines().count().min(wanted.lines().count())) + 1
    );
}

//! `docs/api.md` is what the protos say.

use anabranch_api::{FILE_DESCRIPTOR_SET, openapi};
use prost::Message as _;
use prost_types::FileDescriptorSet;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
/// Set by `cargo xtask docs`: the page is written instead of compared.
const WRITE: &str = "ANABRANCH_WRITE_PAGES";

#[test]
fn the_page_in_docs_is_what_the_protos_say() {
    let wanted = openapi::reference();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(PAGE, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(PAGE).unwrap_or_default();
    let differs = found.lines().zip(wanted.lines()).position(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "docs/api.md is not what the protos say, from line {} on: run `cargo xtask docs`",
        differs.unwrap_or_else(|| found.lines().count().min(wanted.lines().count())) + 1
    );
}

#[test]
fn every_rpc_message_field_and_value_is_explained_in_the_reference() {
    let page = openapi::reference();
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let ours = set.file.iter().filter(|file| file.package() == "anabranch.v1");
    let (mut rpcs, mut fields) = (0, 0);
    for file in ours {
        for service in &file.service {
            for method in &service.method {
                let heading = format!("\n### {}\n\n`", method.name());
                assert!(page.contains(&heading), "{}", method.name());
                rpcs += 1;
            }
        }
        for message in &file.message_type {
            for field in &message.field {
                assert!(page.contains(&format!("| `{}` | ", field.name())), "{}.{}", message.name(), field.name());
                fields += 1;
            }
        }
    }
    assert!(rpcs > 30 && fields > 200, "{rpcs} rpcs, {fields} fields");
    let empty: Vec<&str> = page.lines().filter(|line| line.starts_with("| `") && line.ends_with("|  |")).collect();
    assert_eq!(empty, [""; 0], "each field and value needs a comment in the proto");
}

#[test]
fn links_within_the_reference_lead_to_its_headings() {
    let page = openapi::reference();
    let headings = page.lines().filter_map(|line| line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")));
    let anchors: Vec<String> =
        headings.map(|heading| heading.to_ascii_lowercase().replace('.', "").replace(' ', "-")).collect();
    let mut links = 0;
    for target in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(anchors.iter().any(|anchor| anchor == target), "#{target} leads nowhere");
        links += 1;
    }
    assert!(links > 80, "{links}");
}

//! Compiles `proto/` without protoc: Rust types, gRPC clients and servers, their JSON form, and the descriptor set
//! that gRPC reflection and the OpenAPI page are made of.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

/// Our own well-known types, because their JSON form must be canonical to the last digit.
const WELL_KNOWN: [(&str, &str); 2] =
    [(".google.protobuf.Timestamp", "crate::wkt::Timestamp"), (".google.protobuf.Duration", "crate::wkt::Duration")];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed={}", root.display());

    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(proto_files(&root.join("anabranch/v1"))?)?;
    let descriptors = compiler.file_descriptor_set();
    let encoded = descriptors.encode_to_vec();
    fs::write(out.join("descriptors.bin"), &encoded)?;

    let mut config = tonic_prost_build::Config::new();
    // Names for `google.rpc.Status.details`: `type.googleapis.com/anabranch.v1.WriteOutcome`.
    config.enable_type_names().type_name_domain(["."], "type.googleapis.com");
    let mut messages =
        tonic_prost_build::configure().compile_well_known_types(true).emit_rerun_if_changed(false).bytes(".");
    messages = messages.codec_path("crate::codec::MessageCodec");
    let mut json = pbjson_build::Builder::new();
    json.register_descriptors(&encoded)?;
    for (proto, rust) in WELL_KNOWN {
        messages = messages.extern_path(proto, rust);
        json.extern_path(proto, rust);
    }
    messages.compile_fds_with_config(descriptors, config)?;
    json.build(&[".anabranch.v1"])?;
    Ok(())
}

/// Every proto file of a folder, in a fixed order.
fn proto_files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

//! Package `anabranch.v1`: generated from `proto/anabranch/v1`, with serde's traits for the proto3 JSON form.
#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic, clippy::restriction)]

include!(concat!(env!("OUT_DIR"), "/anabranch.v1.rs"));
include!(concat!(env!("OUT_DIR"), "/anabranch.v1.serde.rs"));

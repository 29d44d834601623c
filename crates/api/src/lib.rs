//! The protobuf interface of Anabranch: generated code, its JSON form, and the page that describes it over HTTP.
//! Nothing here knows a store or a server; what a request means is the engine's to say.
//!
//! - [`v1`]: messages, gRPC clients and servers, generated from `proto/anabranch/v1`
//! - [`codec`]: how messages of the services become bytes
//! - [`wkt`]: `Timestamp` and `Duration`, with checked conversions and canonical JSON
//! - [`json`]: reading and writing messages as JSON; errors name the field
//! - [`errors`]: every reason for which a request can fail
//! - [`openapi`]: the OpenAPI document of the HTTP routes, the same as a page for people, and the reference in `docs/api.md`

pub mod codec;
pub mod errors;
pub mod json;
pub mod openapi;
pub mod v1;
pub mod wkt;

/// The compiled `proto/` with its imports and comments, as an encoded `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

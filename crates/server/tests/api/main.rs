//! The server as its clients meet it: a real one on a free port, with a directory of its own, over gRPC and HTTP.
#![allow(clippy::unwrap_used)] // a test that can't go on has failed

mod connections;
mod errors;
mod events;
mod harness;
mod namespaces;
mod observe;
mod serving;
mod splits;
mod stopping;
mod workers;

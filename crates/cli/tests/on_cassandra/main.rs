//! Commands that look at a cluster, on a Cassandra node that these tests start.
#![allow(clippy::unwrap_used)] // this is test code

mod on_cassandra;
#[path = "../program/mod.rs"]
mod program;

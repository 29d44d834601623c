//! The program beside a real Kafka broker, which these tests start. Its name is in every test's name, so that a run without them can
//! leave it out.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // this is test code, on the real clock

mod on_kafka;
#[path = "../program/mod.rs"]
mod program;

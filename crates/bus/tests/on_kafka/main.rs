//! The bus on a real Kafka broker, which these tests start.
#![allow(clippy::unwrap_used)] // this is test code

mod on_kafka;

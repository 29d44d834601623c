//! Everything at once, on real servers that these tests start: a ring of Cassandra nodes, a Kafka broker, several servers and
//! workers, and one after another of them going away. Its name is in every test's name, so that a run without them can
//! leave it out.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // this is test code, on the real clock

mod on_ring;

//! The offline check of splits, on a real Cassandra and a real Spark that these tests start. Its name is in every test's
//! name, so that a run without them can leave it out.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // this is test code, on the real clock

mod on_spark;

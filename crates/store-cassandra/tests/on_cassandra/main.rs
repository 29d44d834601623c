//! The contract's suite, and what only a real cluster can show, on a Cassandra node that these tests start. Its name
//! is in every test's name, so that a run without Cassandra can leave them out.
#![allow(clippy::unwrap_used)] // this is test code

mod on_cassandra;

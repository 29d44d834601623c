//! For tests only: the real servers that tests talk to, on loopback, on ports of their own, ended with whoever
//! started them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cassandra`] | [`Cassandra`]: a ring of one or three nodes |
//! | [`kafka`] | [`Kafka`]: one broker |
//! | [`cluster`] | [`Cluster`]: a ring that outlives the command that started it |
//! | [`cache`] | where downloads lie, outside of the tree, and whether the disk has room |
//! | [`disk`] | [`SmallDisk`]: a disk of a server's own, to be filled up |
//! | [`http`] | one question to a server over HTTP |
//! | [`maven`] | pinned jars from the package registry, checked against a digest |
//! | [`spark`] | [`Spark`]: Spark with the Cassandra connector, to run jobs on this machine |
//! | [`java`] | which Java there is, and what to type when there is none |
//! | [`ports`] | ports that nobody uses |
//! | [`process`] | processes known by their id, paused, resumed, ended |
//! | [`watchdog`] | ends processes when the one who started them is gone, however it went |
//! | [`error`] | [`TestbedError`]: what is missing, and what to do |

// Not part of the product: it waits for real servers on the real clock.
#![allow(clippy::disallowed_methods)]

pub mod cache;
pub mod cassandra;
pub mod cluster;
pub mod disk;
pub mod error;
pub mod http;
pub mod java;
pub mod kafka;
pub mod maven;
pub mod ports;
pub mod process;
pub mod spark;
pub mod watchdog;

pub use cassandra::{Authority, Cassandra, CassandraNode, Memory, Shape, Tls};
pub use cluster::Cluster;
pub use disk::SmallDisk;
pub use error::TestbedError;
pub use kafka::Kafka;
pub use spark::Spark;

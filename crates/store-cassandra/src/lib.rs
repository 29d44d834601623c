//! The store on Apache Cassandra 5.0, by the `scylla` driver.
//!
//! | module | what it holds |
//! |---|---|
//! | [`options`] | [`CassandraOptions`]: where the cluster is, replication, consistency, TLS, limits |
//! | [`error`] | [`ConnectError`], and what an error of the driver means for whoever called |
//! | `session`, `datacenters` | the connection: policies, profiles, credentials; whether what is there fits the options |
//! | `refusal` | why a node won't have us, and what to do |
//! | `names` | which keyspace and table a table of the contract is |
//! | `schema`, `ids` | making and dropping tables, how they are laid out, and which is which |
//! | `statements` | prepared statements, for each table the shapes that are used |
//! | `scan`, `page`, `rows` | reading a partition: a scan as one or two slices of it, where a page ends, and the rows of an answer |
//! | `hedge` | the second read beside a slow one, within a budget |
//! | `write` | batches, retries that never hide an unknown outcome |
//! | `sample` | sizes of partitions by token range |
//! | `estimate` | what the nodes themselves know of a table's size |
//! | `documents` | metadata by compare-and-set |
//! | `store` | [`CassandraStore`], the contract on top of all this |
//! | [`foreign`] | [`ForeignTable`]: tables that someone else made, looked at and never written to |
//!
//! # What is where
//! Each namespace has a keyspace `<prefix>_<namespace>`, or shares the keyspace `<prefix>`, where the table `documents`
//! lies too. A table's comment says which table of the contract it is.

pub mod error;
pub mod foreign;
pub mod options;

mod datacenters;
mod documents;
mod estimate;
mod hedge;
mod ids;
mod names;
mod page;
mod refusal;
mod rows;
mod sample;
mod scan;
mod schema;
mod session;
mod statements;
mod store;
mod write;

pub use error::ConnectError;
pub use foreign::{ForeignError, ForeignTable};
pub use options::{CassandraOptions, Credentials, Level, Replication, TlsOptions};
pub use store::CassandraStore;

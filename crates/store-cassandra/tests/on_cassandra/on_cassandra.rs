//! The contract, kept on a real node, and through its crash. All but the crash share one node, each test in keyspaces
//! of its own.

mod datacentres;
mod faults;
mod fixture;
mod secured;
mod tables;

use anabranch_store::{contract_suite, durable_suite};

contract_suite!(fixture::fresh_store);
durable_suite!(fixture::fresh_prefix, async |prefix: &String| fixture::open(prefix).await);

//! The binary as its users meet it: real processes, real sockets, real directories.
#![allow(clippy::unwrap_used)] // also in what tests share

mod deploy;
mod first_minutes;
mod harness;
mod imports;
mod local;
mod namespaces;
mod plans;
mod reads;
mod reference;
mod servers;
mod slices;
mod split_kills;
mod splits;
mod top;
mod traces;
mod traffic;
mod writes;

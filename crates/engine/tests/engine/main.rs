//! The engine on real stores: what it promises of writes, reads and namespaces.
#![allow(clippy::unwrap_used)]

mod aggregates;
mod bulk;
mod clocks;
mod detections;
mod drops;
mod fixture;
mod measuring;
mod namespaces;
mod pressure;
mod reads;
mod retention;
mod slow;
mod slow_store;
mod split_care;
mod split_writes;
mod splits;
mod tampered;
mod tuning;
mod writes;

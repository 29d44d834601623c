//! From detection to a served segment, on the in-memory store: what is proven, what is resumed, who may write, what is the same.
#![allow(clippy::unwrap_used)]

mod away;
mod comparing;
mod fixture;
mod leases;
mod patience;
mod pipeline;
mod reading;

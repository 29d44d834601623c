//! Protobuf's `Timestamp` and `Duration`: the same bytes on the wire, canonical proto3 JSON, checked conversions.

mod duration;
mod text;
mod timestamp;

pub use duration::{Duration, DurationError};
pub use timestamp::{Timestamp, TimestampError};

/// Nanoseconds in a second.
const NANOS_PER_SECOND: i32 = 1_000_000_000;

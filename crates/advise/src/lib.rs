//! Looks at a table of Cassandra that someone else made, without writing anything, and says what it is like and what
//! buckets, splits and packing would make of it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`limits`] | [`Limits`]: how much may be read, how fast; the budget that is spent meanwhile |
//! | [`look`] | [`advise`]: one look at a table, from connecting to the report |
//! | `walk` | fair steps through the tokens of a table, measuring partitions |
//! | `ranges` | how far each range of those tokens has been gone through |
//! | `measure` | one partition, read page by page as far as may be, and what it likely has beyond that |
//! | `span` | from when to when rows happened |
//! | `sizes` | sizes of partitions, of which some weren't read to their end |
//! | `buckets` | what partitions each length of time bucket would make of the same rows |
//! | `cost` | what the widest partitions cost to read |
//! | `packing` | real rows through the block packer |
//! | `proposal` | the workload that the rows show, and settings for it |
//! | [`report`] | [`Report`]: all that was found |
//!
//! # How the widest are found without reading everything
//! The tokens are cut into equal ranges, visited in an order that is even at any moment. A visit reads the first rows of
//! each partition in one go; a partition that has more is read on by itself, up to a cap. Those that the cap cut off
//! are read on afterwards, with caps that double, so that the widest come out as far as the budget reaches. What wasn't
//! read to its end is told as "at least"; what it likely has comes from the times of its first and last rows.

mod buckets;
mod cost;
#[cfg(test)]
mod example;
pub mod limits;
pub mod look;
mod measure;
mod packing;
mod proposal;
mod ranges;
pub mod report;
mod sizes;
mod span;
mod walk;

pub use limits::Limits;
pub use look::advise;
pub use report::Report;

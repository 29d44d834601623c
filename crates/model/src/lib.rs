//! The words of Anabranch as types: ids, events, positions, slices, buckets, keys, page tokens and
//! checksums. Nothing here does I/O, reads a clock or draws a random number.
//!
//! | module | what it holds |
//! |---|---|
//! | [`time`] | [`Timestamp`] (64-bit nanoseconds) and half-open [`Interval`]s |
//! | [`ids`] | [`NamespaceName`], [`TimeSeriesId`], [`EventId`], [`EventItemKey`]: checked when made |
//! | [`event`] | [`Event`], [`Item`], [`Position`], [`Row`], [`Record`] |
//! | [`slice`](mod@slice) | [`Slice`]s, their [`PartitionSettings`], and the [`SliceMap`] in which they never overlap |
//! | [`hash`] | the event hash that picks an event bucket, the row hash, the [`Checksum`] |
//! | [`key`] | the order-preserving row key of stores that are ordered maps |
//! | [`token`] | the sealed, stateless page token |
//! | [`split`](mod@split) | [`SplitSettings`] and the [`ReadMode`]s |
//! | [`tuner`] | what the slice tuner of a namespace may do |
//! | [`bounds`] | rules of configurations, checked and noted in one |
//! | [`config`] | a namespace's configuration and the rules it must obey |

pub mod bounds;
pub mod config;
pub mod event;
pub mod hash;
pub mod ids;
pub mod key;
pub mod slice;
pub mod split;
pub mod time;
pub mod token;
pub mod tuner;

pub use bounds::{Amount, Bound, ConfigProblem, Rules};
pub use config::{BlockedSeries, NamespaceConfig, PageLimits, Slo, WriteLimits};
pub use event::{Event, Item, Items, Order, Position, Record, Row, RowKey};
pub use hash::{Checksum, event_hash, row_hash};
pub use ids::{EventId, EventItemKey, IdError, NamespaceName, TimeSeriesId};
pub use key::PartitionKey;
pub use slice::{EventBucket, PartitionSettings, Slice, SliceError, SliceMap, SliceState, TableName, TimeBucket};
pub use split::{Packing, ReadMode, SplitSettings, SplitStrategy};
pub use time::{Interval, TimeError, Timestamp};
pub use token::{PageToken, Progress, TokenError, TokenKey};
pub use tuner::TunerMode;

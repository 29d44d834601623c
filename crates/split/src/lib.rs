//! Splits of wide partitions: the records of what is served and what is under way, and the steps that bring a segment from a suspicion
//! to being served. Never writes to or deletes from an original (S1).
//!
//! | module | what it holds |
//! |---|---|
//! | [`record`] | [`WideRow`]: served segments, and the state of the next one |
//! | [`records`] | [`Records`]: in the store, changed only by whoever saw them last |
//! | [`work`] | [`Work`]: a worker's hands; [`Ground`]: what it must know of a partition |
//! | [`states`] | one file per state |
//! | [`form`] | [`Form`]: rows or blocks |
//! | [`history`] | [`HistoryReader`]: one partition's rows, wherever they lie |
//! | `merged` | the pieces of a segment that was spread by hash |
//! | [`router`] | [`Router`]: which partitions are split, and how; a filter per slice before a cache of records |
//! | [`compare`] | pieces against the original, row by row |
//! | [`pace`] | [`Pace`]: how fast splits may go |
//! | `cut` | where a segment is cut into pieces |
//! | `spread` | how a segment is spread over pieces by hash |
//! | `readback` | reads a piece back and adds up what it holds |
//! | [`error`] | [`SplitError`] |

pub mod compare;
mod cut;
pub mod error;
pub mod form;
pub mod history;
mod merged;
pub mod pace;
#[cfg(feature = "plant")]
pub mod plant;
mod readback;
pub mod record;
pub mod records;
pub mod router;
mod spread;
pub mod states;
pub mod work;

/// The target of spans that show the way of a read or of a split. They are for a collector of traces, not for the log, and cost
/// nothing where nobody collects them.
pub const TRACE: &str = "anabranch::trace";

pub use compare::{Comparison, Cost, Difference, Doubt};
pub use error::SplitError;
pub use form::{Compression, Form};
pub use history::{HistoryReader, Served};
pub use pace::Pace;
pub use record::{Generation, Piece, Segment, State, Strategy, WidePartition, WideRow};
pub use records::{Loaded, Records};
pub use router::{Router, RouterOptions, SliceFilter};
pub use states::Effort;
pub use work::{Ground, Work, WorkOptions};

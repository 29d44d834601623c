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
//! | `cut` | where a segment is cut into pieces |
//! | `readback` | reads a piece back and adds up what it holds |
//! | [`error`] | [`SplitError`] |

mod cut;
pub mod error;
pub mod form;
mod readback;
pub mod record;
pub mod records;
pub mod states;
pub mod work;

pub use error::SplitError;
pub use form::{Compression, Form};
pub use record::{Generation, Piece, Segment, State, WidePartition, WideRow};
pub use records::{Loaded, Records};
pub use states::Effort;
pub use work::{Ground, Work, WorkOptions};

//! Detection events on their way from the read path to whoever plans splits: at least once, in any order, never delaying a read.
//!
//! | module | what it holds |
//! |---|---|
//! | [`detection`] | [`Detection`]: a partition that may be wide, and its JSON form |
//! | [`contract`] | [`Bus`]: what carries them must do |
//! | [`local`] | [`LocalBus`]: within one process, bounded |

pub mod contract;
pub mod detection;
pub mod local;

pub use contract::{Bus, BusError, Delivery, Published};
pub use detection::{Detection, DetectionError};
pub use local::LocalBus;

//! Detection events on their way from the read path to whoever plans splits: at least once, in any order, never delaying a read.
//!
//! | module | what it holds |
//! |---|---|
//! | [`detection`] | [`Detection`]: a partition that may be wide, and its JSON form |
//! | [`contract`] | [`Bus`]: what carries them must do |
//! | [`local`] | [`LocalBus`]: within one process, bounded |
//! | `kafka` | `KafkaBus`: between servers and workers, on a topic of Kafka (feature `kafka`) |

pub mod contract;
pub mod detection;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod local;

pub use contract::{Bus, BusError, BusLosses, Delivery, Published};
pub use detection::{Detection, DetectionError};
#[cfg(feature = "kafka")]
pub use kafka::{KafkaBus, KafkaOptions, KafkaStats, KafkaTail, Passing, Unusable};
pub use local::LocalBus;

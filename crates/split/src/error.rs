//! What can go wrong while a partition is split, told apart by what the worker has to do.

use anabranch_store::StoreError;
use thiserror::Error;

/// Why a step of a split wasn't taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SplitError {
    /// Somebody else changed the record: let go of it at once.
    #[error("the lease of this split is lost: another worker, or an operator, changed its record")]
    LeaseLost,
    /// What was read back isn't what was planned: plan anew, in the next generation.
    #[error("the pieces don't hold what was planned: {reason}")]
    Mismatch {
        /// What differs.
        reason: String,
    },
    /// It can't go on as it is: an operator has to look.
    #[error("{reason}")]
    Stuck {
        /// Why.
        reason: String,
    },
    /// The store failed: try the same again later.
    #[error(transparent)]
    Store(#[from] StoreError),
}

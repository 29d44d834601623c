//! Bugs to plant on purpose, so that tests can show that the simulation finds them. Ordinary runs plant none.

use std::time::Duration;

use anabranch_model::Interval;
use anabranch_split::{State, WideRow};
use anabranch_store::{MetaKey, PartitionBatch, Scan, ScanPage, ScanSpan};
use bytes::Bytes;

use crate::{
    dice::Dice,
    metadata::{is_split_record, split_record},
};

/// A bug that a store, a server or a protocol between them could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The store acknowledges writes that it hasn't synced.
    AcksBeforeSync,
    /// The store acknowledges a write that it never makes.
    LosesWrite,
    /// The store leaves the last row of a batch out.
    DropsRowOfBatch,
    /// A scan that goes on begins with the row that the one before ended with.
    RepeatsRow,
    /// A scan leaves out the first instant of its interval.
    StartsLate,
    /// A scan takes in the first instant after its interval.
    EndsLate,
    /// Two neighbouring rows answer with each other's values.
    SwapsValues,
    /// A scan begins at its interval's bound though it should go on behind a place.
    IgnoresAfter,
    /// A scan says that it is at its end when it isn't.
    EndsEarly,
    /// The list of occupied partitions lacks one.
    MissesOccupied,
    /// A compare-and-set of a namespace's record doesn't compare.
    SetsWithoutComparing,
    /// Good events of a refused request are stored.
    StoresRefused,
    /// A page holds one record more than asked for.
    OverfillsPage,
    /// A page doesn't say that it is short.
    HidesPartial,
    /// A page has no token though the scan isn't at its end.
    LosesToken,
    /// A scan over all pages serves more than its limit.
    ForgetsTotal,
    /// Pieces are verified from what was sent to the store, of which the store loses some.
    VerifiesWrites,
    /// A row of a piece is written to the next one.
    MovesRow,
    /// A split record is changed without a look at who changed it meanwhile.
    FencesNothing,
    /// A checkpoint of a split is written without a look at who changed the record meanwhile.
    WritesCheckpointsPlainly,
    /// A checkpoint of a split is written before the rows that it tells of.
    ChecksBeforeRows,
    /// Originals are planned and copied as one replica has them, which may lack what others acknowledged.
    PlansFromOneReplica,
}

/// Planted bugs show themselves in this share of calls, in 100,000.
const OFTEN: u64 = 5000;

impl Plant {
    /// Alters a batch on its way into the store.
    pub(crate) fn alter_batch(self, batch: &mut PartitionBatch, dice: &Dice) {
        if self == Plant::DropsRowOfBatch && batch.rows.len() > 1 && dice.chance(OFTEN) {
            batch.rows.pop();
        }
    }

    /// Whether a compare-and-set compares.
    pub(crate) fn compares(self, key: &MetaKey, value: Option<&Bytes>) -> bool {
        match self {
            Plant::SetsWithoutComparing => key.scope != "namespaces",
            Plant::FencesNothing => !is_split_record(key),
            Plant::WritesCheckpointsPlainly => {
                let row = split_record(value).filter(|_| is_split_record(key));
                let working =
                    |row: &WideRow| matches!(row.state, State::Planning(_) | State::Splitting(_) | State::Verifying(_));
                !row.is_some_and(|row| working(&row))
            }
            _ => true,
        }
    }

    /// Alters what a scan is asked for.
    pub(crate) fn alter_scan(self, scan: &mut Scan, dice: &Dice) {
        let nanosecond = Duration::from_nanos(1);
        let ScanSpan::Interval { interval, after } = &mut scan.span else { return };
        match self {
            Plant::StartsLate => interval.start = interval.start.saturating_add(nanosecond),
            Plant::EndsLate => *interval = Interval::new(interval.start, interval.end.saturating_add(nanosecond)),
            Plant::IgnoresAfter if dice.chance(OFTEN) => *after = None,
            _ => {}
        }
    }

    /// Alters what a scan answers.
    pub(crate) fn alter_page(self, page: &mut ScanPage, dice: &Dice) {
        match self {
            Plant::SwapsValues if page.rows.len() > 1 && dice.chance(OFTEN) => {
                let at = dice.below(page.rows.len() as u64 - 1) as usize;
                let value = page.rows[at].item.value.clone();
                page.rows[at].item.value = std::mem::replace(&mut page.rows[at + 1].item.value, value);
            }
            Plant::EndsEarly if page.more && dice.chance(OFTEN) => page.more = false,
            _ => {}
        }
    }
}

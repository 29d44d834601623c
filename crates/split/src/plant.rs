//! Bugs to plant on purpose, so that tests of the simulation can show that they are found. Only with the feature `plant`, which
//! nothing but those tests turns on; even then none is planted unless a test does it.

use std::cell::Cell;

/// A bug that has to sit inside of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A piece may end in the middle of an event.
    CutsInsideEvent,
    /// A segment ends one instant later than time is sealed.
    PlansPastTheSeal,
    /// A step whose outcome is unknown counts as done, whoever changed the record.
    BelievesAnyNonce,
    /// A filter that was built once is believed for ever.
    KeepsOldFilter,
    /// A fallback begins where the piece began, not behind the last row that was taken.
    FallsBackToTheBeginning,
    /// A page token holds the last position served, not the last one examined.
    TokenOfLastServed,
    /// Reads use segments though sealed time was opened again since they were compared.
    IgnoresReopening,
    /// Writes are acknowledged however long they took.
    AcknowledgesLate,
    /// Slices get other settings until they begin, though writes may have reached them.
    TunesTooLate,
    /// Time counts as sealed as soon as the accept limit has passed it.
    SealsEarly,
}

thread_local! {
    /// A simulation runs on one thread, so several don't disturb each other.
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in everything that runs on this thread, or takes the planted one out.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this bug is planted.
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

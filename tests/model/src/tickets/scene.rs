//! What a run is about: how many may be live, how much may happen, and what is wrong.

use super::state::{Left, Numbers, State};

/// What a refresh reads in one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The last number.
    Last,
    /// The registrations of other transactions.
    Open,
    /// The live messages.
    Live,
}

/// A way in which the gate could be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A draw with admission `accepted` registers nothing.
    PromisedUnregistered,
    /// A transaction that has written registers nothing for its next draw.
    SecondUnregistered,
    /// A draw of several numbers registers nothing.
    SeveralUnregistered,
    /// A transaction registers after it has drawn.
    RegisteredLate,
    /// A transaction refreshes between its draw and its insert.
    RefreshAfterDraw,
    /// A transaction refreshes after it has deleted messages.
    RefreshAfterDelete,
    /// A submission compares its number with the offset as it is after the draw.
    OffsetAfterDraw,
    /// An offset above the last number is kept, and draws go on.
    OffsetAboveKept,
    /// An offset above the last number is kept, and stops draws.
    ShutForever,
    /// Only limited submissions refresh first when the offset is above the last number.
    PromisedAboveOffset,
    /// A lock is released before the transaction's changes are visible.
    ReleasedEarly,
    /// `recover` registers nothing.
    RevivedUnregistered,
    /// `recover` lowers nothing.
    RevivedUnlowered,
    /// `recover` lowers the offset after its commit.
    LoweredAfterCommit,
    /// A refresh does not take the lock R.
    Unlocked,
    /// A second registration of one transaction may be under the key of the first.
    SameKey,
}

/// A change of the design that may be as good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// A refresh always replaces the offset, also by a smaller one.
    AlwaysReplaced,
    /// `recover` inserts first, and lowers the offset before it commits.
    InsertedThenLowered,
    /// A submission that finds an offset above the last number sets it to 0, without R, and a refresh only raises it.
    Zeroed,
}

/// The model's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) high_water: i8,
    pub(super) last: u8,
    pub(super) live: Numbers,
    pub(super) offset: i8,
    /// How many operations a transaction may have.
    pub(super) operations: u8,
    /// How many numbers a submission draws.
    pub(super) counts: &'static [i8],
    pub(super) order: [Reading; 3],
    /// Whether the reading of `pg_locks` visits one session after the other.
    pub(super) scans: bool,
    pub(super) left: Left,
    pub(super) bug: Option<Bug>,
    pub(super) variant: Option<Variant>,
}

impl Scene {
    pub(super) fn start(&self) -> State {
        State { last: self.last, offset: self.offset, live: self.live, left: self.left, ..State::default() }
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn is(&self, variant: Variant) -> bool {
        self.variant == Some(variant)
    }
}

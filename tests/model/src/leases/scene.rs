//! What a run is about: how much may happen, and what is wrong.

use super::state::{Left, REQUESTS, State};

/// A way in which the leases could be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A settle looks at the status only, not at the token.
    UnfencedSettle,
    /// The reaper puts back the messages of rows that it has not locked.
    UnlockedReap,
    /// The reaper puts a message back and leaves the row's lease.
    LeaseNotCleared,
    /// A settle waits for the lease row that it deletes.
    SettleWaits,
    /// A settle deletes its lease row when it has settled one request of several.
    LeaseDeletedEarly,
    /// A claim locks rows in another order than that of their ids.
    ClaimOutOfOrder,
    /// The reaper does.
    ReapOutOfOrder,
    /// A claim that reaps looks again at the whole queue, in the same transaction.
    LooksEverywhere,
    /// A message is put back in another transaction than its row.
    PutBackLater,
    /// An extension does not split: what it does not name is in no lease.
    ExtensionForgets,
    /// `recover` does not lock rows before it looks at them.
    UnlockedRecover,
}

/// The model's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// The greatest number of messages that a claim takes.
    pub(super) batch: u32,
    /// Whether a claim that finds nothing reaps.
    pub(super) claims_reap: bool,
    /// Whether a lease row may name nothing but what it holds.
    pub(super) literal: bool,
    pub(super) left: Left,
    pub(super) bug: Option<Bug>,
}

impl Scene {
    pub(super) fn start(&self) -> State {
        State { messages: (1 << REQUESTS) - 1, left: self.left, ..State::default() }
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a message or a lease row was deleted by hand on the way to this state.
    pub(super) fn was_purged(&self, state: &State) -> bool {
        state.left.purges < self.left.purges
    }
}

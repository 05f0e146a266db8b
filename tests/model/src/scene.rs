//! The scope of the model: submitters, their requests, and the number of faults.

use crate::{
    rules::Flow,
    state::{Caller, MESSAGE_QUEUES, State},
};

/// The submitter of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitter {
    pub(crate) flow: Flow,
    /// The number of its idempotency key. Without one it submits once only, and only past the node's copy of the gates.
    pub(crate) key: Option<u8>,
}

/// How often a send may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Semantics {
    AtLeastOnce,
    AtMostOnce,
}

/// The marks of a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    pub(crate) high: usize,
    pub(crate) low: usize,
}

/// What may go wrong, and how often on each path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Faults {
    /// A worker dies; what it has said before may still arrive.
    pub(crate) crashes: u8,
    /// A lease runs out under a worker that is still at it.
    pub(crate) expiries: u8,
    /// A settle or a response arrives once more.
    pub(crate) duplicates: u8,
    /// A caller cancels, a deadline passes, or the downstream takes a receipt back.
    pub(crate) ends: u8,
    /// A worker gives a request back.
    pub(crate) releases: u8,
    /// An operator runs `recover` without need.
    pub(crate) recoveries: u8,
    /// A queue is emptied by hand. `recover` is run afterwards.
    pub(crate) purges: u8,
    /// The answer to a submission is lost, so its caller submits again.
    pub(crate) lost_answers: u8,
    /// A submission arrives once more.
    pub(crate) repeats: u8,
    /// The window of a key passes.
    pub(crate) windows: u8,
}

impl Faults {
    pub(crate) fn count(self) -> u32 {
        [
            self.crashes,
            self.expiries,
            self.duplicates,
            self.ends,
            self.releases,
            self.recoveries,
            self.purges,
            self.lost_answers,
            self.repeats,
            self.windows,
        ]
        .into_iter()
        .map(u32::from)
        .sum()
    }
}

/// A way in which the engine could be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A settle looks at the status only, not at the token of its lease.
    UnfencedSettle,
    /// A claim that meets a request of a lost worker hands its request out as it is.
    ReclaimWithoutRecovery,
    /// A check that passed moves the row and sends the message in two transactions.
    LostMessage,
    /// A node hears of a gate when it flips, and never reads it again.
    EdgeOnlySignal,
    /// A claim counts the held requests in one transaction, and takes messages in another.
    CountThenClaim,
    /// A submission looks for its key in one transaction, and takes it in another.
    LookThenSubmit,
    /// A lost send is tried again, whatever the semantics.
    ResendAnyway,
    /// A receipt does not look for responses that came before it.
    InboxForgotten,
    /// No gate is evaluated when messages are removed, or later.
    GateNeverOpens,
}

/// The model's parameters.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) submitters: Vec<Submitter>,
    pub(crate) semantics: Semantics,
    /// Workers of both stages; each is at one request at a time.
    pub(crate) workers: usize,
    /// How many checks may run at once.
    pub(crate) concurrency: usize,
    pub(crate) checks_max: u8,
    pub(crate) attempts_max: u8,
    /// Of the readiness and of the tx queue.
    pub(crate) marks: [Marks; MESSAGE_QUEUES],
    /// Whether an API node keeps a copy of the gates, for submissions without a key.
    pub(crate) node: bool,
    pub(crate) faults: Faults,
    pub(crate) bug: Option<Bug>,
}

impl Scene {
    pub(crate) fn start(&self) -> State {
        let mut callers = [Caller::Served; 3];
        callers[..self.submitters.len()].fill(Caller::Wants);
        State { callers, left: self.faults, ..State::default() }
    }

    pub(crate) fn is_broken(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a submitter may still submit with a key.
    pub(crate) fn is_wanted(&self, key: u8, state: &State) -> bool {
        self.submitters.iter().zip(state.callers).any(|(submitter, caller)| {
            submitter.key == Some(key) && (caller != Caller::Served || state.left.repeats > 0)
        })
    }

    /// Whether a queue was emptied by hand on the way to this state.
    pub(crate) fn was_purged(&self, state: &State) -> bool {
        state.left.purges < self.faults.purges
    }
}

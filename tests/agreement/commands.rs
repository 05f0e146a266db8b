//! What the actors may do.

pub mod choice;

use super::model::Lease;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    Readiness,
    Tx,
}

impl Queue {
    pub fn name(self) -> &'static str {
        match self {
            Self::Readiness => "readiness",
            Self::Tx => "tx",
        }
    }
}

/// How long a request is snoozed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    None,
    AsThePolicySays,
    /// Longer than any deadline.
    TooLong,
}

/// What a readiness check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    Passed,
    Snooze { wait: Wait, code: Option<&'static str> },
    Failed,
}

/// What a send came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    Receipt { reference: bool, answered: bool },
    Retry { wait: Wait, code: &'static str, left: Option<bool> },
    Rejected,
}

/// A lease, counted from the last one that was given out in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    pub back: usize,
    /// With another token, made up.
    pub is_forged: bool,
}

impl Pick {
    /// The lease, if it is no forged one.
    pub fn of(self, leases: &[Lease]) -> Option<&Lease> {
        let lease = leases.iter().rev().nth(self.back);
        lease.filter(|_| !self.is_forged)
    }
}

/// What ends requests from outside: operators, deadlines, and a downstream that takes its receipt back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    FailTx,
    FailInternal,
    FailReceipt,
    TimeOut,
    Readiness,
    Deadline,
    Response,
}

#[derive(Debug, Clone)]
pub struct Order {
    pub kind: usize,
    pub submitter: usize,
    pub key: Option<u8>,
    pub payload: u8,
    pub enforced: bool,
}

/// A response of the downstream.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    pub request: usize,
    pub by_reference: bool,
    pub part: Option<usize>,
    pub accept: Option<bool>,
}

/// One command. Requests are named by their place in the order of submission, workers by a number.
#[derive(Debug, Clone)]
pub enum Command {
    Submit(Order),
    SubmitBatch {
        kind: usize,
        count: usize,
    },
    Claim {
        worker: usize,
        queue: Queue,
        batch: usize,
    },
    Settle {
        worker: usize,
        check: Check,
        picks: Vec<Pick>,
    },
    Report {
        worker: usize,
        sent: Sent,
        picks: Vec<Pick>,
    },
    Release {
        worker: usize,
        queue: Queue,
        picks: Vec<Pick>,
    },
    Extend {
        worker: usize,
        queue: Queue,
        picks: Vec<Pick>,
    },
    Respond(Reply),
    /// Several responses in one call.
    RespondMany(Vec<Reply>),
    Cancel {
        request: usize,
    },
    End {
        end: End,
        request: usize,
    },
    /// A maintenance duty.
    Sweep {
        end: End,
    },
    SweepInbox,
    ExpireKeys,
    LookAtGates,
    RemoveStrays {
        queue: Queue,
    },
    Recover {
        all: bool,
        force: bool,
    },
    /// A gate is held open or closed by hand, or released.
    ForceGate {
        queue: Queue,
        closed: Option<bool>,
    },
    /// Time passes: every lease of a queue runs out.
    Lapse {
        queue: Queue,
    },
    /// Time passes: snoozed messages become visible.
    ComesDue {
        queue: Queue,
    },
    /// Time passes: one of a request's deadlines.
    Pass {
        end: End,
        request: usize,
    },
    /// Time passes: the window of every key of a submitter.
    PassWindow {
        submitter: usize,
    },
    /// A queue is emptied by hand.
    Purge {
        queue: Queue,
    },
    /// One message is deleted by hand, or the claim that took it.
    LoseMessage {
        request: usize,
    },
    /// One message is sent once more by hand.
    Duplicate {
        queue: Queue,
        request: usize,
    },
}

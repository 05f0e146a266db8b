//! One moment: the requests and the key as the engine knows them, and what the downstream has done.

/// Requests, those that are redriven among them.
pub(super) const REQUESTS: usize = 4;

/// Claims of one request.
pub(super) const ATTEMPTS: usize = 3;

/// A set of ids that sends carry, a bit each.
pub(super) type Ids = u8;

/// A send or a hedge, towards the downstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Call {
    /// It was not begun, or its attempt is over and it can have no effect any more.
    #[default]
    Idle,
    UnderWay,
    Executed,
    Refused,
    /// It certainly did not leave.
    Unsent,
}

/// Whose attempt it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Hold {
    /// Not claimed, or its claim is over.
    #[default]
    Over,
    /// The request's row names its claim.
    Held,
    /// Its request has ended meanwhile, and the claim still lists the request.
    Listed,
}

/// One claim of a request for sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Attempt {
    pub(super) hold: Hold,
    /// The send, and a hedge.
    pub(super) calls: [Call; 2],
}

impl Attempt {
    pub(super) fn is_hedged(&self) -> bool {
        self.calls[1] != Call::Idle
    }

    pub(super) fn has(&self, call: Call) -> bool {
        self.calls.contains(&call)
    }

    /// Its claim is over: what the calls have brought does not matter any more, only what they may still do.
    pub(super) fn end(&mut self) {
        self.hold = Hold::Over;
        for call in &mut self.calls {
            if *call != Call::UnderWay {
                *call = Call::Idle;
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Status {
    /// There is no such request.
    #[default]
    Absent,
    Processing,
    InFlight,
    ReceiptReceived,
    Completed,
    /// In `failure` or `timed_out`.
    Failed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Executed {
    #[default]
    No,
    Unknown,
    Yes,
}

/// What is known of an ended request, and from whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Outcome {
    pub(super) executed: Executed,
    pub(super) by_operator: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) status: Status,
    /// Claims, but for those that were released.
    pub(super) claims: u8,
    /// Those of them that certainly had no effect.
    pub(super) unsent: u8,
    pub(super) attempts: [Attempt; ATTEMPTS],
    pub(super) cancel_requested: bool,
    /// Null: it has not ended, or each of its sends certainly had no effect.
    pub(super) outcome: Option<Outcome>,
    /// What the error of its end tells the caller.
    pub(super) retryable: bool,
    /// The id that its sends carry.
    pub(super) send_id: u8,
    pub(super) redriven_as: Option<u8>,
    /// The window of the key has passed since it has ended.
    pub(super) aged: bool,
    /// What is true: one of its calls was executed.
    pub(super) was_executed: bool,
    /// What is true: its key has been used again after the window, for another request.
    pub(super) is_past: bool,
}

impl Request {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.status, Status::Processing | Status::InFlight | Status::ReceiptReceived)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status, Status::Completed | Status::Failed)
    }

    /// What `tidegate.executed` returns for a request that has ended.
    pub(super) fn executed(&self) -> Executed {
        match self.outcome {
            _ if self.status == Status::Completed => Executed::Yes,
            Some(outcome) => outcome.executed,
            None => Executed::No,
        }
    }

    pub(super) fn is_unresolved(&self) -> bool {
        self.status == Status::Failed && self.executed() == Executed::Unknown
    }

    /// Whether a call may still arrive, or begin although the request has ended.
    pub(super) fn is_under_way(&self) -> bool {
        let may_begin = |attempt: &Attempt| attempt.hold == Hold::Listed && attempt.calls[0] == Call::Idle;
        let mut attempts = self.attempts.iter();
        attempts.any(|attempt| attempt.has(Call::UnderWay) || may_begin(attempt))
    }

    /// The last attempt.
    pub(super) fn last(&mut self) -> &mut Attempt {
        &mut self.attempts[usize::from(self.claims) - 1]
    }
}

/// The row of the idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The request that was accepted with it last.
    pub(super) request: u8,
    /// The window has passed since.
    pub(super) aged: bool,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Left {
    /// Submissions that are accepted.
    pub(super) submissions: u8,
    /// Submissions that find the queue full.
    pub(super) refusals: u8,
    /// A worker dies, or its lease runs out under it; its calls go on.
    pub(super) losses: u8,
    pub(super) releases: u8,
    pub(super) hedges: u8,
    /// A call does not leave.
    pub(super) unsent: u8,
    pub(super) cancels: u8,
    /// A deadline passes, or an operator ends a request.
    pub(super) ends: u8,
    /// A worker searches for what came of an unresolved request.
    pub(super) searches: u8,
    /// An operator resolves a request.
    pub(super) resolutions: u8,
    pub(super) redrives: u8,
    /// The window of the key passes.
    pub(super) windows: u8,
    /// An operator, or the downstream in answer to a search, says that nothing was executed although it was, or may be.
    pub(super) lies: u8,
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) requests: [Request; REQUESTS],
    pub(super) key: Option<Key>,
    pub(super) left: Left,
    /// The downstream has executed a send with this id.
    pub(super) executed: Ids,
    /// It has said that it never will.
    pub(super) never: Ids,
    /// It has responded.
    pub(super) responded: Ids,
    /// Executions for the key, since the window passed that ended its last use.
    pub(super) executions: u8,
    /// Someone has lied.
    pub(super) lied: bool,
    /// A request that may have been executed was redriven.
    pub(super) repeated: bool,
    /// An attempt or a hedge has begun after the cancel of its request.
    pub(super) begun_late: bool,
}

impl State {
    pub(super) fn requests(&self) -> impl Iterator<Item = (usize, &Request)> {
        let is_there = |(_, request): &(usize, &Request)| request.status != Status::Absent;
        self.requests.iter().enumerate().filter(is_there)
    }

    /// The request and those that it was redriven as.
    pub(super) fn lineage(&self, id: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(id), |&id| self.requests[id].redriven_as.map(usize::from))
    }

    /// Whether a send of this request may still be executed, or another one with its id.
    pub(super) fn may_execute(&self, id: u8) -> bool {
        let with_id = |request: &Request| request.send_id == id && request.is_under_way();
        self.never & (1 << id) == 0 && self.requests.iter().any(with_id)
    }

    pub(super) fn free_place(&self) -> Option<usize> {
        self.requests.iter().position(|request| request.status == Status::Absent)
    }
}

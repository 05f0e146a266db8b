//! One moment: what the tables hold, what workers and callers are at, and what is under way between them.

use crate::{
    rules::{Flow, Status},
    scene::Faults,
};

/// The queue of the readiness stage and that of the tx stage.
pub(crate) const MESSAGE_QUEUES: usize = 2;

/// A queue, and the stage that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    Readiness,
    Tx,
}

pub(crate) const STAGES: [Stage; MESSAGE_QUEUES] = [Stage::Readiness, Stage::Tx];

/// Where a request is in one queue: its message, or its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    #[default]
    Absent,
    /// No claim holds it.
    Waiting,
    /// Under a lease.
    Held,
    /// Under a lease that has run out: it carries the token, and may be taken.
    Lapsed,
}

/// What a worker says of a request at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Outcome {
    Passed,
    Snooze,
    Failed,
    Receipt,
    /// A receipt that is the response, too.
    Answered,
    Retry {
        /// Whether the downstream may have seen it.
        left: bool,
    },
    Rejected,
    Release,
}

/// How far a worker is with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// It has the lease, and has done nothing.
    Claimed,
    /// It has looked for the receipt of an earlier attempt, and found none.
    Looked,
    /// Its check has ended with an outcome that is chosen when it arrives.
    Checked,
    /// It has said this of it; that is under way to the database.
    Settling(Outcome),
}

/// One claim of a request, from the worker's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Call {
    pub(crate) stage: Stage,
    pub(crate) phase: Phase,
    /// Whether the worker lives; else only its last words do.
    pub(crate) alive: bool,
    /// Whether the message carries the token of this claim.
    pub(crate) current: bool,
    /// Whether the request has not been claimed for this stage since.
    pub(crate) latest: bool,
    pub(crate) first_attempt: bool,
    /// Whether the attempt is one of those that the policy allows: with one more it may look only.
    pub(crate) may_send: bool,
}

/// How many calls of one request there may be at once: those of two workers, and the last words of three.
const CALLS: usize = 5;

/// A request's row, its messages, and what is going on about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Row {
    pub(crate) flow: Flow,
    pub(crate) status: Status,
    /// The idempotency key, and whether its window has not passed yet.
    pub(crate) key: Option<u8>,
    pub(crate) in_window: bool,
    pub(crate) checks: u8,
    pub(crate) attempts: u8,
    pub(crate) messages: [Message; MESSAGE_QUEUES],
    /// Whether the latest claim for each stage has been settled.
    pub(crate) settled: [bool; MESSAGE_QUEUES],
    /// How often the downstream was sent it, and whether it took it.
    pub(crate) sends: u8,
    pub(crate) taken: bool,
    /// Responses that are under way.
    pub(crate) answers: u8,
    /// A response in the inbox, for a request that has no receipt yet: whether a verdict is a yes.
    pub(crate) early: Option<bool>,
    /// Sorted, the empty places last.
    pub(crate) calls: [Option<Call>; CALLS],
}

impl Row {
    /// As a submission makes it; the status is its flow's first one.
    pub(crate) fn new(flow: Flow, key: Option<u8>) -> Self {
        let mut messages = [Message::Absent; MESSAGE_QUEUES];
        let (status, entry) = match flow {
            Flow::Decrypt => (Status::Queued, Stage::Readiness),
            Flow::Proof | Flow::Direct => (Status::Processing, Stage::Tx),
        };
        messages[entry as usize] = Message::Waiting;
        Self {
            flow,
            status,
            key,
            in_window: true,
            checks: 0,
            attempts: 0,
            messages,
            settled: [false; MESSAGE_QUEUES],
            sends: 0,
            taken: false,
            answers: 0,
            early: None,
            calls: [None; CALLS],
        }
    }

    /// The queue in which its status wants a message.
    pub(crate) fn queue(&self) -> Option<Stage> {
        match self.status {
            Status::Queued => Some(Stage::Readiness),
            Status::Processing | Status::TxInFlight => Some(Stage::Tx),
            _ => None,
        }
    }

    /// Whether it has a message exactly where its status wants one.
    pub(crate) fn has_its_message(&self) -> bool {
        STAGES.iter().all(|&stage| (self.messages[stage as usize] != Message::Absent) == (self.queue() == Some(stage)))
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = (usize, Call)> {
        self.calls.iter().enumerate().filter_map(|(place, call)| call.map(|call| (place, call)))
    }

    pub(crate) fn call(&mut self, place: usize) -> &mut Call {
        self.calls[place].as_mut().unwrap()
    }

    /// Takes note of a claim; the ones before it are not the latest any more.
    pub(crate) fn add_call(&mut self, call: Call) {
        for earlier in self.calls.iter_mut().flatten() {
            if earlier.stage == call.stage {
                earlier.latest = false;
            }
        }
        let free = self.calls.iter().position(Option::is_none);
        self.calls[free.unwrap()] = Some(call);
    }

    /// Nothing leads back to an earlier status.
    fn forget_the_past(&mut self) {
        if self.status != Status::Queued {
            self.checks = 0;
            self.settled[Stage::Readiness as usize] = false;
        }
        if self.queue().is_none() {
            self.attempts = 0;
            self.settled[Stage::Tx as usize] = false;
        }
        if self.status.is_terminal() {
            // What comes now comes too late.
            self.answers = 0;
            self.early = None;
            if self.status != Status::Completed {
                self.key = None;
            }
        }
        self.in_window &= self.key.is_some();
        // Only a call can still send it, or look for a receipt.
        if self.queue().is_none() && self.calls.iter().all(Option::is_none) {
            self.sends = 0;
            self.taken = false;
        }
    }

    /// The message of a stage carries a token no more, or another one.
    pub(crate) fn forget_token(&mut self, stage: Stage) {
        for call in self.calls.iter_mut().flatten() {
            if call.stage == stage {
                call.current = false;
            }
        }
    }
}

/// What a caller has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Caller {
    Wants,
    /// It did not hear what became of its submission.
    Unsure,
    /// A submission of it that looks first has found that its key is free.
    Looked,
    #[default]
    Served,
}

/// What the API node knows of one gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Copy {
    pub(crate) epoch: u8,
    /// The epochs whose notifications are under way, a bit each.
    pub(crate) notes: u16,
    /// What a reading under way has found.
    pub(crate) reading: Option<u8>,
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Sorted, the empty places last: which request is which makes no difference.
    pub(crate) rows: [Option<Row>; 3],
    pub(crate) callers: [Caller; 3],
    /// How often each gate has flipped.
    pub(crate) epochs: [u8; MESSAGE_QUEUES],
    pub(crate) copies: [Copy; MESSAGE_QUEUES],
    /// Workers that have counted a free slot, and have not claimed yet.
    pub(crate) counted: u8,
    /// What may still go wrong.
    pub(crate) left: Faults,
    /// What must not have happened.
    pub(crate) sins: Sins,
}

/// What must not have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sins {
    pub(crate) illegal_move: bool,
    pub(crate) double_settle: bool,
    pub(crate) accepted_twice: bool,
}

/// Gates start open, and each flip turns them.
pub(crate) fn is_closed(epoch: u8) -> bool {
    epoch % 2 == 1
}

impl State {
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().filter_map(|(place, row)| row.as_ref().map(|row| (place, row)))
    }

    pub(crate) fn row(&mut self, place: usize) -> &mut Row {
        self.rows[place].as_mut().unwrap()
    }

    /// How many messages a queue holds, waiting or held.
    pub(crate) fn depth(&self, stage: Stage) -> usize {
        self.rows().filter(|(_, row)| row.messages[stage as usize] != Message::Absent).count()
    }

    /// How many messages of a queue are under a lease.
    pub(crate) fn held(&self, stage: Stage) -> usize {
        self.rows().filter(|(_, row)| row.messages[stage as usize] == Message::Held).count()
    }

    /// How many workers are at something.
    pub(crate) fn busy(&self) -> usize {
        let at_calls = self.rows().flat_map(|(_, row)| row.calls()).filter(|(_, call)| call.alive).count();
        at_calls + usize::from(self.counted)
    }

    /// The same with everything in its order, and without what makes no difference any more: states that differ only in
    /// that are one.
    pub(crate) fn in_order(mut self) -> Self {
        for row in self.rows.iter_mut().flatten() {
            row.forget_the_past();
            // The largest first, and nothing last.
            row.calls.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.rows.sort_unstable_by(|a, b| b.cmp(a));
        self
    }
}

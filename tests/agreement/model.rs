//! A plain model of requests, their messages and leases, the gates, the inbox and the idempotency keys.
//!
//! It says what each command must answer and leave behind. It knows the documents, and none of the engine's functions.

mod claims;
mod ends;
mod questions;
mod queues;
mod responses;
mod settles;
mod submissions;

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{Command, End, Queue, Reply};

/// How many checks may run at once.
pub const CONCURRENCY: usize = 2;
/// How many attempts a stage may make.
pub const ATTEMPTS: u32 = 2;
/// How many messages close a gate, and how many open it again.
pub const HIGH_WATER: usize = 5;
pub const LOW_WATER: usize = 2;
/// How many shares complete a `user_decrypt`.
pub const THRESHOLD: usize = 2;

/// The kinds of the example; `input_proof` is sent at most once.
pub const KINDS: [&str; 4] = ["public_decrypt", "user_decrypt", "input_proof", "direct"];
pub const SUBMITTERS: [&str; 2] = ["ann", "bob"];

/// What a command answers: rows, or an SQLSTATE.
pub type Answer = Result<Vec<String>, &'static str>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Queued,
    Processing,
    TxInFlight,
    ReceiptReceived,
    Completed,
    TimedOut,
    Failure,
}

impl Status {
    fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::TimedOut | Self::Failure)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Processing => "processing",
            Self::TxInFlight => "tx_in_flight",
            Self::ReceiptReceived => "receipt_received",
            Self::Completed => "completed",
            Self::TimedOut => "timed_out",
            Self::Failure => "failure",
        }
    }
}

#[derive(Debug)]
pub struct Request {
    kind: usize,
    status: Status,
    causes: Vec<&'static str>,
    checks: u32,
    /// Checks of those that said "not yet".
    waits: u32,
    attempts: u32,
    /// Sends of those that certainly had no effect.
    unsent: u32,
    /// Whether its cancel was requested while it was sent.
    is_cancelled: bool,
    /// What is known of the sends of a request that ended in failure or timed out.
    executed: &'static str,
    /// Whether the downstream took its receipt back.
    is_taken_back: bool,
    /// The token of the lease under which another than its holder ended it.
    ended_lease: Option<u32>,
    /// Where it is: its message waits there, or is under its lease, or should be.
    place: Option<(Queue, u64)>,
    /// The token of the claim that took its message.
    lease: Option<u32>,
    readiness_deadline_passed: bool,
    deadline_passed: bool,
    response_overdue: bool,
    has_reference: bool,
    parts: BTreeSet<usize>,
}

/// A message that waits in a queue.
#[derive(Debug)]
struct Message {
    number: u64,
    request: usize,
    is_put_off: bool,
}

/// What a claim has taken, or a part of it that ends at another time.
#[derive(Debug)]
struct Part {
    queue: Queue,
    token: u32,
    part: u32,
    /// Which command gave these leases, or prolonged them last: they run out in this order.
    given: u32,
    has_run_out: bool,
    /// Some may have left: only those are held whose rows name the token.
    requests: Vec<usize>,
}

/// A lease that was given out.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    request: usize,
    token: u32,
}

#[derive(Debug, Default)]
struct Gate {
    closed: bool,
    forced: bool,
}

#[derive(Debug)]
struct Known {
    request: usize,
    payload: u8,
    /// Whether its window since the acceptance is over.
    is_over: bool,
    /// Whether maintenance has to examine it.
    is_due: bool,
}

/// A response that was kept.
#[derive(Debug)]
struct Kept {
    to: usize,
    by_reference: bool,
    part: Option<usize>,
    accept: Option<bool>,
    late: bool,
}

#[derive(Debug, Default)]
pub struct Model {
    pub requests: Vec<Request>,
    /// Of each queue, in the order of their claims.
    pub leases: [Vec<Lease>; 2],
    /// In the order of their numbers.
    queues: [Vec<Message>; 2],
    claims: Vec<Part>,
    gates: [Gate; 2],
    keys: BTreeMap<(usize, usize, u8), Known>,
    inbox: Vec<Kept>,
    numbers: u64,
    tokens: u32,
    /// How many claims and extensions there were.
    given: u32,
}

fn is_checked(kind: usize) -> bool {
    KINDS[kind].ends_with("decrypt")
}

/// Whether the policy has no backoff, but a second's after all its attempts.
pub fn is_at_once(kind: usize) -> bool {
    ["user_decrypt", "direct"].contains(&KINDS[kind])
}

fn is_at_most_once(kind: usize) -> bool {
    KINDS[kind] == "input_proof"
}

/// Whether the key of what may have been executed is free: those of decryptions.
fn is_repeatable(kind: usize) -> bool {
    is_checked(kind)
}

impl Model {
    /// What the command must answer; afterwards this is how things must be.
    pub fn perform(&mut self, command: &Command) -> Answer {
        match command {
            Command::Submit(order) => self.submit(order),
            Command::SubmitBatch { kind, count } => Ok(self.submit_batch(*kind, *count)),
            Command::Claim { queue, batch, .. } => Ok(self.claim(*queue, *batch)),
            Command::Settle { check, picks, .. } => Ok(self.settle_checks(*check, picks)),
            Command::Report { sent, picks, .. } => Ok(self.settle_sends(*sent, picks)),
            Command::Release { queue, picks, .. } => Ok(self.release(*queue, picks)),
            Command::Extend { queue, picks, .. } => Ok(self.extend(*queue, picks)),
            Command::Respond(reply) => {
                let (outcome, known) = self.respond(*reply)?;
                Ok(vec![self.told(outcome, known)])
            }
            Command::RespondMany(replies) => {
                let respond = |reply: &Reply| self.respond(*reply).unwrap_or(("misfit", Some(reply.request)));
                let outcomes: Vec<_> = replies.iter().map(respond).collect();
                // Their requests' statuses are those after the last of them.
                Ok(outcomes.into_iter().map(|(outcome, known)| self.told(outcome, known)).collect())
            }
            Command::Cancel { request } => Ok(vec![self.cancel(*request)]),
            Command::End { end, request } => Ok(self.end_by_hand(*end, *request)),
            Command::Sweep { end } => Ok(vec![self.sweep(*end)]),
            Command::SweepInbox => Ok(vec![self.sweep_inbox().to_string()]),
            Command::ExpireKeys => {
                let before = self.keys.len();
                let mut keys = std::mem::take(&mut self.keys);
                keys.retain(|_, known| !known.is_due || self.stands(known));
                keys.values_mut().for_each(|known| known.is_due = false);
                self.keys = keys;
                Ok(vec![(before - self.keys.len()).to_string()])
            }
            Command::Recover { all, force } => self.recover(*all, *force),
            Command::RemoveStrays { queue } => Ok(vec![self.remove_stray_messages(*queue)]),
            Command::LookAtGates => Ok(vec![self.gates_evaluate().to_string()]),
            Command::ForceGate { queue, closed } => Ok(vec![self.force(*queue, *closed)]),
            _ => {
                self.meddle(command);
                Ok(Vec::new())
            }
        }
    }

    fn moved(&self, requests: impl Iterator<Item = usize>) -> Vec<String> {
        requests.map(|request| format!("{request} {}", self.requests[request].status.word())).collect()
    }

    /// What is done to the tables by hand, or by time.
    fn meddle(&mut self, command: &Command) {
        match command {
            Command::Lapse { queue } => {
                let parts = self.claims.iter_mut();
                for part in parts.filter(|part| part.queue == *queue) {
                    part.has_run_out = true;
                }
            }
            Command::ComesDue { queue } => {
                for message in &mut self.queues[*queue as usize] {
                    message.is_put_off = false;
                }
            }
            Command::Pass { end, request } => {
                let row = &mut self.requests[*request];
                match end {
                    End::Readiness => {
                        row.readiness_deadline_passed |= is_checked(row.kind);
                    }
                    End::Deadline => row.deadline_passed = true,
                    _ => row.response_overdue |= row.status == Status::ReceiptReceived,
                }
            }
            Command::PassWindow { submitter } => {
                for (key, known) in &mut self.keys {
                    known.is_over |= key.1 == *submitter;
                    known.is_due |= key.1 == *submitter;
                }
            }
            Command::Purge { queue } => self.queues[*queue as usize].clear(),
            Command::LoseMessage { request } => {
                if let Some((queue, number)) = self.requests[*request].place {
                    self.remove(queue, number);
                }
                let token = self.requests[*request].lease;
                self.claims.retain(|part| Some(part.token) != token);
            }
            Command::Duplicate { queue, request } => {
                self.put(*queue, *request);
            }
            other => unreachable!("{other:?}"),
        }
    }
}

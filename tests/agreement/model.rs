//! A plain model of requests, their messages and leases, the gates, the inbox and the idempotency keys.
//!
//! It says what each command must answer and leave behind. It knows the documents, and none of the engine's functions.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{Check, Command, End, Order, Pick, Queue, Reply, Sent, Wait};

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

/// Whether the next attempt waits: the downstream's wish lengthens the backoff, and never shortens it or ends a request.
fn is_put_off(kind: usize, attempts: u32, wait: Wait) -> bool {
    !is_at_once(kind) || attempts >= ATTEMPTS || wait == Wait::TooLong
}

fn is_at_most_once(kind: usize) -> bool {
    KINDS[kind] == "input_proof"
}

/// Whether the key of what may have been executed is free: those of decryptions.
fn is_repeatable(kind: usize) -> bool {
    is_checked(kind)
}

fn entry(kind: usize) -> Queue {
    if is_checked(kind) { Queue::Readiness } else { Queue::Tx }
}

/// Whether a response fits the kind.
fn fits(kind: usize, part: Option<usize>, accept: Option<bool>) -> bool {
    match KINDS[kind] {
        "input_proof" => part.is_none() && accept.is_some(),
        "user_decrypt" => part.is_some() && accept.is_none(),
        "public_decrypt" => accept.is_none(),
        _ => part.is_none() && accept.is_none(),
    }
}

impl Part {
    /// Where it is in the order in which leases run out.
    fn end(&self) -> (u32, u32, u32) {
        (self.given, self.token, self.part)
    }
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

    /// The leases that are held still, even if they have run out, counted from the last that was given out.
    pub fn still_held(&self, queue: Queue) -> Vec<usize> {
        let leases = self.leases[queue as usize].iter().rev().enumerate();
        leases
            .filter(|(_, lease)| self.requests[lease.request].lease == Some(lease.token))
            .map(|(back, _)| back)
            .collect()
    }

    /// The requests that a downstream may know.
    pub fn sent(&self) -> Vec<usize> {
        let may_be_known = |&request: &usize| {
            let status = self.requests[request].status;
            matches!(status, Status::ReceiptReceived | Status::TxInFlight)
        };
        (0..self.requests.len()).filter(may_be_known).collect()
    }

    /// The submissions whose keys are known.
    pub fn keyed(&self) -> Vec<Order> {
        let order = |(&(kind, submitter, key), known): (&(usize, usize, u8), &Known)| Order {
            kind,
            submitter,
            key: Some(key),
            payload: known.payload,
            enforced: true,
        };
        self.keys.iter().map(order).collect()
    }

    /// The requests that await a response.
    pub fn awaiting(&self) -> Vec<usize> {
        let awaits = |request: &usize| self.requests[*request].status == Status::ReceiptReceived;
        (0..self.requests.len()).filter(awaits).collect()
    }

    /// The queues in which a claim finds something.
    pub fn where_something_waits(&self) -> Vec<Queue> {
        let in_queue = self.queues_with_messages(false);
        let run_out = self.queues_with_leases(true);
        [Queue::Readiness, Queue::Tx]
            .into_iter()
            .filter(|queue| in_queue.contains(queue) || run_out.contains(queue))
            .collect()
    }

    pub fn where_something_is_held(&self) -> Vec<Queue> {
        self.queues_with_leases(false)
    }

    pub fn where_something_is_put_off(&self) -> Vec<Queue> {
        self.queues_with_messages(true)
    }

    fn queues_with_messages(&self, put_off: bool) -> Vec<Queue> {
        let has = |queue: &Queue| {
            let messages = &self.queues[*queue as usize];
            messages.iter().any(|message| message.is_put_off == put_off)
        };
        [Queue::Readiness, Queue::Tx].into_iter().filter(has).collect()
    }

    fn queues_with_leases(&self, run_out: bool) -> Vec<Queue> {
        [Queue::Readiness, Queue::Tx]
            .into_iter()
            .filter(|&queue| {
                let mut leased = self.leased(queue);
                leased.any(|(_, has_run_out)| has_run_out == run_out)
            })
            .collect()
    }

    /// The requests under a lease of a queue, and whether it has run out.
    fn leased(&self, queue: Queue) -> impl Iterator<Item = (usize, bool)> {
        let parts = self.claims.iter().filter(move |part| part.queue == queue);
        parts.flat_map(|part| {
            let held = self.held_in(part).into_iter();
            held.map(|request| (request, part.has_run_out))
        })
    }

    /// What a part of a claim still holds.
    fn held_in(&self, part: &Part) -> Vec<usize> {
        let names = |request: &usize| self.requests[*request].lease == Some(part.token);
        part.requests.iter().copied().filter(names).collect()
    }

    /// Whether the lease that the request is under has run out, if it is under one.
    fn lease_has_run_out(&self, request: usize) -> Option<bool> {
        let (queue, _) = self.requests[request].place?;
        let mut leased = self.leased(queue);
        leased.find(|&(held, _)| held == request).map(|(_, run_out)| run_out)
    }

    pub fn kind(&self, request: usize) -> &'static str {
        KINDS[self.requests[request].kind]
    }

    fn go(&mut self, request: usize, status: Status, cause: &'static str) {
        let row = &self.requests[request];
        let may_be_executed = row.attempts > row.unsent;
        let is_answered = self.inbox.iter().any(|kept| {
            let is_its = kept.late || !kept.by_reference || (row.has_reference && may_be_executed);
            kept.to == request && is_its && kept.part.is_none()
        });
        let row = &mut self.requests[request];
        row.status = status;
        row.causes.push(cause);
        if matches!(status, Status::Failure | Status::TimedOut) {
            row.executed = match (may_be_executed, is_answered) {
                (_, true) => "yes",
                (true, false) => "unknown",
                (false, false) => "no",
            };
        }
    }

    /// An answer that came with a receipt, and does not answer the request, is kept.
    fn keep_late(&mut self, request: usize) {
        self.inbox.push(Kept { to: request, by_reference: false, part: None, accept: None, late: true });
    }

    /// The downstream has answered a request that has ended.
    fn is_executed(&mut self, request: usize) {
        let row = &mut self.requests[request];
        if matches!(row.status, Status::Failure | Status::TimedOut) && !row.is_taken_back {
            row.executed = "yes";
        }
    }

    /// What the outcomes of sends tell about requests that others have ended; each lease tells it once.
    fn settle_late(&mut self, sent: Sent, picks: &[Pick]) {
        let leases = picks.iter().filter_map(|pick| pick.of(&self.leases[Queue::Tx as usize]));
        let mut late: Vec<Lease> = leases.copied().collect();
        late.sort_by_key(|lease| lease.request);
        for Lease { request, token } in late {
            let row = &mut self.requests[request];
            if row.ended_lease != Some(token) {
                continue;
            }
            row.ended_lease = None;
            match sent {
                Sent::Receipt { reference, answered } => {
                    row.has_reference |= reference;
                    if answered {
                        self.keep_late(request);
                        self.is_executed(request);
                    }
                }
                Sent::Rejected | Sent::Retry { left: Some(false), .. } => {
                    row.unsent += 1;
                    if row.attempts == row.unsent && row.executed == "unknown" {
                        row.executed = "no";
                    }
                }
                Sent::Retry { .. } => {}
            }
        }
    }

    /// Claims that hold nothing any more go with the settle of their last request.
    fn end_leases(&mut self, tokens: &[Option<u32>]) {
        let mut claims = std::mem::take(&mut self.claims);
        claims.retain(|part| !tokens.contains(&Some(part.token)) || !self.held_in(part).is_empty());
        self.claims = claims;
    }

    fn tokens(&self, requests: &[usize]) -> Vec<Option<u32>> {
        requests.iter().map(|&request| self.requests[request].lease).collect()
    }

    /// Whether a key stands for its request still.
    fn stands(&self, known: &Known) -> bool {
        let row = &self.requests[known.request];
        match row.status {
            Status::Completed => !known.is_over,
            // The window since such an end is never over here.
            Status::Failure | Status::TimedOut => row.executed != "no" && !is_repeatable(row.kind),
            _ => true,
        }
    }

    fn depth(&self, queue: Queue) -> usize {
        self.queues[queue as usize].len() + self.leased(queue).count()
    }

    /// Whether the message that the request's row names waits.
    fn has_message(&self, request: usize) -> bool {
        self.requests[request].place.is_some_and(|(queue, number)| {
            let mut messages = self.queues[queue as usize].iter();
            messages.any(|message| message.number == number)
        })
    }

    /// Whether a message stands for no request that waits in this queue.
    fn is_stray(&self, queue: Queue, message: &Message) -> bool {
        let row = &self.requests[message.request];
        row.place != Some((queue, message.number)) || row.lease.is_some()
    }

    fn put(&mut self, queue: Queue, request: usize) -> u64 {
        self.numbers += 1;
        self.add(queue, self.numbers, request, false);
        self.numbers
    }

    fn add(&mut self, queue: Queue, number: u64, request: usize, is_put_off: bool) {
        let messages = &mut self.queues[queue as usize];
        let place = messages.partition_point(|message| message.number < number);
        messages.insert(place, Message { number, request, is_put_off });
    }

    /// The request's lease ends, and its message waits again under its old number.
    fn put_back(&mut self, request: usize, is_put_off: bool) {
        self.requests[request].lease = None;
        if let Some((queue, number)) = self.requests[request].place {
            self.add(queue, number, request, is_put_off);
        }
    }

    /// Messages have gone: the gate may open.
    fn look_after_removal(&mut self, queue: Queue) -> bool {
        let depth = self.depth(queue);
        let gate = &mut self.gates[queue as usize];
        let opens = gate.closed && !gate.forced && depth <= LOW_WATER;
        gate.closed &= !opens;
        opens
    }

    /// Messages have come: the gate may close.
    fn look_after_addition(&mut self, queue: Queue) -> bool {
        let depth = self.depth(queue);
        let gate = &mut self.gates[queue as usize];
        let closes = !gate.closed && !gate.forced && depth >= HIGH_WATER;
        gate.closed |= closes;
        closes
    }

    fn remove(&mut self, queue: Queue, number: u64) {
        self.queues[queue as usize].retain(|message| message.number != number);
    }

    /// The request leaves its queue: its message goes, and its lease ends. The caller looks at the gate.
    fn finish(&mut self, request: usize, status: Status, cause: &'static str) {
        self.go(request, status, cause);
        self.requests[request].lease = None;
        if let Some((queue, number)) = self.requests[request].place.take() {
            self.remove(queue, number);
        }
    }

    /// Another than its holder ends the request.
    fn end_outside(&mut self, request: usize, status: Status, cause: &'static str) {
        self.requests[request].ended_lease = self.requests[request].lease;
        self.finish(request, status, cause);
    }

    fn insert(&mut self, kind: usize) -> usize {
        let request = self.requests.len();
        let queue = entry(kind);
        let number = self.put(queue, request);
        let status = if is_checked(kind) { Status::Queued } else { Status::Processing };
        self.requests.push(Request {
            kind,
            status,
            causes: vec!["submitted"],
            checks: 0,
            waits: 0,
            attempts: 0,
            unsent: 0,
            is_cancelled: false,
            executed: "-",
            ended_lease: None,
            is_taken_back: false,
            place: Some((queue, number)),
            lease: None,
            readiness_deadline_passed: false,
            deadline_passed: false,
            response_overdue: false,
            has_reference: false,
            parts: BTreeSet::new(),
        });
        request
    }

    /// How many more the gates let in; a gate that counts and is full closes.
    fn room(&self, kind: usize) -> usize {
        let closed = |queue: Queue| self.gates[queue as usize].closed;
        if closed(entry(kind)) || closed(Queue::Tx) {
            0
        } else if self.gates[entry(kind) as usize].forced {
            usize::MAX
        } else {
            HIGH_WATER.saturating_sub(self.depth(entry(kind)))
        }
    }

    /// After an enforced submission: one that was let in where a gate counts has seen its depth.
    fn look_after_submission(&mut self, kind: usize, was_closed: bool) {
        if !was_closed {
            self.look_after_addition(entry(kind));
        }
    }

    fn submit(&mut self, order: &Order) -> Answer {
        let kind = order.kind;
        let key = order.key.map(|key| (kind, order.submitter, key));
        let known = key.and_then(|key| self.keys.get(&key)).filter(|known| self.stands(known));
        let known = match known {
            Some(known) if known.payload != order.payload => return Err("TG004"),
            known => known.map(|known| known.request),
        };
        // A replay passes no gate.
        if let Some(request) = known {
            return Ok(vec![format!("{request} replayed")]);
        }
        let was_closed = [entry(kind), Queue::Tx].into_iter().any(|queue| self.gates[queue as usize].closed);
        let answer = if order.enforced && self.room(kind) == 0 {
            "refused".to_owned()
        } else {
            let request = self.insert(kind);
            if let Some(key) = key {
                let known = Known { request, payload: order.payload, is_over: false, is_due: false };
                self.keys.insert(key, known);
            }
            if !order.enforced {
                self.look_after_addition(entry(kind));
            }
            format!("{request} accepted")
        };
        if order.enforced {
            self.look_after_submission(kind, was_closed);
        }
        Ok(vec![answer])
    }

    fn submit_batch(&mut self, kind: usize, count: usize) -> Vec<String> {
        let was_closed = [entry(kind), Queue::Tx].into_iter().any(|queue| self.gates[queue as usize].closed);
        let answers = if self.room(kind) < count {
            vec!["refused".to_owned(); count]
        } else {
            (0..count).map(|_| format!("{} accepted", self.insert(kind))).collect()
        };
        self.look_after_submission(kind, was_closed);
        answers
    }

    fn claim(&mut self, queue: Queue, batch: usize) -> Vec<String> {
        let held = self.leased(queue).filter(|(_, run_out)| !run_out).count();
        let limit = match queue {
            Queue::Readiness => batch.min(CONCURRENCY.saturating_sub(held)),
            Queue::Tx => batch,
        };
        if limit == 0 {
            return Vec::new();
        }
        let depth = self.depth(queue);
        let reaped = self.reap(queue, limit);
        let has_reaped = reaped.is_some();
        let taken = reaped.unwrap_or_else(|| self.take(queue, limit));
        let claimed: Vec<usize> = taken.into_iter().filter(|&request| self.may_be_claimed(queue, request)).collect();
        if !claimed.is_empty() {
            self.tokens += 1;
            self.given += 1;
            self.claims.push(Part {
                queue,
                token: self.tokens,
                part: 0,
                given: self.given,
                has_run_out: false,
                requests: claimed.clone(),
            });
        }
        let token = self.tokens;
        for &request in &claimed {
            self.requests[request].lease = Some(token);
            self.leases[queue as usize].push(Lease { request, token });
        }
        // Messages may have been removed by hand before: a claim that reaps a lease finds that, too.
        if has_reaped || self.depth(queue) < depth {
            self.look_after_removal(queue);
        }
        claimed.into_iter().map(|request| format!("{request} {}", self.begin_attempt(queue, request))).collect()
    }

    fn begin_attempt(&mut self, queue: Queue, request: usize) -> u32 {
        if queue == Queue::Tx {
            self.go(request, Status::TxInFlight, "claimed");
        }
        let row = &mut self.requests[request];
        let attempts = match queue {
            Queue::Readiness => &mut row.checks,
            Queue::Tx => &mut row.attempts,
        };
        *attempts += 1;
        *attempts
    }

    /// What a lease that has run out still held, the oldest one: up to `limit` requests of it, the others wait again. Nothing
    /// when there was no such lease.
    fn reap(&mut self, queue: Queue, limit: usize) -> Option<Vec<usize>> {
        let held = loop {
            let run_out = |part: &&Part| part.queue == queue && part.has_run_out;
            let oldest = self.claims.iter().filter(run_out).map(Part::end).min()?;
            let place = self.claims.iter().position(|part| part.end() == oldest)?;
            let part = self.claims.remove(place);
            let held = self.held_in(&part);
            if !held.is_empty() {
                break held;
            }
        };
        let mut waiting = Vec::new();
        for request in held {
            let row = &self.requests[request];
            let failure = match row.status {
                Status::TxInFlight if is_at_most_once(row.kind) => Some("outcome_unknown"),
                Status::TxInFlight => self.cannot_be_sent(request).or(row.is_cancelled.then_some("cancelled")),
                _ => None,
            };
            if let Some(cause) = failure {
                self.end_outside(request, Status::Failure, cause);
                continue;
            }
            if row.status == Status::TxInFlight {
                self.go(request, Status::Processing, "recovered");
            }
            self.requests[request].lease = None;
            waiting.push(request);
        }
        waiting.sort_by_key(|&request| self.requests[request].place.map(|(_, number)| number));
        for request in waiting.split_off(limit.min(waiting.len())) {
            self.put_back(request, false);
        }
        Some(waiting)
    }

    /// Up to `limit` messages that wait leave the queue: the requests that they stand for.
    fn take(&mut self, queue: Queue, limit: usize) -> Vec<usize> {
        let mut left = limit;
        let taken = self.queues[queue as usize].extract_if(.., |message| {
            let is_taken = left > 0 && !message.is_put_off;
            left -= usize::from(is_taken);
            is_taken
        });
        let taken: Vec<_> = taken.collect();
        taken.into_iter().filter(|message| !self.is_stray(queue, message)).map(|message| message.request).collect()
    }

    /// Whether a claim hands out a request whose message it has taken; it may end it instead.
    fn may_be_claimed(&mut self, queue: Queue, request: usize) -> bool {
        let row = &self.requests[request];
        match (queue, row.status) {
            (Queue::Readiness, Status::Queued) => {
                let overdue = row.readiness_deadline_passed || row.deadline_passed;
                if row.checks - row.waits >= ATTEMPTS || overdue {
                    self.finish(request, Status::TimedOut, "readiness_timed_out");
                    return false;
                }
                true
            }
            (Queue::Tx, Status::Processing) => {
                if let Some(cause) = self.cannot_be_sent(request) {
                    self.finish(request, Status::Failure, cause);
                    return false;
                }
                true
            }
            _ => false,
        }
    }

    /// Why there is no further send, if there is none.
    fn cannot_be_sent(&self, request: usize) -> Option<&'static str> {
        let row = &self.requests[request];
        if row.attempts - row.unsent > ATTEMPTS {
            Some("attempts_exhausted")
        } else {
            row.deadline_passed.then_some("deadline_exceeded")
        }
    }

    /// The picked leases that still hold requests of this status, in the order of their numbers.
    fn held(&self, queue: Queue, picks: &[Pick], status: Status) -> Vec<usize> {
        let mut held: Vec<(u64, usize)> = Vec::new();
        for lease in picks.iter().filter_map(|pick| pick.of(&self.leases[queue as usize])) {
            let row = &self.requests[lease.request];
            if let Some((_, number)) = row.place
                && row.lease == Some(lease.token)
                && row.status == status
            {
                held.push((number, lease.request));
            }
        }
        held.sort_unstable();
        held.into_iter().map(|(_, request)| request).collect()
    }

    fn moved(&self, requests: impl Iterator<Item = usize>) -> Vec<String> {
        requests.map(|request| format!("{request} {}", self.requests[request].status.word())).collect()
    }

    fn settle_checks(&mut self, check: Check, picks: &[Pick]) -> Vec<String> {
        let held = self.held(Queue::Readiness, picks, Status::Queued);
        let tokens = self.tokens(&held);
        for &request in &held {
            match check {
                Check::Passed => {
                    self.finish(request, Status::Processing, "readiness_passed");
                    let number = self.put(Queue::Tx, request);
                    self.requests[request].place = Some((Queue::Tx, number));
                }
                Check::Failed => self.finish(request, Status::Failure, "readiness_failed"),
                Check::Snooze { wait, code } => self.snooze(request, wait, code),
            }
        }
        self.end_leases(&tokens);
        if self.some_have_left(&held, Queue::Readiness) {
            self.look_after_removal(Queue::Readiness);
            if check == Check::Passed {
                self.look_after_addition(Queue::Tx);
            }
        }
        self.moved(held.into_iter())
    }

    fn some_have_left(&self, requests: &[usize], queue: Queue) -> bool {
        requests.iter().any(|&request| {
            let place = self.requests[request].place;
            place.is_none_or(|(place, _)| place != queue)
        })
    }

    fn snooze(&mut self, request: usize, wait: Wait, code: Option<&'static str>) {
        let row = &self.requests[request];
        if code.is_some_and(|code| !is_retried(code)) {
            self.finish(request, Status::Failure, "readiness_failed");
            return;
        }
        let overdue = row.readiness_deadline_passed || row.deadline_passed;
        let is_put_off = is_put_off(row.kind, row.checks, wait) && !overdue;
        if code.is_some() && (row.checks - row.waits >= ATTEMPTS || overdue) {
            self.finish(request, Status::TimedOut, "readiness_timed_out");
        } else {
            self.requests[request].waits += u32::from(code.is_none());
            self.put_back(request, is_put_off);
        }
    }

    fn settle_sends(&mut self, sent: Sent, picks: &[Pick]) -> Vec<String> {
        let held = self.held(Queue::Tx, picks, Status::TxInFlight);
        let tokens = self.tokens(&held);
        self.settle_late(sent, picks);
        for &request in &held {
            match sent {
                Sent::Receipt { reference, answered } => self.receipt(request, reference, answered),
                Sent::Rejected => {
                    self.requests[request].unsent += 1;
                    self.finish(request, Status::Failure, "rejected");
                }
                Sent::Retry { wait, code, left } => self.retry(request, wait, code, left),
            }
        }
        self.end_leases(&tokens);
        if self.some_have_left(&held, Queue::Tx) {
            self.look_after_removal(Queue::Tx);
        }
        self.moved(held.into_iter())
    }

    fn receipt(&mut self, request: usize, reference: bool, answered: bool) {
        let kind = KINDS[self.requests[request].kind];
        self.requests[request].has_reference = reference;
        if kind == "direct" && answered {
            self.finish(request, Status::Completed, "receipt");
            return;
        }
        self.finish(request, Status::ReceiptReceived, "receipt");
        self.apply_inbox(request);
        // An answer that is there with the receipt counts as the one that came after all others.
        if answered {
            let fits = kind == "public_decrypt";
            let awaited = self.requests[request].status == Status::ReceiptReceived;
            if fits && awaited {
                self.go(request, Status::Completed, "response");
            } else {
                self.keep_late(request);
            }
        }
    }

    fn retry(&mut self, request: usize, wait: Wait, code: &'static str, left: Option<bool>) {
        let row = &self.requests[request];
        let at_most_once = is_at_most_once(row.kind);
        let is_refused = code.starts_with("http_4") && !is_retried(code);
        let left_now = left.unwrap_or(true) && !is_refused;
        let left = left_now || row.attempts - 1 > row.unsent;
        let (attempts, is_cancelled, deadline_passed) =
            (row.attempts - row.unsent, row.is_cancelled, row.deadline_passed);
        let is_put_off = is_put_off(row.kind, row.attempts, wait);
        self.requests[request].unsent += u32::from(!left_now);
        let cause = if at_most_once && left {
            "outcome_unknown"
        } else if is_refused {
            "rejected"
        } else if !is_retried(code) {
            if left { "outcome_unknown" } else { "rejected" }
        } else if left_now && attempts >= ATTEMPTS {
            "attempts_exhausted"
        } else if deadline_passed {
            "deadline_exceeded"
        } else if is_cancelled {
            "cancelled"
        } else {
            self.go(request, Status::Processing, "send_retried");
            self.put_back(request, is_put_off);
            return;
        };
        self.finish(request, Status::Failure, cause);
    }

    fn release(&mut self, queue: Queue, picks: &[Pick]) -> Vec<String> {
        let status = match queue {
            Queue::Readiness => Status::Queued,
            Queue::Tx => Status::TxInFlight,
        };
        let held = self.held(queue, picks, status);
        let tokens = self.tokens(&held);
        for &request in &held {
            match queue {
                Queue::Readiness => self.requests[request].checks -= 1,
                Queue::Tx if self.requests[request].is_cancelled => {
                    self.requests[request].unsent += 1;
                    self.finish(request, Status::Failure, "cancelled");
                    continue;
                }
                Queue::Tx => self.requests[request].attempts -= 1,
            }
            if queue == Queue::Tx {
                self.go(request, Status::Processing, "released");
            }
            self.put_back(request, false);
        }
        self.end_leases(&tokens);
        if self.some_have_left(&held, queue) {
            self.look_after_removal(queue);
        }
        self.moved(held.into_iter())
    }

    /// What is named of a claim ends later; what is not named becomes a part of its own, and keeps its time.
    fn extend(&mut self, queue: Queue, picks: &[Pick]) -> Vec<String> {
        let leases = &self.leases[queue as usize];
        let named: Vec<Lease> = picks.iter().filter_map(|pick| pick.of(leases)).copied().collect();
        self.given += 1;
        let mut prolonged = 0;
        for place in 0..self.claims.len() {
            let part = &self.claims[place];
            let (token, given) = (part.token, part.given);
            let (kept, rest): (Vec<_>, Vec<_>) = self.held_in(part).into_iter().partition(|&request| {
                let is_it = |lease: &Lease| lease.request == request && lease.token == token;
                named.iter().any(is_it)
            });
            if part.has_run_out || kept.is_empty() {
                continue;
            }
            prolonged += kept.len();
            self.claims[place].given = self.given;
            self.claims[place].requests = kept;
            if !rest.is_empty() {
                let parts = self.claims.iter().filter(|part| part.token == token);
                let last = parts.map(|part| part.part).max().unwrap_or_default();
                self.claims.push(Part { queue, token, part: last + 1, given, has_run_out: false, requests: rest });
            }
        }
        vec![prolonged.to_string()]
    }

    /// The outcome of a response, and the request, if it is known.
    fn respond(&mut self, reply: Reply) -> Result<(&'static str, Option<usize>), &'static str> {
        let Reply { request: to, by_reference, part, accept } = reply;
        let keep = |late| Kept { to, by_reference, part, accept, late };
        if by_reference && !self.requests[to].has_reference {
            self.inbox.push(keep(false));
            return Ok(("early", None));
        }
        if !fits(self.requests[to].kind, part, accept) {
            return Err("TG007");
        }
        let status = self.requests[to].status;
        let outcome = if status == Status::ReceiptReceived {
            self.apply(to, part, accept).unwrap_or_default()
        } else {
            self.inbox.push(keep(status.is_terminal()));
            if status.is_terminal() && part.is_none() {
                self.is_executed(to);
            }
            if status.is_terminal() { "late" } else { "early" }
        };
        Ok((outcome, Some(to)))
    }

    fn told(&self, outcome: &str, known: Option<usize>) -> String {
        match known {
            Some(request) => format!("{outcome} {request} {}", self.requests[request].status.word()),
            None => outcome.to_owned(),
        }
    }

    /// What a response does to a request; nothing to one that does not await it or that it does not fit.
    fn apply(&mut self, request: usize, part: Option<usize>, accept: Option<bool>) -> Option<&'static str> {
        let row = &mut self.requests[request];
        if row.status != Status::ReceiptReceived || !fits(row.kind, part, accept) {
            return None;
        }
        if let Some(part) = part {
            if !row.parts.insert(part) {
                return Some("duplicate");
            }
            let wanted = if KINDS[row.kind] == "user_decrypt" { THRESHOLD } else { 1 };
            if row.parts.len() < wanted {
                return Some("stored");
            }
            self.go(request, Status::Completed, "threshold_reached");
            return Some("completed");
        }
        match accept {
            Some(true) => self.go(request, Status::Completed, "verdict_accepted"),
            Some(false) => {
                self.go(request, Status::Failure, "verdict_rejected");
                self.requests[request].executed = "yes";
            }
            None => self.go(request, Status::Completed, "response"),
        }
        Some(if accept == Some(false) { "rejected" } else { "completed" })
    }

    /// The responses that were kept for a request which awaits them now, or never will; how many were applied.
    fn apply_inbox(&mut self, request: usize) -> usize {
        let has_reference = self.requests[request].has_reference;
        let mut applied = 0;
        for kept in std::mem::take(&mut self.inbox) {
            let is_its = kept.to == request && (!kept.by_reference || has_reference) && !kept.late;
            if !is_its {
                self.inbox.push(kept);
            } else if self.apply(request, kept.part, kept.accept).is_some() {
                applied += 1;
            } else {
                if kept.part.is_none() {
                    self.is_executed(request);
                }
                self.inbox.push(Kept { late: true, ..kept });
            }
        }
        applied
    }

    fn sweep_inbox(&mut self) -> usize {
        let mut applied = 0;
        for request in 0..self.requests.len() {
            let status = self.requests[request].status;
            if status == Status::ReceiptReceived || status.is_terminal() {
                applied += self.apply_inbox(request);
            }
        }
        applied
    }

    fn cancel(&mut self, request: usize) -> String {
        match self.requests[request].status {
            Status::Queued | Status::Processing => {
                let queue = self.requests[request].place.map(|(queue, _)| queue);
                self.finish(request, Status::Failure, "cancelled");
                if let Some(queue) = queue {
                    self.look_after_removal(queue);
                }
                "cancelled failure".to_owned()
            }
            Status::Failure if self.requests[request].causes.last() == Some(&"cancelled") => {
                "cancelled failure".to_owned()
            }
            Status::TxInFlight => {
                self.requests[request].is_cancelled = true;
                "cancelling tx_in_flight".to_owned()
            }
            status => format!("not_cancellable {}", status.word()),
        }
    }

    /// What ends requests from outside any lease: the status that it leads to, with the cause, or nothing.
    fn ends(&self, end: End, request: usize) -> Option<(Status, &'static str)> {
        let row = &self.requests[request];
        match (end, row.status) {
            (_, status) if status.is_terminal() => None,
            (End::FailInternal, _) => Some((Status::Failure, "internal_error")),
            (End::FailReceipt, Status::ReceiptReceived) => Some((Status::Failure, "rejected")),
            (End::FailTx, Status::Processing) => Some((Status::Failure, "send_refused")),
            (End::FailTx, Status::TxInFlight) => Some((Status::Failure, "rejected")),
            (End::FailTx, Status::ReceiptReceived) if KINDS[row.kind] == "input_proof" => {
                Some((Status::Failure, "verdict_rejected"))
            }
            (End::TimeOut | End::Readiness, Status::Queued) => Some((Status::TimedOut, "readiness_timed_out")),
            (End::TimeOut | End::Response, Status::ReceiptReceived) => Some((Status::TimedOut, "response_timed_out")),
            (End::Deadline, Status::Queued | Status::Processing | Status::TxInFlight) => {
                Some((Status::Failure, "deadline_exceeded"))
            }
            _ => None,
        }
    }

    fn end_all(&mut self, end: End, requests: &[usize]) -> Vec<String> {
        let mut moved = Vec::new();
        let mut queues = BTreeSet::new();
        for &request in requests {
            if let Some((status, cause)) = self.ends(end, request) {
                queues.extend(self.requests[request].place.map(|(queue, _)| queue));
                self.end_outside(request, status, cause);
                if end == End::FailReceipt {
                    self.requests[request].executed = "no";
                    self.requests[request].is_taken_back = true;
                }
                moved.push(request);
            }
        }
        for queue in queues {
            self.look_after_removal(queue);
        }
        self.moved(moved.into_iter())
    }

    fn end_by_hand(&mut self, end: End, request: usize) -> Vec<String> {
        self.end_all(end, &[request])
    }

    fn sweep(&mut self, end: End) -> String {
        let due: Vec<_> = (0..self.requests.len())
            .filter(|&request| {
                let row = &self.requests[request];
                match end {
                    End::Readiness => row.readiness_deadline_passed,
                    End::Deadline => row.deadline_passed,
                    _ => row.response_overdue,
                }
            })
            .collect();
        self.end_all(end, &due).len().to_string()
    }

    fn recover(&mut self, all: bool, force: bool) -> Answer {
        let live = self.leased(Queue::Tx).any(|(_, run_out)| !run_out);
        if all && !force && live {
            return Err("TG007");
        }
        let (mut reset, mut ended, mut rebuilt) = (0, 0, 0);
        let mut gone = false;
        for request in 0..self.requests.len() {
            let row = &self.requests[request];
            if row.place.is_none() {
                continue;
            }
            let run_out = self.lease_has_run_out(request);
            let is_there = run_out.is_some() || self.has_message(request);
            let lost = row.status == Status::TxInFlight && (all || run_out != Some(false));
            let cause = if is_at_most_once(row.kind) { "outcome_unknown" } else { "cancelled" };
            if lost && (is_at_most_once(row.kind) || row.is_cancelled) {
                gone |= is_there;
                ended += 1;
                self.end_outside(request, Status::Failure, cause);
                continue;
            }
            if lost {
                reset += 1;
                self.go(request, Status::Processing, "recovered");
                self.requests[request].lease = None;
            }
            if !is_there {
                rebuilt += 1;
            }
            if (lost || !is_there) && !self.has_message(request) {
                self.put_back(request, false);
            }
        }
        if gone {
            self.look_after_removal(Queue::Tx);
        }
        if rebuilt > 0 {
            self.look_after_addition(Queue::Readiness);
            self.look_after_addition(Queue::Tx);
        }
        Ok(vec![format!("{reset} {ended} {rebuilt} 0")])
    }

    fn remove_stray_messages(&mut self, queue: Queue) -> String {
        let messages = std::mem::take(&mut self.queues[queue as usize]);
        let before = messages.len();
        let kept = messages.into_iter().filter(|message| !self.is_stray(queue, message)).collect();
        self.queues[queue as usize] = kept;
        let removed = before - self.queues[queue as usize].len();
        if removed > 0 {
            self.look_after_removal(queue);
        }
        removed.to_string()
    }

    fn gates_evaluate(&mut self) -> usize {
        [Queue::Readiness, Queue::Tx]
            .into_iter()
            .filter(|&queue| {
                if self.gates[queue as usize].closed {
                    self.look_after_removal(queue)
                } else {
                    self.look_after_addition(queue)
                }
            })
            .count()
    }

    /// A gate is held by hand, or released: then it goes by its high mark.
    fn force(&mut self, queue: Queue, closed: Option<bool>) -> String {
        let depth = self.depth(queue);
        let gate = &mut self.gates[queue as usize];
        let changes = match closed {
            None => gate.forced,
            Some(closed) => !(gate.forced && gate.closed == closed),
        };
        if changes {
            gate.closed = closed.unwrap_or(depth >= HIGH_WATER);
            gate.forced = closed.is_some();
        }
        changes.to_string()
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

    /// Everything, as text to compare: what the database must say of itself now.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        for (number, row) in self.requests.iter().enumerate() {
            let kept = |late| {
                let its = |kept: &&Kept| kept.to == number && kept.late == late;
                self.inbox.iter().filter(its).count()
            };
            lines.push(format!(
                "{number} {} executed {} checks {} attempts {} parts {} early {} late {} awaited {}: {}",
                row.status.word(),
                if row.status == Status::Completed { "yes" } else { row.executed },
                row.checks,
                row.attempts,
                row.parts.len(),
                kept(false),
                kept(true),
                row.status == Status::ReceiptReceived,
                row.causes.join(" "),
            ));
        }
        for queue in [Queue::Readiness, Queue::Tx] {
            let gate = &self.gates[queue as usize];
            let waiting = self.queues[queue as usize].iter().map(|message| {
                let hold = if message.is_put_off { "later" } else { "free" };
                let stray = self.is_stray(queue, message);
                let stray = if stray { " stray" } else { "" };
                (message.number, format!(" {}:{hold}{stray}", message.request))
            });
            let leased = self.leased(queue).filter_map(|(request, run_out)| {
                let hold = if run_out { "lapsed" } else { "held" };
                let (_, number) = self.requests[request].place?;
                Some((number, format!(" {request}:{hold}")))
            });
            let mut all: Vec<_> = waiting.chain(leased).collect();
            all.sort();
            lines.push(format!(
                "{} {}{} {}:{}",
                queue.name(),
                if gate.closed { "too_many_requests" } else { "accepting" },
                if gate.forced { " forced" } else { "" },
                self.depth(queue),
                all.into_iter().map(|(_, text)| text).collect::<String>(),
            ));
        }
        for ((kind, submitter, key), known) in &self.keys {
            lines.push(format!(
                "{}:{} key-{key} {}{}{}",
                KINDS[*kind],
                SUBMITTERS[*submitter],
                known.request,
                if known.is_due { " due" } else { "" },
                if self.stands(known) { "" } else { " free" }
            ));
        }
        lines.sort();
        lines.join("\n")
    }
}

fn is_retried(code: &str) -> bool {
    matches!(code, "timeout" | "http_503" | "http_429")
}

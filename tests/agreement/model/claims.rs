//! Claims and their leases: what they take, hold and rescue.

use super::{
    super::commands::{Pick, Queue},
    ATTEMPTS, CONCURRENCY, Lease, Model, Part, Status, is_at_most_once,
};

impl Part {
    /// Where it is in the order in which leases run out.
    fn end(&self) -> (u32, u32, u32) {
        (self.given, self.token, self.part)
    }
}

impl Model {
    /// The requests under a lease of a queue, and whether it has run out.
    pub(super) fn leased(&self, queue: Queue) -> impl Iterator<Item = (usize, bool)> {
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
    pub(super) fn lease_has_run_out(&self, request: usize) -> Option<bool> {
        let (queue, _) = self.requests[request].place?;
        let mut leased = self.leased(queue);
        leased.find(|&(held, _)| held == request).map(|(_, run_out)| run_out)
    }

    /// Claims that hold nothing any more go with the settle of their last request.
    pub(super) fn end_leases(&mut self, tokens: &[Option<u32>]) {
        let mut claims = std::mem::take(&mut self.claims);
        claims.retain(|part| !tokens.contains(&Some(part.token)) || !self.held_in(part).is_empty());
        self.claims = claims;
    }

    pub(super) fn tokens(&self, requests: &[usize]) -> Vec<Option<u32>> {
        requests.iter().map(|&request| self.requests[request].lease).collect()
    }

    pub(super) fn claim(&mut self, queue: Queue, batch: usize) -> Vec<String> {
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
    pub(super) fn take(&mut self, queue: Queue, limit: usize) -> Vec<usize> {
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
    pub(super) fn held(&self, queue: Queue, picks: &[Pick], status: Status) -> Vec<usize> {
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

    pub(super) fn release(&mut self, queue: Queue, picks: &[Pick]) -> Vec<String> {
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
    pub(super) fn extend(&mut self, queue: Queue, picks: &[Pick]) -> Vec<String> {
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
}

//! What each step does.

use super::{
    scene::{Bug, Scene},
    state::{Attempt, Call, Executed, Hold, Key, Outcome, Request, State, Status},
    steps::{Answer, Finding, Step},
};

impl Scene {
    /// Whether the key stands for this request.
    fn stands(&self, request: &Request, key: Key) -> bool {
        match request.status {
            Status::Absent => false,
            Status::Completed => !key.aged,
            Status::Failed => {
                let aged = if self.has(Bug::WindowFromAcceptance) { key.aged } else { request.aged };
                request.executed() != Executed::No && !aged && !self.has(Bug::KeyFreedAtEnd)
            }
            _ => !(key.aged && self.has(Bug::WindowOverLive)),
        }
    }

    pub(super) fn is_key_free(&self, state: &State) -> bool {
        state.key.is_none_or(|key| {
            let mut lineage = state.lineage(usize::from(key.request));
            !lineage.any(|id| self.stands(&state.requests[id], key))
        })
    }

    /// Whether a redrive may take a request: no other one was accepted with its key since.
    pub(super) fn is_redrivable(&self, state: &State, id: usize) -> bool {
        let request = &state.requests[id];
        let has_key = |key: Key| state.lineage(usize::from(key.request)).any(|other| other == id);
        request.status == Status::Failed
            && !request.is_past
            && request.redriven_as.is_none()
            && request.executed() != Executed::Yes
            && (self.has(Bug::RedriveAfterRepeat) || state.key.is_none_or(has_key))
    }

    fn is_retryable(&self, state: &State, id: usize) -> bool {
        let request = &state.requests[id];
        let is_alone = usize::from(request.send_id) == id && request.redriven_as.is_none();
        request.executed() == Executed::No && (is_alone || self.has(Bug::RepeatRetryable))
    }

    fn insert(state: &mut State, id: usize) -> &mut Request {
        state.requests[id] =
            Request { status: Status::Processing, send_id: u8::try_from(id).unwrap(), ..Request::default() };
        &mut state.requests[id]
    }

    fn submit(state: &mut State) {
        state.left.submissions -= 1;
        let Some(id) = state.free_place() else { return };
        state.forget_past();
        let request = Self::insert(state, id).send_id;
        state.key = Some(Key { request, aged: false });
    }

    fn redrive(&self, state: &mut State, id: usize) {
        state.left.redrives -= 1;
        let Some(new) = state.free_place() else { return };
        let old = state.requests[id];
        state.requests[id].redriven_as = Some(Self::insert(state, new).send_id);
        let is_unresolved = old.executed() == Executed::Unknown;
        let is_repeat = usize::from(old.send_id) != id && !self.has(Bug::SendIdOnce);
        if (is_unresolved || is_repeat) && !self.has(Bug::OwnSendId) {
            state.requests[new].send_id = old.send_id;
        }
        state.requests[id].retryable &= !is_unresolved;
        state.repeated |= is_unresolved;
    }

    fn claim(state: &mut State, id: usize) {
        let request = &mut state.requests[id];
        state.begun_late |= request.cancel_requested;
        request.status = Status::InFlight;
        request.claims += 1;
        request.last().hold = Hold::Held;
    }

    fn hedge(state: &mut State, id: usize) {
        state.left.hedges -= 1;
        let request = &mut state.requests[id];
        state.begun_late |= request.cancel_requested;
        request.last().calls[1] = Call::UnderWay;
    }

    /// A request fails or times out. `is_refusal`: by the downstream's word.
    fn end(&self, state: &mut State, id: usize, is_refusal: bool) {
        let responded = state.responded & (1 << state.requests[id].send_id) != 0;
        let request = &mut state.requests[id];
        request.status = Status::Failed;
        request.outcome = (request.claims > request.unsent).then_some(Outcome {
            executed: if responded { Executed::Yes } else { Executed::Unknown },
            by_operator: false,
        });
        let by_code = self.has(Bug::RetryableByCode) && !is_refusal;
        let is_cancelled = state.requests[id].cancel_requested;
        state.requests[id].retryable = !is_cancelled && (by_code || self.is_retryable(state, id));
    }

    /// Notes what is known of a request that has ended: what loses is dropped.
    fn establish(&self, state: &mut State, id: usize, executed: Executed, by_operator: bool) {
        let Some(known) = state.requests[id].outcome else {
            return;
        };
        let is_better = executed == Executed::Yes && known.executed == Executed::No && !by_operator;
        if known.executed == Executed::Unknown || known.by_operator || is_better {
            state.requests[id].outcome = Some(Outcome { executed, by_operator });
            if known.executed != executed {
                state.requests[id].retryable = self.is_retryable(state, id);
            }
        }
    }

    /// The worker settles its attempt, or tries to after the request has ended.
    fn settle(&self, state: &mut State, id: usize, place: usize, answer: Answer) {
        let attempt = state.requests[id].attempts[place];
        let counts = answer == Answer::Unsent || (answer == Answer::Refusal && !attempt.is_hedged());
        state.requests[id].attempts[place].end();
        if attempt.hold == Hold::Listed {
            self.settle_late(state, id, answer, counts);
            return;
        }
        match answer {
            Answer::Response => state.requests[id].status = Status::Completed,
            Answer::Receipt => {
                let responded = state.responded & (1 << state.requests[id].send_id) != 0;
                state.requests[id].status = if responded { Status::Completed } else { Status::ReceiptReceived };
            }
            Answer::Refusal => self.refuse(state, id, attempt),
            Answer::Unsent | Answer::Nothing => self.retry(state, id, answer == Answer::Nothing),
        }
        if counts && self.has(Bug::SettleCountsTwice) {
            state.requests[id].attempts[place] = Attempt { hold: Hold::Listed, ..attempt };
        }
    }

    fn settle_late(&self, state: &mut State, id: usize, answer: Answer, counts: bool) {
        let request = &mut state.requests[id];
        if request.status != Status::Failed {
            return;
        }
        if answer == Answer::Response {
            let is_unresolved = request.is_unresolved();
            let send_id = request.send_id;
            if is_unresolved || !self.has(Bug::LateAfterWord) {
                self.respond(state, send_id);
            } else {
                state.responded |= 1 << send_id;
            }
        } else if counts && request.unsent < request.claims {
            request.unsent += 1;
            if request.unsent == request.claims {
                self.establish(state, id, Executed::No, false);
            }
        }
    }

    fn refuse(&self, state: &mut State, id: usize, attempt: Attempt) {
        let request = &mut state.requests[id];
        if !attempt.is_hedged() || self.has(Bug::RefusalOfHedged) {
            request.unsent += 1;
        }
        if !attempt.is_hedged() && self.has(Bug::RefusalAfterLoss) {
            request.unsent = request.claims;
        }
        self.end(state, id, true);
    }

    fn retry(&self, state: &mut State, id: usize, has_left: bool) {
        let request = &mut state.requests[id];
        request.unsent += u8::from(!has_left);
        let sent = request.claims - request.unsent;
        let forgets = self.has(Bug::RetryForgetsCancel) || self.has(Bug::ClaimLeavesCancelled);
        let is_cancelled = request.cancel_requested && !forgets;
        let is_exhausted = (has_left && sent >= self.attempts) || (self.at_most_once && sent > 0);
        if is_cancelled || is_exhausted {
            self.end(state, id, false);
        } else {
            request.status = Status::Processing;
        }
    }

    /// The lease runs out, and the next claim of the queue reaps it.
    fn lose(&self, state: &mut State, id: usize) {
        state.left.losses -= 1;
        let request = &mut state.requests[id];
        request.last().end();
        let is_cancelled = request.cancel_requested && !self.has(Bug::LossForgetsCancel);
        if is_cancelled || self.at_most_once || request.claims - request.unsent >= self.attempts {
            self.end(state, id, false);
        } else {
            request.status = Status::Processing;
        }
    }

    fn release(&self, state: &mut State, id: usize) {
        state.left.releases -= 1;
        let request = &mut state.requests[id];
        *request.last() = Attempt::default();
        if request.cancel_requested && !self.has(Bug::ReleaseForgetsCancel) {
            request.unsent += 1;
            self.end(state, id, false);
        } else {
            request.claims -= 1;
            request.status = Status::Processing;
        }
    }

    fn cancel(&self, state: &mut State, id: usize) {
        state.left.cancels -= 1;
        let request = &mut state.requests[id];
        request.cancel_requested = true;
        if request.status == Status::Processing {
            self.end(state, id, false);
        }
    }

    /// A request ends, whatever its worker does: the claim goes on listing it.
    fn end_from_outside(&self, state: &mut State, id: usize) {
        let request = &mut state.requests[id];
        if request.status == Status::InFlight {
            request.last().hold = Hold::Listed;
        }
        self.end(state, id, false);
    }

    /// The downstream responds to a send that it has executed: that answers every request with this id.
    fn respond(&self, state: &mut State, send_id: u8) {
        state.responded |= 1 << send_id;
        for id in 0..state.requests.len() {
            if state.requests[id].send_id != send_id {
                continue;
            }
            match state.requests[id].status {
                Status::ReceiptReceived => state.requests[id].status = Status::Completed,
                Status::Failed => self.establish(state, id, Executed::Yes, false),
                _ => {}
            }
        }
    }

    fn search(&self, state: &mut State, id: usize, finding: Finding) {
        state.left.searches -= 1;
        let executed = match finding {
            Finding::Executed => Executed::Yes,
            Finding::Never => {
                state.never |= 1 << state.requests[id].send_id;
                Executed::No
            }
            Finding::FalseNever => {
                state.left.lies -= 1;
                state.lied = true;
                Executed::No
            }
            Finding::NotFound => Executed::No,
        };
        self.establish(state, id, executed, false);
    }

    fn resolve(&self, state: &mut State, id: usize, executed: Executed) {
        state.left.resolutions -= 1;
        if !state.is_true(id, executed) {
            state.left.lies -= 1;
            state.lied = true;
        }
        self.establish(state, id, executed, true);
    }

    pub(super) fn perform(&self, state: &mut State, step: Step) {
        match step {
            Step::Submit => Self::submit(state),
            Step::SubmitRefused => {
                state.left.refusals -= 1;
                if self.has(Bug::KeyDropped) {
                    state.key = None;
                }
            }
            Step::Claim(id) => Self::claim(state, id),
            Step::Send(id) => state.requests[id].last().calls[0] = Call::UnderWay,
            Step::Hedge(id) => Self::hedge(state, id),
            Step::Arrive(id, place, call, fate) => state.arrive(id, place, call, fate, self.recognises),
            Step::Settle(id, place, answer) => self.settle(state, id, place, answer),
            Step::Lose(id) => self.lose(state, id),
            Step::Release(id) => self.release(state, id),
            Step::Cancel(id) => self.cancel(state, id),
            Step::End(id) => {
                state.left.ends -= 1;
                self.end_from_outside(state, id);
            }
            Step::TimeOut(id) => self.end(state, id, false),
            Step::Respond(send_id) => self.respond(state, send_id),
            Step::Search(id, finding) => self.search(state, id, finding),
            Step::Resolve(id, executed) => self.resolve(state, id, executed),
            Step::Redrive(id) => self.redrive(state, id),
            Step::Window => state.pass_window(),
        }
    }
}

impl State {
    /// Whether a word about a request is true.
    pub(super) fn is_true(&self, id: usize, executed: Executed) -> bool {
        let request = &self.requests[id];
        match executed {
            Executed::Yes => self.executed & (1 << request.send_id) != 0,
            Executed::No => self.executed & (1 << request.send_id) == 0 && !self.may_execute(request.send_id),
            Executed::Unknown => true,
        }
    }

    /// A call reaches its fate. Without `recognises` the downstream executes each.
    fn arrive(&mut self, id: usize, place: usize, call: usize, fate: Call, recognises: bool) {
        self.left.unsent -= u8::from(fate == Call::Unsent);
        let request = &mut self.requests[id];
        let attempt = &mut request.attempts[place];
        attempt.calls[call] = fate;
        if attempt.hold == Hold::Over {
            attempt.end();
        }
        if fate == Call::Executed {
            request.was_executed = true;
            let bit = 1 << request.send_id;
            if !recognises || self.executed & bit == 0 {
                self.executions += u8::from(!request.is_past && self.executions < 2);
            }
            self.executed |= bit;
        }
    }

    fn pass_window(&mut self) {
        self.left.windows -= 1;
        if let Some(key) = &mut self.key {
            key.aged = true;
        }
        for request in &mut self.requests {
            request.aged |= request.status == Status::Failed;
        }
    }

    /// What the key was used for does not count any more if all of it has ended and its window is over.
    fn forget_past(&mut self) {
        let key_aged = self.key.is_some_and(|key| key.aged);
        let counted = || self.requests().map(|(_, request)| request).filter(|request| !request.is_past);
        let is_free = |request: &Request| request.has_ended() && request.executed() == Executed::No;
        let is_over = |request: &Request| match request.status {
            Status::Completed => key_aged,
            Status::Failed => request.aged || is_free(request),
            _ => false,
        };
        if counted().all(is_free) || !counted().all(is_over) {
            return;
        }
        self.executions = 0;
        for request in &mut self.requests {
            request.is_past = request.status != Status::Absent;
        }
    }
}

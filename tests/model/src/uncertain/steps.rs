//! Everything that may happen next.

use stateright::{Model, Property};

use super::{
    scene::{Bug, Scene},
    state::{Attempt, Call, Executed, Hold, State, Status},
};

/// What a worker has of its calls when it settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A receipt with the response.
    Response,
    Receipt,
    /// A refusal; the other call, if there is one, has failed.
    Refusal,
    /// No call has left.
    Unsent,
    /// No answer, although a call may have left.
    Nothing,
}

/// What a search for an unresolved request finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Executed,
    /// The downstream promises that it has not executed it and never will.
    Never,
    /// It says so, and it is not true.
    FalseNever,
    NotFound,
}

/// A transaction, or what a call, the downstream or a clock does; requests by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A submission with the key is accepted. One that is replayed changes nothing.
    Submit,
    /// It finds the key free and the queue full.
    SubmitRefused,
    Claim(usize),
    Send(usize),
    Hedge(usize),
    /// A call of an attempt reaches its fate; idle: it is lost on its way.
    Arrive(usize, usize, usize, Call),
    Settle(usize, usize, Answer),
    /// The lease runs out.
    Lose(usize),
    Release(usize),
    Cancel(usize),
    End(usize),
    /// The response does not come in time.
    TimeOut(usize),
    /// The downstream responds under this id.
    Respond(u8),
    Search(usize, Finding),
    Resolve(usize, Executed),
    Redrive(usize),
    Window,
}

pub(super) const ONCE: &str = "one execution for a key that stands, unless someone lied";
pub(super) const TRUE: &str = "what is known of executions is true";
pub(super) const RETRYABLE: &str = "an error is retryable only if a repeat is safe";
pub(super) const NOT_BEGUN: &str = "nothing begins after a cancel";
pub(super) const EVIDENCE: &str = "a response beats every word";
pub(super) const ENDS: &str = "every request comes to an end";

impl Scene {
    /// Whether the caller submits now, and is not replayed.
    fn may_submit(&self, state: &State) -> bool {
        match state.key {
            Some(key) if self.renews => {
                let last = &state.requests[usize::from(key.request)];
                last.has_ended() && last.retryable
            }
            _ => self.is_key_free(state),
        }
    }

    fn caller_steps(&self, state: &State, steps: &mut Vec<Step>) {
        if state.free_place().is_some() && self.may_submit(state) {
            if state.left.submissions > 0 {
                steps.push(Step::Submit);
            }
            if state.left.refusals > 0 {
                steps.push(Step::SubmitRefused);
            }
        }
        if state.left.windows > 0 && state.key.is_some() {
            steps.push(Step::Window);
        }
    }

    /// What becomes of a live request without anything going wrong.
    fn next_steps(&self, state: &State, id: usize, steps: &mut Vec<Step>) {
        let request = state.requests[id];
        let is_left = request.cancel_requested && self.has(Bug::ClaimLeavesCancelled);
        match request.status {
            Status::Processing if !is_left => steps.push(Step::Claim(id)),
            Status::ReceiptReceived => steps.push(Step::TimeOut(id)),
            _ => {}
        }
        for (place, attempt) in request.attempts.iter().enumerate() {
            if attempt.hold == Hold::Over {
                continue;
            }
            if attempt.calls[0] == Call::Idle {
                steps.push(Step::Send(id));
            } else {
                let answers = answers(attempt).into_iter();
                steps.extend(answers.map(|answer| Step::Settle(id, place, answer)));
            }
        }
    }

    /// What else may happen to a live request.
    fn fault_steps(&self, state: &State, id: usize, steps: &mut Vec<Step>) {
        let mut request = state.requests[id];
        if !request.is_live() {
            return;
        }
        let left = state.left;
        if left.ends > 0 {
            steps.push(Step::End(id));
        }
        if left.cancels > 0 && request.status != Status::ReceiptReceived && !request.cancel_requested {
            steps.push(Step::Cancel(id));
        }
        if request.status != Status::InFlight {
            return;
        }
        if left.losses > 0 {
            steps.push(Step::Lose(id));
        }
        let may_hedge = !request.cancel_requested || self.has(Bug::HedgeForgetsCancel);
        match request.last().calls {
            [Call::Idle, _] if left.releases > 0 => steps.push(Step::Release(id)),
            [Call::UnderWay | Call::Executed, Call::Idle] if left.hedges > 0 && may_hedge => {
                steps.push(Step::Hedge(id));
            }
            _ => {}
        }
    }

    /// What calls that are under way may come to.
    fn call_steps(state: &State, id: usize, steps: &mut Vec<Step>) {
        let request = state.requests[id];
        for (place, attempt) in request.attempts.iter().enumerate() {
            for call in (0..attempt.calls.len()).filter(|&call| attempt.calls[call] == Call::UnderWay) {
                let mut fates = Vec::new();
                if state.never & (1 << request.send_id) == 0 {
                    fates.push(Call::Executed);
                }
                if attempt.hold == Hold::Over {
                    fates.push(Call::Idle);
                } else {
                    fates.push(Call::Refused);
                    fates.extend((state.left.unsent > 0).then_some(Call::Unsent));
                }
                steps.extend(fates.into_iter().map(|fate| Step::Arrive(id, place, call, fate)));
            }
        }
    }

    /// What is learned of a request that has ended, and what an operator does with it.
    fn ended_steps(&self, state: &State, id: usize, steps: &mut Vec<Step>) {
        let request = state.requests[id];
        let left = state.left;
        if left.searches > 0 && request.is_unresolved() && request.redriven_as.is_none() {
            let is_executed = state.executed & (1 << request.send_id) != 0;
            steps.push(Step::Search(id, if is_executed { Finding::Executed } else { Finding::Never }));
            if left.lies > 0 {
                steps.push(Step::Search(id, Finding::FalseNever));
            }
            if self.has(Bug::NotFoundAsNever) {
                steps.push(Step::Search(id, Finding::NotFound));
            }
        }
        if left.resolutions > 0 && request.is_unresolved() {
            for executed in [Executed::No, Executed::Yes] {
                if state.is_true(id, executed) || (left.lies > 0 && executed == Executed::No) {
                    steps.push(Step::Resolve(id, executed));
                }
            }
        }
        if left.redrives > 0 && state.free_place().is_some() && self.is_redrivable(state, id) {
            steps.push(Step::Redrive(id));
        }
    }

    /// Whether each live request has a next step. Each step uses an attempt, a call or a fault, so no path is endless.
    fn goes_on(&self, state: &State) -> bool {
        state.requests().all(|(id, request)| {
            let mut steps = Vec::new();
            self.next_steps(state, id, &mut steps);
            !request.is_live() || !steps.is_empty()
        })
    }

    /// Whether there is no second execution for the key, or it is not the engine's fault.
    fn is_once(&self, state: &State) -> bool {
        state.executions <= 1 || state.lied || (state.repeated && !self.recognises)
    }
}

/// What a worker may settle its calls with.
fn answers(attempt: &Attempt) -> Vec<Answer> {
    let mut answers = Vec::new();
    if attempt.has(Call::Executed) {
        answers.extend([Answer::Response, Answer::Receipt]);
    }
    if attempt.has(Call::Refused) {
        answers.push(Answer::Refusal);
    }
    let is_unsent = attempt.calls.iter().all(|call| matches!(call, Call::Idle | Call::Unsent));
    answers.push(if is_unsent { Answer::Unsent } else { Answer::Nothing });
    answers
}

/// Whether everything that is known of requests that have ended is true, as far as no one has lied.
fn is_known_right(state: &State) -> bool {
    state.lied
        || state.requests().all(|(_, request)| {
            let bit = 1 << request.send_id;
            let is_right = || match request.executed() {
                Executed::Yes => state.executed & bit != 0,
                Executed::No => !request.was_executed && (state.never & bit != 0 || !request.is_under_way()),
                Executed::Unknown => true,
            };
            !request.has_ended() || is_right()
        })
}

/// Whether what retryable errors are about was not executed, and will not be.
fn is_retryable_right(state: &State) -> bool {
    state.lied
        || state.requests().all(|(_, request)| {
            let was_executed = state.executed & (1 << request.send_id) != 0;
            !request.has_ended() || !request.retryable || !(was_executed || state.may_execute(request.send_id))
        })
}

/// Whether what the downstream has responded to counts as executed, whatever was said before.
fn is_answer_known(state: &State) -> bool {
    state.requests().all(|(_, request)| {
        let responded = state.responded & (1 << request.send_id) != 0;
        request.outcome.is_none_or(|outcome| !responded || outcome.executed == Executed::Yes)
    })
}

impl Model for Scene {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        self.caller_steps(state, steps);
        for (id, request) in state.requests() {
            self.next_steps(state, id, steps);
            Self::call_steps(state, id, steps);
            self.fault_steps(state, id, steps);
            self.ended_steps(state, id, steps);
            // Each id once, by its first request.
            let bit = 1 << id;
            if usize::from(request.send_id) == id && state.executed & !state.responded & bit != 0 {
                steps.push(Step::Respond(request.send_id));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.perform(&mut next, step);
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONCE, Self::is_once),
            Property::always(TRUE, |_, state: &State| is_known_right(state)),
            Property::always(RETRYABLE, |_, state: &State| is_retryable_right(state)),
            Property::always(NOT_BEGUN, |_, state: &State| !state.begun_late),
            Property::always(EVIDENCE, |_, state: &State| is_answer_known(state)),
            Property::always(ENDS, Self::goes_on),
            Property::sometimes("sometimes a key stands for an unresolved request", |scene: &Self, state: &State| {
                !scene.is_key_free(state) && state.requests[0].is_unresolved()
            }),
            Property::sometimes("sometimes a second request completes", |_, state: &State| {
                state.requests[1].status == Status::Completed
            }),
        ];
        if self.left.lies > 0 {
            properties.push(Property::sometimes("sometimes a lie leads to a second execution", |_, state: &State| {
                state.executions > 1
            }));
        }
        properties
    }
}

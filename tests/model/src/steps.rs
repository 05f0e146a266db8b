//! Everything that may happen next: the engine's transactions, what workers and callers do in between, and what goes wrong.

use stateright::{Model, Property};

use crate::{
    properties,
    rank::rank,
    rules::{Cause, Flow, Status},
    scene::{Bug, Scene},
    state::{Call, Caller, Message, Outcome, Phase, STAGES, Stage, State, is_closed},
};

/// What the downstream makes of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It takes it, and says so.
    Taken,
    /// It takes it, and its answer is lost.
    Unheard,
    /// It takes it and answers at once.
    Answered,
    Refused,
    /// It was never reached.
    Unreached,
}

/// One step. Numbers are the places of rows, calls and callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Submit(usize),
    /// A caller whose answer is lost.
    SubmitUnheard(usize),
    /// The submission of a caller that was served arrives once more.
    SubmitAgain(usize),
    Claim(usize, Stage),
    /// The first half of a claim that counts first.
    Count,
    /// A worker gives a request back.
    Release(usize, usize),
    Look(usize, usize),
    Send(usize, usize, Sent),
    /// A worker has heard that its lease is lost, and drops its call.
    Drop(usize, usize),
    /// A worker dies, and has said nothing.
    Crash(usize, usize),
    /// A worker dies, and what it has said is under way.
    CrashLate(usize, usize),
    Settle(usize, usize, Outcome),
    /// A settle arrives, and will arrive once more.
    SettleTwice(usize, usize, Outcome),
    /// A check that passed moves its row, and its sender dies before it sends the message.
    SettleHalf(usize, usize),
    /// The last words of a dead worker are lost.
    Lose(usize, usize),
    Lapse(usize, Stage),
    Respond(usize, bool),
    RespondTwice(usize, bool),
    ResponseTimeout(usize),
    End(usize, Status, Cause),
    Recover(usize),
    Purge(Stage),
    /// The window of a request's key passes.
    WindowPasses(usize),
    /// Maintenance looks at a gate.
    LookAtGate(Stage),
    Receive(Stage, u8),
    LoseNote(Stage, u8),
    BeginReading(Stage),
    EndReading(Stage),
}

impl Step {
    /// Whether it is among the things that happen because nothing keeps them from happening. The others may never come.
    pub(crate) fn is_sure(self, scene: &Scene, state: &State) -> bool {
        match self {
            Self::SubmitUnheard(_)
            | Self::SubmitAgain(_)
            | Self::Drop(..)
            | Self::Release(..)
            | Self::Crash(..)
            | Self::CrashLate(..)
            | Self::SettleTwice(..)
            | Self::SettleHalf(..)
            | Self::Lose(..)
            | Self::Respond(..)
            | Self::RespondTwice(..)
            | Self::End(..)
            | Self::Purge(_)
            | Self::WindowPasses(_)
            | Self::LoseNote(..) => false,
            Self::Lapse(place, stage) => !is_worked_at(state, place, stage),
            // Without an emptied queue there is no reason to run it.
            Self::Recover(_) => scene.was_purged(state),
            _ => true,
        }
    }
}

/// Whether a living worker has the lease of a message: else it runs out, sooner or later.
pub(crate) fn is_worked_at(state: &State, place: usize, stage: Stage) -> bool {
    state.rows[place]
        .as_ref()
        .is_some_and(|row| row.calls().any(|(_, call)| call.stage == stage && call.alive && call.current))
}

impl Scene {
    fn caller_steps(&self, state: &State, steps: &mut Vec<Step>) {
        for (caller, submitter) in self.submitters.iter().enumerate() {
            match state.callers[caller] {
                Caller::Wants | Caller::Unsure | Caller::Looked => {
                    let refused = submitter.key.is_none() && self.node_refuses(state, submitter.flow);
                    if !refused {
                        steps.push(Step::Submit(caller));
                    }
                    if submitter.key.is_some() && state.left.lost_answers > 0 {
                        steps.push(Step::SubmitUnheard(caller));
                    }
                }
                Caller::Served => {
                    if submitter.key.is_some() && state.left.repeats > 0 {
                        steps.push(Step::SubmitAgain(caller));
                    }
                }
            }
        }
    }

    fn node_refuses(&self, state: &State, flow: Flow) -> bool {
        self.node && State::path(flow).iter().any(|&stage| is_closed(state.copies[stage as usize].epoch))
    }

    fn row_steps(&self, state: &State, place: usize, steps: &mut Vec<Step>) {
        let Some(row) = &state.rows[place] else {
            return;
        };
        for stage in STAGES {
            let message = row.messages[stage as usize];
            if matches!(message, Message::Waiting | Message::Lapsed) && self.may_claim(state, stage) {
                steps.push(Step::Claim(place, stage));
            }
            if message == Message::Held && (state.left.expiries > 0 || !is_worked_at(state, place, stage)) {
                steps.push(Step::Lapse(place, stage));
            }
        }
        for (at, call) in row.calls() {
            self.call_steps(state, place, at, call, steps);
        }
        if row.answers > 0 {
            for accept in [true, false] {
                if accept || row.flow == Flow::Proof {
                    steps.push(Step::Respond(place, accept));
                    if state.left.duplicates > 0 {
                        steps.push(Step::RespondTwice(place, accept));
                    }
                }
            }
        }
        if row.status == Status::ReceiptReceived {
            steps.push(Step::ResponseTimeout(place));
        }
        if state.left.ends > 0 {
            let mut end = |to, cause| steps.push(Step::End(place, to, cause));
            if row.status == Status::Queued {
                end(Status::TimedOut, Cause::ReadinessTimedOut);
            }
            if matches!(row.status, Status::Queued | Status::Processing) {
                end(Status::Failure, Cause::Cancelled);
            }
            // Of a request that could be cancelled a deadline makes the same, with another word.
            if row.status == Status::TxInFlight {
                end(Status::Failure, Cause::DeadlineExceeded);
            }
            if row.status == Status::ReceiptReceived {
                end(Status::Failure, Cause::Rejected);
            }
        }
        if state.left.recoveries > 0 || self.was_purged(state) {
            let mut after = *state;
            if after.recover(self, place) {
                steps.push(Step::Recover(place));
            }
        }
        if state.left.windows > 0 && row.in_window && row.key.is_some() {
            steps.push(Step::WindowPasses(place));
        }
    }

    fn may_claim(&self, state: &State, stage: Stage) -> bool {
        if stage == Stage::Readiness {
            if self.is_broken(Bug::CountThenClaim) {
                return state.counted > 0;
            }
            if state.held(stage) >= self.concurrency {
                return false;
            }
        }
        state.busy() < self.workers
    }

    fn call_steps(&self, state: &State, place: usize, at: usize, call: Call, steps: &mut Vec<Step>) {
        for outcome in said(call) {
            steps.push(Step::Settle(place, at, outcome));
            if state.left.duplicates > 0 {
                steps.push(Step::SettleTwice(place, at, outcome));
            }
            let dies = state.left.crashes > 0 && call.current;
            if self.is_broken(Bug::LostMessage) && outcome == Outcome::Passed && dies {
                steps.push(Step::SettleHalf(place, at));
            }
        }
        if !call.alive {
            steps.push(Step::Lose(place, at));
            return;
        }
        let is_settling = matches!(call.phase, Phase::Settling(_));
        if !is_settling {
            self.work_steps(state, place, at, call, steps);
            if !call.current {
                steps.push(Step::Drop(place, at));
            }
            if state.left.releases > 0 {
                steps.push(Step::Release(place, at));
            }
        }
        if state.left.crashes > 0 {
            steps.push(Step::Crash(place, at));
            if is_settling || call.stage == Stage::Readiness {
                steps.push(Step::CrashLate(place, at));
            }
        }
    }

    fn work_steps(&self, state: &State, place: usize, at: usize, call: Call, steps: &mut Vec<Step>) {
        if call.stage == Stage::Readiness {
            return;
        }
        if call.phase == Phase::Claimed && !call.first_attempt {
            steps.push(Step::Look(place, at));
            return;
        }
        for sent in [Sent::Taken, Sent::Unheard, Sent::Refused, Sent::Unreached] {
            steps.push(Step::Send(place, at, sent));
        }
        if state.rows[place].is_some_and(|row| row.flow == Flow::Direct) {
            steps.push(Step::Send(place, at, Sent::Answered));
        }
    }

    fn node_steps(&self, state: &State, steps: &mut Vec<Step>) {
        for stage in STAGES {
            let copy = state.copies[stage as usize];
            for epoch in (0..16).filter(|epoch| copy.notes & (1 << epoch) != 0) {
                steps.push(Step::Receive(stage, epoch));
                steps.push(Step::LoseNote(stage, epoch));
            }
            if self.is_broken(Bug::EdgeOnlySignal) {
                continue;
            }
            if copy.reading.is_some() {
                steps.push(Step::EndReading(stage));
            } else if copy.epoch != state.epochs[stage as usize] {
                // A reading that finds nothing new changes nothing.
                steps.push(Step::BeginReading(stage));
            }
        }
    }
}

/// What may arrive of a call now: of a check any outcome, because the outcome is chosen only then.
fn said(call: Call) -> impl Iterator<Item = Outcome> {
    let is_check = call.stage == Stage::Readiness;
    [Outcome::Passed, Outcome::Snooze, Outcome::Failed]
        .into_iter()
        .filter(move |_| is_check && matches!(call.phase, Phase::Claimed | Phase::Checked))
        .chain(match call.phase {
            Phase::Settling(outcome) => Some(outcome),
            _ => None,
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
        for (place, _) in state.rows() {
            self.row_steps(state, place, steps);
        }
        if self.is_broken(Bug::CountThenClaim)
            && state.held(Stage::Readiness) < self.concurrency
            && state.depth(Stage::Readiness) > state.held(Stage::Readiness) + usize::from(state.counted)
            && state.busy() < self.workers
        {
            steps.push(Step::Count);
        }
        for stage in STAGES {
            if self.gate_is_seen_late(state, stage) {
                steps.push(Step::LookAtGate(stage));
            }
            if state.left.purges > 0 && state.depth(stage) > 0 {
                steps.push(Step::Purge(stage));
            }
        }
        if self.node {
            self.node_steps(state, steps);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.perform(&mut next, step);
        let wanted = next;
        for row in next.rows.iter_mut().flatten() {
            row.key = row.key.filter(|&key| self.is_wanted(key, &wanted));
        }
        let next = next.in_order();
        if next == *last {
            return None;
        }
        // Every step leads nearer to an end, so no path is endless: whatever never ends does so in a state without steps.
        assert!(self.bug.is_some() || rank(self, &next) < rank(self, last), "{step:?} leads nowhere: {last:#?}");
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl Scene {
    /// Whether maintenance finds that a gate is to flip.
    fn gate_is_seen_late(&self, state: &State, stage: Stage) -> bool {
        !self.is_broken(Bug::GateNeverOpens) && state.gate_is_late(self, stage)
    }
}

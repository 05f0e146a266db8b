//! What the engine's functions do, each in one step: their locks leave nothing for others to see in between.

use crate::{
    rules::{Cause, Flow, Status, is_legal},
    scene::{Bug, Scene, Semantics},
    state::{Call, Message, Outcome, Phase, Row, STAGES, Stage, State, is_closed},
};

impl State {
    /// Moves a request, as the guard of the table would see it.
    fn go(&mut self, place: usize, to: Status, cause: Cause) {
        let row = self.row(place);
        let (flow, from) = (row.flow, row.status);
        row.status = to;
        self.sins.illegal_move |= !is_legal(flow, Some(from), to, cause);
    }

    /// `delete_messages`, `end_requests`: a message is deleted, and the gate may open.
    fn remove_message(&mut self, scene: &Scene, place: usize, stage: Stage) {
        let row = self.row(place);
        row.messages[stage as usize] = Message::Absent;
        row.forget_token(stage);
        if is_closed(self.epochs[stage as usize]) && !scene.is_broken(Bug::GateNeverOpens) {
            self.gate_evaluate(scene, stage);
        }
    }

    /// `free_messages`: no claim holds it, and it may be taken.
    fn free_message(&mut self, place: usize, stage: Stage) {
        let row = self.row(place);
        row.messages[stage as usize] = Message::Waiting;
        row.forget_token(stage);
    }

    /// `send_messages`: a message comes, and the gate may close.
    fn send_message(&mut self, scene: &Scene, place: usize, stage: Stage) {
        self.row(place).messages[stage as usize] = Message::Waiting;
        if !is_closed(self.epochs[stage as usize]) {
            self.gate_evaluate(scene, stage);
        }
    }

    /// Whether the gate is to flip: it closes at its high mark, and opens at its low one.
    pub(crate) fn gate_is_late(&self, scene: &Scene, stage: Stage) -> bool {
        let marks = scene.marks[stage as usize];
        let depth = self.depth(stage);
        if is_closed(self.epochs[stage as usize]) { depth <= marks.low } else { depth >= marks.high }
    }

    /// `gate_evaluate` and `gate_flip`.
    pub(crate) fn gate_evaluate(&mut self, scene: &Scene, stage: Stage) {
        if !self.gate_is_late(scene, stage) {
            return;
        }
        let epoch = &mut self.epochs[stage as usize];
        *epoch += 1;
        if scene.node {
            assert!(*epoch < 16, "more flips than there are bits for notes");
            self.copies[stage as usize].notes |= 1 << *epoch;
        }
    }

    /// The first request that a key stands for: in its window, and neither failed nor timed out.
    pub(crate) fn known(&self, key: u8) -> bool {
        self.rows().any(|(_, row)| {
            row.key == Some(key) && row.in_window && !matches!(row.status, Status::Failure | Status::TimedOut)
        })
    }

    /// The gates that a request of this flow passes, the one that it enters by first.
    pub(crate) fn path(flow: Flow) -> &'static [Stage] {
        match flow {
            Flow::Decrypt => &STAGES,
            Flow::Proof | Flow::Direct => &STAGES[1..],
        }
    }

    /// `submit`: whether the caller got a request, an earlier one or a new one. A refusal may close the gate.
    pub(crate) fn submit(&mut self, scene: &Scene, flow: Flow, key: Option<u8>) -> bool {
        if key.is_some_and(|key| self.known(key)) {
            return true;
        }
        let path = Self::path(flow);
        let entry = path[0];
        let is_open = path.iter().all(|&stage| !is_closed(self.epochs[stage as usize]));
        let has_room = self.depth(entry) < scene.marks[entry as usize].high;
        if !is_open || !has_room {
            if is_open {
                self.gate_evaluate(scene, entry);
            }
            return false;
        }
        self.insert(scene, flow, key);
        true
    }

    /// The writing half of `submit`, when there is room.
    pub(crate) fn insert(&mut self, scene: &Scene, flow: Flow, key: Option<u8>) {
        self.sins.accepted_twice |= key.is_some_and(|key| self.known(key));
        let row = Row::new(flow, key);
        self.sins.illegal_move |= !is_legal(flow, None, row.status, Cause::Submitted);
        let free = self.rows.iter().position(Option::is_none);
        let place = free.expect("the scene has a row for each submission");
        self.rows[place] = Some(row);
        if let Some(stage) = row.queue() {
            self.send_message(scene, place, stage);
        }
    }

    /// `claim_readiness`, for one message that may be taken.
    pub(crate) fn claim_readiness(&mut self, scene: &Scene, place: usize) {
        let row = self.row(place);
        if row.status != Status::Queued {
            self.remove_message(scene, place, Stage::Readiness);
        } else if row.checks >= scene.checks_max {
            self.go(place, Status::TimedOut, Cause::ReadinessTimedOut);
            self.remove_message(scene, place, Stage::Readiness);
        } else {
            row.checks += 1;
            let checks = row.checks;
            self.lease(place, Stage::Readiness, checks == 1, true);
        }
    }

    /// `claim_tx`, for one message that may be taken.
    pub(crate) fn claim_tx(&mut self, scene: &Scene, place: usize) {
        let row = self.row(place);
        let lost = row.status == Status::TxInFlight;
        let at_most_once = scene.semantics == Semantics::AtMostOnce && !scene.is_broken(Bug::ResendAnyway);
        let ended = if !lost && row.status != Status::Processing {
            self.remove_message(scene, place, Stage::Tx);
            return;
        } else if lost && at_most_once {
            Some(Cause::OutcomeUnknown)
        } else if row.attempts > scene.attempts_max {
            Some(Cause::AttemptsExhausted)
        } else {
            None
        };
        if let Some(cause) = ended {
            self.go(place, Status::Failure, cause);
            self.remove_message(scene, place, Stage::Tx);
            return;
        }
        if lost && !scene.is_broken(Bug::ReclaimWithoutRecovery) {
            self.go(place, Status::Processing, Cause::Recovered);
        }
        self.go(place, Status::TxInFlight, Cause::Claimed);
        let row = self.row(place);
        row.attempts += 1;
        let attempts = row.attempts;
        self.lease(place, Stage::Tx, attempts == 1, attempts <= scene.attempts_max);
    }

    fn lease(&mut self, place: usize, stage: Stage, first_attempt: bool, may_send: bool) {
        let row = self.row(place);
        row.forget_token(stage);
        row.messages[stage as usize] = Message::Held;
        row.settled[stage as usize] = false;
        row.add_call(Call {
            stage,
            phase: Phase::Claimed,
            alive: true,
            current: true,
            latest: true,
            first_attempt,
            may_send,
        });
    }

    /// A settle or a release arrives; whether it was this holder's still.
    pub(crate) fn settle(&mut self, scene: &Scene, place: usize, call: Call, outcome: Outcome) {
        let row = self.row(place);
        let expected = match call.stage {
            Stage::Readiness => Status::Queued,
            Stage::Tx => Status::TxInFlight,
        };
        let is_held = call.current || scene.is_broken(Bug::UnfencedSettle);
        if !is_held || row.status != expected {
            return;
        }
        let settled = &mut row.settled[call.stage as usize];
        let again = *settled || !call.latest;
        *settled = true;
        self.sins.double_settle |= again;
        match call.stage {
            Stage::Readiness => self.settle_check(scene, place, outcome),
            Stage::Tx => self.settle_send(scene, place, outcome),
        }
    }

    /// `settle_passed`, `settle_snooze`, `settle_failed`, `release`.
    fn settle_check(&mut self, scene: &Scene, place: usize, outcome: Outcome) {
        match outcome {
            Outcome::Passed => {
                self.go(place, Status::Processing, Cause::ReadinessPassed);
                self.remove_message(scene, place, Stage::Readiness);
                self.send_message(scene, place, Stage::Tx);
            }
            Outcome::Snooze if self.row(place).checks >= scene.checks_max => {
                self.go(place, Status::TimedOut, Cause::ReadinessTimedOut);
                self.remove_message(scene, place, Stage::Readiness);
            }
            Outcome::Snooze => self.free_message(place, Stage::Readiness),
            Outcome::Failed => {
                self.go(place, Status::Failure, Cause::ReadinessFailed);
                self.remove_message(scene, place, Stage::Readiness);
            }
            Outcome::Release => {
                let row = self.row(place);
                row.checks = row.checks.saturating_sub(1);
                self.free_message(place, Stage::Readiness);
            }
            other => unreachable!("{other:?} of a check"),
        }
    }

    /// `settle_receipt`, `settle_retry`, `settle_rejected`, `release`.
    fn settle_send(&mut self, scene: &Scene, place: usize, outcome: Outcome) {
        match outcome {
            Outcome::Receipt => {
                self.go(place, Status::ReceiptReceived, Cause::Receipt);
                self.remove_message(scene, place, Stage::Tx);
                if scene.is_broken(Bug::InboxForgotten) {
                    return;
                }
                if let Some(accept) = self.row(place).early.take() {
                    self.apply_response(place, accept);
                }
            }
            Outcome::Answered => {
                self.go(place, Status::Completed, Cause::Receipt);
                self.remove_message(scene, place, Stage::Tx);
            }
            Outcome::Retry { left } => {
                let attempts = self.row(place).attempts;
                let at_most_once = scene.semantics == Semantics::AtMostOnce && !scene.is_broken(Bug::ResendAnyway);
                let ended = if at_most_once && left {
                    Some(Cause::OutcomeUnknown)
                } else if attempts >= scene.attempts_max {
                    Some(Cause::AttemptsExhausted)
                } else {
                    None
                };
                if let Some(cause) = ended {
                    self.go(place, Status::Failure, cause);
                    self.remove_message(scene, place, Stage::Tx);
                } else {
                    self.go(place, Status::Processing, Cause::SendRetried);
                    self.free_message(place, Stage::Tx);
                }
            }
            Outcome::Rejected => {
                self.go(place, Status::Failure, Cause::Rejected);
                self.remove_message(scene, place, Stage::Tx);
            }
            Outcome::Release => {
                self.go(place, Status::Processing, Cause::Released);
                let row = self.row(place);
                row.attempts = row.attempts.saturating_sub(1);
                self.free_message(place, Stage::Tx);
            }
            other => unreachable!("{other:?} of a send"),
        }
    }

    /// `respond`, and each response of `respond_many`: applied, kept for the receipt, or too late.
    pub(crate) fn respond(&mut self, place: usize, accept: bool) {
        let row = self.row(place);
        match row.status {
            Status::ReceiptReceived => self.apply_response(place, accept),
            status if status.is_terminal() => {}
            _ => row.early = row.early.or(Some(accept)),
        }
    }

    fn apply_response(&mut self, place: usize, accept: bool) {
        match (self.row(place).flow, accept) {
            (Flow::Proof, true) => self.go(place, Status::Completed, Cause::VerdictAccepted),
            (Flow::Proof, false) => self.go(place, Status::Failure, Cause::VerdictRejected),
            _ => self.go(place, Status::Completed, Cause::Response),
        }
    }

    /// `expire_responses`.
    pub(crate) fn time_out_response(&mut self, place: usize) {
        self.go(place, Status::TimedOut, Cause::ResponseTimedOut);
    }

    /// `end_requests`: cancelled, or a deadline has passed; the message is deleted, even if it is claimed.
    pub(crate) fn end(&mut self, scene: &Scene, place: usize, to: Status, cause: Cause) {
        let queue = self.row(place).queue();
        self.go(place, to, cause);
        if let Some(stage) = queue {
            self.remove_message(scene, place, stage);
        }
    }

    /// `recover`, for one request; whether there was anything to do.
    pub(crate) fn recover(&mut self, scene: &Scene, place: usize) -> bool {
        let row = self.row(place);
        let Some(stage) = row.queue() else {
            return false;
        };
        let message = row.messages[stage as usize];
        let lost = row.status == Status::TxInFlight && message != Message::Held;
        let missing = message == Message::Absent;
        if !lost && !missing {
            return false;
        }
        if lost && scene.semantics == Semantics::AtMostOnce {
            self.go(place, Status::Failure, Cause::OutcomeUnknown);
            self.remove_message(scene, place, stage);
            return true;
        }
        if lost {
            self.go(place, Status::Processing, Cause::Recovered);
        }
        // Made anew, it carries no token either, and no one looks at the gate before maintenance does.
        self.free_message(place, stage);
        true
    }

    /// A queue is emptied by hand: its gate is not evaluated.
    pub(crate) fn purge(&mut self, stage: Stage) {
        for row in self.rows.iter_mut().flatten() {
            row.messages[stage as usize] = Message::Absent;
            row.forget_token(stage);
        }
    }
}

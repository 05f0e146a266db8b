//! What each step does.

use crate::{
    scene::{Bug, Scene},
    state::{Caller, Message, Outcome, Phase, Stage, State},
    steps::{Sent, Step, is_worked_at},
};

fn submit(scene: &Scene, state: &mut State, caller: usize, then: Caller) {
    let submitter = scene.submitters[caller];
    if scene.is_broken(Bug::LookThenSubmit)
        && let Some(key) = submitter.key
    {
        if state.callers[caller] == Caller::Looked {
            state.insert(scene, submitter.flow, submitter.key);
            state.callers[caller] = Caller::Served;
        } else {
            state.callers[caller] = if state.known(key) { Caller::Served } else { Caller::Looked };
        }
        return;
    }
    if state.submit(scene, submitter.flow, submitter.key) {
        state.callers[caller] = then;
    }
}

fn send(state: &mut State, place: usize, at: usize, sent: Sent) {
    let row = state.row(place);
    row.sends += u8::from(sent != Sent::Unreached);
    if matches!(sent, Sent::Taken | Sent::Unheard | Sent::Answered) {
        row.taken = true;
    }
    if matches!(sent, Sent::Taken | Sent::Unheard) {
        row.answers += 1;
    }
    row.call(at).phase = Phase::Settling(match sent {
        Sent::Taken => Outcome::Receipt,
        Sent::Answered => Outcome::Answered,
        Sent::Unheard => Outcome::Retry { left: true },
        Sent::Refused => Outcome::Rejected,
        Sent::Unreached => Outcome::Retry { left: false },
    });
}

fn settle(scene: &Scene, state: &mut State, place: usize, at: usize, outcome: Outcome) {
    let call = *state.row(place).call(at);
    state.settle(scene, place, call, outcome);
    // The second time it says the same.
    state.row(place).call(at).phase = Phase::Settling(outcome);
}

/// What has been learned of a gate: the newest stays.
fn learn(state: &mut State, stage: Stage, epoch: u8) {
    let copy = &mut state.copies[stage as usize];
    copy.epoch = copy.epoch.max(epoch);
    // A reading that found no more than this is worth nothing any more.
    copy.reading = copy.reading.filter(|&reading| reading > copy.epoch);
}

impl Scene {
    /// Makes a step that is possible in this state.
    pub(crate) fn perform(&self, state: &mut State, step: Step) {
        match step {
            Step::Submit(caller) => submit(self, state, caller, Caller::Served),
            Step::SubmitUnheard(caller) => {
                state.left.lost_answers -= 1;
                submit(self, state, caller, Caller::Unsure);
            }
            Step::SubmitAgain(caller) => {
                state.left.repeats -= 1;
                submit(self, state, caller, Caller::Served);
            }
            Step::Count => state.counted += 1,
            Step::Claim(place, Stage::Readiness) => {
                state.counted = state.counted.saturating_sub(1);
                state.claim_readiness(self, place);
            }
            Step::Claim(place, Stage::Tx) => state.claim_tx(self, place),
            Step::Release(place, at) => {
                state.left.releases -= 1;
                state.row(place).call(at).phase = Phase::Settling(Outcome::Release);
            }
            Step::Look(place, at) => {
                let row = state.row(place);
                let taken = row.taken;
                let call = row.call(at);
                call.phase = if taken {
                    Phase::Settling(Outcome::Receipt)
                } else if call.may_send {
                    Phase::Looked
                } else {
                    Phase::Settling(Outcome::Retry { left: false })
                };
            }
            Step::Send(place, at, sent) => send(state, place, at, sent),
            Step::Drop(place, at) | Step::Lose(place, at) => state.row(place).calls[at] = None,
            Step::Crash(place, at) => {
                state.left.crashes -= 1;
                state.row(place).calls[at] = None;
            }
            Step::CrashLate(place, at) => {
                state.left.crashes -= 1;
                let call = state.row(place).call(at);
                call.alive = false;
                if call.phase == Phase::Claimed {
                    call.phase = Phase::Checked;
                }
            }
            Step::Settle(place, at, outcome) => {
                settle(self, state, place, at, outcome);
                state.row(place).calls[at] = None;
            }
            Step::SettleTwice(place, at, outcome) => {
                state.left.duplicates -= 1;
                settle(self, state, place, at, outcome);
            }
            Step::SettleHalf(place, at) => {
                state.left.crashes -= 1;
                settle(self, state, place, at, Outcome::Passed);
                let row = state.row(place);
                row.calls[at] = None;
                row.messages[Stage::Tx as usize] = Message::Absent;
            }
            Step::Lapse(place, stage) => {
                state.left.expiries -= u8::from(is_worked_at(state, place, stage));
                state.row(place).messages[stage as usize] = Message::Lapsed;
            }
            Step::Respond(place, accept) => {
                state.row(place).answers -= 1;
                state.respond(place, accept);
            }
            Step::RespondTwice(place, accept) => {
                state.left.duplicates -= 1;
                state.respond(place, accept);
            }
            Step::ResponseTimeout(place) => state.time_out_response(place),
            Step::End(place, to, cause) => {
                state.left.ends -= 1;
                state.end(self, place, to, cause);
            }
            Step::Recover(place) => {
                if !self.was_purged(state) {
                    state.left.recoveries -= 1;
                }
                state.recover(self, place);
            }
            Step::Purge(stage) => {
                state.left.purges -= 1;
                state.purge(stage);
            }
            Step::WindowPasses(place) => {
                state.left.windows -= 1;
                state.row(place).in_window = false;
            }
            Step::LookAtGate(stage) => state.gate_evaluate(self, stage),
            Step::Receive(stage, epoch) => {
                state.copies[stage as usize].notes &= !(1 << epoch);
                learn(state, stage, epoch);
            }
            Step::LoseNote(stage, epoch) => state.copies[stage as usize].notes &= !(1 << epoch),
            Step::BeginReading(stage) => {
                state.copies[stage as usize].reading = Some(state.epochs[stage as usize]);
            }
            Step::EndReading(stage) => {
                if let Some(epoch) = state.copies[stage as usize].reading.take() {
                    learn(state, stage, epoch);
                }
            }
        }
    }
}

//! What must hold in every state, and what must come about in some.

use stateright::{Model, Property};

use crate::{
    rules::{Flow, Status},
    scene::{Bug, Scene, Semantics, Submitter},
    state::{Caller, Message, Phase, STAGES, Stage, State, is_closed},
};

pub(crate) const LEGAL: &str = "every transition is one of the rules";
pub(crate) const SETTLED_ONCE: &str = "a claim is settled once, by its holder only";
pub(crate) const SENDS: &str = "a request is sent no more often than its semantics allow";
pub(crate) const CONCURRENCY: &str = "no more checks run than may at once";
pub(crate) const MESSAGES: &str = "a message is exactly where a status wants one";
pub(crate) const INBOX: &str = "no response is left in the inbox of a request that awaits one";
pub(crate) const KEYS: &str = "a key stands for one request";
pub(crate) const GATES: &str = "gates and depths agree";
pub(crate) const ROOM: &str = "no submission goes beyond a high mark";
pub(crate) const NOT_STUCK: &str = "nothing is stuck";

/// All properties. Those that begin with "sometimes" show that the others do not hold for want of anything happening.
pub(crate) fn all() -> Vec<Property<Scene>> {
    vec![
        Property::always(LEGAL, |_, state: &State| !state.sins.illegal_move),
        Property::always(SETTLED_ONCE, |_, state: &State| !state.sins.double_settle),
        Property::always(KEYS, |_, state: &State| !state.sins.accepted_twice),
        Property::always(SENDS, |scene: &Scene, state: &State| {
            let most = match scene.semantics {
                Semantics::AtMostOnce => 1,
                Semantics::AtLeastOnce => scene.attempts_max,
            };
            state.rows().all(|(_, row)| row.sends <= most)
        }),
        Property::always(CONCURRENCY, |scene: &Scene, state: &State| state.held(Stage::Readiness) <= scene.concurrency),
        Property::always(MESSAGES, |scene: &Scene, state: &State| {
            scene.was_purged(state) || state.rows().all(|(_, row)| row.has_its_message())
        }),
        Property::always(INBOX, |_, state: &State| {
            state.rows().all(|(_, row)| row.status != Status::ReceiptReceived || row.early.is_none())
        }),
        Property::always(GATES, gates_agree),
        Property::always(ROOM, |scene: &Scene, state: &State| {
            // Nothing keeps a request that has passed its check out of the tx queue.
            let is_checked = |submitter: &Submitter| submitter.flow == Flow::Decrypt;
            let only_entered = |stage| stage == Stage::Readiness || !scene.submitters.iter().any(is_checked);
            scene.was_purged(state)
                || STAGES
                    .into_iter()
                    .filter(|&stage| only_entered(stage))
                    .all(|stage| state.depth(stage) <= scene.marks[stage as usize].high)
        }),
        Property::always(NOT_STUCK, |scene: &Scene, state: &State| is_at_rest(state) || !is_still(scene, state)),
        Property::sometimes("sometimes every request is completed", |_, state: &State| {
            state.rows().count() > 1 && state.rows().all(|(_, row)| row.status == Status::Completed)
        }),
        Property::sometimes("sometimes a request fails", |_, state: &State| {
            state.rows().any(|(_, row)| row.status == Status::Failure)
        }),
        Property::sometimes("sometimes a request times out", |_, state: &State| {
            state.rows().any(|(_, row)| row.status == Status::TimedOut)
        }),
        Property::sometimes("sometimes a settle comes too late", |_, state: &State| {
            state
                .rows()
                .any(|(_, row)| row.calls().any(|(_, call)| matches!(call.phase, Phase::Settling(_)) && !call.latest))
        }),
        Property::sometimes("sometimes a gate opens again", |_, state: &State| {
            state.epochs.iter().any(|&epoch| epoch >= 2)
        }),
    ]
}

/// Whether nothing moves any more that would move by itself.
fn is_still(scene: &Scene, state: &State) -> bool {
    let mut steps = Vec::new();
    scene.actions(state, &mut steps);
    steps.into_iter().all(|step| !step.is_sure(scene, state) || scene.next_state(state, step).is_none())
}

/// Whether all that was wanted has come to its end.
fn is_at_rest(state: &State) -> bool {
    state.callers.iter().all(|&caller| caller == Caller::Served)
        && state
            .rows()
            .all(|(_, row)| row.status.is_terminal() && row.messages.iter().all(|&message| message == Message::Absent))
}

/// A gate agrees with its depth after every transaction that moved a message, except that no gate is evaluated when a queue is
/// emptied or filled by hand before maintenance does; a node's copy agrees once nothing moves any more.
fn gates_agree(scene: &Scene, state: &State) -> bool {
    let late = |stage| state.gate_is_late(scene, stage);
    let by_hand = scene.was_purged(state) || scene.is_broken(Bug::LostMessage);
    let copies_agree = STAGES
        .iter()
        .all(|&stage| is_closed(state.copies[stage as usize].epoch) == is_closed(state.epochs[stage as usize]));
    (by_hand || !STAGES.iter().any(|&stage| late(stage)))
        && (!scene.node || copies_agree || !is_still(scene, state))
        && (!by_hand || !STAGES.iter().any(|&stage| late(stage)) || !is_still(scene, state))
}

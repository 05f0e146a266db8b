//! How far a state is from an end: each step lowers it, or spends something that may go wrong.

use crate::{
    rules::Status,
    scene::Scene,
    state::{Caller, Message, Outcome, Phase, Row, STAGES, Stage, State},
};

/// What is compared, the weightiest first.
pub(crate) fn rank(scene: &Scene, state: &State) -> (u32, u32, u32, u32) {
    let callers = state.callers.iter().map(|caller| match caller {
        Caller::Wants => 2,
        Caller::Unsure | Caller::Looked => 1,
        Caller::Served => 0,
    });
    let claims = state.rows().map(|(_, row)| match row.queue() {
        None => 0,
        Some(stage) => {
            let checks = u32::from(stage == Stage::Readiness) * u32::from(scene.checks_max - row.checks);
            checks + u32::from(scene.attempts_max + 1 - row.attempts)
        }
    });
    let rows = state.rows().map(|(_, row)| of_row(row));
    let gates = STAGES.iter().map(|&stage| {
        let copy = state.copies[stage as usize];
        let behind = u32::from(state.epochs[stage as usize] - copy.epoch) * 8;
        let unread = u32::from(behind > 0 && copy.reading.is_none());
        u32::from(state.gate_is_late(scene, stage)) * 50
            + u32::from(scene.node) * (behind + unread + copy.notes.count_ones() * 2)
    });
    // A release that is under way may give its claim back.
    let releases = state
        .rows()
        .flat_map(|(_, row)| row.calls())
        .filter(|(_, call)| call.phase == Phase::Settling(Outcome::Release));
    (
        state.left.count(),
        callers.sum(),
        claims.sum::<u32>() + releases.map(|_| 1).sum::<u32>(),
        rows.sum::<u32>() + gates.sum::<u32>(),
    )
}

fn of_row(row: &Row) -> u32 {
    let status = match row.status {
        Status::Queued => 4,
        Status::TxInFlight => 3,
        Status::Processing => 2,
        Status::ReceiptReceived => 1,
        Status::Completed | Status::TimedOut | Status::Failure => 0,
    };
    let messages = STAGES.iter().map(|&stage| match row.messages[stage as usize] {
        Message::Absent => u32::from(row.queue() == Some(stage)) * 4,
        Message::Held => 3,
        Message::Lapsed => 2,
        Message::Waiting => 1,
    });
    let calls = row.calls().map(|(_, call)| match call.phase {
        Phase::Claimed => 40,
        Phase::Looked => 30,
        Phase::Checked => 20,
        Phase::Settling(_) => 15,
    });
    status * 1000 + messages.sum::<u32>() * 100 + calls.sum::<u32>() + u32::from(row.answers) * 5
}

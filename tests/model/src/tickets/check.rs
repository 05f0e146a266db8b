//! Every state of every scene of the gate, and what is found when it is wrong.

use super::{
    scene::{Bug, Reading, Scene, Variant},
    state::{Left, bit, up_to},
    steps::{NOT_STUCK, OFFSET, PROMISE},
};
use crate::search::{self, bounds, finds};

/// A full gate for two, and transactions of up to two operations.
fn intake() -> Scene {
    let small = Left { submissions: 2, promises: 1, deletions: 2, ..Left::default() };
    let usual = Left { aborts: 1, ..small };
    let large = Left { submissions: 3, ..usual };
    Scene {
        name: "intake",
        high_water: 2,
        last: 2,
        live: up_to(2),
        offset: 0,
        operations: 2,
        counts: &[1],
        order: [Reading::Last, Reading::Open, Reading::Live],
        scans: false,
        left: bounds(small, usual, large),
        bug: None,
        variant: None,
    }
}

/// Submissions of one number and of two.
fn several() -> Scene {
    let small = Left { submissions: 2, promises: 1, deletions: 1, ..Left::default() };
    let usual = Left { deletions: 2, ..small };
    let large = Left { aborts: 1, ..usual };
    Scene { name: "several", operations: 1, counts: &[1, 2], left: bounds(small, usual, large), ..intake() }
}

/// A refresh that reads the locks of one session after the other.
fn scanned() -> Scene {
    let small = Left { submissions: 1, promises: 1, deletions: 1, ..Left::default() };
    let usual = Left { submissions: 2, ..small };
    let large = Left { aborts: 1, ..usual };
    Scene { name: "scanned", operations: 1, scans: true, left: bounds(small, usual, large), ..intake() }
}

/// A queue that has lost messages, which `recover` puts back.
fn revived() -> Scene {
    let small = Left { submissions: 1, deletions: 1, revivals: 2, ..Left::default() };
    let usual = Left { submissions: 2, ..small };
    let large = Left { aborts: 1, ..usual };
    Scene { name: "revived", last: 3, live: bit(3), left: bounds(small, usual, large), ..intake() }
}

/// An empty queue that is dropped and made again.
fn remade() -> Scene {
    let small = Left { submissions: 2, promises: 2, set_backs: 1, ..Left::default() };
    let usual = Left { submissions: 3, ..small };
    let large = Left { promises: 3, deletions: 1, ..usual };
    Scene { name: "remade", last: 2, live: 0, offset: 2, operations: 1, left: bounds(small, usual, large), ..intake() }
}

fn every_state(scene: Scene) {
    let what = format!("{}, {:?}, {:?}, {:?}", scene.name, scene.bug, scene.variant, scene.left);
    search::every_state(&what, scene);
}

#[test]
fn a_full_gate_lets_in_what_it_has_room_for() {
    every_state(intake());
}

#[test]
fn submissions_of_several_numbers_keep_the_promise() {
    every_state(several());
}

#[test]
fn a_refresh_may_read_the_locks_one_after_the_other() {
    every_state(scanned());
}

#[test]
fn messages_that_recover_puts_back_are_known_to_later_submissions() {
    every_state(revived());
}

#[test]
fn a_queue_that_is_made_again_keeps_the_promise() {
    every_state(remade());
}

/// A refresh need not keep a greater offset, `recover` may lower it as late as its commit, and what finds the offset above
/// the last number need not refresh.
#[test]
fn what_the_gate_does_not_rely_on() {
    let remade = || Scene { left: Left { set_backs: 1, ..left(2, 1, 0, 0) }, ..remade() };
    for (variant, scene) in [
        (Variant::AlwaysReplaced, with(left(2, 1, 1, 0), intake())),
        (Variant::AlwaysReplaced, with(left(1, 0, 1, 2), revived())),
        (Variant::AlwaysReplaced, remade()),
        (Variant::InsertedThenLowered, with(left(1, 0, 1, 2), revived())),
        (Variant::Zeroed, remade()),
    ] {
        every_state(Scene { variant: Some(variant), ..scene });
    }
}

/// Only `recover` relies on the lock R, and on keys of registrations that no other one of the transaction has: between two
/// registrations of submissions is a draw.
#[test]
fn what_only_recover_relies_on() {
    for bug in [Bug::Unlocked, Bug::SameKey] {
        every_state(Scene { bug: Some(bug), ..with(left(2, 1, 1, 0), intake()) });
    }
}

/// Breaks the model, and expects a property to be violated.
fn finds_bug(bug: Bug, scene: Scene) {
    let scene = Scene { bug: Some(bug), ..scene };
    finds(&format!("{bug:?}"), scene, PROMISE);
}

/// So many limited submissions, promised ones, deletions and revivals.
fn left(submissions: u8, promises: u8, deletions: u8, revivals: u8) -> Left {
    Left { submissions, promises, deletions, revivals, ..Left::default() }
}

fn with(left: Left, scene: Scene) -> Scene {
    Scene { left, ..scene }
}

#[test]
fn draws_without_a_registration_are_found() {
    let few = || with(left(1, 1, 2, 0), several());
    finds_bug(Bug::PromisedUnregistered, few());
    finds_bug(Bug::SeveralUnregistered, few());
    finds_bug(Bug::RegisteredLate, few());
    finds_bug(Bug::ReleasedEarly, few());
    finds_bug(Bug::SecondUnregistered, with(left(2, 1, 2, 0), intake()));
}

#[test]
fn a_refresh_in_the_wrong_place_is_found() {
    finds_bug(Bug::RefreshAfterDraw, with(left(1, 1, 1, 0), intake()));
    let scene = Scene { left: Left { aborts: 1, ..left(1, 0, 1, 0) }, ..intake() };
    finds_bug(Bug::RefreshAfterDelete, scene);
}

/// Only the last number, then the registrations, then the messages: of a number that the refresh counts either the lock
/// or the message is seen.
#[test]
fn every_other_order_of_readings_is_found() {
    use Reading::{Last, Live, Open};
    for order in [[Last, Live, Open], [Open, Last, Live], [Open, Live, Last], [Live, Last, Open], [Live, Open, Last]] {
        let scene = Scene { order, operations: 1, ..with(left(2, 0, 1, 0), intake()) };
        finds(&format!("{order:?}"), scene, PROMISE);
    }
}

#[test]
fn an_offset_that_is_read_after_the_draw_is_found() {
    let scene = Scene { last: 1, live: up_to(1), operations: 1, high_water: 1, ..with(left(2, 1, 1, 0), intake()) };
    finds_bug(Bug::OffsetAfterDraw, scene);
}

#[test]
fn an_offset_above_the_last_number_that_does_not_stop_draws_is_found() {
    finds_bug(Bug::OffsetAboveKept, remade());
    finds_bug(Bug::PromisedAboveOffset, remade());
}

/// A dump may hold an offset that is newer than its messages, and not above its last number: the gate cannot detect it.
#[test]
fn a_restored_offset_that_is_newer_than_the_messages_is_found() {
    let scene = Scene { last: 3, offset: 2, ..with(left(1, 0, 0, 0), intake()) };
    finds("a restored dump", scene, OFFSET);
    finds("a restored dump", scene, PROMISE);
}

#[test]
fn a_recover_that_does_not_tell_the_gate_is_found() {
    for bug in [Bug::RevivedUnregistered, Bug::RevivedUnlowered, Bug::LoweredAfterCommit, Bug::Unlocked] {
        finds_bug(bug, with(left(2, 0, 1, 1), revived()));
    }
    finds_bug(Bug::SameKey, with(left(1, 0, 1, 2), revived()));
}

/// Without the rule that an offset above the last number is replaced, a queue that was made again is never let in.
#[test]
fn a_gate_that_stays_shut_is_found() {
    let scene = Scene { bug: Some(Bug::ShutForever), ..remade() };
    finds("ShutForever", scene, NOT_STUCK);
}

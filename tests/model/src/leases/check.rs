//! Every state of every scene of the leases, and what is found when they are wrong.

use super::{
    scene::{Bug, Scene},
    state::Left,
    steps::{NAMED_ONCE, NO_DEADLOCK, NOT_LOST, RECOVERED, SETTLED_ONCE, WHOLE},
};
use crate::search::{self, bounds, finds};

/// Two requests, and claims of one or both of them.
fn held() -> Scene {
    let small = Left { claims: 2, expiries: 2, ..Left::default() };
    let usual = Left { aborts: 1, ..small };
    let large = Left { claims: 3, expiries: 3, ..usual };
    Scene { name: "held", batch: 2, claims_reap: false, literal: false, left: bounds(small, usual, large), bug: None }
}

/// As [`held`], with extensions.
fn extended() -> Scene {
    let small = Left { claims: 1, expiries: 1, extensions: 2, ..Left::default() };
    let usual = Left { claims: 2, extensions: 1, ..small };
    let large = Left { extensions: 2, ..usual };
    Scene { name: "extended", left: bounds(small, usual, large), ..held() }
}

/// As [`held`]; a claim that finds nothing reaps, and takes what it has put back.
fn reaped_by_claims() -> Scene {
    let small = Left { claims: 2, expiries: 1, ..Left::default() };
    let usual = Left { expiries: 2, ..small };
    let large = Left { claims: 3, ..usual };
    Scene { name: "reaped by claims", claims_reap: true, left: bounds(small, usual, large), ..held() }
}

/// As [`held`], with a message or a lease row that is deleted by hand, and `recover`.
fn purged() -> Scene {
    let small = Left { claims: 1, expiries: 1, purges: 2, recoveries: 1, ..Left::default() };
    let usual = Left { claims: 2, purges: 1, ..small };
    let large = Left { aborts: 1, ..usual };
    Scene { name: "purged", left: bounds(small, usual, large), ..held() }
}

fn every_state(scene: Scene) {
    let what = format!("{}, {:?}", scene.name, scene.left);
    search::every_state(&what, scene);
}

#[test]
fn a_request_is_in_one_place_and_settled_once() {
    every_state(held());
}

#[test]
fn an_extension_splits_a_lease() {
    every_state(extended());
}

#[test]
fn a_claim_may_reap_first() {
    every_state(reaped_by_claims());
}

#[test]
fn recover_brings_back_what_was_purged() {
    every_state(purged());
}

/// Breaks the model, and expects a property to be violated.
fn finds_bug(bug: Bug, scene: Scene, property: &'static str) {
    let scene = Scene { bug: Some(bug), ..scene };
    finds(&format!("{bug:?}"), scene, property);
}

/// Two claims and one expiry, whatever is asked for.
fn few(scene: Scene) -> Scene {
    Scene { left: Left { claims: 2, expiries: 1, ..Left::default() }, ..scene }
}

#[test]
fn a_settle_without_a_fence_is_found() {
    finds_bug(Bug::UnfencedSettle, few(held()), SETTLED_ONCE);
}

#[test]
fn a_reaper_that_puts_back_what_it_has_not_locked_is_found() {
    finds_bug(Bug::UnlockedReap, few(held()), WHOLE);
}

#[test]
fn a_message_that_is_put_back_by_halves_is_found() {
    finds_bug(Bug::LeaseNotCleared, few(held()), WHOLE);
    finds_bug(Bug::PutBackLater, few(held()), WHOLE);
    finds_bug(Bug::PutBackLater, few(held()), NOT_LOST);
}

#[test]
fn a_lease_row_that_is_missed_is_found() {
    finds_bug(Bug::LeaseDeletedEarly, few(held()), WHOLE);
    finds_bug(Bug::LeaseDeletedEarly, few(held()), NOT_LOST);
    finds_bug(Bug::ExtensionForgets, extended(), WHOLE);
    finds_bug(Bug::ExtensionForgets, extended(), NOT_LOST);
}

#[test]
fn a_settle_that_waits_for_its_lease_row_is_found() {
    finds_bug(Bug::SettleWaits, few(held()), NO_DEADLOCK);
}

/// A settle that has waited for the reaper keeps its lock on a row that is not its any more: so claims, too, lock rows in
/// the order of ids.
#[test]
fn rows_that_are_locked_out_of_order_are_found() {
    finds_bug(Bug::ClaimOutOfOrder, few(held()), NO_DEADLOCK);
    finds_bug(Bug::ReapOutOfOrder, few(held()), NO_DEADLOCK);
}

/// It holds the rows that it has reaped while it locks others, which may come before them.
#[test]
fn a_claim_that_reaps_and_takes_more_than_that_is_found() {
    let scene = Scene { left: Left { claims: 3, expiries: 1, ..Left::default() }, ..reaped_by_claims() };
    finds_bug(Bug::LooksEverywhere, scene, NO_DEADLOCK);
}

#[test]
fn a_recover_that_looks_before_it_locks_is_found() {
    finds_bug(Bug::UnlockedRecover, purged(), RECOVERED);
}

/// A lease row still names what was settled or put back alone: only together with the row's lease does it say what is
/// held.
#[test]
fn two_leases_may_name_a_request() {
    let scene = Scene { literal: true, ..few(held()) };
    finds("by lease rows alone", scene, NAMED_ONCE);
}

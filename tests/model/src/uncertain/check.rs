//! Every state of every scene of uncertain outcomes, and what is found when they are wrong.

use super::{
    scene::{Bug, Scene},
    state::Left,
    steps::{ENDS, EVIDENCE, NOT_BEGUN, ONCE, RETRYABLE, TRUE},
};
use crate::search::{self, bounds, finds};

/// Two attempts and a hedge, towards a downstream that recognises the id of a request.
fn sent_twice() -> Scene {
    let small = Left { submissions: 2, losses: 1, hedges: 1, unsent: 1, cancels: 1, searches: 1, ..Left::default() };
    let usual = Left { ends: 1, ..small };
    let large = Left { releases: 1, resolutions: 1, ..usual };
    Scene {
        name: "sent twice",
        attempts: 2,
        at_most_once: false,
        recognises: true,
        renews: false,
        left: bounds(small, usual, large),
        bug: None,
    }
}

/// One attempt, towards a downstream that executes everything; the caller repeats under a new key when it may.
fn sent_once() -> Scene {
    let small = Left {
        submissions: 2,
        losses: 1,
        releases: 1,
        unsent: 1,
        cancels: 1,
        ends: 1,
        searches: 1,
        resolutions: 1,
        ..Left::default()
    };
    let usual = Left { submissions: 3, ..small };
    let large = Left { ends: 2, losses: 2, ..usual };
    Scene {
        name: "sent once",
        attempts: 1,
        recognises: false,
        renews: true,
        left: bounds(small, usual, large),
        ..sent_twice()
    }
}

/// As [`sent_once`], because of its semantics; the caller repeats under its key, at any time.
fn sent_at_most_once() -> Scene {
    Scene { name: "sent at most once", attempts: 2, at_most_once: true, renews: false, ..sent_once() }
}

/// A key whose window passes, also more than once, and requests that are redriven meanwhile.
fn aged() -> Scene {
    let small = Left { submissions: 2, losses: 1, ends: 1, searches: 1, redrives: 1, windows: 1, ..Left::default() };
    let usual = Left { cancels: 1, windows: 2, ..small };
    let large = Left { submissions: 3, ..usual };
    Scene { name: "aged", renews: false, left: bounds(small, usual, large), ..sent_once() }
}

/// Requests that an operator redrives, whatever has come of them.
fn redriven() -> Scene {
    let small = Left {
        submissions: 2,
        refusals: 1,
        losses: 1,
        ends: 1,
        searches: 1,
        resolutions: 1,
        redrives: 2,
        ..Left::default()
    };
    let usual = Left { cancels: 1, ..small };
    let large = Left { unsent: 1, ..usual };
    Scene { name: "redriven", attempts: 1, left: bounds(small, usual, large), ..sent_twice() }
}

/// An operator, or the downstream, who says of a request that it was not executed and will not be, and is wrong.
fn lied() -> Scene {
    let small = Left { submissions: 2, losses: 1, ends: 1, searches: 1, resolutions: 1, lies: 1, ..Left::default() };
    let usual = Left { redrives: 1, ..small };
    let large = Left { cancels: 1, windows: 1, ..usual };
    Scene { name: "lied", renews: false, left: bounds(small, usual, large), ..sent_once() }
}

fn every_state(scene: Scene) {
    let what = format!("{}, {:?}", scene.name, scene.left);
    search::every_state(&what, scene);
}

#[test]
fn a_request_that_is_sent_twice_is_executed_once() {
    every_state(sent_twice());
}

#[test]
fn a_caller_repeats_what_was_not_executed() {
    every_state(sent_once());
    every_state(sent_at_most_once());
}

#[test]
fn a_key_stands_for_its_window() {
    every_state(aged());
}

#[test]
fn a_redrive_repeats_what_was_not_executed() {
    every_state(redriven());
    every_state(Scene {
        name: "redriven, and not recognised",
        recognises: false,
        left: Left { redrives: 1, ..redriven().left },
        ..redriven()
    });
}

#[test]
fn a_lie_may_lead_to_a_second_execution() {
    every_state(lied());
}

/// Breaks the model, and expects a property to be violated.
fn finds_bug(bug: Bug, scene: Scene, property: &'static str) {
    let scene = Scene { bug: Some(bug), ..scene };
    finds(&format!("{bug:?}"), scene, property);
}

/// Breaks the model in several ways, each of which violates a property.
fn finds_bugs(bugs: &[Bug], scene: Scene, property: &'static str) {
    for &bug in bugs {
        finds_bug(bug, scene, property);
    }
}

#[test]
fn a_key_that_does_not_stand_is_found() {
    finds_bug(Bug::KeyFreedAtEnd, sent_at_most_once(), ONCE);
    finds_bug(Bug::WindowOverLive, aged(), ONCE);
    finds_bug(Bug::WindowFromAcceptance, aged(), ONCE);
}

#[test]
fn a_cancel_that_is_forgotten_is_found() {
    let scene = Scene { left: Left { releases: 1, ..sent_twice().left }, ..sent_twice() };
    let bugs = [Bug::RetryForgetsCancel, Bug::LossForgetsCancel, Bug::ReleaseForgetsCancel, Bug::HedgeForgetsCancel];
    finds_bugs(&bugs, scene, NOT_BEGUN);
    finds_bug(Bug::ClaimLeavesCancelled, sent_twice(), ENDS);
}

/// The caller then repeats under a new key.
#[test]
fn an_error_that_is_retryable_by_its_code_is_found() {
    finds_bug(Bug::RetryableByCode, sent_once(), RETRYABLE);
    finds_bug(Bug::RetryableByCode, sent_once(), ONCE);
}

#[test]
fn a_search_that_finds_nothing_and_counts_is_found() {
    finds_bug(Bug::NotFoundAsNever, sent_at_most_once(), TRUE);
    finds_bug(Bug::NotFoundAsNever, sent_at_most_once(), ONCE);
}

#[test]
fn a_refusal_that_counts_for_other_calls_is_found() {
    for bug in [Bug::RefusalAfterLoss, Bug::RefusalOfHedged] {
        finds_bug(bug, sent_twice(), TRUE);
        finds_bug(bug, sent_twice(), ONCE);
    }
}

/// A claim may list a request that its settle has moved, as long as it holds others.
#[test]
fn a_settle_that_counts_twice_is_found() {
    finds_bug(Bug::SettleCountsTwice, sent_twice(), TRUE);
    finds_bug(Bug::SettleCountsTwice, sent_twice(), ONCE);
}

#[test]
fn an_answer_that_an_operator_s_word_hides_is_found() {
    finds_bug(Bug::LateAfterWord, lied(), EVIDENCE);
}

#[test]
fn a_repeat_under_another_id_is_found() {
    finds_bugs(&[Bug::OwnSendId, Bug::SendIdOnce], redriven(), ONCE);
}

#[test]
fn a_repeat_that_is_retryable_is_found() {
    finds_bug(Bug::RepeatRetryable, redriven(), RETRYABLE);
}

/// The caller has repeated the request, or may do so, because the row of its key is gone.
#[test]
fn a_redrive_after_the_caller_s_repeat_is_found() {
    finds_bugs(&[Bug::RedriveAfterRepeat, Bug::KeyDropped], redriven(), ONCE);
}

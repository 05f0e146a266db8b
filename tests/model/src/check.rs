//! Every state of every scene, and what is found when the engine is wrong.

use crate::{
    properties,
    rules::Flow,
    scene::{Bug, Faults, Marks, Scene, Semantics, Submitter},
    search::{self, bounds},
};

/// Two workers, and a request for each flow, with a key of its own.
fn scene(name: &'static str, flows: &[Flow], faults: Faults) -> Scene {
    let submitters = (1..).zip(flows).map(|(key, &flow)| Submitter { flow, key: Some(key) });
    Scene {
        name,
        submitters: submitters.collect(),
        semantics: Semantics::AtLeastOnce,
        workers: 2,
        concurrency: 1,
        checks_max: 2,
        attempts_max: 2,
        marks: [Marks { high: 2, low: 0 }; 2],
        node: false,
        faults,
        bug: None,
    }
}

/// Two requests that are checked and sent.
fn checked() -> Scene {
    let usual = Faults { crashes: 1, expiries: 1, duplicates: 1, ..Faults::default() };
    let small = Faults { duplicates: 0, ..usual };
    let large = Faults { crashes: 2, recoveries: 1, ..usual };
    scene("checked", &[Flow::Decrypt; 2], bounds(small, usual, large))
}

/// Two requests that are only sent, so that more may go wrong.
fn sent() -> Scene {
    let usual = Faults { crashes: 1, expiries: 1, duplicates: 1, recoveries: 1, ..Faults::default() };
    let small = Faults { duplicates: 0, recoveries: 0, ..usual };
    let large = Faults { crashes: 2, releases: 1, ..usual };
    scene("sent", &[Flow::Direct; 2], bounds(small, usual, large))
}

/// As [`sent`], with sends that must not be repeated.
fn sent_at_most_once() -> Scene {
    Scene {
        name: "sent at most once",
        semantics: Semantics::AtMostOnce,
        faults: Faults { crashes: 2, releases: 1, duplicates: 1, ..sent().faults },
        ..sent()
    }
}

/// A request that is checked and one that gets a verdict; they are cancelled, run out of time, and lose their messages.
fn ended() -> Scene {
    let usual = Faults { crashes: 1, ends: 1, purges: 1, ..Faults::default() };
    let small = Faults { crashes: 0, ..usual };
    let large = Faults { expiries: 1, ..usual };
    let flows = [Flow::Decrypt, Flow::Proof];
    Scene { checks_max: 1, ..scene("ended", &flows, bounds(small, usual, large)) }
}

/// Two callers with one key.
fn keyed() -> Scene {
    let usual = Faults { crashes: 1, ends: 1, lost_answers: 1, windows: 1, ..Faults::default() };
    let large = Faults { expiries: 1, duplicates: 1, ..usual };
    let mut scene = scene("keyed", &[Flow::Direct; 2], bounds(usual, usual, large));
    for submitter in &mut scene.submitters {
        submitter.key = Some(1);
    }
    scene
}

/// Three callers without a key, a gate that lets in two, and a node that keeps a copy of it.
fn gated() -> Scene {
    let usual = Faults { crashes: 1, releases: 1, ..Faults::default() };
    let small = Faults { releases: 0, ..usual };
    let large = Faults { expiries: 1, ..usual };
    let mut scene = scene("gated", &[Flow::Direct; 3], bounds(small, usual, large));
    for submitter in &mut scene.submitters {
        submitter.key = None;
    }
    Scene { node: true, ..scene }
}

fn every_state(scene: Scene) {
    search::every_state(&format!("{}, {:?}", scene.name, scene.faults), scene);
}

#[test]
fn checked_requests_survive_crashes_expiries_and_duplicates() {
    every_state(checked());
}

#[test]
fn sends_survive_crashes_expiries_duplicates_releases_and_recoveries() {
    every_state(sent());
}

#[test]
fn sends_that_must_not_be_repeated_are_not() {
    every_state(sent_at_most_once());
}

#[test]
fn cancelled_overdue_and_purged_requests_come_to_an_end() {
    every_state(ended());
}

#[test]
fn a_key_stands_for_one_request() {
    every_state(keyed());
    let repeated = keyed();
    every_state(Scene {
        name: "keyed, and submitted again",
        faults: Faults { lost_answers: 0, repeats: 1, ..repeated.faults },
        ..repeated
    });
}

#[test]
fn gates_and_the_copies_of_nodes_agree_with_depths() {
    every_state(gated());
}

/// Breaks the model, and expects a property to be violated.
fn finds(bug: Bug, scene: Scene, property: &'static str) {
    let scene = Scene { bug: Some(bug), ..scene };
    search::finds(&format!("{bug:?}"), scene, property);
}

#[test]
fn a_settle_without_a_fence_is_found() {
    finds(Bug::UnfencedSettle, checked(), properties::SETTLED_ONCE);
}

#[test]
fn a_claim_of_a_lost_request_without_its_recovery_is_found() {
    finds(Bug::ReclaimWithoutRecovery, checked(), properties::LEGAL);
}

#[test]
fn a_message_that_is_lost_is_found() {
    finds(Bug::LostMessage, checked(), properties::NOT_STUCK);
}

#[test]
fn a_gate_that_is_only_heard_of_is_found() {
    finds(Bug::EdgeOnlySignal, gated(), properties::GATES);
    finds(Bug::EdgeOnlySignal, gated(), properties::NOT_STUCK);
}

#[test]
fn a_claim_that_counts_first_is_found() {
    finds(Bug::CountThenClaim, checked(), properties::CONCURRENCY);
}

#[test]
fn a_submission_that_looks_first_is_found() {
    finds(Bug::LookThenSubmit, keyed(), properties::KEYS);
}

#[test]
fn a_lost_send_that_is_repeated_against_its_semantics_is_found() {
    finds(Bug::ResendAnyway, sent_at_most_once(), properties::SENDS);
}

#[test]
fn a_response_that_is_forgotten_in_the_inbox_is_found() {
    finds(Bug::InboxForgotten, checked(), properties::INBOX);
}

#[test]
fn a_gate_that_never_opens_is_found() {
    finds(Bug::GateNeverOpens, gated(), properties::GATES);
    finds(Bug::GateNeverOpens, gated(), properties::NOT_STUCK);
}

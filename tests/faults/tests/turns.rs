//! Are the services of a fair queue in the order of their turns, however many sessions work on it, and end half-way?

use std::{collections::HashMap, time::Duration};

use tidegate_faults::turns::{
    Ends, Storm,
    replay::{Blocked, Change, Replay},
};

use crate::support::{TestDatabase, campaign};

/// A storm of some seconds, whose sessions are terminated.
async fn storm(mutant: Option<String>) -> Replay {
    let database = TestDatabase::unlimited().await;
    let seed = rand::random();
    // A panic does not.
    println!("seed {seed}");
    let time = Duration::from_secs(campaign(5, 60));
    let replay =
        Storm { url: database.url.clone(), time, seed, ends: (Ends::Terminated, 3), mutant }.run().await.unwrap();
    println!("{replay}");
    replay
}

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_serves_whose_turn_it_is_and_no_key_waits_longer_than_its_bound() {
    let replay = storm(None).await;
    assert!(replay.problems.is_empty(), "{replay}");
    assert!(replay.services > 200 && replay.broken > 0, "{replay}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_do_not_wait_for_each_other_are_found() {
    let lock = "perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, ''turns''));";
    let mutant = format!(
        "do $do$ declare v_claim constant text := pg_get_functiondef('tidegate_internal.take_turns'::regproc);
         begin
           if position('{lock}' in v_claim) = 0 then raise 'take_turns takes no lock'; end if;
           execute replace(v_claim, '{lock}', '');
         end $do$"
    );
    let replay = storm(Some(mutant)).await;
    assert!(!replay.problems.is_empty(), "{replay}");
}

const COST: i64 = 720_720;

/// A turn of this key at this many costs, and whether it is idle.
fn change(xid: i64, key: i64, before: Option<i64>, after: Option<(i64, bool)>) -> Change {
    let before = before.map(|tag| ((tag * COST, key), false));
    let after = after.map(|(tag, is_idle)| ((tag * COST, key), is_idle));
    Change { xid: xid.to_string(), key, before, after, cost: COST }
}

/// Keys 1 and 2 become active; 3 later.
fn begun() -> Vec<Change> {
    vec![change(1, 1, None, Some((0, false))), change(1, 2, None, Some((0, false)))]
}

#[test]
fn services_in_turns_are_no_problem() {
    let mut changes = begun();
    changes.push(change(2, 1, Some(0), Some((1, false))));
    changes.push(change(3, 2, Some(0), Some((2, true))));
    changes.push(change(4, 1, Some(1), Some((2, true))));
    let replay = Replay::judge(&changes, &HashMap::new());
    assert!(replay.problems.is_empty(), "{replay}");
    assert_eq!((replay.claims, replay.services), (3, 4));
}

#[test]
fn a_service_before_its_turn_is_found_unless_a_message_was_locked() {
    let mut changes = begun();
    changes.push(change(2, 1, Some(0), Some((2, false))));
    let replay = Replay::judge(&changes, &HashMap::new());
    assert_eq!(replay.problems.len(), 1, "{replay}");

    let locked = Blocked { locked: HashMap::from([(2, 1)]), ..Blocked::default() };
    let replay = Replay::judge(&changes, &HashMap::from([("2".to_owned(), locked)]));
    assert_eq!((replay.problems.len(), replay.beside_locked), (0, 1), "{replay}");
    let passed = Blocked { passed: [2].into(), ..Blocked::default() };
    let replay = Replay::judge(&changes, &HashMap::from([("2".to_owned(), passed)]));
    assert_eq!((replay.problems.len(), replay.beside_locked), (0, 0), "{replay}");
}

#[test]
fn a_key_that_waits_longer_than_its_bound_is_found() {
    let mut changes = begun();
    // Each of its turns comes before that of key 2, as if it had another number.
    for tag in 0..3 {
        let mut served = change(tag + 2, 1, Some(tag), Some((tag + 1, false)));
        served.before = served.before.map(|((tag, _), idle)| ((tag - 10 * COST, 1), idle));
        served.after = served.after.map(|((tag, _), idle)| ((tag - 10 * COST, 1), idle));
        changes.push(served);
    }
    let replay = Replay::judge(&changes, &HashMap::new());
    assert!(replay.problems.iter().any(|problem| problem.contains("3 times")), "{replay}");
}

#[test]
fn a_turn_that_is_forgotten_while_its_key_waits_is_found() {
    let mut changes = begun();
    changes.push(change(2, 1, Some(0), None));
    assert_eq!(Replay::judge(&changes, &HashMap::new()).problems.len(), 1);
}

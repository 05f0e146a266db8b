//! Is a measurement of retries to be believed? One that fits its policy, made by hand, and then figures that do not.

use std::sync::Arc;

use tidegate_faults::{
    checker::{self, Verdict},
    evidence::{Event, Evidence, Life, Measured, PolicyFigures, Seen},
    measure::{CALM, KIND},
};
use uuid::Uuid;

const BEGIN: i64 = 1_800_000_000_000_000;

const LONGEST: &str = "retries take no longer than W_retry";
const SHARES: &str = "retries succeed as often as p_ok says, in as many attempts as expected";

/// Three attempts of 400 ms, backoffs of 300 ± 150 and 600 ± 150 ms: half of the calls are lost.
fn figures() -> PolicyFigures {
    PolicyFigures {
        attempts: 3,
        timeout_us: 400_000,
        w_retry_us: 2_400_000,
        budget_us: 9_000_000,
        p_drop: 0.5,
        p_ok: 0.875,
        expected_attempts: 1.75,
    }
}

/// A request that succeeds with its attempt of this number, or with none; each lost call takes its whole timeout, an
/// answer 60 ms.
fn life(number: usize, succeeds: Option<usize>, mark: &str) -> Life {
    let mut at_us = BEGIN;
    let mut events = Vec::new();
    let mut step = |from: &str, to: &str, cause: &str, at_us: i64| {
        events.push(Event {
            number: i32::try_from(events.len()).unwrap() + 1,
            from: (!from.is_empty()).then(|| from.into()),
            to: to.into(),
            cause: cause.into(),
            worker: None,
            at_us,
        });
    };
    step("", "processing", "submitted", at_us);
    for attempt in 1..=succeeds.unwrap_or(3) {
        step("processing", "tx_in_flight", "claimed", at_us);
        at_us += if succeeds == Some(attempt) { 60_000 } else { 400_000 };
        if succeeds == Some(attempt) {
            step("tx_in_flight", "completed", "receipt", at_us);
        } else if attempt == 3 {
            step("tx_in_flight", "failure", "attempts_exhausted", at_us);
        } else {
            step("tx_in_flight", "processing", "send_retried", at_us);
            at_us += 300_000 * i64::try_from(attempt).unwrap() + 150_000;
        }
    }
    let status: Arc<str> = if succeeds.is_some() { "completed" } else { "failure" }.into();
    Life {
        kind: KIND.into(),
        flow: "direct".into(),
        status,
        transition_no: i32::try_from(events.len()).unwrap(),
        mark: Some(format!("{mark}-{number}").into()),
        poison: false,
        error: succeeds.is_none().then(|| "attempts_exhausted".into()),
        submitter: None,
        calls_back: false,
        unsent: 0,
        send_id: None,
        executed: if succeeds.is_some() { "yes" } else { "unknown" }.into(),
        known_us: Some(at_us),
        finished_us: Some(at_us),
        removed_us: None,
        events,
    }
}

/// 1,200 requests: half succeed at once, half of the others at their second attempt, and so on.
fn measured(change: impl FnOnce(&mut Evidence, &mut PolicyFigures)) -> Verdict {
    let mut evidence = Evidence::default();
    for number in 0..1200 {
        let succeeds = match number % 8 {
            0..4 => Some(1),
            4..6 => Some(2),
            6 => Some(3),
            _ => None,
        };
        let id = Uuid::from_u128(number as u128 + 1);
        evidence.lives.insert(id, life(number, succeeds, CALM));
        if succeeds.is_some() {
            evidence.downstream.push(Seen {
                us: BEGIN.unsigned_abs(),
                at_us: BEGIN,
                id: Some(id),
                kind: KIND.into(),
                event: "taken".into(),
                key: None,
            });
        }
    }
    let mut policy = figures();
    change(&mut evidence, &mut policy);
    evidence.measured = Some(Measured { policy });
    checker::check(&evidence)
}

fn broken(verdict: &Verdict) -> Vec<&'static str> {
    let broken = verdict.0.iter().filter(|check| !check.violations.is_empty());
    broken.map(|check| check.rule).collect()
}

#[test]
fn retries_that_fit_their_policy_break_no_rule() {
    let verdict = measured(|_, _| {});
    assert!(verdict.holds(), "{verdict}");
    for rule in [LONGEST, SHARES] {
        let check = verdict.0.iter().find(|check| check.rule == rule).unwrap();
        assert_eq!(check.examined, 1200, "{rule}");
    }
}

#[test]
fn a_bound_without_the_backoffs_is_found_and_a_request_that_outlasts_it() {
    let verdict = measured(|_, policy| policy.w_retry_us = 3 * policy.timeout_us);
    assert_eq!(broken(&verdict), [LONGEST]);
    for (late_us, rules) in [(599_000, &[][..]), (601_000, &[LONGEST])] {
        let verdict = measured(|evidence, _| {
            let life = evidence.lives.get_mut(&Uuid::from_u128(8)).unwrap();
            life.events.last_mut().unwrap().at_us += late_us;
        });
        assert_eq!(broken(&verdict), rules, "{late_us}");
    }
}

#[test]
fn a_busy_machine_explains_as_much_as_calls_show_that_were_answered_meanwhile() {
    for (began_later_us, answered_late_us, late_us, rules) in [
        (0, 400_000, 999_000, &[][..]),
        (0, 400_000, 1_001_000, &[LONGEST]),
        (10_000_000, 400_000, 601_000, &[LONGEST]),
        // What so busy a machine does is not examined.
        (0, 501_000, 9_000_000, &[]),
        (10_000_000, 501_000, 601_000, &[LONGEST]),
    ] {
        let verdict = measured(|evidence, _| {
            let answered = &mut evidence.lives.get_mut(&Uuid::from_u128(1)).unwrap().events;
            answered[1].at_us += began_later_us;
            answered[2].at_us += began_later_us + answered_late_us;
            let life = evidence.lives.get_mut(&Uuid::from_u128(8)).unwrap();
            life.events.last_mut().unwrap().at_us += late_us;
        });
        assert_eq!(broken(&verdict), rules, "{began_later_us} {answered_late_us} {late_us}");
    }
}

#[test]
fn in_a_partition_searches_count_and_sends_that_did_not_leave_have_the_stages_deadline() {
    for (unsent, took_us, rules) in
        [(0, 3_799_000, &[][..]), (0, 3_801_000, &[LONGEST]), (1, 10_399_000, &[]), (1, 10_401_000, &[LONGEST])]
    {
        let verdict = measured(|evidence, _| {
            let mut life = life(1, None, "partitioned");
            life.unsent = unsent;
            life.events.last_mut().unwrap().at_us = BEGIN + took_us;
            evidence.lives.insert(Uuid::from_u128(5000), life);
        });
        assert_eq!(broken(&verdict), rules, "{unsent} {took_us}");
    }
}

#[test]
fn a_p_ok_with_an_attempt_more_or_less_is_found_and_so_are_other_figures_that_do_not_fit() {
    let changes: [fn(&mut PolicyFigures); 5] = [
        |policy| policy.p_ok = 0.75,
        |policy| policy.p_ok = 0.9375,
        |policy| policy.expected_attempts = 1.5,
        |policy| policy.expected_attempts = 1.875,
        |policy| policy.p_drop = 0.49,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let verdict = measured(|_, policy| change(policy));
        assert_eq!(broken(&verdict), [SHARES], "{number}");
    }
}

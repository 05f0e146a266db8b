//! Is a checker that says "every promise held" to be believed? A database, a log and a ledger made by hand, in which all
//! is well, and then one thing wrong at a time: each is found, by the rule it breaks and by no other.

use std::io::Write;

use tidegate_faults::{
    checker::{self, Verdict},
    evidence::{BreakerRule, Evidence, Measured, PolicyFigures, QuotaCount},
    journal::Disturbance,
    ledger::{Cancel, Promise, Resolution, Told},
    measure::{CALM, KIND},
    receiver::{Answer, Arrival},
    scene::Limited,
};
use uuid::Uuid;

use crate::support::TestDatabase;

/// When the hand-made story begins, in microseconds of Unix time.
const BEGIN: i64 = 1_800_000_000_000_000;

const ENDED: &str = "every request has reached exactly one terminal status";
const LEGAL: &str = "events form a legal path";
const TOLD_BY_EVENTS: &str = "events tell what the row says";
const POISON: &str = "poison payloads end in failure with their reason";
const CARRIED: &str = "a default policy gives up no request in half of its deadline";
const REST: &str = "no queue holds a message when all is at rest";
const PROMISED: &str = "every request that was promised exists, with its own payload";
const TOLD: &str = "what callers were told of an end is what it was";
const ANSWERED: &str = "what the downstream answered and was taken is what the caller gets";
const KEYS: &str = "no idempotency key is lost: the same key is the same request";
const EXECUTED: &str = "no key is executed twice while it stands";
const FACTS: &str = "what the database says of an execution is so";
const TOLD_OF_EXECUTION: &str = "what callers are told of an execution is so";
const NOT_SENT_AGAIN: &str = "a request whose cancel was answered is not sent again";
const KNOWN: &str = "every send belongs to a submitted request";
const CLAIMED: &str = "each send was claimed before it left";
const ONCE: &str = "what may leave once only left once at most";
const DONE: &str = "what has a receipt was taken by the downstream once, and not rejected";
const TWICE: &str = "the downstream has taken nothing twice";
const SINGLE: &str = "one submission without a key makes one request";
const GIVEN: &str = "no request has an answer that the downstream has not given";
const EFFECTS: &str = "an exactly_once request has one effect if it has its receipt, or else none";
const CLAIM_RATE: &str = "claims keep the rate D, also after kills";
const SEND_RATE: &str = "the downstream sees no more than its rate in any second";
const CHECKS: &str = "no more readiness checks run at once than allowed";
const QUOTA: &str = "no quota is exceeded at any moment";
const QUOTA_AT_REST: &str = "a quota is free and open when all is at rest";
const EARLY: &str = "only requests that have ended are deleted, after their retention";
const LATE: &str = "a request is deleted when its retention is over";
const DAYS: &str = "the history of a day goes with its last request, and not before";
const REDRIVEN: &str = "a failed request is redriven once at most, as a request like it";
const REACHED: &str = "each end with a callback reaches its receiver, and no other end";
const SAME: &str = "every attempt of a delivery has its id, its body and a number of its own";
const TOLD_BY_WEBHOOK: &str = "a webhook tells the end that its request has";
const SIGNED: &str = "each webhook is signed with a secret that was in force";
const HEDGES: &str = "hedges are no larger a share of the calls than their policy allows";
const FLIPS: &str = "a breaker goes from closed to open, to half open after its time, and back";
const PROBES: &str = "while a breaker is not closed nothing is sent but its probes";
const BESIDES: &str = "nothing unexpected was answered, and no process ended by itself";

/// A request of the story: number, kind, flow, payload, its history as `status/cause` after the entry.
const LIVES: [(u128, &str, &str, &str, &str); 13] = [
    (1, "direct", "direct", "a", "processing/submitted tx_in_flight/claimed completed/receipt"),
    (
        2,
        "user_decrypt",
        "decrypt",
        "b",
        "queued/submitted processing/readiness_passed tx_in_flight/claimed receipt_received/receipt completed/threshold_reached",
    ),
    (3, "booking", "direct", "c", "processing/submitted tx_in_flight/claimed completed/receipt"),
    (4, "single_shot", "direct", "d", "processing/submitted tx_in_flight/claimed failure/outcome_unknown"),
    (
        5,
        "input_proof",
        "proof",
        "e",
        "processing/submitted tx_in_flight/claimed processing/recovered tx_in_flight/claimed receipt_received/receipt \
         failure/verdict_rejected",
    ),
    (6, "booking", "direct", "poison", "processing/submitted tx_in_flight/claimed failure/attempts_exhausted"),
    (7, "direct", "direct", "f", "processing/submitted failure/cancelled"),
    (8, "patient", "direct", "g", "processing/submitted failure/deadline_exceeded"),
    (9, "fleeting", "direct", "h", "processing/submitted failure/attempts_exhausted"),
    (10, "fleeting", "direct", "i", "processing/submitted failure/attempts_exhausted"),
    (
        13,
        "hedged",
        "direct",
        "l",
        "processing/submitted tx_in_flight/claimed processing/send_retried tx_in_flight/claimed completed/receipt",
    ),
    (15, "unsure", "direct", "n", "processing/submitted tx_in_flight/claimed failure/outcome_unknown"),
    (
        14,
        KIND,
        "direct",
        CALM,
        "processing/submitted tx_in_flight/claimed processing/send_retried tx_in_flight/claimed completed/receipt",
    ),
];

/// Request 9 is deleted after its retention, with its history; request 7 is redriven as 11. An operator has said that 15
/// was not executed, and its caller has submitted it again as 16.
const AFTERWARDS: &str = "
    insert into tidegate.outcome (request_id, kind, executed, source, at) values
      ('{4}', 'direct', 'unknown', 'attempts', to_timestamp(1800000003)),
      ('{5}', 'direct', 'yes', 'response', to_timestamp(1800000006)),
      ('{15}', 'direct', 'no', 'operator', to_timestamp(1800000010));
    insert into public.removed select r.*, r.finished_at + interval '1 minute' from tidegate.request as r where id = '{9}';
    delete from tidegate.request where id = '{9}';
    delete from tidegate.stored_event where request_id = '{9}';
    insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{7}', '{11}', 'ops');
    update tidegate.request set callback_url = 'http://receiver/own' where id = '{1}';
    insert into tidegate.webhook_delivery (request_id, id, url, host_port, state, attempt, finished_at)
    values ('{1}', '{90}', 'http://receiver/own', 'receiver:80', 'delivered', 2, now());
    insert into tidegate.breaker_event (kind, stage, epoch, state, cause, at)
    select 'direct', 'tx', f.epoch, f.state, '', to_timestamp(1800000000 + f.at)
    from (values (1, 'open', 110), (2, 'half_open', 120), (3, 'open', 121), (4, 'half_open', 131), (5, 'closed', 132))
      as f(epoch, state, at);
    insert into tidegate.webhook_secret (secret, created_at) values ('whsec_0123456789abcdef0123456789abcdef', '2026-01-01');";

/// The second in which the attempts of the delivery arrive.
const ARRIVES: i64 = BEGIN / 1_000_000 + 5;

const SECRET: &str = "whsec_0123456789abcdef0123456789abcdef";

fn signature(delivery: &str, second: i64, body: &str) -> String {
    tidegate_node::webhook::sign([SECRET], delivery, second, body.as_bytes()).unwrap()
}

/// An attempt of the delivery of request 1, which ends three seconds after the beginning.
fn arrival(attempt: &str, answer: Answer) -> Arrival {
    let finished = chrono::DateTime::from_timestamp_micros(BEGIN + 3_000_000).unwrap();
    let body = serde_json::json!({
        "job_id": id(1), "delivery_id": id(90), "state": "completed", "kind": "direct", "finished_at": finished,
    })
    .to_string();
    Arrival {
        at_us: ARRIVES * 1_000_000,
        delivery: id(90).to_string(),
        attempt: attempt.to_owned(),
        second: ARRIVES.to_string(),
        signature: signature(&id(90).to_string(), ARRIVES, &body),
        body,
        answer,
    }
}

/// Puts ids in the place of their numbers.
fn with_ids(sql: &str) -> String {
    (1..100).fold(sql.to_owned(), |sql, number| sql.replace(&format!("{{{number}}}"), &id(number).to_string()))
}

/// The downstream's log: seconds after the beginning, request, kind, event. Event n of a life is n seconds after it.
const LOG: [(f64, u128, &str, &str); 31] = [
    (2.1, 1, "direct", "send"),
    (2.1, 1, "direct", "taken"),
    (1.2, 2, "user_decrypt", "check"),
    (1.4, 2, "user_decrypt", "ready"),
    (3.1, 2, "user_decrypt", "send"),
    (3.1, 2, "user_decrypt", "taken"),
    (4.1, 2, "user_decrypt", "delivered"),
    (4.2, 2, "user_decrypt", "delivered"),
    (5.0, 2, "user_decrypt", "delivered"),
    (5.1, 2, "user_decrypt", "delivered_late"),
    (2.1, 3, "booking", "send"),
    (2.1, 3, "booking", "taken"),
    (2.1, 4, "single_shot", "send"),
    (2.1, 4, "single_shot", "taken"),
    (2.1, 5, "input_proof", "send"),
    (2.2, 5, "input_proof", "send_error"),
    (4.1, 5, "input_proof", "send"),
    (4.2, 5, "input_proof", "taken"),
    (6.0, 5, "input_proof", "delivered"),
    (6.1, 6, "booking", "receipt_unknown"),
    (2.1, 13, "hedged", "send"),
    (2.2, 13, "hedged", "send"),
    (4.1, 13, "hedged", "send"),
    (4.1, 13, "hedged", "taken"),
    (2.1, 15, "unsure", "send"),
    (10.5, 15, "unsure", "taken"),
    (22.1, 16, "unsure", "send"),
    (22.1, 16, "unsure", "taken"),
    (2.1, 14, KIND, "send"),
    (4.1, 14, KIND, "send"),
    (4.1, 14, KIND, "taken"),
];

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn insert(number: u128, kind: &str, flow: &str, payload: &str, life: &str) -> String {
    insert_at(0, number, kind, flow, payload, life)
}

/// A request that begins so many seconds after the others.
fn insert_at(seconds: i64, number: u128, kind: &str, flow: &str, payload: &str, life: &str) -> String {
    let steps: Vec<_> = life.split(' ').filter_map(|step| step.split_once('/')).collect();
    let (status, _) = steps[steps.len() - 1];
    let poison = if payload == "poison" { ", \"poison\": true" } else { "" };
    let error = if status == "failure" { "'{\"code\": \"x\"}'" } else { "null" };
    let at = |place: i64| format!("to_timestamp({}::numeric / 1000000)", BEGIN + (seconds + place) * 1_000_000);
    let mut sql = format!(
        "insert into tidegate.request (
           id, kind, flow, req_status, transition_no, tx_attempt, deadline_at, payload, error, finished_at
         )
         values (
           '{}', '{kind}', '{flow}', '{status}', {}, {}, now(), '{{\"mark\": \"{payload}\"{poison}}}', {error}, {}
         );",
        id(number),
        steps.len(),
        steps.iter().filter(|(_, cause)| *cause == "claimed").count(),
        at(steps.len() as i64),
    );
    let mut from = "null".to_owned();
    for ((to, cause), place) in steps.into_iter().zip(1..) {
        sql += &format!(
            "insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause)
             values ('{}', {place}, {from}, '{to}', {}, 1, '{cause}');",
            id(number),
            at(place),
        );
        from = format!("'{to}'");
    }
    sql
}

/// The key with which a request was executed.
fn key_of(number: u128, event: &str) -> Option<&'static str> {
    let of_life = |(_, _, _, key, _): &(_, _, _, &'static str, _)| *key;
    let key = LIVES.iter().find(|life| life.0 == number).map(of_life);
    (event == "taken").then(|| key.or((number == 16).then_some("n"))).flatten()
}

/// The story; `sql` is done to its database afterwards, `log` are lines that the log has besides, `change` changes what
/// callers and orchestrator have written down.
async fn told(sql: &str, log: &[(f64, u128, &str, &str)], change: impl FnOnce(&mut Evidence)) -> Verdict {
    let database = TestDatabase::new().await;
    let mut story = "create table public.booking (request_id uuid not null);
                     create table public.removed (like tidegate.request, removed_at timestamptz not null);
                     create table public.removed_outcome (like tidegate.outcome);
                     create table public.repeated (request_id uuid not null);
                     set session_replication_role = replica;"
        .to_owned();
    for (number, kind, flow, payload, life) in LIVES {
        story += &insert(number, kind, flow, payload, life);
    }
    story += &insert_at(10, 11, "direct", "direct", "f", "processing/submitted failure/cancelled");
    let life = "processing/submitted tx_in_flight/claimed completed/receipt";
    story += &insert_at(20, 16, "unsure", "direct", "n", life);
    story += &with_ids(AFTERWARDS);
    story += &format!("insert into public.booking values ('{}');", id(3));
    for (key, number) in [("a", 1), ("c", 3), ("d", 4), ("n", 16)] {
        story += &format!(
            "insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
             values ('', '{key}', '', '{}', '2026-01-01', '1 day', 'infinity');",
            id(number)
        );
    }
    story += "insert into tidegate.gate (kind, high_water, low_water) values ('direct', 10, 5);";
    let mut session = database.session().await;
    sqlx::raw_sql(&(story + sql)).execute(&mut session).await.unwrap();

    let mut file = tempfile::NamedTempFile::new().unwrap();
    for (seconds, number, kind, event) in LOG.iter().chain(log) {
        let us = (seconds * 1e6) as i64;
        let at = chrono::DateTime::from_timestamp_micros(BEGIN + us).unwrap();
        let line = serde_json::json!({
            "at": at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
            "us": us, "request_id": id(*number), "kind": kind, "event": event, "key": key_of(*number, event),
        });
        writeln!(file, "{line}").unwrap();
    }

    let promise = |number, kind, mark: &str, keyed| Promise {
        id: id(number),
        kind,
        mark: mark.to_owned(),
        keyed,
        calls_back: number == 1,
        way: "http",
    };
    let mut evidence = Evidence {
        promises: vec![
            promise(1, "direct", "a", true),
            promise(1, "direct", "a", true),
            promise(2, "user_decrypt", "b", false),
            promise(3, "booking", "c", true),
            promise(4, "single_shot", "d", true),
            promise(7, "direct", "f", false),
            promise(9, "fleeting", "h", true),
            promise(15, "unsure", "n", true),
            promise(16, "unsure", "n", true),
        ],
        told: vec![
            end(1, "completed", Some("yes")),
            end(4, "failure", Some("unknown")),
            end(7, "cancelled", None),
            end(9, "unknown", None),
            end(15, "failure", Some("no")),
        ],
        cancels: vec![cancel(7, 200, 2.0), cancel(4, 202, 2.5), cancel(1, 409, 4.0)],
        resolutions: vec![Resolution { id: id(15), executed: false, at_us: BEGIN + 10_000_000 }],
        exactly_once: ["booking".to_owned()].into(),
        at_most_once: ["single_shot".to_owned()].into(),
        carried_us: [("patient".to_owned(), 1_000_000)].into(),
        thresholds: [("user_decrypt".to_owned(), 3)].into(),
        limits: vec![Limited {
            queue: "tx".to_owned(),
            per_second: 10,
            burst: 1,
            kinds: vec!["direct".to_owned(), "input_proof".to_owned()],
        }],
        checks_at_once: 2,
        hedging: [("hedged".to_owned(), (2, 0.5))].into(),
        breakers: [("direct".to_owned(), BreakerRule { open_us: 10_000_000, probes: 1, lost_us: 5_000_000 })].into(),
        measured: Some(Measured {
            policy: PolicyFigures {
                attempts: 2,
                timeout_us: 1_000_000,
                w_retry_us: 3_000_000,
                budget_us: 9_000_000,
                p_drop: 0.5,
                p_ok: 0.75,
                expected_attempts: 1.5,
            },
        }),
        arrivals: vec![arrival("1", Answer::Failed), arrival("2", Answer::Accepted)],
        old_days: vec!["2001_01_01".to_owned()],
        retentions_us: [("fleeting".to_owned(), 30_000_000)].into(),
        windows_us: [("fleeting".to_owned(), 20_000_000)].into(),
        quota_counts: vec![quota_count(10), quota_count(0)],
        ..Evidence::default()
    };
    evidence.read_database(&mut session).await.unwrap();
    evidence.read_downstream(file.path()).unwrap();
    change(&mut evidence);
    checker::check(&evidence)
}

/// What a caller read of an end.
fn end(number: u128, state: &str, executed: Option<&str>) -> Told {
    Told {
        id: id(number),
        state: state.to_owned(),
        at_us: BEGIN + 100_000_000,
        executed: executed.map(str::to_owned),
        retryable: executed == Some("no"),
    }
}

/// A cancel that was answered so many seconds after the beginning.
fn cancel(number: u128, status: u16, seconds: f64) -> Cancel {
    Cancel { id: id(number), status, at_us: BEGIN + (seconds * 1e6) as i64 }
}

/// A count of the quota of the story.
fn quota_count(live: i64) -> QuotaCount {
    QuotaCount { gate: "kind direct".to_owned(), at_us: BEGIN, live, high_water: 10 }
}

/// The rules that are broken.
fn broken(verdict: &Verdict) -> Vec<&'static str> {
    let broken = verdict.0.iter().filter(|check| !check.violations.is_empty());
    broken.map(|check| check.rule).collect()
}

/// An error in the database alone breaks these rules and no others.
async fn found(sql: &str, rules: &[&str]) {
    let verdict = told(sql, &[], |_| {}).await;
    assert_eq!(broken(&verdict), rules, "{sql}\n{verdict}");
}

/// An error in the downstream's log alone breaks these rules and no others.
async fn seen(log: &[(f64, u128, &str, &str)], rules: &[&str]) {
    let verdict = told("", log, |_| {}).await;
    assert_eq!(broken(&verdict), rules, "{log:?}\n{verdict}");
}

#[tokio::test]
async fn a_story_in_which_all_is_well_breaks_no_rule_and_every_rule_has_looked() {
    let verdict = told("", &[], |_| {}).await;
    assert!(verdict.holds(), "{verdict}");
    for check in &verdict.0 {
        assert!(check.examined > 0, "nothing was looked at: {}", check.rule);
    }
}

#[tokio::test]
async fn a_skipped_status_is_found() {
    let skipped = "delete from tidegate.stored_event where request_id = '{1}' and transition_no = 2;
                   update tidegate.stored_event set transition_no = 2, from_status = 'processing'
                   where request_id = '{1}' and transition_no = 3;
                   update tidegate.request set transition_no = 2 where id = '{1}'";
    let skipped = skipped.replace("{1}", &id(1).to_string());
    // Its send was not claimed either.
    found(&skipped, &[LEGAL, CLAIMED]).await;
}

#[tokio::test]
async fn histories_that_cannot_be_are_found() {
    for (sql, rules) in [
        // A cause that does not belong to the edge.
        (
            "update tidegate.stored_event set cause = 'response' where request_id = '{1}' and transition_no = 3",
            &[LEGAL, GIVEN][..],
        ),
        // A step of another flow.
        (
            "update tidegate.stored_event set to_status = 'queued' where request_id = '{7}' and transition_no = 1",
            &[LEGAL],
        ),
        // A step that takes place before the one it follows.
        (
            "update tidegate.stored_event set at = at - interval '3 seconds' where request_id = '{5}' and transition_no = 5",
            &[LEGAL],
        ),
        // A hand's edit, which no fault makes.
        (
            "update tidegate.stored_event set cause = 'hand_edit' where request_id = '{3}' and transition_no = 3",
            &[LEGAL],
        ),
        // A row that moved on without its history.
        ("update tidegate.request set req_status = 'timed_out' where id = '{2}'", &[TOLD_BY_EVENTS, EFFECTS][..1]),
        (
            "delete from tidegate.stored_event where request_id = '{7}' and transition_no = 2",
            &[ENDED, TOLD_BY_EVENTS, TOLD],
        ),
        // Stuck.
        (
            "update tidegate.request set req_status = 'tx_in_flight', transition_no = 2 where id = '{4}';
          delete from tidegate.stored_event where request_id = '{4}' and transition_no = 3",
            &[ENDED, TOLD],
        ),
        // Ended twice.
        (
            "insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause)
          values ('{4}', 4, 'failure', 'failure', to_timestamp(1800000009), 1, 'internal_error');
          update tidegate.request set transition_no = 4 where id = '{4}'",
            &[ENDED, LEGAL],
        ),
        // A poison payload that went through.
        ("update tidegate.request set error = null where id = '{6}'", &[POISON]),
        // Events without a request.
        (
            "update tidegate.stored_event set request_id = gen_random_uuid() where request_id = '{7}'",
            &[ENDED, TOLD_BY_EVENTS, TOLD],
        ),
        // A message that no claim takes.
        ("select pgmq.send('tx', '{}')", &[REST]),
    ] {
        found(&with_ids(sql), rules).await;
    }
}

#[tokio::test]
async fn a_request_that_is_given_up_too_early_is_found() {
    for (cause, rules) in
        [("deadline_exceeded", &[CARRIED][..]), ("attempts_exhausted", &[CARRIED]), ("cancelled", &[])]
    {
        let sql = format!(
            "update tidegate.stored_event set cause = '{cause}' where request_id = '{}' and transition_no = 2",
            id(8)
        );
        let verdict = told(&sql, &[], |evidence| {
            evidence.carried_us.insert("patient".to_owned(), 1_000_001);
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{cause}");
    }
}

#[tokio::test]
async fn a_lost_request_is_found() {
    let lost = format!(
        "delete from tidegate.request where id = '{0}'; delete from tidegate.stored_event where request_id = '{0}'",
        id(2)
    );
    found(&lost, &[PROMISED, KNOWN]).await;
    // Promised to two callers as one request.
    let verdict = told("", &[], |evidence| evidence.promises[2].id = id(1)).await;
    assert_eq!(broken(&verdict), [PROMISED, SINGLE]);
    let verdict = told("", &[], |evidence| evidence.promises[2].kind = "direct").await;
    assert_eq!(broken(&verdict), [PROMISED]);
}

#[tokio::test]
async fn an_end_that_changed_after_it_was_told_is_found() {
    for (number, state) in [(1, "failure"), (1, "unknown"), (4, "cancelled"), (9, "completed")] {
        let verdict = told("", &[], |evidence| {
            evidence.told.push(end(number, state, None));
        })
        .await;
        assert_eq!(broken(&verdict), [TOLD], "{number} {state}");
    }
}

#[tokio::test]
async fn a_response_that_was_taken_and_is_nowhere_is_found() {
    let timed_out = format!(
        "update tidegate.request set req_status = 'timed_out' where id = '{0}';
         update tidegate.stored_event set to_status = 'timed_out', cause = 'response_timed_out'
         where request_id = '{0}' and transition_no = 5",
        id(2)
    );
    found(&timed_out, &[ANSWERED]).await;
}

#[tokio::test]
async fn a_key_that_was_lost_is_found_and_one_that_was_free_again_is_none() {
    let life = "processing/submitted tx_in_flight/claimed failure/rejected";
    found(&insert(18, "direct", "direct", "a", life), &[KEYS]).await;
    // The first had failed before the second came, and was refused, or may have been executed.
    let failed = insert(18, "direct", "direct", "a", life).replace("18000", "17000");
    let refused = with_ids("update tidegate.request set tx_unsent = 1 where id = '{18}'");
    found(&(failed.clone() + &refused), &[]).await;
    found(&failed, &[KEYS]).await;
    // No caller has submitted it again, which would make another request.
    found("delete from tidegate.dedup where key = 'a'", &[KEYS]).await;
    found("update tidegate.dedup set expires_at = now() where key = 'a'", &[KEYS]).await;
}

/// Request 18 repeats the key of another one, so many seconds later, and is executed.
async fn repeated(seconds: i64, kind: &'static str, key: &str, change: impl FnOnce(&mut Evidence)) -> Verdict {
    let life = "processing/submitted tx_in_flight/claimed completed/receipt";
    let sql = insert_at(seconds, 18, kind, "direct", key, life);
    let at = seconds as f64 + 2.1;
    told(&sql, &[(at, 18, kind, "send"), (at, 18, kind, "taken")], |evidence| {
        for seen in &mut evidence.downstream {
            if seen.id == Some(id(18)) && &*seen.event == "taken" {
                seen.key = Some(key.into());
            }
        }
        change(evidence);
    })
    .await
}

#[tokio::test]
async fn a_key_that_is_executed_twice_is_found_unless_an_operator_allowed_it() {
    let verdict = repeated(20, "single_shot", "d", |_| {}).await;
    assert_eq!(broken(&verdict), [KEYS, EXECUTED], "{verdict}");
    // A word that comes after the second submission frees no key.
    for (at_us, rules) in [(BEGIN + 19_000_000, &[][..]), (BEGIN + 23_000_000, &[KEYS, EXECUTED])] {
        let verdict = repeated(20, "single_shot", "d", |evidence| {
            evidence.resolutions.push(Resolution { id: id(4), executed: false, at_us });
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{at_us} {verdict}");
    }
    // Sends of such a kind may be repeated.
    let verdict = repeated(20, "single_shot", "d", |evidence| {
        evidence.repeatable.insert("single_shot".to_owned());
    })
    .await;
    assert!(verdict.holds(), "{verdict}");
    // The window begins with the end of a request that may have been executed, three seconds after its submission.
    for (window_us, rules) in [(16_000_000, &[][..]), (21_000_000, &[KEYS, EXECUTED])] {
        let verdict = repeated(20, "single_shot", "d", |evidence| {
            evidence.windows_us.insert("single_shot".to_owned(), window_us);
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{window_us} {verdict}");
    }
    // A redrive repeats it only when it says so.
    for (may_repeat, rules) in [(true, &[][..]), (false, &[EXECUTED, REDRIVEN])] {
        let verdict = repeated(20, "single_shot", "d", |evidence| {
            evidence.redriven.insert(id(4), id(18));
            if may_repeat {
                evidence.may_repeat.insert(id(4));
            }
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{may_repeat} {verdict}");
    }
}

#[tokio::test]
async fn a_key_that_no_longer_stands_for_what_may_have_been_executed_is_found() {
    found("delete from tidegate.dedup where key = 'd'", &[KEYS]).await;
}

#[tokio::test]
async fn a_word_about_an_execution_that_is_wrong_is_found() {
    for (sql, rules) in [
        ("update tidegate.outcome set executed = 'no', source = 'settle' where request_id = '{4}'", &[FACTS][..]),
        (
            "update tidegate.request set tx_unsent = 1 where id = '{4}'; delete from tidegate.outcome where request_id = '{4}'",
            &[FACTS],
        ),
        ("update tidegate.outcome set executed = 'unknown', source = 'attempts' where request_id = '{5}'", &[]),
        (
            "insert into tidegate.outcome (request_id, kind, executed, source) values ('{6}', 'direct', 'yes', 'settle')",
            &[FACTS],
        ),
    ] {
        found(&with_ids(sql), rules).await;
    }
    for (number, word, rules) in
        [(4, "no", &[TOLD_OF_EXECUTION][..]), (6, "yes", &[TOLD_OF_EXECUTION]), (6, "no", &[]), (15, "no", &[])]
    {
        let verdict = told("", &[], |evidence| {
            evidence.told.push(end(number, "failure", Some(word)));
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{number} {word} {verdict}");
    }
    // What may have been executed is not to be repeated.
    let verdict = told("", &[], |evidence| evidence.told[1].retryable = true).await;
    assert_eq!(broken(&verdict), [TOLD_OF_EXECUTION]);
    // The word of an operator who has not said it.
    let verdict = told("", &[], |evidence| evidence.resolutions.clear()).await;
    assert_eq!(broken(&verdict), [EXECUTED, FACTS, TOLD_OF_EXECUTION], "{verdict}");
}

#[tokio::test]
async fn a_send_after_an_answered_cancel_is_found() {
    for (status, seconds, rules) in
        [(202, 3.5, &[NOT_SENT_AGAIN][..]), (200, 3.5, &[NOT_SENT_AGAIN]), (409, 3.5, &[]), (202, 4.5, &[])]
    {
        let verdict = told("", &[], |evidence| evidence.cancels.push(cancel(13, status, seconds))).await;
        assert_eq!(broken(&verdict), rules, "{status} {seconds}");
    }
}

#[tokio::test]
async fn a_submission_without_a_key_that_was_made_twice_is_found() {
    let life = "processing/submitted failure/cancelled";
    found(&insert(18, "direct", "direct", "b", life), &[SINGLE]).await;
}

#[tokio::test]
async fn an_answer_that_nobody_gave_is_found() {
    for (number, event) in [(2, "delivered"), (5, "delivered")] {
        let verdict = told("", &[], |evidence| {
            let place =
                evidence.downstream.iter().rposition(|line| line.id == Some(id(number)) && &*line.event == event);
            evidence.downstream.remove(place.unwrap());
            evidence.downstream.retain(|line| &*line.event != "delivered_late");
        })
        .await;
        assert_eq!(broken(&verdict), [GIVEN], "{number}");
    }
}

#[tokio::test]
async fn a_double_send_is_found() {
    // Where it may happen never, and where each send needs a claim of its own.
    seen(&[(2.5, 4, "single_shot", "send")], &[CLAIMED, ONCE]).await;
    seen(&[(2.5, 3, "booking", "send")], &[CLAIMED]).await;
    // Before its second claim.
    let early = told("", &[], |evidence| {
        for line in &mut evidence.downstream {
            if line.id == Some(id(5)) && &*line.event == "send" {
                line.at_us = BEGIN + 2_100_000;
            }
        }
    })
    .await;
    assert_eq!(broken(&early), [CLAIMED]);
    // Both under its second claim, and none under the first.
    for (second, rules) in [(4.3, &[CLAIMED][..]), (5.9, &[CLAIMED]), (1.5, &[])] {
        let again = told("", &[], |evidence| {
            for line in &mut evidence.downstream {
                if line.id == Some(id(5)) && &*line.event == "send" && line.us == 2_100_000 {
                    line.at_us = BEGIN + (second * 1e6) as i64 + 4_000_000;
                }
            }
            for event in evidence.lives.get_mut(&id(5)).unwrap().events.iter_mut().skip(3) {
                event.at_us += 4_000_000;
            }
            for line in &mut evidence.downstream {
                if line.id == Some(id(5)) && line.us > 4_000_000 {
                    line.at_us += 4_000_000;
                }
            }
        })
        .await;
        assert_eq!(broken(&again), rules, "{second}");
    }
    // As something that it is not.
    let other = told("", &[], |evidence| {
        for line in &mut evidence.downstream {
            if line.id == Some(id(3)) {
                line.kind = "direct".into();
            }
        }
    })
    .await;
    assert_eq!(broken(&other), [KNOWN]);
    // And one without a request.
    seen(&[(2.5, 99, "direct", "send")], &[KNOWN]).await;
}

#[tokio::test]
async fn what_is_completed_and_was_not_taken_is_found() {
    seen(&[(2.2, 1, "direct", "rejected")], &[DONE]).await;
    seen(&[(2.2, 3, "booking", "taken")], &[TWICE]).await;
    seen(&[(2.2, 4, "single_shot", "taken")], &[TWICE]).await;
    // A receipt that the downstream did not give, of a request that has failed since.
    let verdict = told("", &[], |evidence| {
        evidence.downstream.retain(|line| line.id != Some(id(5)) || &*line.event != "taken");
    })
    .await;
    assert_eq!(broken(&verdict), [FACTS, DONE]);
    let verdict = told("", &[], |evidence| {
        evidence.downstream.retain(|line| line.id != Some(id(1)));
    })
    .await;
    assert_eq!(broken(&verdict), [TOLD_OF_EXECUTION, DONE]);
}

#[tokio::test]
async fn an_effect_too_many_or_too_few_is_found() {
    for sql in [
        format!("insert into public.booking values ('{}')", id(3)),
        format!("insert into public.booking values ('{}')", id(6)),
        format!("insert into public.booking values ('{}')", id(1)),
        format!("insert into public.booking values ('{}')", id(9)),
        "delete from public.booking".to_owned(),
    ] {
        found(&sql, &[EFFECTS]).await;
    }
}

/// Twenty more requests, all claimed at the same time, and sent at once or one by one.
fn crowd(spread: f64) -> (String, Vec<(f64, u128, &'static str, &'static str)>) {
    let life = "processing/submitted tx_in_flight/claimed completed/receipt";
    let numbers = 100..120;
    let sql = numbers.clone().map(|number| insert(number, "direct", "direct", "crowd", life)).collect();
    let log = numbers
        .flat_map(|number| {
            let at = 2.0 + (number - 100) as f64 * spread;
            [(at, number, "direct", "send"), (at, number, "direct", "taken")]
        })
        .collect();
    (sql, log)
}

#[tokio::test]
async fn a_rate_that_is_not_kept_is_found_unless_something_held_the_calls_back() {
    let (sql, at_once) = crowd(0.0);
    let verdict = told(&sql, &at_once, |_| {}).await;
    assert_eq!(broken(&verdict), [SEND_RATE], "{verdict}");
    let (sql, paced) = crowd(0.1);
    let verdict = told(&sql, &paced, |_| {}).await;
    assert!(verdict.holds(), "{verdict}");

    for (sort, rules) in [("downstream_frozen", &[][..]), ("postgres_killed", &[SEND_RATE])] {
        let (sql, at_once) = crowd(0.0);
        let verdict = told(&sql, &at_once, |evidence| {
            evidence.disturbances.push(Disturbance { sort, from_us: BEGIN - 1_000_000, to_us: BEGIN + 1_500_000 });
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{sort}");
    }

    let (sql, paced) = crowd(0.1);
    let verdict = told(&sql, &paced, |evidence| evidence.limits[0].per_second = 1).await;
    assert_eq!(broken(&verdict), [CLAIM_RATE, SEND_RATE]);
}

#[tokio::test]
async fn checks_too_many_at_once_are_found() {
    let begun = [(1.25, 1, "user_decrypt", "check"), (1.30, 3, "user_decrypt", "check")];
    let ended = [(1.35, 1, "user_decrypt", "ready"), (1.36, 3, "user_decrypt", "ready")];
    let mut log = begun.to_vec();
    log.extend(ended);
    seen(&log, &[CHECKS]).await;
    seen(&[(1.3, 1, "user_decrypt", "check_beyond_limit")], &[CHECKS]).await;
}

#[tokio::test]
async fn an_exceeded_quota_is_found_and_one_that_is_not_released() {
    let verdict = told("", &[], |evidence| evidence.quota_counts.push(quota_count(11))).await;
    assert_eq!(broken(&verdict), [QUOTA]);
    let counted = format!("insert into tidegate.quota_usage values ('kind direct', '{}')", id(1));
    found(&counted, &[QUOTA_AT_REST]).await;
    found("update tidegate.gate set state = 'too_many_requests' where kind = 'direct'", &[QUOTA_AT_REST]).await;
}

#[tokio::test]
async fn a_request_that_is_deleted_too_early_or_too_late_is_found() {
    for sql in [
        "update public.removed set removed_at = finished_at + interval '29 seconds'",
        "update public.removed set req_status = 'tx_in_flight'",
        "update public.removed set finished_at = null",
        "update public.removed set kind = 'direct'",
    ] {
        let verdict = told(sql, &[], |evidence| {
            evidence.promises.retain(|promise| promise.id != id(9));
            evidence.told.retain(|told| told.id != id(9));
        })
        .await;
        assert_eq!(broken(&verdict), [EARLY], "{sql}");
    }
    let verdict = told("", &[], |evidence| evidence.read_us = BEGIN + 100_000_000).await;
    assert_eq!(broken(&verdict), [LATE]);
    // A caller that reads that there is no such request, and it is still there.
    let verdict = told("", &[], |evidence| {
        evidence.told.iter_mut().for_each(|told| told.at_us = BEGIN + 50_000_000);
    })
    .await;
    assert_eq!(broken(&verdict), [TOLD]);
}

#[tokio::test]
async fn a_history_that_goes_before_its_last_request_is_found_and_one_that_stays() {
    // The ids of the story begin in 1970.
    let verdict = told("", &[], |evidence| evidence.old_days.push("1970_01_01".to_owned())).await;
    assert_eq!(broken(&verdict), [DAYS]);
    let verdict = told("", &[], |evidence| {
        evidence.days.insert("2001_01_01".to_owned());
    })
    .await;
    assert_eq!(broken(&verdict), [DAYS]);
    let verdict = told("", &[], |evidence| {
        evidence.lives.get_mut(&id(9)).unwrap().is_dropped = false;
    })
    .await;
    assert_eq!(broken(&verdict), [ENDED, TOLD_BY_EVENTS]);
}

#[tokio::test]
async fn a_key_that_is_used_again_inside_its_window_is_found() {
    let second = insert_at(10, 18, "direct", "direct", "a", "processing/submitted failure/attempts_exhausted");
    for (window, rules) in [(11_500_000, &[KEYS][..]), (9_000_000, &[])] {
        let verdict = told(&second, &[], |evidence| {
            evidence.windows_us.insert("direct".to_owned(), window);
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{window}");
    }
}

#[tokio::test]
async fn a_redrive_that_makes_another_request_or_two_is_found() {
    for (sql, rules) in [
        ("delete from tidegate.redrive", &[SINGLE][..]),
        // Of a request that has not failed.
        ("update tidegate.request set req_status = 'processing' where id = '{7}'", &[ENDED, TOLD_BY_EVENTS, REDRIVEN]),
        ("update tidegate.request set finished_at = finished_at + interval '20 seconds' where id = '{7}'", &[REDRIVEN]),
        // Of one that an operator has to name the code of.
        ("update tidegate.request set error = '{\"code\": \"cancelled\"}' where id = '{7}'", &[REDRIVEN]),
        // Of one that may have been executed.
        ("update tidegate.request set tx_attempt = 1 where id = '{7}'", &[REDRIVEN]),
        // As another request.
        ("update tidegate.request set payload = '{\"mark\": \"x\"}' where id = '{11}'", &[REDRIVEN]),
        ("update tidegate.request set submitter = 'other' where id = '{11}'", &[REDRIVEN]),
        // As one that is gone.
        (
            "delete from tidegate.request where id = '{11}'; delete from tidegate.stored_event where request_id = '{11}'",
            &[REDRIVEN],
        ),
    ] {
        found(&with_ids(sql), rules).await;
    }
    // One that may have been sent, and may be sent once only.
    let copy = insert_at(10, 12, "single_shot", "direct", "d", "processing/submitted failure/attempts_exhausted");
    let link = "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{4}', '{12}', 'ops')";
    found(&(copy + &with_ids(link)), &[REDRIVEN]).await;
    // Two requests as one.
    let link = "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{8}', '{11}', 'ops')";
    let verdict = told(&with_ids(link), &[], |_| {}).await;
    assert!(!verdict.of(REDRIVEN).is_empty(), "{verdict}");
}

#[tokio::test]
async fn a_copy_that_loses_the_key_of_its_original_is_found() {
    let copied = insert(20, "direct", "direct", "k", "processing/submitted failure/attempts_exhausted")
        + &insert_at(10, 21, "direct", "direct", "k", "processing/submitted tx_in_flight/claimed completed/receipt")
        + &with_ids(
            "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{20}', '{21}', 'ops');
             insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
             values ('', 'k', '', '{20}', '2026-01-01', '1 day', 'infinity');",
        );
    let log = [(12.1, 21, "direct", "send"), (12.1, 21, "direct", "taken")];
    let again = insert_at(40, 22, "direct", "direct", "k", "processing/submitted failure/attempts_exhausted");
    let lost = "delete from tidegate.dedup where key = 'k'".to_owned();
    for (more, rules) in [(String::new(), &[][..]), (again, &[KEYS]), (lost, &[KEYS])] {
        let verdict = told(&(copied.clone() + &more), &log, |evidence| {
            for number in [20, 21] {
                evidence.promises.push(Promise {
                    id: id(number),
                    kind: "direct",
                    mark: "k".to_owned(),
                    keyed: true,
                    calls_back: false,
                    way: "sql",
                });
            }
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{more}");
    }
}

#[tokio::test]
async fn a_repeat_is_judged_by_the_id_that_it_is_sent_under() {
    let lost = "processing/submitted tx_in_flight/claimed failure/attempts_exhausted";
    let done = "processing/submitted tx_in_flight/claimed completed/receipt";
    let story = insert(30, "unsure", "direct", "r", lost)
        + &insert_at(10, 31, "unsure", "direct", "r", done)
        + &with_ids(
            "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{30}', '{31}', 'ops');
             insert into public.repeated values ('{30}');",
        );
    let repeats = with_ids("update tidegate.request set send_id = '{30}' where id = '{31}'");
    let log = [(2.1, 30, "unsure", "send"), (2.1, 30, "unsure", "taken"), (12.1, 30, "unsure", "send")];
    let verdict = told(&(story.clone() + &repeats), &log, |_| {}).await;
    assert!(verdict.holds(), "{verdict}");
    // Under its own id it was neither claimed so often nor taken.
    let verdict = told(&story, &log, |_| {}).await;
    assert_eq!(broken(&verdict), [CLAIMED, DONE], "{verdict}");
}

#[tokio::test]
async fn what_a_caller_has_submitted_again_is_no_redrive() {
    let ends = |cause| format!("processing/submitted failure/{cause}");
    let story = insert(30, "direct", "direct", "s", &ends("cancelled"))
        + &insert_at(10, 31, "direct", "direct", "t", &ends("attempts_exhausted"));
    for (by, rules) in [("null", &[][..]), ("'ops'", &[REDRIVEN])] {
        let link = format!(
            "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{{30}}', '{{31}}', {by})"
        );
        let verdict = told(&(story.clone() + &with_ids(&link)), &[], |_| {}).await;
        assert_eq!(broken(&verdict), rules, "{by}");
    }
}

/// An error in the receiver's log alone breaks this rule and no other.
async fn arrived(change: impl Fn(&mut Vec<Arrival>), rule: &str) {
    let verdict = told("", &[], |evidence| change(&mut evidence.arrivals)).await;
    assert_eq!(broken(&verdict), [rule], "{verdict}");
}

#[tokio::test]
async fn an_end_that_is_not_delivered_is_found() {
    for sql in [
        "delete from tidegate.webhook_delivery",
        "update tidegate.webhook_delivery set state = 'pending', finished_at = null",
        "update tidegate.webhook_delivery set state = 'failed'",
    ] {
        let verdict = told(sql, &[], |_| {}).await;
        assert!(broken(&verdict).contains(&REACHED), "{sql}: {verdict}");
    }
    arrived(|arrivals| arrivals[1].answer = Answer::Busy, REACHED).await;
    // One that its receiver has refused permanently has failed.
    let verdict = told("update tidegate.webhook_delivery set state = 'failed'", &[], |evidence| {
        evidence.arrivals[1].answer = Answer::Gone;
    })
    .await;
    assert!(verdict.holds(), "{verdict}");
    // A callback that was not stored, and a delivery that nothing asked for.
    found("update tidegate.request set callback_url = null", &[REACHED]).await;
    let other = "insert into tidegate.webhook_delivery (request_id, id, url, host_port, state, attempt, finished_at)
                 values ('{4}', '{91}', 'http://receiver/own', 'receiver:80', 'delivered', 1, now())";
    found(&with_ids(other), &[REACHED]).await;
}

#[tokio::test]
async fn attempts_that_differ_are_found() {
    arrived(|arrivals| arrivals[1].attempt = "1".to_owned(), SAME).await;
    arrived(|arrivals| arrivals[1].attempt = "3".to_owned(), SAME).await;
    arrived(
        |arrivals| {
            let mut other = arrival("1", Answer::Accepted);
            other.delivery = id(91).to_string();
            other.signature = signature(&other.delivery, ARRIVES, &other.body);
            arrivals.push(other);
        },
        SAME,
    )
    .await;
    arrived(
        |arrivals| {
            let body = arrivals[1].body.replace('{', "{ ");
            arrivals[1].signature = signature(&arrivals[1].delivery, ARRIVES, &body);
            arrivals[1].body = body;
        },
        SAME,
    )
    .await;
}

#[tokio::test]
async fn a_webhook_that_tells_another_end_is_found() {
    for sql in [
        "update tidegate.request set finished_at = finished_at + interval '1 microsecond' where id = '{1}'",
        "update tidegate.request set finished_at = finished_at + interval '9 seconds' where id = '{1}'",
    ] {
        found(&with_ids(sql), &[TOLD_BY_WEBHOOK]).await;
    }
    for (word, other) in [("completed", "failure"), ("direct", "other"), (&*id(1).to_string(), &*id(4).to_string())] {
        let replace = |arrivals: &mut Vec<Arrival>| {
            for arrival in arrivals {
                arrival.body = arrival.body.replace(word, other);
                arrival.signature = signature(&arrival.delivery, ARRIVES, &arrival.body);
            }
        };
        arrived(replace, TOLD_BY_WEBHOOK).await;
    }
    // It arrived before the end.
    arrived(
        |arrivals| {
            for arrival in arrivals {
                arrival.at_us = BEGIN + 2_000_000;
                let second = BEGIN / 1_000_000 + 2;
                arrival.second = second.to_string();
                arrival.signature = signature(&arrival.delivery, second, &arrival.body);
            }
        },
        TOLD_BY_WEBHOOK,
    )
    .await;
}

#[tokio::test]
async fn a_webhook_without_a_signature_in_force_is_found() {
    for wrong in ["", "v1,", "v1,00", "v1a,00"] {
        arrived(|arrivals| arrivals[0].signature = wrong.to_owned(), SIGNED).await;
    }
    arrived(|arrivals| arrivals[0].second = "then".to_owned(), SIGNED).await;
    // Of another body, long before it arrived, and with a secret that was over, or not there yet.
    arrived(|arrivals| arrivals[0].signature = signature(&arrivals[0].delivery, ARRIVES, "{}"), SIGNED).await;
    arrived(|arrivals| arrivals[0].at_us += 100_000_000, SIGNED).await;
    for sql in ["expires_at = '2026-06-01'", "created_at = '2028-01-01'"] {
        found(&format!("update tidegate.webhook_secret set {sql}"), &[SIGNED]).await;
    }
}

#[tokio::test]
async fn a_hedge_too_many_is_found() {
    seen(&[(4.2, 13, "hedged", "send")], &[HEDGES]).await;
    // More than one claim may have: at a downstream of its own share, and all under the second claim.
    let late = [(4.2, 13, "hedged", "send"), (4.3, 13, "hedged", "send"), (4.4, 13, "hedged", "send")];
    let verdict = told("", &late, |evidence| {
        evidence.hedging.insert("hedged".to_owned(), (2, 9.0));
        for line in evidence.downstream.iter_mut().filter(|line| line.id == Some(id(13))) {
            line.at_us = BEGIN + 14_100_000;
        }
        for event in &mut evidence.lives.get_mut(&id(13)).unwrap().events[3..] {
            event.at_us += 10_000_000;
        }
    })
    .await;
    assert_eq!(broken(&verdict), [CLAIMED]);
    // Both calls of a claim settle.
    let twice =
        "insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause)
                 values ('{13}', 6, 'completed', 'completed', to_timestamp(1800000006), 2, 'receipt');
                 update tidegate.request set transition_no = 6 where id = '{13}'";
    found(&with_ids(twice), &[ENDED, LEGAL]).await;
    // It was hedged without a policy that allows it.
    let verdict = told("", &[], |evidence| evidence.hedging.clear()).await;
    assert_eq!(broken(&verdict), [CLAIMED]);
}

#[tokio::test]
async fn a_breaker_that_breaks_its_rules_is_found() {
    for sql in [
        // Half open too early; from closed; a change that is missing.
        "update tidegate.breaker_event set at = at - interval '1 second' where epoch = 2",
        "delete from tidegate.breaker_event where epoch <= 2",
        "update tidegate.breaker_event set state = 'closed' where epoch = 1",
    ] {
        let verdict = told(sql, &[], |_| {}).await;
        assert!(broken(&verdict).contains(&FLIPS), "{sql}: {verdict}");
    }
}

#[tokio::test]
async fn a_send_past_a_breaker_is_found() {
    let life = "processing/submitted tx_in_flight/claimed failure/rejected";
    let claimed_at = |number, second: i64| insert_at(second - 2, number, "direct", "direct", "m", life);
    for (seconds, rules) in [
        (&[111][..], &[][..]),
        (&[113], &[PROBES]),
        (&[125], &[PROBES]),
        (&[120], &[]),
        (&[120, 120], &[PROBES]),
        (&[133, 133, 133], &[]),
    ] {
        let sql: String = seconds.iter().zip(50..).map(|(second, number)| claimed_at(number, *second)).collect();
        found(&sql, rules).await;
    }
    // A lock delays the commit of the change.
    let verdict = told(&claimed_at(50, 113), &[], |evidence| {
        evidence.disturbances.push(Disturbance {
            sort: "table_locked",
            from_us: BEGIN + 109_000_000,
            to_us: BEGIN + 114_000_000,
        });
    })
    .await;
    assert!(verdict.holds(), "{verdict}");
}

#[tokio::test]
async fn what_went_wrong_besides_counts() {
    let verdict = told("", &[], |evidence| evidence.wrong.push("a 500".to_owned())).await;
    assert_eq!(broken(&verdict), [BESIDES]);
}

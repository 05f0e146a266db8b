//! The story in which all is well: a database, a log and a ledger made by hand, and the verdict of the checker.

use std::io::Write;

use tidegate_faults::{
    checker::{self, Verdict},
    evidence::{BreakerRule, Evidence, Measured, PolicyFigures, QuotaCount},
    ledger::{Cancel, Promise, Resolution, Told},
    measure::{CALM, KIND},
    receiver::{Answer, Arrival},
    scene::Limited,
};
use uuid::Uuid;

use crate::support::TestDatabase;

/// When the hand-made story begins, in microseconds of Unix time.
pub(super) const BEGIN: i64 = 1_800_000_000_000_000;

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
    insert into public.removed_event select e.* from tidegate.request_event as e where e.request_id = '{9}';
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
pub(super) const ARRIVES: i64 = BEGIN / 1_000_000 + 5;

const SECRET: &str = "whsec_0123456789abcdef0123456789abcdef";

pub(super) fn signature(delivery: &str, second: i64, body: &str) -> String {
    tidegate_node::webhook::sign([SECRET], delivery, second, body.as_bytes()).unwrap()
}

/// An attempt of the delivery of request 1, which ends three seconds after the beginning.
pub(super) fn arrival(attempt: &str, answer: Answer) -> Arrival {
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
pub(super) fn with_ids(sql: &str) -> String {
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

pub(super) fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

pub(super) fn insert(number: u128, kind: &str, flow: &str, payload: &str, life: &str) -> String {
    insert_at(0, number, kind, flow, payload, life)
}

/// A request that begins so many seconds after the others.
pub(super) fn insert_at(seconds: i64, number: u128, kind: &str, flow: &str, payload: &str, life: &str) -> String {
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
pub(super) async fn told(sql: &str, log: &[(f64, u128, &str, &str)], change: impl FnOnce(&mut Evidence)) -> Verdict {
    let database = TestDatabase::new().await;
    let mut story = "create table public.booking (request_id uuid not null);
                     create table public.removed (like tidegate.request, removed_at timestamptz not null);
                     create table public.removed_outcome (like tidegate.outcome);
                     create table public.removed_event (like tidegate.stored_event);
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
pub(super) fn end(number: u128, state: &str, executed: Option<&str>) -> Told {
    Told {
        id: id(number),
        state: state.to_owned(),
        at_us: BEGIN + 100_000_000,
        executed: executed.map(str::to_owned),
        retryable: executed == Some("no"),
    }
}

/// A cancel that was answered so many seconds after the beginning.
pub(super) fn cancel(number: u128, status: u16, seconds: f64) -> Cancel {
    Cancel { id: id(number), status, at_us: BEGIN + (seconds * 1e6) as i64 }
}

/// A count of the quota of the story.
pub(super) fn quota_count(live: i64) -> QuotaCount {
    QuotaCount { gate: "kind direct".to_owned(), at_us: BEGIN, live, high_water: 10 }
}

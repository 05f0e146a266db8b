//! Does every public movement move exactly the requests that its guard names, and leave all others untouched?
//!
//! Each function meets a request of each flow in each status, with the lease, the deadline or the visibility that it
//! asks for made to fit: only the status (and the flow) can stop it.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::support::{
    TestDatabase,
    sql::{FLOWS, STATUSES, everything, run, value},
};

/// What a function needs of the request's message before it can act.
#[derive(Clone, Copy, PartialEq)]
enum Message {
    /// Held, under token 42.
    Held,
    /// Claimable: its holder is gone.
    Lost,
}

struct Movement {
    name: &'static str,
    /// Counts what it says that it moved.
    call: &'static str,
    message: Message,
    /// Makes it due, where it acts on time, and takes away what else it would act on.
    due: &'static str,
    /// Where a request of this flow and status goes.
    moves: fn(flow: &str, status: &str) -> Option<&'static str>,
    /// What it may do to a request that it does not move.
    aside: &'static [&'static str],
}

const HELD: Movement = Movement { name: "", call: "", message: Message::Held, due: "", moves: |_, _| None, aside: &[] };

fn movements() -> Vec<Movement> {
    vec![
        Movement {
            name: "settle_passed",
            call: "select count(*) from tidegate_internal.settle_passed(array[{lease}])",
            moves: |_, status| (status == "queued").then_some("processing"),
            ..HELD
        },
        Movement {
            name: "settle_snooze",
            call: "select count(*) from tidegate_internal.settle_snooze(array[{lease}])",
            moves: |_, status| (status == "queued").then_some("queued"),
            ..HELD
        },
        Movement {
            name: "settle_failed",
            call: "select count(*) from tidegate_internal.settle_failed(array[{lease}], null)",
            moves: |_, status| (status == "queued").then_some("failure"),
            ..HELD
        },
        Movement {
            name: "settle_receipt",
            call: "select count(*) from tidegate_internal.settle_receipt(array[{lease}], array['r'])",
            moves: |_, status| (status == "tx_in_flight").then_some("receipt_received"),
            ..HELD
        },
        Movement {
            name: "settle_receipt with a response",
            call: "select count(*) from tidegate_internal.settle_receipt(array[{lease}], null, array['{}'::jsonb])",
            moves: |flow, status| match flow {
                _ if status != "tx_in_flight" => None,
                "proof" => Some("receipt_received"),
                _ => Some("completed"),
            },
            ..HELD
        },
        Movement {
            name: "settle_retry",
            call: "select count(*) from tidegate_internal.settle_retry(array[{lease}], null)",
            moves: |_, status| (status == "tx_in_flight").then_some("processing"),
            ..HELD
        },
        Movement {
            name: "settle_rejected",
            call: "select count(*) from tidegate_internal.settle_rejected(array[{lease}], null)",
            moves: |_, status| (status == "tx_in_flight").then_some("failure"),
            ..HELD
        },
        Movement {
            name: "release",
            call: "select count(*) from tidegate_internal.settle_released(array[{lease}])",
            moves: |_, status| match status {
                "queued" => Some("queued"),
                "tx_in_flight" => Some("processing"),
                _ => None,
            },
            ..HELD
        },
        Movement {
            name: "respond",
            call: "select count(*) filter (where outcome = 'completed') from tidegate.respond('{}', id => '{id}', accept => {accept})",
            moves: |_, status| (status == "receipt_received").then_some("completed"),
            aside: &["response_inbox"],
            ..HELD
        },
        Movement {
            name: "respond with a verdict of no",
            call: "select count(*) filter (where outcome = 'rejected') from tidegate.respond('{}', id => '{id}', accept => {reject})",
            moves: |flow, status| (flow == "proof" && status == "receipt_received").then_some("failure"),
            aside: &["response_inbox"],
            ..HELD
        },
        Movement {
            name: "cancel",
            call: "select count(*) filter (where outcome = 'cancelled') from tidegate.cancel('{id}')",
            moves: |_, status| matches!(status, "queued" | "processing").then_some("failure"),
            // During a send, the row records that it was requested.
            aside: &["request\n"],
            ..HELD
        },
        Movement {
            name: "time_out",
            call: "select count(*) from tidegate.time_out(array['{id}'::uuid])",
            moves: |_, status| matches!(status, "queued" | "receipt_received").then_some("timed_out"),
            ..HELD
        },
        Movement {
            name: "fail_tx",
            call: "select count(*) from tidegate.fail_tx(array['{id}'::uuid])",
            moves: |flow, status| {
                (matches!(status, "processing" | "tx_in_flight") || (flow == "proof" && status == "receipt_received"))
                    .then_some("failure")
            },
            ..HELD
        },
        Movement {
            name: "fail_internal",
            call: "select count(*) from tidegate.fail_internal(array['{id}'::uuid])",
            moves: |_, status| is_live(status).then_some("failure"),
            ..HELD
        },
        Movement {
            name: "recover while the lease lives",
            call: "select reset + ended + rebuilt from tidegate.recover(kind => '{kind}')",
            ..HELD
        },
        Movement {
            name: "recover",
            call: "select reset + ended + rebuilt from tidegate.recover(kind => '{kind}')",
            message: Message::Lost,
            moves: |_, status| (status == "tx_in_flight").then_some("processing"),
            ..HELD
        },
        Movement {
            name: "recover all",
            call: "select reset + ended + rebuilt from tidegate.recover(kind => '{kind}', reset_all => true, force => true)",
            // It is about all of a kind: let there be no other.
            due: "select tidegate.fail_internal(array(select r.id from tidegate.request as r where r.id <> '{id}' and req_status = 'tx_in_flight'))",
            moves: |_, status| (status == "tx_in_flight").then_some("processing"),
            ..HELD
        },
        Movement {
            name: "claim_readiness",
            call: "select count(*) from tidegate.claim_readiness('readiness', 'w', 100, '30 s')",
            message: Message::Lost,
            moves: |_, status| (status == "queued").then_some("queued"),
            aside: &["messages"],
            ..HELD
        },
        Movement {
            name: "claim_tx",
            call: "select count(*) from tidegate.claim_tx('tx', 'w', 100, '30 s')",
            message: Message::Lost,
            moves: |_, status| matches!(status, "processing" | "tx_in_flight").then_some("tx_in_flight"),
            aside: &["messages"],
            ..HELD
        },
        Movement {
            name: "expire_by_deadline",
            call: "select expired from tidegate.expire_by_deadline()",
            due: "update tidegate.request set deadline_at = clock_timestamp() - interval '1 s' where id = '{id}'",
            moves: |_, status| matches!(status, "queued" | "processing" | "tx_in_flight").then_some("failure"),
            ..HELD
        },
        Movement {
            name: "expire_by_readiness",
            call: "select expired from tidegate.expire_by_readiness()",
            due: "update tidegate.request set readiness_deadline_at = clock_timestamp() - interval '1 s' where id = '{id}'",
            moves: |_, status| (status == "queued").then_some("timed_out"),
            ..HELD
        },
        Movement {
            name: "expire_responses",
            call: "select expired from tidegate.expire_responses()",
            due: "update tidegate.awaiting_response set due_at = clock_timestamp() - interval '1 s' where request_id = '{id}'",
            moves: |_, status| (status == "receipt_received").then_some("timed_out"),
            ..HELD
        },
        Movement {
            name: "no sweep before its time",
            call: "select d.expired + r.expired + a.expired
                   from tidegate.expire_by_deadline() as d, tidegate.expire_by_readiness() as r, tidegate.expire_responses() as a",
            ..HELD
        },
    ]
}

fn is_live(status: &str) -> bool {
    !matches!(status, "completed" | "timed_out" | "failure")
}

/// A request of each flow in each status it can have, driven there by the public functions.
async fn requests(database: &TestDatabase) -> Vec<(&'static str, &'static str, &'static str, Uuid)> {
    let mut requests = Vec::new();
    // The furthest first: no worker claims waiting requests then.
    for status in STATUSES.iter().rev() {
        for (flow, kind) in FLOWS {
            if flow == "decrypt" || *status != "queued" {
                requests.push((flow, kind, *status, database.request_in(kind, status).await));
            }
        }
    }
    requests
}

/// Gives the request a message or a lease that fits, and hides those of the others; returns the lease.
async fn arrange(session: &mut PgConnection, id: Uuid, flow: &str, movement: &Movement) -> String {
    run(
        session,
        &format!(
            "update pgmq.q_readiness set vt = 'infinity' where message ->> 'id' <> '{id}';
             update pgmq.q_tx set vt = 'infinity' where message ->> 'id' <> '{id}';
             update tidegate.claim set until = clock_timestamp() + interval '1 hour', lease_ms = 7200000 where '{id}' <> all(ids)"
        ),
    )
    .await;
    let own = value(session, &format!("select queue from tidegate.request where id = '{id}'")).await;
    let queue = match own.as_str() {
        "" if flow == "decrypt" && movement.name == "claim_readiness" => "readiness",
        "" => "tx",
        own => own,
    };
    let leased = movement.message == Message::Held
        || value(
            session,
            &format!("select req_status in ('queued', 'tx_in_flight') from tidegate.request where id = '{id}'"),
        )
        .await
            == "t";
    if own.is_empty() && !movement.name.starts_with("recover") {
        // A finished request is in no queue; it gets a message that even its row names.
        run(
            session,
            &format!(
                "insert into pgmq.q_{queue} (msg_id, vt, message) overriding system value
                 values (900000, 'infinity', '{{\"id\": \"{id}\"}}');
                 update tidegate.request set queue = '{queue}', msg_id = 900000 where id = '{id}'"
            ),
        )
        .await;
    }
    run(
        session,
        &format!("update pgmq.q_{queue} set vt = clock_timestamp() - interval '1 millisecond' where message ->> 'id' = '{id}'"),
    )
    .await;
    if leased {
        // Just now: what ran out long ago has been reaped long ago.
        let until = match movement.message {
            Message::Held => "clock_timestamp() + interval '30 s'",
            Message::Lost => "clock_timestamp() - interval '1 millisecond'",
        };
        run(
            session,
            &format!(
                "delete from pgmq.q_{queue} where message ->> 'id' = '{id}';
                 delete from tidegate.claim where '{id}' = any(ids);
                 insert into tidegate.claim (token, queue, worker, claimed_at, until, lease_ms, ids)
                 values (42, '{queue}', 'w', clock_timestamp(), {until}, 30000, array['{id}'::uuid]);
                 update tidegate.request set lease = 42 where id = '{id}'"
            ),
        )
        .await;
    }
    format!("row('{queue}', 42, '{id}')::tidegate.lease")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_movement_moves_what_its_guard_names_and_nothing_else() {
    let database = TestDatabase::unlimited().await;
    let requests = requests(&database).await;
    assert_eq!(requests.len(), 19);
    let mut session = database.session().await;

    for movement in movements() {
        for (flow, kind, status, id) in &requests {
            let what = format!("{} of a {flow} in {status}", movement.name);
            run(&mut session, "begin").await;
            let lease = arrange(&mut session, *id, flow, &movement).await;
            let fill = |sql: &str| {
                sql.replace("{id}", &id.to_string())
                    .replace("{lease}", &lease)
                    .replace("{kind}", kind)
                    .replace("{accept}", if *flow == "proof" { "true" } else { "null" })
                    .replace("{reject}", if *flow == "proof" { "false" } else { "null" })
            };
            run(&mut session, &fill(movement.due)).await;
            let before = everything(&mut session).await;

            let moved = value(&mut session, &fill(movement.call)).await;

            let now = value(&mut session, &format!("select req_status from tidegate.request where id = '{id}'")).await;
            if let Some(to) = (movement.moves)(flow, status) {
                assert_eq!((moved.as_str(), now.as_str()), ("1", to), "{what}");
            } else if movement.name == "respond with a verdict of no" && *flow != "proof" {
                // A verdict is for proofs only; without one this is an ordinary response.
                assert_eq!(moved, "0", "{what}");
            } else {
                assert_eq!((moved.as_str(), now.as_str()), ("0", *status), "{what}");
                let after = everything(&mut session).await;
                // A late answer tells what came of the sends of an ended request.
                let late: &[&str] = match *status {
                    "timed_out" | "failure" => &["outcome", "request\n", "request_reference", "response_inbox"],
                    _ => &[],
                };
                let aside = [movement.aside, late].concat();
                let (before, after) = (without(&before, &aside), without(&after, &aside));
                assert!(before == after, "{what}: {}", difference(&before, &after));
            }
            run(&mut session, "rollback").await;
        }
    }
}

/// The parts of `everything` that a movement may not touch.
fn without(state: &str, aside: &[&str]) -> String {
    let keep = state.split("\n== ").filter(|part| !aside.iter().any(|name| part.starts_with(name)));
    keep.collect::<Vec<_>>().join("\n== ")
}

fn difference(before: &str, after: &str) -> String {
    let lines: Vec<_> = before
        .lines()
        .zip(after.lines())
        .filter(|(before, after)| before != after)
        .take(10)
        .map(|(before, after)| format!("{before} => {after}"))
        .collect();
    lines.join("\n")
}

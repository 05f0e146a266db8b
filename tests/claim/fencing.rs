//! Only the lease that a request names can settle, extend or release it.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::support::{
    TestDatabase,
    sql::{Claim, claim, column, everything, leases, refused, run, table_text, value},
    until_blocked,
};

/// Every function that takes leases, by the stage whose requests it settles.
const READINESS: [&str; 5] = [
    "tidegate_internal.settle_passed({})",
    "tidegate_internal.settle_snooze({})",
    "tidegate_internal.settle_failed({}, null)",
    "tidegate_internal.settle_released({})",
    "tidegate.extend({}, '30 s')",
];
const TX: [&str; 5] = [
    "tidegate_internal.settle_receipt({}, null, array['{}'::jsonb])",
    "tidegate_internal.settle_retry({}, null)",
    "tidegate_internal.settle_rejected({}, null)",
    "tidegate_internal.settle_released({})",
    "tidegate.extend({}, '30 s')",
];

fn functions(queue: &str) -> [&'static str; 5] {
    if queue == "tx" { TX } else { READINESS }
}

fn call(function: &str, leases: &str) -> String {
    // The first pair of braces is the place of the leases.
    function.replacen("{}", leases, 1)
}

/// The lease moves nothing, whatever it is used for, and the calls leave everything as it was.
async fn is_powerless(session: &mut PgConnection, queue: &str, lease: &str) {
    let before = everything(session).await;
    for function in functions(queue) {
        let sql = call(function, &format!("array[{lease}]"));
        assert!(column(session, &format!("select * from {sql}")).await.is_empty(), "{sql}");
        assert!(before == everything(session).await, "{sql} changed something");
    }
}

/// Each of the settles moves the request under this lease, once; undone each time.
async fn is_powerful(session: &mut PgConnection, queue: &str, lease: &str) {
    for function in functions(queue) {
        let sql = call(function, &format!("array[{lease}]"));
        run(session, "begin").await;
        assert_eq!(column(session, &format!("select * from {sql}")).await.len(), 1, "{sql}");
        run(session, "rollback").await;
    }
}

async fn claim_one(session: &mut PgConnection, queue: &str, worker: &str) -> Claim {
    let function = if queue == "tx" { "claim_tx" } else { "claim_readiness" };
    let mut claims = claim(session, function, queue, worker, 10).await;
    assert_eq!(claims.len(), 1);
    claims.remove(0)
}

/// A request just claimed by worker `first`, in each queue.
async fn claimed(queue: &str) -> (TestDatabase, PgConnection, Claim) {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    database.submit(if queue == "tx" { "direct" } else { "public_decrypt" }).await;
    let first = claim_one(&mut session, queue, "first").await;
    (database, session, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_lease_was_taken_over_moves_nothing() {
    for queue in ["readiness", "tx"] {
        let (database, mut session, first) = claimed(queue).await;
        database.run_out(queue).await;
        let second = claim_one(&mut session, queue, "second").await;
        assert_eq!((second.id, second.msg_id), (first.id, first.msg_id));
        assert_eq!(second.attempt, 2);

        is_powerless(&mut session, queue, &first.lease).await;
        is_powerful(&mut session, queue, &second.lease).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_request_was_recovered_moves_nothing() {
    let (database, mut session, first) = claimed("tx").await;
    database.run_out("tx").await;
    assert_eq!(value(&mut session, "select reset from tidegate.recover()").await, "1");

    is_powerless(&mut session, "tx", &first.lease).await;
    let second = claim_one(&mut session, "tx", "second").await;
    assert_eq!(second.attempt, 2, "the stage looks for a receipt before it sends again");
    is_powerless(&mut session, "tx", &first.lease).await;
    is_powerful(&mut session, "tx", &second.lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_message_was_rebuilt_moves_nothing_though_number_and_count_are_the_same() {
    for queue in ["readiness", "tx"] {
        let (database, mut session, first) = claimed(queue).await;
        let number = "select msg_id from tidegate.request";
        let before = database.value(number).await;
        database.execute("delete from tidegate.claim; update tidegate.request set lease = null").await;
        is_powerless(&mut session, queue, &first.lease).await;

        assert_eq!(value(&mut session, "select rebuilt from tidegate.recover()").await, "1");
        is_powerless(&mut session, queue, &first.lease).await;
        let second = claim_one(&mut session, queue, "second").await;
        assert_eq!(database.value(number).await, before, "only the token tells them apart");

        is_powerless(&mut session, queue, &first.lease).await;
        is_powerful(&mut session, queue, &second.lease).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_lease_moves_nothing() {
    for queue in ["readiness", "tx"] {
        let (_database, mut session, first) = claimed(queue).await;
        let id = first.id;
        let other = Uuid::from_u128(7);
        for forged in [
            format!("row('{queue}', 0, '{id}')::tidegate.lease"),
            format!("row('{queue}', null, '{id}')::tidegate.lease"),
            format!("row('{queue}', null, null)::tidegate.lease"),
            format!("row('{queue}', {}, '{id}')::tidegate.lease", i64::MAX),
            "null::tidegate.lease".to_owned(),
            format!("row(null, 1, '{id}')::tidegate.lease"),
            first.lease.replace(&id.to_string(), &other.to_string()),
        ] {
            is_powerless(&mut session, queue, &forged).await;
        }
        for function in functions(queue) {
            let sql = format!("select * from {}", call(function, "'{}'::tidegate.lease[]"));
            assert!(column(&mut session, &sql).await.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_not_held_has_no_lease() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    database.submit("direct").await;
    let id = value(&mut session, "select id from tidegate.request").await;

    for token in ["null", "0"] {
        is_powerless(&mut session, "tx", &format!("row('tx', {token}, '{id}')::tidegate.lease")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_two_queues_in_one_call_are_refused() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    database.submit("public_decrypt").await;
    database.submit("direct").await;
    let mut both = database.claim_readiness(1).await;
    both.extend(database.claim_tx(1).await);
    let before = everything(&mut session).await;

    for function in READINESS.iter().chain(&TX) {
        let refusal = refused(&mut session, &format!("select * from {}", call(function, &leases(&both)))).await;
        assert_eq!(refusal.code, "TG007", "{function}");
    }
    // A queue that does not exist is another mistake.
    for function in READINESS.iter().chain(&TX) {
        let sql = call(function, "array[row('nowhere', 1, null)::tidegate.lease]");
        assert_eq!(refused(&mut session, &format!("select * from {sql}")).await.code, "TG005");
    }
    assert!(before == everything(&mut session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_and_was_not_taken_over_still_settles_but_is_not_extended() {
    for queue in ["readiness", "tx"] {
        let (database, mut session, first) = claimed(queue).await;
        database.run_out(queue).await;

        for function in functions(queue) {
            let sql = format!("select * from {}", call(function, &format!("array[{}]", first.lease)));
            run(&mut session, "begin").await;
            let expected = usize::from(!function.contains("extend"));
            assert_eq!(column(&mut session, &sql).await.len(), expected, "{sql}");
            run(&mut session, "rollback").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_lease_twice_in_a_call_counts_once() {
    for queue in ["readiness", "tx"] {
        let (_database, mut session, first) = claimed(queue).await;
        let twice = format!("array[{0}, {0}]", first.lease);
        for function in functions(queue) {
            run(&mut session, "begin").await;
            let before = value(&mut session, "select count(*) from tidegate.request_event").await;
            let sql = format!("select * from {}", call(function, &twice));
            assert_eq!(column(&mut session, &sql).await.len(), 1, "{sql}");
            let events = value(
                &mut session,
                &format!("select count(*) - {before} <= 1 + count(*) filter (where to_status = 'completed') from tidegate.request_event"),
            )
            .await;
            assert_eq!(events, "t", "{sql}");
            run(&mut session, "rollback").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn extending_a_stale_and_a_present_lease_of_one_message_prolongs_the_present_one() {
    for queue in ["readiness", "tx"] {
        let (database, mut session, first) = claimed(queue).await;
        database.run_out(queue).await;
        let second = claim_one(&mut session, queue, "first").await;

        for both in [[&first, &second], [&second, &first]] {
            let both = format!("array[{}, {}]", both[0].lease, both[1].lease);
            let sql = format!("select l.token::text from tidegate.extend({both}, '40 s') as l");
            let token = value(&mut session, &format!("select ({}).token", second.lease)).await;
            assert_eq!(column(&mut session, &sql).await, [token]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_comes_after_the_end_of_its_request_moves_nothing() {
    for queue in ["readiness", "tx"] {
        for end in [
            "select tidegate.cancel('{id}')",
            "select tidegate.fail_internal(array['{id}'::uuid])",
            "update tidegate.request set req_status = 'failure' where id = '{id}'",
        ] {
            if queue == "tx" && end.contains("cancel") {
                continue; // In flight: it may not be cancelled any more.
            }
            let (database, mut session, first) = claimed(queue).await;
            database.execute(&end.replace("{id}", &first.id.to_string())).await;
            // A hand edit leaves its message behind, and the holder may keep that; but not move the request.
            for function in functions(queue).iter().filter(|function| !function.contains("extend")) {
                // What an answer says of the sends is noted (`request::resolutions`).
                let kept = async |session: &mut PgConnection| {
                    let rows = "select string_agg(concat_ws(' ', id, req_status, transition_no, msg_id, lease), ', ')
                                from tidegate.request";
                    let (history, rows) = (table_text(session, "request_event").await, value(session, rows).await);
                    format!("{history} {rows} {}", table_text(session, "awaiting_response").await)
                };
                let before = kept(&mut session).await;
                let sql = call(function, &format!("array[{}]", first.lease));
                assert!(column(&mut session, &format!("select * from {sql}")).await.is_empty(), "{sql}");
                assert_eq!(before, kept(&mut session).await, "{sql} after {end}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_waits_for_the_claim_that_takes_over_moves_nothing() {
    for queue in ["readiness", "tx"] {
        for function in functions(queue) {
            let (database, mut taker, first) = claimed(queue).await;
            database.run_out(queue).await;
            run(&mut taker, "begin").await;
            let second = claim_one(&mut taker, queue, "second").await;

            let mut stale = database.session().await;
            let sql = format!("select * from {}", call(function, &format!("array[{}]", first.lease)));
            let settle = tokio::spawn(async move { column(&mut stale, &sql).await });
            until_blocked(&database, 1).await;
            run(&mut taker, "commit").await;

            assert!(settle.await.unwrap().is_empty(), "{function}");
            is_powerful(&mut taker, queue, &second.lease).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_a_request_leaves_alone_a_message_that_has_its_number_but_not_its_id() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    let old = database.submit("direct").await;
    // A queue made again numbers from 1 again.
    run(&mut session, "select pgmq.drop_queue('tx'); select pgmq.create('tx')").await;
    let new = database.submit("direct").await;
    assert_eq!(value(&mut session, "select count(distinct msg_id) from tidegate.request").await, "1");

    for end in ["cancel('{id}')", "fail_internal(array['{id}'::uuid])"] {
        run(&mut session, "begin").await;
        let sql = end.replace("{id}", &old.to_string());
        let ended = column(&mut session, &format!("select * from tidegate.{sql}")).await;
        assert_eq!(ended.len(), 1);
        let claims = claim(&mut session, "claim_tx", "tx", "w", 5).await;
        assert_eq!(claims.len(), 1, "{end}");
        assert_eq!(claims[0].id, new.0);
        run(&mut session, "rollback").await;
    }
}

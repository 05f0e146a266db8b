//! Does a step of the database's clock hide a queue, stop a limiter or lengthen a hold?
//!
//! A test cannot set the clock, so it moves the stored times: an hour ahead is the state after a step back by an hour,
//! an hour ago that after a step forward.

use crate::support::{
    TestDatabase,
    at_rest::violations,
    eventually,
    sql::{column, leases, run, value},
};

const NO_ROWS: [&str; 0] = [];

/// Shifts every hold of a queue.
async fn shift_holds(database: &TestDatabase, queue: &str, by: &str) {
    database
        .execute(&format!("update tidegate.claim set until = until + interval '{by}' where queue = '{queue}'"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_beyond_its_lease_counts_as_none_and_comes_back_by_the_rescan() {
    for (queue, kind) in [("readiness", "public_decrypt"), ("tx", "direct")] {
        let database = TestDatabase::unlimited().await;
        database.submit(kind).await;
        let claim =
            || async { if queue == "tx" { database.claim_tx(5).await } else { database.claim_readiness(5).await } };
        let first = claim().await;
        let held = format!("select row(waiting, held)::text from tidegate.queue_overview where queue = '{queue}'");
        assert_eq!(database.value(&held).await, "(0,1)");

        shift_holds(&database, queue, "1 hour").await;
        assert_eq!(database.value(&held).await, "(0,0)");
        assert_eq!(database.number(&format!("tidegate.rescan_queue('{queue}')")).await, 1);

        assert_eq!(database.value(&held).await, "(1,0)");
        assert_eq!(database.number(&format!("tidegate.claim_wait_ms('{queue}')")).await, 0);
        let second = claim().await;
        assert_eq!(second[0].id, first[0].id);
        let stale = format!("select r.id::text from tidegate_internal.settle_released({}) as r", leases(&first));
        assert_eq!(database.column(&stale).await, NO_ROWS);
        assert_eq!(violations(&mut database.session().await).await, NO_ROWS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_within_its_lease_is_left_alone_by_the_rescan_even_a_long_one() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    let mut session = database.session().await;
    run(&mut session, "create table held as select lease from tidegate.claim_tx('tx', 'w', 1, '1 day')").await;

    assert_eq!(database.number("tidegate.rescan_queue('tx')").await, 0);
    assert_eq!(database.claim_tx(1).await.len(), 0);
    // Extended to less, it may not reach as far as before.
    assert_eq!(column(&mut session, "select tidegate.extend(array(select lease from held), '10 s')").await.len(), 1);
    assert_eq!(database.value("select until < clock_timestamp() + interval '11 s' from tidegate.claim").await, "t");
    assert_eq!(database.number("tidegate.rescan_queue('tx')").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_beyond_their_lease_take_no_slot_of_the_concurrency_limit() {
    let database = TestDatabase::new().await;
    database.execute("update tidegate.queue set max_concurrency = 2 where name = 'readiness'").await;
    for _ in 0..4 {
        database.submit("public_decrypt").await;
    }
    assert_eq!(database.claim_readiness(4).await.len(), 2);
    assert_eq!(database.claim_readiness(4).await.len(), 0);

    shift_holds(&database, "readiness", "1 hour").await;

    assert_eq!(database.claim_readiness(4).await.len(), 2);
    assert_eq!(database.claim_readiness(4).await.len(), 0);
    // The two under the old clock come back when they are found, and are not counted twice.
    database.run_out("readiness").await;
    database.execute("select tidegate.rescan_queue('readiness')").await;
    assert_eq!(database.claim_readiness(4).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_marks_of_a_queue_an_hour_ahead_hide_nothing_after_the_rescan() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..3 {
        database.submit("direct").await;
    }
    // One came due, one waits afresh, one is held and its lease runs out.
    let held = database.claim_tx(1).await;
    let _ = held;
    database
        .execute(
            "update pgmq.q_tx set vt = clock_timestamp() - interval '1 s' where msg_id = 2;
             select setval('tidegate.due_watermark_tx', (extract(epoch from clock_timestamp() + interval '1 hour') * 1000000)::bigint);
             select setval('tidegate.watermark_tx', 1000000)",
        )
        .await;
    database.run_out("tx").await;
    assert_eq!(database.claim_tx(5).await.len(), 1, "the marks hide all messages, but no lease");
    assert_eq!(database.claim_tx(5).await.len(), 0);

    assert_eq!(database.number("tidegate.rescan_queue('tx')").await, 2);
    assert_eq!(database.number("tidegate.claim_wait_ms('tx')").await, 0);
    assert_eq!(database.claim_tx(5).await.len(), 2);
    // A message that becomes visible from now on is found without another rescan: a claim reaps one lease.
    database.run_out("tx").await;
    assert_eq!(database.claim_tx(5).await.len(), 1);
    assert_eq!(database.claim_tx(5).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limiter_goes_on_after_its_next_send_was_due_an_hour_ahead() {
    for (rate, burst) in [("10", 1), ("10", 5), ("1000", 1), ("1", 1)] {
        let database = TestDatabase::new().await;
        database
            .execute(&format!(
                "update tidegate.queue set per_seconds = {rate}, burst = {burst} where name = 'tx';
                 select tidegate.submit_batch('direct', array_fill('{{}}'::jsonb, array[50]));
                 select setval('tidegate.pacing_tx', (extract(epoch from clock_timestamp() + interval '1 hour') * 1000000000)::bigint)"
            ))
            .await;

        eventually("the limiter hands out again", || async { !database.claim_tx(5).await.is_empty() }).await;

        // Not everything at once, either: the rate holds from here on.
        let ahead = database
            .value("select last_value <= (extract(epoch from clock_timestamp() + interval '100 ms') * 1000000000)::numeric + 5 * 1000000000::numeric from tidegate.pacing_tx")
            .await;
        assert_eq!(ahead, "t", "{rate}");
        assert!(database.number("tidegate.claim_wait_ms('tx')").await <= 1000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_in_a_row_after_a_step_back_do_not_each_send_one() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 0.1 where name = 'tx';
             select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[50]));
             select setval('tidegate.pacing_tx', (extract(epoch from clock_timestamp() + interval '1 hour') * 1000000000)::bigint)",
        )
        .await;
    let mut sent = 0;
    for _ in 0..50 {
        sent += database.claim_tx(1).await.len();
    }
    assert_eq!(sent, 0, "the next send is a tenth of a reservation and ten seconds away");
    assert!((5000..=10_100).contains(&database.number("tidegate.claim_wait_ms('tx')").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_that_is_raised_takes_effect_at_once() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 0.001 where name = 'tx';
             select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[50]))",
        )
        .await;
    assert_eq!(database.claim_tx(5).await.len(), 1);
    assert_eq!(database.claim_tx(5).await.len(), 0);

    database.execute("update tidegate.queue set per_seconds = 1000 where name = 'tx'").await;

    assert!(database.number("tidegate.claim_wait_ms('tx')").await <= 2);
    eventually("the new rate holds", || async { !database.claim_tx(5).await.is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_that_lies_far_behind_lets_no_more_than_a_burst_through() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 10, burst = 3 where name = 'tx';
             select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[50]));
             select setval('tidegate.pacing_tx', (extract(epoch from clock_timestamp() - interval '1 hour') * 1000000000)::bigint)",
        )
        .await;
    let mut session = database.session().await;
    // The burst at once and the slots of the next 100 ms.
    assert_eq!(value(&mut session, "select count(*) from tidegate.claim_tx('tx', 'w', 50, '30 s')").await, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeps_and_duties_that_ran_an_hour_ahead_go_on() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    database
        .execute(
            "update tidegate.maintenance set ran_at = clock_timestamp() + interval '1 hour', cursor_at = clock_timestamp() + interval '1 hour',
               cursor_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
             update tidegate.request set deadline_at = clock_timestamp() - interval '1 s'",
        )
        .await;
    database.execute("call tidegate.maintain()").await;
    assert_eq!(database.value("select req_status from tidegate.request").await, "failure");
}

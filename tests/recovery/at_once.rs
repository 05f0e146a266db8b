//! Does `recover` keep out of the way of claimers, settles and other recoveries?

use tidegate::request::RequestId;

use crate::support::{
    TestDatabase, eventually,
    race::{Session, a_bit_of_everything, expire_leases, history, leases, settle, sound, submit_many},
    until_blocked,
};

const RECOVER: &str = "select examined, reset, ended, rebuilt, renumbered from tidegate.recover()";

#[tokio::test(flavor = "multi_thread")]
async fn live_claimers_and_recovery_at_once_claim_each_request_once() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 800).await;
    database.execute("delete from pgmq.q_tx where msg_id % 3 <> 0").await;
    let mut recoverers = Vec::new();
    for _ in 0..2 {
        let mut session = Session::open(&database).await;
        recoverers.push(tokio::spawn(async move {
            for _ in 0..30 {
                session.texts("select examined from tidegate.recover(50)").await;
                session.texts(RECOVER).await;
                session.texts("select removed from tidegate.remove_stray_messages('tx')").await;
            }
        }));
    }
    let mut claimers = Vec::new();
    for _ in 0..3 {
        let mut session = Session::open(&database).await;
        claimers.push(tokio::spawn(async move {
            let mut settled = 0;
            let mut empty = 0;
            while empty < 200 {
                let held = session.claim("tx", 9).await;
                empty = if held.is_empty() { empty + 1 } else { 0 };
                if !held.is_empty() {
                    settled += session.texts(&settle("settle_receipt", &held, "")).await.len();
                }
            }
            settled
        }));
    }
    for task in recoverers {
        task.await.unwrap();
    }
    let mut settled = 0;
    for task in claimers {
        settled += task.await.unwrap();
    }
    // What was rebuilt after the claimers had gone.
    let mut session = Session::open(&database).await;
    let rest = session.claim("tx", 1000).await;
    settled += session.texts(&settle("settle_receipt", &rest, "")).await.len();

    assert_eq!(settled, ids.len());
    for id in ids {
        assert_eq!(history(&database, id).await, "submitted claimed receipt");
    }
    sound(&database).await;
}

async fn moved_and_claimed(session: &mut Session, id: RequestId) -> String {
    let held = session.claim("readiness", 1).await;
    session.execute("begin").await;
    session.texts(&settle("settle_passed", &held, "")).await;
    let held = session.claim("tx", 1).await;
    assert_eq!(held[0].id, id);
    settle("settle_receipt", &held, "")
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_leaves_alone_what_moved_on_while_it_waited() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let mut worker = Session::open(&database).await;
    let held = worker.claim("tx", 1).await;
    worker.execute("begin").await;
    worker.texts(&settle("settle_receipt", &held, "")).await;
    let recovery = Session::open(&database).await.start(
        "select examined, reset, ended, rebuilt, renumbered from tidegate.recover(reset_all => true, force => true)",
    );
    recovery.until_blocked_by(&database, &worker).await;
    worker.commit().await;

    assert_eq!(recovery.finish().await.1, ["1 0 0 0 0"]);
    assert_eq!(history(&database, id).await, "submitted claimed receipt");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_waits_for_nothing_that_is_sound() {
    let database = TestDatabase::unlimited().await;
    let (moving, extended) = (database.submit("public_decrypt").await, database.submit("direct").await);
    let mut holder = Session::open(&database).await;
    let held = holder.claim("tx", 1).await;
    assert_eq!(held[0].id, extended);
    let mut worker = Session::open(&database).await;
    let settle_moved = moved_and_claimed(&mut worker, moving).await;
    worker.texts(&format!("select e from tidegate.extend({}, '30 s') as e", leases(&held))).await;

    let mut operator = Session::open(&database).await;
    assert_eq!(operator.texts(RECOVER).await, ["2 0 0 0 0"]);
    assert_eq!(
        operator
            .texts("select removed from tidegate.remove_stray_messages('tx') union all select removed from tidegate.remove_stray_messages('readiness')")
            .await,
        ["0", "0"]
    );
    worker.commit().await;
    assert_eq!(worker.texts(&settle_moved).await, [moving.to_string()], "its lease is live");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_over_a_lease_that_a_recovery_has_locked() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let mut worker = Session::open(&database).await;
    let lost = worker.claim("tx", 1).await;
    expire_leases(&database, "tx").await;
    worker.execute("begin").await;
    // The recovery has locked the claim, and waits for the row.
    worker.execute(&format!("select from tidegate.request where id = '{}' for update", lost[0].id)).await;
    let recovery = Session::open(&database).await.start(RECOVER);
    recovery.until_blocked_by(&database, &worker).await;
    assert!(worker.claim("tx", 1).await.is_empty());
    worker.commit().await;

    assert_eq!(recovery.finish().await.1, ["1 1 0 0 0"]);
    let held = worker.claim("tx", 1).await;
    assert_eq!(worker.texts(&settle("settle_receipt", &held, "")).await, [id.to_string()]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_leaves_alone_a_lease_that_is_being_extended() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    let mut worker = Session::open(&database).await;
    let held = worker.claim_for("tx", 1, "1 second").await;
    worker.execute("begin").await;
    let extend = format!("select e from tidegate.extend({}, '1 hour') as e", leases(&held));
    assert_eq!(worker.texts(&extend).await.len(), 1);
    // Others still see the old end, and it passes.
    eventually("the lease would have run out", || async {
        database.value("select until <= clock_timestamp() from tidegate.claim").await == "t"
    })
    .await;
    let mut operator = Session::open(&database).await;
    assert_eq!(operator.texts(RECOVER).await, ["1 0 0 0 0"]);
    worker.commit().await;

    assert_eq!(worker.texts(&settle("settle_receipt", &held, "")).await.len(), 1);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_holder_that_settles_during_a_recovery_moves_nothing() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let id = database.submit("direct").await;
        let mut worker = Session::open(&database).await;
        let held = worker.claim("tx", 1).await;
        expire_leases(&database, "tx").await;
        let mut recovery = Session::begin(&database).await;
        assert_eq!(recovery.texts(RECOVER).await, ["1 1 0 0 0"]);
        let settling = worker.start(&settle("settle_receipt", &held, ""));
        settling.until_blocked_by(&database, &recovery).await;
        recovery.execute(if commits { "commit" } else { "rollback" }).await;

        let moved = settling.finish().await.1;
        assert_eq!(moved.len(), usize::from(!commits));
        let expected = if commits { "submitted claimed recovered" } else { "submitted claimed receipt" };
        assert_eq!(history(&database, id).await, expected);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_recoveries_at_once_one_rebuilds() {
    let database = TestDatabase::unlimited().await;
    let mut first = a_bit_of_everything(&database).await;
    first.texts("select pgmq.purge_queue('tx')").await;
    // One number is taken, so that one request is renumbered too.
    let taken =
        first.text("select min(msg_id) from tidegate.request where req_status = 'processing' and queue = 'tx'").await;
    first
        .execute(&format!(
            "insert into pgmq.q_tx (msg_id, vt, message) overriding system value values ({taken}, '-infinity', '[]')"
        ))
        .await;
    first.execute("begin").await;
    let done = first.text("select rebuilt, renumbered from tidegate.recover()").await;
    assert!(done.ends_with(" 1"), "{done}");
    let second = Session::open(&database).await.start("select rebuilt, renumbered from tidegate.recover()");
    second.until_blocked_by(&database, &first).await;
    first.commit().await;

    assert_eq!(second.finish().await.1, ["0 0"]);
    first.texts("select removed from tidegate.remove_stray_messages('tx')").await;
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_requests_without_messages_are_ended_beside_a_sweep() {
    let database = TestDatabase::unlimited().await;
    let first = database.submit("direct").await;
    let second = database.submit("public_decrypt").await;
    database
        .execute(
            "update tidegate.request set deadline_at = clock_timestamp() - interval '1 s';
             update tidegate.request set readiness_deadline_at = deadline_at where req_status = 'queued';
             select pgmq.purge_queue('tx');
             select pgmq.purge_queue('readiness')",
        )
        .await;
    // Both are the sweep's; recovery ends the second for another reason, and before the first.
    let mut holder = Session::begin(&database).await;
    holder.execute(&format!("select from tidegate.request where id = '{first}' for update")).await;
    let sweep = Session::open(&database).await.start("select expired from tidegate.expire_by_deadline()");
    sweep.until_blocked_by(&database, &holder).await;
    let recovery = Session::open(&database).await.start("select expired from tidegate.recover_deadlines()");
    until_blocked(&database, 2).await;
    holder.rollback().await;

    assert_eq!(sweep.finish().await.1, ["2"]);
    assert_eq!(recovery.finish().await.1, ["0"]);
    let ended =
        format!("select count(*) from tidegate.request where id in ('{first}', '{second}') and req_status = 'failure'");
    assert_eq!(database.number(&ended).await, 2);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overdue_request_that_is_released_meanwhile_is_ended_without_waiting_for_its_message() {
    let database = TestDatabase::unlimited().await;
    let first = database.submit("public_decrypt").await;
    database.submit("direct").await;
    let mut worker = Session::open(&database).await;
    let held = worker.claim("tx", 1).await;
    database.execute("update tidegate.request set deadline_at = clock_timestamp() - interval '1 s'").await;
    let row = format!("select from tidegate.request where id = '{first}' for update");
    let mut holder = Session::begin(&database).await;
    holder.execute(&row).await;
    // It has locked the messages, and waits for the first row.
    let recovery = Session::open(&database).await.start("select expired from tidegate.recover_deadlines()");
    recovery.until_blocked_by(&database, &holder).await;
    worker.texts(&settle("settle_released", &held, "")).await;
    // Another one finds the message that is back, and waits for the first row, too.
    let mut other = Session::begin(&database).await;
    other.execute("select from pgmq.q_tx for update").await;
    let other = other.start(&row);
    until_blocked(&database, 2).await;
    holder.rollback().await;

    assert_eq!(recovery.finish().await.1, ["2"]);
    other.finish().await.0.rollback().await;
    database.execute("select tidegate.remove_stray_messages('tx')").await;
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_past_different_deadlines_leave_their_quota_in_the_order_of_a_new_quota() {
    let database = TestDatabase::unlimited().await;
    database.execute("select tidegate.quota_set(kind => 'public_decrypt', high_water => 1000)").await;
    // By their fates, the second one is ended first.
    let (overdue, unready) = (database.submit("public_decrypt").await, database.submit("public_decrypt").await);
    for (column, id) in [("deadline_at", overdue), ("readiness_deadline_at", unready)] {
        database
            .execute(&format!(
                "update tidegate.request set {column} = clock_timestamp() - interval '1 s' where id = '{id}'"
            ))
            .await;
    }
    let usage = |id| format!("select from tidegate.quota_usage where request_id = '{id}' for update");
    let mut other = Session::begin(&database).await;
    other.execute(&usage(overdue)).await;
    let recovery = Session::open(&database).await.start("select expired from tidegate.recover_deadlines()");
    recovery.until_blocked_by(&database, &other).await;
    other.execute(&usage(unready)).await;
    other.rollback().await;

    assert_eq!(recovery.finish().await.1, ["2"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_takes_no_message_for_a_stray_that_is_settled_beside_it() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let mut caller = Session::begin(&database).await;
    // Between its look at the messages and its look at the requests.
    caller.execute("lock table tidegate.request in access exclusive mode").await;
    let recovery = Session::open(&database)
        .await
        .start("select removed from tidegate.remove_stray_messages('tx', dry_run => true)");
    recovery.until_blocked_by(&database, &caller).await;
    caller.execute(&format!("select tidegate.cancel('{id}')")).await;
    caller.commit().await;

    assert_eq!(recovery.finish().await.1, ["0"]);
}

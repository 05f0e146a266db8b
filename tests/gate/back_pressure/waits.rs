//! Does a gate count right although submissions and claims commit late, and does a call wait for no lock too long?

use super::{STATE, batch, hold, outcomes, serve, stage, with_quota};
use crate::support::race::{DEPTH, Session, leases, sound, submit_many};

#[tokio::test(flavor = "multi_thread")]
async fn strict_admission_needs_a_snapshot_of_now() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    for level in ["repeatable read", "serializable"] {
        session.execute(&format!("begin isolation level {level}")).await;
        let (code, message) = session.attempt("select * from tidegate.submit('direct', '{}')").await.unwrap_err();
        assert_eq!(code, "TG007");
        assert!(message.contains("READ COMMITTED"), "{message}");
        session.rollback().await;
        session.execute(&format!("begin isolation level {level}")).await;
        assert_eq!(outcomes(&mut session, "submit('direct', '{}', admission => 'accepted')").await, ["accepted"]);
        session.commit().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_submissions_take_room_and_keep_nothing_waiting() {
    let database = stage().await;
    let mut open = Session::begin(&database).await;
    outcomes(&mut open, "submit('direct', '{}')").await;
    outcomes(&mut open, &batch("direct", 9)).await;
    let mut other = Session::open(&database).await;
    other.execute("set lock_timeout = '2s'").await;
    for _ in 0..20 {
        assert_eq!(outcomes(&mut other, "submit('direct', '{}')").await, ["accepted"]);
    }
    // What is open may still be taken back: the gate stays as it is, and the wait is the shortest.
    assert_eq!(
        other.texts("select outcome, retry_after_seconds from tidegate.submit('direct', '{}')").await,
        ["refused 1"]
    );
    assert_eq!(other.text(STATE).await, "accepting 0 0");

    open.rollback().await;
    assert_eq!(outcomes(&mut other, &batch("direct", 10)).await, ["accepted"; 10]);
    assert_eq!(other.text(STATE).await, "too_many_requests 30 1");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_that_commits_late_opens_again_at_the_depth_of_then() {
    let database = stage().await;
    let mut filling = Session::begin(&database).await;
    let mut worker = Session::open(&database).await;
    outcomes(&mut worker, &batch("direct", 29)).await;
    assert_eq!(outcomes(&mut filling, "submit('direct', '{}')").await, ["accepted"]);
    serve(&mut worker, 24).await;
    filling.commit().await;
    assert_eq!(worker.text(STATE).await, "too_many_requests 30 1");
    serve(&mut worker, 1).await;
    assert_eq!(worker.text(STATE).await, "accepting 5 2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_closes_the_gate_even_if_workers_drain_meanwhile() {
    let database = stage().await;
    // Neither sees the other's messages, so neither closes the gate.
    let mut first = Session::begin(&database).await;
    let mut second = Session::begin(&database).await;
    outcomes(&mut first, &batch("direct", 15)).await;
    outcomes(&mut second, &batch("direct", 15)).await;
    first.commit().await;
    second.commit().await;
    assert_eq!(first.text(STATE).await, "accepting 0 0");

    let waits = "tidegate.kind, text, bigint";
    let holder = hold(&database, "gate_wait", waits, "integer").await;
    let refused = second.start("select outcome from tidegate.submit('direct', '{}')");
    refused.until_blocked_by(&database, &holder).await;
    serve(&mut first, 1).await;
    holder.close().await;
    assert_eq!(refused.finish().await.1, ["refused"]);
    assert_eq!(first.text(STATE).await, "too_many_requests 30 1");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_whose_lock_is_kept_for_too_long_is_named_and_costs_others_five_seconds() {
    let database = stage().await;
    with_quota(&database).await;
    let mut holder = Session::begin(&database).await;
    outcomes(&mut holder, "submit('direct', '{}')").await;
    let mut other = Session::open(&database).await;
    other.execute("set lock_timeout = '100ms'").await;
    let (code, message) = other.attempt("select * from tidegate.submit('direct', '{}')").await.unwrap_err();
    assert_eq!(code, "55P03");
    assert!(message.contains("gate \"kind direct\" is busy"), "{message}");
    assert_eq!(other.text("show lock_timeout").await, "100ms");
    holder.rollback().await;
    // On a busy machine any lock may take longer than that.
    other.execute("reset lock_timeout").await;
    assert_eq!(outcomes(&mut other, "submit('direct', '{}')").await, ["accepted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_fills_a_closed_queue_delays_no_submission() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("public_decrypt", 2)).await;
    outcomes(&mut session, &batch("direct", 30)).await;
    let held = session.claim("readiness", 1).await;
    session.execute("begin").await;
    session.texts(&format!("select id from tidegate_internal.settle_passed({})", leases(&held))).await;
    assert_eq!(
        session
            .text("select count(*) from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and pid = pg_backend_pid()")
            .await,
        "0"
    );
    session.commit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soft_gate_waits_for_no_lock() {
    let database = stage().await;
    database.execute("update tidegate.gate set mode = 'soft'").await;
    let mut one = Session::begin(&database).await;
    let mut two = Session::open(&database).await;
    submit_many(&database, "direct", 29).await;
    assert_eq!(outcomes(&mut one, "submit('direct', '{}')").await, ["accepted"]);
    // Over the mark by the requests in flight.
    assert_eq!(outcomes(&mut two, "submit('direct', '{}')").await, ["accepted"]);
    one.commit().await;
    assert_eq!(outcomes(&mut two, "submit('direct', '{}')").await, ["refused"]);
    assert_eq!(two.text(DEPTH).await, "31");
    assert_eq!(
        two.text("select state || ' ' || epoch from tidegate.gate where name = 'tx'").await,
        "too_many_requests 1"
    );
}

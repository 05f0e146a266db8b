//! Is a position exact after messages far below the head have come, gone or become due?

use super::{NO_ROWS, assert_exact, fill, survey};
use crate::support::{
    TestDatabase, campaign,
    race::{Session, settle, submit_many},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_stays_open_changes_no_position() {
    let database = TestDatabase::deep().await;
    survey(&database).await;
    let mut old = Session::open(&database).await;
    old.execute("begin isolation level repeatable read").await;
    let seen = old.text("select count(*) from pgmq.q_tx").await;

    let mut session = Session::open(&database).await;
    for _ in 0..campaign(2, 5) {
        let held = session.claim("tx", 3000).await;
        session.texts(&settle("settle_rejected", &held, "null")).await;
        submit_many(&database, "direct", 3000).await;
        session.texts("select tidegate.survey_queue('tx', 8)").await;
    }

    assert_exact(&database).await;
    assert_eq!(old.text("select count(*) from pgmq.q_tx").await, seen);
    old.commit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_commits_late_is_counted_in_its_place() {
    let database = TestDatabase::deep().await;
    let mut late = Session::begin(&database).await;
    late.texts("select count(*) from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[700]))").await;
    fill(&database, 2).await;
    survey(&database).await;
    assert_exact(&database).await;

    late.commit().await;

    for _ in 0..5 {
        database.execute("select tidegate.survey_queue('tx', 1)").await;
    }
    assert_exact(&database).await;
    assert_eq!(database.violations().await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_far_below_the_head_raises_every_later_position_by_one() {
    let database = TestDatabase::deep().await;
    let mut holder = Session::open(&database).await;
    let held = holder.claim("tx", 1).await;
    let mut session = Session::open(&database).await;
    for _ in 0..4 {
        let held = session.claim("tx", 5000).await;
        session.texts(&settle("settle_rejected", &held, "null")).await;
        session.texts("select tidegate.survey_queue('tx', 8)").await;
    }
    let mark = database.number("select pg_sequence_last_value('tidegate.watermark_tx')").await;
    assert!(mark > held[0].msg_id + 4000, "{mark}");
    let last = "select w.waiting
                from (select max(msg_id) as msg_id from pgmq.q_tx) as m
                cross join tidegate_internal.waiting_before('tx', array[m.msg_id], 4000) as w";
    let before = database.number(last).await;

    holder.texts(&settle("settle_released", &held, "")).await;

    assert_eq!(database.number(last).await, before + 1);
    assert_exact(&database).await;
    survey(&database).await;
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_that_come_due_far_below_the_mark_are_counted() {
    let database = TestDatabase::deep().await;
    database.execute("update pgmq.q_tx set vt = clock_timestamp() + interval '1 hour' where msg_id <= 2000").await;
    let mut session = Session::open(&database).await;
    for _ in 0..4 {
        let held = session.claim("tx", 5000).await;
        session.texts(&settle("settle_rejected", &held, "null")).await;
    }
    survey(&database).await;
    assert_exact(&database).await;

    // First few of them, then all.
    for due in [300, 2000] {
        database.execute(&format!("update pgmq.q_tx set vt = clock_timestamp() where msg_id <= {due}")).await;
        for _ in 0..3 {
            database.execute("select tidegate.survey_queue('tx', 8)").await;
        }
        assert_exact(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_waits_for_one_instant_is_counted_once_it_has_come() {
    let database = TestDatabase::deep().await;
    database.execute("update pgmq.q_tx set vt = clock_timestamp() + interval '1 hour'").await;
    survey(&database).await;
    assert_exact(&database).await;

    database.execute("update pgmq.q_tx set vt = clock_timestamp()").await;

    survey(&database).await;
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_to_a_drained_queue_is_told_that_it_is_first_whatever_the_last_survey_counted() {
    let database = TestDatabase::unlimited().await;
    fill(&database, 10).await;
    survey(&database).await;
    let mut session = Session::open(&database).await;
    let told = "select queue_position from tidegate.submit('direct', '{}')";
    assert!(session.text(told).await.parse::<i64>().unwrap() > 9_000);
    while !session.claim("tx", 5_000).await.is_empty() {}
    // The watermark lags behind, by less than a step of claims.
    for waits in [0, 300, 1_000] {
        submit_many(&database, "direct", waits).await;
        while !session.claim("tx", 5_000).await.is_empty() {}
        assert_eq!(session.text(told).await, "0");
        assert_eq!(session.text(told).await, "1");
        while !session.claim("tx", 5_000).await.is_empty() {}
    }
}

/// A submission goes by the head that claims leave behind; nothing is claimed between a step and the position it tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_submission_behind_hundreds_is_told_what_claims_and_releases_have_left() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2_000).await;
    survey(&database).await;
    let mut session = Session::open(&database).await;
    let told = "select queue_position from tidegate.submit('direct', '{}')";
    assert_eq!(session.text(told).await, "2000");

    let held = session.claim("tx", 700).await;
    assert_eq!(session.text(told).await, "1301");
    session.texts(&settle("settle_released", &held, "")).await;
    assert_eq!(session.text(told).await, "2002");

    let mut other = Session::begin(&database).await;
    assert_eq!(other.claim("tx", 700).await.len(), 700);
    other.rollback().await;
    survey(&database).await;
    assert_eq!(session.text(told).await, "2003");

    // Numbers that were drawn in vain, in a queue without a survey, are behind the head once it is claimed.
    let mut void = Session::begin(&database).await;
    void.execute("select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[3000]))").await;
    void.rollback().await;
    let mut held = Vec::new();
    while held.len() < 2_004 {
        held.extend(session.claim("tx", 500).await);
    }
    submit_many(&database, "direct", 400).await;
    assert_eq!(session.claim("tx", 100).await.len(), 100);
    assert_eq!(session.text(told).await, "300");
    assert_exact(&database).await;
}

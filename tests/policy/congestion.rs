//! When a queue is congested, and the effect on backoffs.

use crate::support::{
    TestDatabase,
    race::{Session, settle, sound, submit_many},
};

#[tokio::test(flavor = "multi_thread")]
async fn congestion_takes_no_attempt_away() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    database.execute("update tidegate.policy set base_ms = 0, jitter_ms = 0").await;
    submit_many(&database, "direct", 1).await;
    submit_many(&database, "public_decrypt", 1).await;
    let mut session = Session::open(&database).await;
    for _ in 0..4 {
        let held = session.claim("tx", 1).await;
        session
            .execute(&settle("settle_retry", &held, r#"array['{"code": "timeout"}'::jsonb], array['0 s'::interval]"#))
            .await;
    }
    let failed = r#"array['0 s'::interval], array['{"code": "timeout"}'::jsonb]"#;
    for _ in 0..38 {
        let held = session.claim("readiness", 1).await;
        session.execute(&settle("settle_snooze", &held, failed)).await;
    }
    database
        .execute(
            "select tidegate_internal.policy_activate(kind, stage, 1, true, 'congestion', null, clock_timestamp())
             from tidegate.policy_in_force",
        )
        .await;

    let held = session.claim("tx", 1).await;
    assert_eq!((held[0].attempt, held[0].attempts_max), (5, 5));
    let held = session.claim("readiness", 1).await;
    assert_eq!((held[0].attempt, held[0].attempts_max), (39, 40));
    session.execute(&settle("settle_snooze", &held, failed)).await;
    let held = session.claim("readiness", 1).await;
    session.execute(&settle("settle_snooze", &held, failed)).await;
    assert_eq!(
        database.value("select req_status from tidegate.request where kind = 'public_decrypt'").await,
        "timed_out"
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_served_as_it_comes_is_not_congested() {
    let database = TestDatabase::unlimited().await;
    database.execute("select tidegate.adjust_policies()").await;
    submit_many(&database, "direct", 30).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 29).await;
    session.execute(&settle("settle_receipt", &held, "null, array_fill('1'::jsonb, array[29])")).await;
    // At this moment one waits, as at many others.
    database.execute("update tidegate.queue_load set last_id = last_id + 1 where queue = 'tx'").await;
    let adjust = "select tidegate.adjust_policies(clock_timestamp() + interval '11 s')";
    assert_eq!(database.value(adjust).await, "0");
    assert_eq!(database.value("select rho from tidegate.queue_load where queue = 'tx'").await, "1.000");
}

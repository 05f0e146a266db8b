//! A refused credential: does it stop a kind without an attempt, whether its policy has a breaker or not?

use crate::support::{
    TestDatabase,
    race::{Held, Session, settle, submit_many},
};

fn errors(code: &str, held: &[Held]) -> String {
    format!(r#"array_fill('{{"code": "{code}", "message": "no"}}'::jsonb, array[{}])"#, held.len())
}

/// The policy retries at once.
async fn database() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set base_ms = 0, jitter_ms = 0, attempts = 2, breaker_open_ms = 3600000")
        .await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_refused_send_opens_a_breaker_that_goes_when_it_closes() {
    let database = database().await;
    submit_many(&database, "direct", 5).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 2).await;
    let refused = errors("http_401", &held);
    session.execute(&settle("settle_retry", &held, &refused)).await;
    assert_eq!(database.number("select count(*) from tidegate.breaker").await, 0);
    let held = session.claim("tx", 1).await;
    let refused = errors("http_403", &held);
    session.execute(&settle("settle_retry", &held, &refused)).await;

    let opened = "select b.state || ' ' || e.cause || ' ' || e.figures
        from tidegate.breaker as b join tidegate.breaker_event as e using (kind, stage, epoch)";
    assert_eq!(database.value(opened).await, r#"open unauthorized {"calls": 3, "failures": 3}"#);
    assert_eq!(session.claim("tx", 9).await.len(), 0);
    let used = "select sum(tx_attempt - tx_unsent) from tidegate.request";
    assert_eq!(database.number(used).await, 0);
    let explained = "select e.sentence from tidegate.request as r, tidegate.explain(r.id) as e
        where e.reason = 'breaker_open' order by r.id limit 1";
    let sentence = database.value(explained).await;
    assert!(sentence.ends_with(": the downstream refuses the credential of its calls (401, 403)"), "{sentence}");
    assert_eq!(database.violations().await, Vec::<String>::new());

    // The requests are due at some time before the breaker is half open again.
    let probed = "update tidegate.breaker set open_until = clock_timestamp();
        update pgmq.q_tx set vt = clock_timestamp()";
    database.execute(probed).await;
    let probe = session.claim("tx", 9).await;
    assert_eq!(probe.len(), 1);
    let refused = errors("http_401", &probe);
    session.execute(&settle("settle_retry", &probe, &refused)).await;
    let states = "select string_agg(state || coalesce(' ' || cause, ''), ', ' order by id) from tidegate.breaker_event";
    assert_eq!(database.value(states).await, "open unauthorized, half_open open time over, open probe failed");

    database.execute(probed).await;
    let probe = session.claim("tx", 9).await;
    session.execute(&settle("settle_receipt", &probe, "null, array['1'::jsonb]")).await;
    assert_eq!(database.number("select count(*) from tidegate.breaker").await, 0);
    database.execute("update pgmq.q_tx set vt = clock_timestamp()").await;
    assert_eq!(session.claim("tx", 9).await.len(), 4);
    assert_eq!(database.violations().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_forbidden_requests_do_not_stop_the_others() {
    let database = database().await;
    submit_many(&database, "direct", 10).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 10).await;
    let responses = "null, array_fill('1'::jsonb, array[6])";
    session.execute(&settle("settle_receipt", &held[..6], responses)).await;
    let refused = errors("http_403", &held[6..]);
    session.execute(&settle("settle_retry", &held[6..], &refused)).await;
    assert_eq!(database.number("select count(*) from tidegate.breaker_event").await, 0);
    assert_eq!(session.claim("tx", 9).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_wait_too_until_their_own_deadline() {
    let database = database().await;
    database.execute("update tidegate.policy set breaker_error_rate = 1 where kind = 'public_decrypt'").await;
    let ids = submit_many(&database, "public_decrypt", 3).await;
    let mut session = Session::open(&database).await;
    // More often than the policy has attempts.
    for _ in 0..4 {
        let held = session.claim("readiness", 1).await;
        let refused = errors("http_401", &held);
        session.execute(&settle("settle_snooze", &held, &format!("null, {refused}"))).await;
        database
            .execute("update pgmq.q_readiness set vt = clock_timestamp() + (msg_id > 1)::integer * interval '1 hour'")
            .await;
        database.execute("update tidegate.breaker set state = 'closed', open_until = null").await;
    }
    let kept = format!(
        "select req_status || ' ' || readiness_attempt || ' ' || readiness_waits from tidegate.request
         where id = '{}'",
        ids[0]
    );
    assert_eq!(database.value(&kept).await, "queued 4 4");
    let opened = "select count(*) from tidegate.breaker_event where cause = 'unauthorized' and stage = 'readiness'";
    assert!(database.number(opened).await >= 1);
    assert_eq!(
        database
            .value("select string_agg(tidegate.error_class(c), ' ') from unnest(array['http_401', 'http_403', 'http_407']) as c")
            .await,
        "unauthorized unauthorized 4xx"
    );
}

//! Breakers: do they trip, hold for all workers, let a bounded number of probes through, and close again?

use crate::support::{
    TestDatabase, eventually,
    race::{Held, Session, settle, sound, submit_many},
};

const FAILED: &str = r#"{"code": "http_503", "message": "broken"}"#;

/// A database whose `direct` sends have a breaker: half of four calls trip it, two probes close it. It stays open until
/// a test closes it.
pub(crate) async fn with_breaker() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy
             set breaker_error_rate = 0.5, breaker_samples_min = 4, breaker_probes = 2, breaker_open_ms = 3600000,
               base_ms = 0, jitter_ms = 0
             where kind = 'direct'",
        )
        .await;
    database
}

async fn state(database: &TestDatabase) -> String {
    database.value("select state || ' ' || probes || ' ' || successes from tidegate.breaker").await
}

/// The open time is over.
async fn let_time_pass(database: &TestDatabase) {
    database.execute("update tidegate.breaker set open_until = clock_timestamp() where state = 'open'").await;
}

async fn fail(session: &mut Session, held: &[Held]) {
    let errors = format!("array_fill('{FAILED}'::jsonb, array[{}])", held.len());
    session.execute(&settle("settle_retry", held, &errors)).await;
}

async fn succeed(session: &mut Session, held: &[Held]) {
    let responses = format!("null, array_fill('1'::jsonb, array[{}])", held.len());
    session.execute(&settle("settle_receipt", held, &responses)).await;
}

/// Four failed sends of ten: the breaker is open, the ten wait.
async fn tripped(database: &TestDatabase, session: &mut Session) {
    submit_many(database, "direct", 10).await;
    let held = session.claim("tx", 4).await;
    fail(session, &held).await;
    assert_eq!(state(database).await, "open 0 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_trips_at_its_share_of_failures_and_not_before_it_has_seen_enough() {
    let database = with_breaker().await;
    submit_many(&database, "direct", 10).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 3).await;
    fail(&mut session, &held).await;
    assert_eq!(state(&database).await, "closed 0 0", "three are too few");

    let held = session.claim("tx", 6).await;
    succeed(&mut session, &held[..4]).await;
    assert_eq!(state(&database).await, "closed 0 0", "three of seven");
    fail(&mut session, &held[4..5]).await;
    assert_eq!(state(&database).await, "open 0 0", "four of eight");
    assert_eq!(
        database.value("select cause || ' ' || figures::text from tidegate.breaker_event").await,
        r#"error rate {"slow": 0, "calls": 8, "failures": 4}"#
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_calls_trip_it_and_refusals_do_not() {
    let database = with_breaker().await;
    database.execute("update tidegate.policy set breaker_latency_ms = 100 where kind = 'direct'").await;
    submit_many(&database, "direct", 16).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 8).await;
    session
        .execute(&settle(
            "settle_rejected",
            &held,
            r#"array_fill('{"code": "http_422"}'::jsonb, array[8]), array_fill(99, array[8])"#,
        ))
        .await;
    assert_eq!(state(&database).await, "closed 0 0");
    let held = session.claim("tx", 8).await;
    session
        .execute(&settle("settle_receipt", &held, "null, array_fill('1'::jsonb, array[8]), array_fill(101, array[8])"))
        .await;
    assert_eq!(state(&database).await, "open 0 0");
    assert_eq!(database.value("select cause from tidegate.breaker_event").await, "latency");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_open_no_worker_claims_and_callers_get_a_long_retry_after() {
    let database = with_breaker().await;
    let mut session = Session::open(&database).await;
    tripped(&database, &mut session).await;
    let positions = "select array_agg(position order by id)::text from tidegate.request_eta";
    let before = database.value(positions).await;

    // Of the queue's kinds one has no breaker, so this one's requests are snoozed; the others are claimed past them.
    let proofs = submit_many(&database, "input_proof", 3).await;
    let held = session.claim("tx", 2).await;
    assert_eq!(held.iter().map(|held| held.id).collect::<Vec<_>>(), proofs[..2]);
    assert_eq!(session.claim("tx", 9).await.len(), 1);
    assert_eq!(session.claim("tx", 9).await.len(), 0);
    assert_eq!(
        database
            .value("select array_agg(distinct attempt)::text from tidegate.request_event where cause = 'claimed'")
            .await,
        "{1}",
        "none of them began an attempt"
    );
    let waits = database.number("select tidegate.claim_wait_ms('tx')").await;
    assert!(waits > 20_000, "{waits}");

    let etas = "select array_agg(distinct retry_after_seconds)::text from tidegate.request_eta where kind = 'direct'";
    assert_eq!(database.value(etas).await, "{300}");
    assert_eq!(
        database
            .value("select min(tidegate.request_retry_after(id)) from tidegate.request where kind = 'direct'")
            .await,
        "300"
    );
    assert_eq!(database.value("select retry_after_seconds from tidegate.submit('direct', '{}')").await, "300");

    database.execute("update tidegate.policy set breaker_error_rate = null where kind = 'direct'").await;
    database.execute("update pgmq.q_tx set vt = '-infinity' where true").await;
    database.execute("delete from tidegate.request where kind = 'input_proof' and req_status = 'completed'").await;
    assert_eq!(
        database
            .value(
                "select (array_agg(position order by id))[1:10]::text from tidegate.request_eta where kind = 'direct'"
            )
            .await,
        before,
        "every request has kept its place"
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_nothing_else_is_left_as_it_is() {
    let database = with_breaker().await;
    database
        .execute(
            "insert into tidegate.queue (name, stage) values ('own', 'tx');
             update tidegate.kind set tx_queue = 'own' where name = 'direct'",
        )
        .await;
    submit_many(&database, "direct", 10).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("own", 4).await;
    fail(&mut session, &held).await;

    assert_eq!(session.claim("own", 9).await.len(), 0);
    assert_eq!(database.value("select count(*) from pgmq.q_own where vt > clock_timestamp()").await, "0");
    let waits = database.number("select tidegate.claim_wait_ms('own')").await;
    assert_eq!(waits, 60_000, "a worker has nothing to look for");
    let told = "select max(retry_after_seconds) from tidegate.request_eta where kind = 'direct'";
    assert_eq!(database.value(told).await, "300");
    let_time_pass(&database).await;
    assert_ne!(database.value(told).await, "300", "the next one is called");
    assert_eq!(session.claim("own", 9).await.len(), 2, "probes");
    assert_eq!(database.value(told).await, "300");
    assert_eq!(state(&database).await, "half_open 2 0");
    assert_eq!(database.number("select tidegate.claim_wait_ms('own')").await, 250);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_it_lets_so_many_probes_through_whoever_claims_and_closes_when_they_succeed() {
    let database = with_breaker().await;
    let mut session = Session::open(&database).await;
    tripped(&database, &mut session).await;
    let_time_pass(&database).await;

    let mut claimers = Vec::new();
    for _ in 0..6 {
        let mut claimer = Session::open(&database).await;
        claimers.push(tokio::spawn(async move {
            let held = claimer.claim("tx", 9).await;
            (claimer, held)
        }));
    }
    let mut probes = Vec::new();
    for claimer in claimers {
        probes.extend(claimer.await.unwrap().1);
    }
    assert_eq!(probes.len(), 2, "of six who claim at once");
    assert_eq!(state(&database).await, "half_open 2 0");

    succeed(&mut session, &probes[..1]).await;
    assert_eq!(state(&database).await, "half_open 2 1");
    succeed(&mut session, &probes[1..]).await;
    assert_eq!(state(&database).await, "closed 0 0");
    database.execute("update pgmq.q_tx set vt = '-infinity' where true").await;
    assert_eq!(session.claim("tx", 99).await.len(), 8);
    assert_eq!(
        database.column("select state || ': ' || cause from tidegate.breaker_event order by id").await,
        ["open: error rate", "half_open: open time over", "closed: probes succeeded"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_failed_probe_opens_it_again_and_a_late_outcome_from_before_tells_nothing() {
    let database = with_breaker().await;
    let mut session = Session::open(&database).await;
    submit_many(&database, "direct", 10).await;
    let late = session.claim("tx", 2).await;
    let held = session.claim("tx", 4).await;
    fail(&mut session, &held).await;
    assert_eq!(state(&database).await, "open 0 0");
    let_time_pass(&database).await;
    let probes = session.claim("tx", 9).await;
    assert_eq!(probes.len(), 2);

    succeed(&mut session, &late[..1]).await;
    fail(&mut session, &late[1..]).await;
    assert_eq!(state(&database).await, "half_open 2 0");
    fail(&mut session, &probes[..1]).await;
    assert_eq!(state(&database).await, "open 0 0");
    succeed(&mut session, &probes[1..]).await;
    assert_eq!(state(&database).await, "open 0 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_that_come_to_nothing_leave_their_place_to_others() {
    let database = with_breaker().await;
    let mut session = Session::open(&database).await;
    tripped(&database, &mut session).await;
    let_time_pass(&database).await;
    let probes = session.claim("tx", 9).await;
    session.execute(&settle("settle_released", &probes[..1], "")).await;
    assert_eq!(state(&database).await, "half_open 1 0");
    assert_eq!(session.claim("tx", 9).await.len(), 1);

    // Workers that are killed report nothing.
    assert_eq!(session.claim("tx", 9).await.len(), 0);
    database
        .execute(
            "update tidegate.breaker set probe_until = clock_timestamp();
             update pgmq.q_tx set vt = '-infinity' where true",
        )
        .await;
    assert_eq!(session.claim("tx", 9).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_of_a_claim_that_waited_for_rows_keep_their_places_as_long_as_others() {
    let database = with_breaker().await;
    let mut session = Session::open(&database).await;
    tripped(&database, &mut session).await;
    let_time_pass(&database).await;
    database.stop_clock().await;

    let mut holder = Session::begin(&database).await;
    holder.execute("select from tidegate.request for no key update").await;
    let claiming = session.start("select id from tidegate.claim_tx('tx', 'slow', 9, '1 minute')");
    claiming.until_blocked_by(&database, &holder).await;
    // Longer than a lease and a call together.
    database.execute("update public.test_clock set at = at + interval '2 minutes'").await;
    holder.rollback().await;
    let (mut session, probes) = claiming.finish().await;
    assert_eq!(probes.len(), 2);

    database.execute("update public.test_clock set at = at + interval '1 second'").await;
    assert_eq!(session.claim("tx", 9).await.len(), 0, "a call may still be under way");
    assert_eq!(state(&database).await, "half_open 2 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_see_it_fail_at_once_one_trips_it() {
    let database = with_breaker().await;
    submit_many(&database, "direct", 40).await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let mut session = Session::open(&database).await;
        let held = session.claim("tx", 5).await;
        tasks.push(tokio::spawn(async move {
            fail(&mut session, &held).await;
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(state(&database).await, "open 0 0");
    assert_eq!(database.value("select count(*) from tidegate.breaker_event").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_checks_that_fail_trip_theirs_and_checks_that_say_no_do_not() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set breaker_error_rate = 0.5, breaker_samples_min = 4, breaker_open_ms = 3600000
             where kind = 'public_decrypt' and stage = 'readiness'",
        )
        .await;
    submit_many(&database, "public_decrypt", 12).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("readiness", 6).await;
    session.execute(&settle("settle_snooze", &held, "")).await;
    assert_eq!(state(&database).await, "closed 0 0");
    let held = session.claim("readiness", 6).await;
    session
        .execute(&settle("settle_snooze", &held, r#"null, array_fill('{"code": "timeout"}'::jsonb, array[6])"#))
        .await;
    assert_eq!(state(&database).await, "open 0 0");
    database.execute("update pgmq.q_readiness set vt = '-infinity'").await;
    assert_eq!(session.claim("readiness", 9).await.len(), 0);
    assert_eq!(database.value("select min(tidegate.request_retry_after(id)) from tidegate.request").await, "300");
    // The check has said nothing of the kind's sends.
    assert_eq!(database.value("select count(*) from tidegate.breaker where stage = 'tx'").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_changes_are_announced_and_seen_without_announcement() {
    let database = with_breaker().await;
    let mut listener = sqlx::postgres::PgListener::connect(&database.url).await.unwrap();
    listener.listen("tidegate_breaker").await.unwrap();
    let mut session = Session::open(&database).await;
    tripped(&database, &mut session).await;
    let heard: serde_json::Value = serde_json::from_str(listener.recv().await.unwrap().payload()).unwrap();
    assert_eq!(
        (&heard["kind"], &heard["stage"], &heard["state"], &heard["epoch"]),
        (&"direct".into(), &"tx".into(), &"open".into(), &1.into())
    );

    // Without a claim, maintenance finds that its time is over.
    let_time_pass(&database).await;
    eventually("it is half open", || async {
        database.execute("select tidegate.breakers_evaluate()").await;
        state(&database).await == "half_open 0 0"
    })
    .await;
    assert_eq!(
        database.value("select state || ' ' || (open_ratio > 0) from tidegate.breaker_overview").await,
        "half_open true"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_is_made_again_continues_the_history_and_not_the_open_time() {
    let database = with_breaker().await;
    let mut session = Session::open(&database).await;
    tripped(&database, &mut session).await;
    database
        .execute(
            "update tidegate.breaker_event set at = at - interval '2 minutes';
             update tidegate.policy set breaker_error_rate = null where kind = 'direct';
             update tidegate.breaker_event set at = at - interval '1 minute';
             update tidegate.policy set breaker_error_rate = 0.5 where kind = 'direct' and stage = 'tx'",
        )
        .await;
    let shown = "select format('%s %s %s %s', state, epoch, last_cause, round(open_ratio, 1))
                 from tidegate.breaker_overview";
    // Two of five minutes.
    assert_eq!(database.value(shown).await, "closed 2 removed 0.4");
    assert_eq!(
        database.column("select epoch || ' ' || state from tidegate.breaker_event order by id").await,
        ["1 open", "2 closed"]
    );
    sound(&database).await;
}

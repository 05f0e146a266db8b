//! Does a quota count its requests right whatever happens to them, also while it is made?

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::join_all;

use super::{ANN, DIRECT, batch, counted, outcomes, promised, stage, state};
use crate::support::{
    TestDatabase, campaign,
    race::{NOTHING, Session, expire_leases, leases, settle, sound, submit_many},
    server::templates::DEEP,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_counts_once_from_its_first_queue_to_its_receipt() {
    let (database, mut session) = stage(&["kind => 'public_decrypt', high_water => 9", ANN]).await;
    let quota = "kind public_decrypt";
    outcomes(&mut session, "submit('public_decrypt', '{}', submitter => 'ann')").await;
    assert_eq!(counted(&mut session, quota).await, "1");
    let checked = session.claim("readiness", 1).await;
    session.texts(&settle("settle_passed", &checked, "")).await;
    assert_eq!(counted(&mut session, quota).await, "1");
    let sent = session.claim("tx", 1).await;
    assert_eq!(counted(&mut session, "submitter ann").await, "1");
    session.texts(&settle("settle_receipt", &sent, "")).await;
    // It awaits its response, and is in no queue.
    assert_eq!(database.status(sent[0].id).await, "receipt_received");
    for gate in [quota, "submitter ann"] {
        assert_eq!(counted(&mut session, gate).await, "0");
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_out_of_the_queues_is_counted() {
    let (database, mut session) = stage(&[
        "kind => 'direct', high_water => 100",
        "kind => 'user_decrypt', high_water => 100",
        "submitter => 'ann', high_water => 100",
    ])
    .await;
    let some = |kind: &str, status: &str| {
        format!(
            "array(select id from tidegate.request where kind = '{kind}' and req_status = '{status}' order by id limit 2)"
        )
    };
    let at_once = "update tidegate.kind set key_after_unknown = 'window'; update tidegate.policy set semantics = 'at_most_once', attempts = 1 where stage = 'tx'";
    for out in [
        format!("select tidegate.cancel(id) from unnest({}) as id", some("direct", "processing")),
        format!("select tidegate.fail_tx({})", some("direct", "processing")),
        format!("select tidegate.fail_internal({})", some("user_decrypt", "queued")),
        format!("select tidegate.time_out({})", some("user_decrypt", "queued")),
        format!(
            "update tidegate.request set deadline_at = clock_timestamp() where id = any({})",
            some("direct", "processing")
        ),
        "select tidegate.expire_by_deadline()".to_owned(),
        format!(
            "update tidegate.request set readiness_deadline_at = clock_timestamp() where id = any({})",
            some("user_decrypt", "queued")
        ),
        "select tidegate.expire_by_readiness()".to_owned(),
        // By hand; its message goes as a stray.
        format!("update tidegate.request set req_status = 'failure' where id = any({})", some("direct", "processing")),
        "select tidegate.remove_stray_messages('tx')".to_owned(),
    ] {
        session
            .texts(
                "select tidegate.submit_batch(k, array_fill('{}'::jsonb, array[3]), submitter => 'ann')
                 from unnest(array['direct', 'user_decrypt']) as k",
            )
            .await;
        session.texts(&out).await;
        sound_but_strays(&mut session, &out).await;
    }
    session.texts("select tidegate.remove_stray_messages('tx')").await;
    for name in ["settle_rejected", "settle_failed"] {
        let queue = if name == "settle_failed" { "readiness" } else { "tx" };
        let held = session.claim(queue, 2).await;
        session.texts(&settle(name, &held, "null")).await;
        sound_but_strays(&mut session, name).await;
    }
    // A last attempt that is retried, one whose worker vanished, and one with an unknown outcome.
    session.execute(at_once).await;
    let held = session.claim("tx", 2).await;
    session
        .texts(&format!(
            "select tidegate_internal.settle_retry({}, null, array_fill(interval '0', array[2]))",
            leases(&held)
        ))
        .await;
    sound_but_strays(&mut session, "attempts_exhausted").await;
    session.claim("tx", 2).await;
    expire_leases(&database, "tx").await;
    session.texts("select tidegate.recover()").await;
    sound_but_strays(&mut session, "outcome_unknown").await;
    let held = session.claim("tx", 1).await;
    assert_eq!(held.len(), 1);
    expire_leases(&database, "tx").await;
    session.claim("tx", 20).await;
    sound_but_strays(&mut session, "a claim that ends what it finds").await;
    assert!(
        database.number("select count(distinct cause) from tidegate.request where finished_at is not null").await >= 9
    );
    sound(&database).await;
}

/// Quotas count the requests in queues; messages of hand edits may be left.
async fn sound_but_strays(session: &mut Session, after: &str) {
    let difference = session
        .texts(
            "select m.gate || ' ' || count(*) from tidegate.quota_usage as m
             join tidegate.request as r on r.id = m.request_id
             where r.req_status not in ('queued', 'processing', 'tx_in_flight') group by m.gate
             union all
             select 'not counted ' || count(*) from tidegate.request as r
             where r.req_status in ('queued', 'processing', 'tx_in_flight')
               and (select count(*) from tidegate.quota_usage as m where m.request_id = r.id) <> 2
             having count(*) > 0",
        )
        .await;
    assert_eq!(difference, NOTHING, "{after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_queues_count_at_a_new_quota_from_the_first_moment() {
    let (database, mut session) = stage(&[]).await;
    submit_many(&database, "direct", 4).await;
    submit_many(&database, "public_decrypt", 3).await;
    session.claim("tx", 2).await;
    session
        .execute("select tidegate.quota_set(kind => 'public_decrypt', high_water => 3); select tidegate.quota_set(kind => 'direct', high_water => 5)")
        .await;
    assert_eq!(state(&mut session, "kind public_decrypt").await, "too_many_requests 3 1");
    assert_eq!(state(&mut session, "kind direct").await, "accepting 0 0");
    assert_eq!(outcomes(&mut session, &batch("direct", 2)).await, ["refused"; 2]);
    assert_eq!(outcomes(&mut session, &batch("direct", 1)).await, ["accepted"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_submitted_or_end_while_a_quota_is_made_are_counted_right() {
    let (database, mut session) = stage(&[]).await;
    submit_many(&database, "direct", 6).await;
    let mut submitting = Session::begin(&database).await;
    outcomes(&mut submitting, &batch("direct", 2)).await;
    let mut ending = Session::begin(&database).await;
    let held = ending.claim("tx", 1).await;
    ending.texts(&settle("settle_rejected", &held, "null")).await;
    let mut making = Session::begin(&database).await;
    making.execute("select tidegate.quota_set(kind => 'direct', high_water => 20)").await;
    // Who ends a counted one waits until the quota is there, and finds it.
    let later = Session::open(&database).await.start(
        "select tidegate.fail_internal(array(select id from tidegate.request where req_status = 'processing' order by id offset 1 limit 1))",
    );
    later.until_blocked_by(&database, &making).await;
    // Who began before it was there does not see it.
    let mut old = Session::open(&database).await;
    old.execute("begin isolation level repeatable read").await;
    old.text("select count(*) from tidegate.gate").await;
    making.commit().await;
    assert_eq!(later.finish().await.1.len(), 1);
    assert_eq!(outcomes(&mut old, "submit('direct', '{}', admission => 'accepted')").await, ["accepted"]);
    let last =
        old.text("select id from tidegate.request where req_status = 'processing' order by id desc limit 1").await;
    for session in [&mut submitting, &mut ending, &mut old] {
        session.commit().await;
    }

    // The round finds those that came.
    session.execute("select tidegate.quota_reconcile(), tidegate.quota_reconcile()").await;
    assert_eq!(counted(&mut session, "kind direct").await, "7");
    sound(&database).await;

    // And those that went unseen.
    session
        .execute(&format!(
            "insert into tidegate.quota_usage select 'kind direct', id from tidegate.request where finished_at is not null;
             insert into tidegate.quota_usage values ('kind direct', gen_random_uuid()), ('kind gone', '{last}')"
        ))
        .await;
    // Three at a time, twice round.
    for _ in 0..12 {
        session.execute("select tidegate.quota_reconcile(3)").await;
    }
    assert_eq!(counted(&mut session, "kind direct").await, "7");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_made_under_load_counts_right_in_the_end() {
    let (database, mut session) = stage(&[]).await;
    let done = Arc::new(AtomicBool::new(false));
    let busy = |number: usize| {
        let done = Arc::clone(&done);
        let database = &database;
        async move {
            let mut session = Session::open(database).await;
            while !done.load(Ordering::Relaxed) {
                if number < 2 {
                    outcomes(&mut session, &promised("direct", 3)).await;
                } else {
                    let held = session.claim("tx", 4).await;
                    session.texts(&settle("settle_rejected", &held, "null")).await;
                }
            }
        }
    };
    let making = async {
        let last = campaign(10, 30) - 1;
        for round in 0..=last {
            session
                .execute(
                    "select tidegate.quota_set(kind => 'direct', high_water => 1000); select tidegate.quota_reconcile(7)",
                )
                .await;
            if round < last {
                session.execute("select tidegate.quota_remove('kind direct')").await;
            }
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all((0..4).map(busy)), making);
    for _ in 0..3 {
        database.execute("select tidegate.quota_reconcile(100000)").await;
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_goes_through_a_deep_queue_at_once_after_a_quota_was_made() {
    let database = TestDatabase::deep().await;
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.quota_set(kind => 'direct', high_water => 20000)").await;
    assert_eq!(counted(&mut session, "kind direct").await, "10000");
    // A call gives no duty more than half a second, and the next one goes on.
    while session.text("select is_new from tidegate.gate_round").await != "f" {
        session.execute("call tidegate.maintain()").await;
    }
    assert_eq!(counted(&mut session, "kind direct").await, DEEP.to_string());
    session.execute("select tidegate.gates_evaluate()").await;
    let closed = state(&mut session, "kind direct").await;
    assert!(closed.starts_with("too_many_requests 2000"), "{closed}");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_opens_a_quota_that_counted_requests_in_no_queue() {
    let (_database, mut session) = stage(&[DIRECT]).await;
    outcomes(&mut session, &batch("direct", 6)).await;
    // Ended by a session that did not see the quota.
    session
        .execute(
            "update tidegate.request set req_status = 'failure' where kind = 'direct';
             insert into tidegate.quota_usage select 'kind direct', id from tidegate.request;
             update tidegate.gate set state = 'too_many_requests' where kind = 'direct'",
        )
        .await;
    assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
    session.execute("update tidegate.maintenance set ran_at = '-infinity'").await;
    session.execute("call tidegate.maintain()").await;
    assert_eq!(state(&mut session, "kind direct").await, "accepting 0 3");
    assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
}

/// The depths of queues are known where it is asked, and counting them again costs as much: no message is read.
#[tokio::test(flavor = "multi_thread")]
async fn the_states_of_gates_come_without_the_depths_of_queues() {
    let (database, mut session) = stage(&[DIRECT]).await;
    outcomes(&mut session, &batch("direct", 4)).await;
    let mut holder = Session::begin(&database).await;
    holder.execute("lock table pgmq.q_tx, pgmq.q_readiness in access exclusive mode").await;
    let gates = database.store.gate_states(&[]).await.unwrap();
    let depths: Vec<_> = gates.iter().map(|gate| (&*gate.name, gate.depth)).collect();
    assert_eq!(depths, [("readiness", 0), ("tx", 0), ("kind direct", 4)]);
    holder.rollback().await;
}

//! Does a transaction that holds leases commit while they are held, or find that they are not?

use std::{sync::Arc, time::Duration};

use sqlx::Acquire;
use tidegate::{
    Lease, Stages, Tidegate,
    request::{Request, RequestId},
    stage::Sent,
};
use tokio::sync::{Notify, mpsc};

use crate::support::{
    TestDatabase, eventually,
    race::{Held, NOTHING, Session, expire_leases, in_flight, leases, settle, sound},
};

/// The requests whose leases are held.
fn holds<'a>(held: impl IntoIterator<Item = &'a Held>) -> String {
    format!("select id from tidegate.hold_leases({}) order by id", leases(held))
}

fn ids(held: &[Held]) -> Vec<String> {
    let mut ids: Vec<_> = held.iter().map(|held| held.id.to_string()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_waits_until_the_transaction_that_holds_its_lease_ends() {
    for (settles, commits) in
        [("settle_receipt", true), ("settle_receipt", false), ("settle_retry", true), ("settle_released", true)]
    {
        let database = TestDatabase::unlimited().await;
        let (id, held) = in_flight(&database).await;
        let mut holder = Session::begin(&database).await;
        assert_eq!(holder.texts(&holds(&held)).await, ids(&held));
        // Two may hold the same lease.
        let mut second = Session::begin(&database).await;
        assert_eq!(second.texts(&holds(&held)).await, ids(&held));
        second.rollback().await;

        let more = if settles == "settle_retry" { "null" } else { "" };
        let settle = Session::open(&database).await.start(&settle(settles, &held, more));
        settle.until_blocked_by(&database, &holder).await;
        holder.execute(if commits { "commit" } else { "rollback" }).await;
        assert_eq!(settle.finish().await.1, [id.to_string()], "{settles} goes on");

        let mut later = Session::begin(&database).await;
        assert_eq!(later.texts(&holds(&held)).await, NOTHING, "settled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_does_not_wait_for_a_settle_and_holds_the_other_leases() {
    let database = TestDatabase::unlimited().await;
    let ((settled, first), (other, second)) = (in_flight(&database).await, in_flight(&database).await);
    let both: Vec<_> = first.iter().chain(&second).cloned().collect();
    let mut settler = Session::begin(&database).await;
    settler.texts(&settle("settle_receipt", &first, "")).await;

    let mut holder = Session::begin(&database).await;
    assert_eq!(holder.texts(&holds(&both)).await, [other.to_string()]);
    settler.rollback().await;
    assert_eq!(holder.texts(&holds(&both)).await, ids(&both), "{settled} is held after all");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_two_queues_are_held_at_once_each_once() {
    let database = TestDatabase::unlimited().await;
    let (_, mut held) = in_flight(&database).await;
    database.submit("public_decrypt").await;
    let mut session = Session::open(&database).await;
    held.extend(session.claim("readiness", 1).await);
    assert_eq!(session.texts(&holds(held.iter().chain(&held))).await, ids(&held));
    assert_eq!(session.texts(&holds(&[])).await, NOTHING);
    let wrong = "select id from tidegate.hold_leases(array[row('nowhere', 1, null), null]::tidegate.lease[])";
    assert_eq!(session.texts(wrong).await, NOTHING);
    // A lease under the right token and another queue's name is none.
    let mistaken = leases(&held[..1]).replace("(tx,", "(readiness,");
    let sql = format!("select id from tidegate.hold_leases({mistaken})");
    assert_eq!(session.texts(&sql).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_was_taken_over_or_whose_request_has_ended_is_not_held() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;

    let (id, first) = in_flight(&database).await;
    expire_leases(&database, "tx").await;
    assert_eq!(session.texts(&holds(&first)).await, NOTHING, "run out");
    let second = session.claim("tx", 1).await;
    assert_eq!(second[0].id, id, "taken over");
    assert_eq!(session.texts(&holds(first.iter().chain(&second))).await, ids(&second));
    session.texts(&settle("settle_receipt", &second, "")).await;
    assert_eq!(session.texts(&holds(&second)).await, NOTHING, "settled");

    for end in
        ["fail_request('{id}', 'an operator ended it')", "fail_tx(array['{id}']::uuid[])", "expire_by_deadline(10)"]
    {
        let (id, held) = in_flight(&database).await;
        if end.starts_with("expire") {
            database
                .execute(&format!("update tidegate.request set deadline_at = clock_timestamp() where id = '{id}'"))
                .await;
        }
        assert_eq!(session.texts(&holds(&held)).await, ids(&held));
        database.execute(&format!("select tidegate.{}", end.replace("{id}", &id.to_string()))).await;
        assert_eq!(session.texts(&holds(&held)).await, NOTHING, "{end}: {}", database.status(id).await);
    }
    database.submit("public_decrypt").await;
    let held = session.claim("readiness", 1).await;
    database.execute(&format!("select tidegate.cancel('{}')", held[0].id)).await;
    assert_eq!(session.texts(&holds(&held)).await, NOTHING, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_takes_a_request_over_whose_lease_runs_out_while_it_is_held() {
    let database = TestDatabase::unlimited().await;
    let (id, held) = in_flight(&database).await;
    let mut holder = Session::begin(&database).await;
    assert_eq!(holder.texts(&holds(&held)).await, ids(&held));
    expire_leases(&database, "tx").await;

    // A claim waits for no request, so this one returns.
    let mut other = Session::open(&database).await;
    assert!(other.claim("tx", 1).await.is_empty());
    assert_eq!(holder.texts(&holds(&held)).await, NOTHING, "by now it has run out");
    holder.commit().await;
    let again = other.claim("tx", 1).await;
    assert_eq!((again[0].id, again[0].attempt), (id, 2));
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_waited_for_a_statement_sees_what_committed_before() {
    // Above READ COMMITTED the snapshot is old: a lease that was settled since must not look held.
    let database = TestDatabase::unlimited().await;
    let (id, held) = in_flight(&database).await;
    let mut holder = Session::open(&database).await;
    holder.execute("begin isolation level repeatable read; select count(*) from tidegate.request").await;
    let mut settler = Session::open(&database).await;
    assert_eq!(settler.texts(&settle("settle_receipt", &held, "")).await, [id.to_string()]);
    assert_eq!(holder.attempt(&holds(&held)).await.unwrap_err().0, "40001");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_holds_its_own_lease_and_its_extension_and_settle_go_on() {
    let database = TestDatabase::unlimited().await;
    database.execute("create table public.decided (id uuid)").await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    let (started, mut starts) = mpsc::unbounded_channel::<(RequestId, Lease)>();
    let go = Arc::new(Notify::new());
    let stages = Stages::new().send("direct", {
        let (tidegate, pool, goes) = (tidegate.clone(), database.pool.clone(), Arc::clone(&go));
        move |request: Request| {
            let (tidegate, pool, started) = (tidegate.clone(), pool.clone(), started.clone());
            let goes = Arc::clone(&goes);
            async move {
                let mut session = pool.acquire().await.unwrap();
                let mut transaction = session.begin().await.unwrap();
                let held = tidegate.hold_leases(&mut transaction, &[request.lease()]).await.unwrap();
                assert_eq!(held, [request.lease()]);
                let sql = "insert into public.decided values ($1)";
                sqlx::query(sql).bind(request.id.0).execute(&mut *transaction).await.unwrap();
                started.send((request.id, request.lease())).unwrap();
                goes.notified().await;
                transaction.commit().await.unwrap();
                Sent::response(true)
            }
        }
    });
    let worker = tidegate.worker(stages).lease(Duration::from_secs(3)).start().await.unwrap();
    let id = database.submit("direct").await;
    let (held_id, held) = starts.recv().await.unwrap();
    assert_eq!((held_id, held.id), (id, id.0));

    // The worker extends the lease while the transaction holds it.
    let until = format!("select extract(epoch from until) * 1000 from tidegate.claim where token = {}", held.token);
    let before = database.number(&until).await;
    eventually("the lease is extended", || async { database.number(&until).await > before }).await;
    go.notify_one();
    eventually("it completes", || async { database.status(id).await == "completed" }).await;
    assert_eq!(database.number("select count(*) from public.decided").await, 1);
    worker.stop().await.unwrap();
}

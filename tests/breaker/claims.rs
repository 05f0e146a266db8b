//! The cost of open and half-open breakers for claims of their kind, of other kinds and of other queues.

use crate::{
    breaker::breakers::with_breaker,
    support::{
        TestDatabase,
        race::{Held, Session, sound, submit_many},
    },
};

async fn open(database: &TestDatabase, until: &str) {
    database
        .execute(&format!(
            "update tidegate.breaker
             set state = 'open', epoch = epoch + 1, changed_at = clock_timestamp(), open_until = clock_timestamp() + '{until}'"
        ))
        .await;
}

fn ids(held: &[Held]) -> Vec<tidegate::request::RequestId> {
    held.iter().map(|held| held.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_wait_behind_a_breaker_do_not_come_back_all_at_once() {
    let database = with_breaker().await;
    submit_many(&database, "direct", 3000).await;
    database.execute("select tidegate.fold_counts()").await;
    open(&database, "0 seconds").await;
    let mut session = Session::open(&database).await;
    assert_eq!(session.claim("tx", 50).await.len(), 2, "probes");
    assert_eq!(session.claim("tx", 50).await.len(), 0);

    // Claims would do nothing else than put them off again and again, and never get to other kinds.
    let spread = database
        .value(
            "select max(vt) - min(vt) > interval '500 milliseconds' from pgmq.q_tx
             where vt > '-infinity'",
        )
        .await;
    assert_eq!(spread, "t");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_of_another_kind_costs_a_claim_no_more_messages_than_it_wants() {
    let database = with_breaker().await;
    open(&database, "1 hour").await;
    submit_many(&database, "input_proof", 50).await;
    let mut session = Session::open(&database).await;
    assert_eq!(session.claim("tx", 1).await.len(), 1);
    assert_eq!(database.value("select count(*) from pgmq.q_tx where vt = '-infinity'").await, "49");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_at_a_half_open_breaker_waits_for_no_claim_that_gives_messages_back() {
    let database = with_breaker().await;
    submit_many(&database, "direct", 8).await;
    let proofs = submit_many(&database, "input_proof", 30).await;
    open(&database, "0 seconds").await;
    // A release holds the watermark's lock, and may report to the breaker next.
    let mut giving = Session::begin(&database).await;
    giving.execute("select pg_advisory_xact_lock(tidegate.queue_lock_key('tx', 'watermark'))").await;

    let mut claiming = Session::begin(&database).await;
    claiming.execute("set local lock_timeout = '10s'").await;
    assert_eq!(claiming.claim("tx", 2).await.len(), 2, "probes");
    // Only messages that wait for the breaker are in front, so more are taken than needed, and released.
    assert_eq!(ids(&claiming.claim("tx", 2).await), proofs[..2]);
    claiming.commit().await;
    giving.rollback().await;
    assert_eq!(ids(&Session::open(&database).await.claim("tx", 2).await), proofs[2..4]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_kind_that_was_pointed_elsewhere_do_not_wait_for_breakers_of_others() {
    let database = with_breaker().await;
    database.execute("insert into tidegate.queue (name, stage) values ('other', 'tx')").await;
    database.execute("update tidegate.kind set tx_queue = 'other' where name = 'input_proof'").await;
    let left = submit_many(&database, "input_proof", 2).await;
    // From now on no process uses the queue, but two requests are in it.
    database.execute("update tidegate.kind set tx_queue = 'tx' where name = 'input_proof'").await;
    open(&database, "1 hour").await;
    let mut session = Session::open(&database).await;
    assert_eq!(ids(&session.claim("other", 1).await), left[..1]);

    // The one kind that uses it is held back.
    database.execute("update tidegate.kind set tx_queue = 'other' where name = 'direct'").await;
    assert_eq!(database.number("select tidegate.claim_wait_ms('other')").await, 0);
    assert_eq!(ids(&session.claim("other", 1).await), left[1..]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_saw_a_clock_of_the_future_begins_anew() {
    let database = with_breaker().await;
    database.execute("update tidegate.policy set breaker_open_ms = 5000 where kind = 'direct'").await;
    open(&database, "1 hour").await;
    database.execute("update tidegate.breaker set changed_at = clock_timestamp() + interval '59 minutes'").await;
    database.execute("select tidegate.breakers_evaluate()").await;
    assert_eq!(
        database
            .value(
                "select state || ' ' || (open_until <= clock_timestamp() + interval '5 seconds') from tidegate.breaker"
            )
            .await,
        "open true"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_snoozed_for_half_a_minute_however_long_the_breaker_is_open() {
    let database = with_breaker().await;
    open(&database, "1 hour").await;
    submit_many(&database, "direct", 3).await;
    let mut session = Session::open(&database).await;
    assert_eq!(session.claim("tx", 9).await.len(), 0);
    // The breaker may be taken away, or closed, and they would still wait.
    assert_eq!(database.value("select max(vt) <= clock_timestamp() + interval '30 seconds' from pgmq.q_tx").await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_one_queue_take_no_part_in_the_probes_of_another() {
    let database = with_breaker().await;
    database
        .execute(
            "insert into tidegate.queue (name, stage) values ('other', 'tx');
             insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
             values ('elsewhere', 'direct', 'other', 1, 1)",
        )
        .await;
    submit_many(&database, "direct", 3).await;
    submit_many(&database, "elsewhere", 3).await;
    open(&database, "0 seconds").await;

    // A claim whose transaction goes on.
    let mut slow = Session::begin(&database).await;
    assert_eq!(slow.claim("other", 1).await.len(), 1);
    let mut session = Session::begin(&database).await;
    session.execute("set local lock_timeout = '10s'").await;
    assert_eq!(session.claim("tx", 9).await.len(), 2, "probes");

    let mut third = Session::begin(&database).await;
    third.execute("set local lock_timeout = '10s'").await;
    assert_eq!(third.claim("other", 9).await.len(), 2);
    for session in [slow, session, third] {
        session.close().await;
    }
}

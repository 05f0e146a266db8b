//! Who wins when two act on one request at once, and does the loser notice?
//!
//! One session does its work and leaves it uncommitted; the other starts, is seen waiting, and goes on when the first
//! commits or rolls back.

use crate::support::{
    TestDatabase,
    race::{NOTHING, Session, against, expire_leases, in_flight, leases, settle, sound},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_old_holder_that_settles_during_a_new_claim_moves_nothing() {
    for (function, more) in
        [("settle_receipt", ""), ("settle_retry", "null"), ("settle_rejected", "null"), ("settle_released", "")]
    {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let (id, old) = in_flight(&database).await;
            expire_leases(&database, "tx").await;
            let mut claimer = Session::begin(&database).await;
            let new = claimer.claim("tx", 1).await;
            assert_eq!(new[0].id, id);

            let moved = against(&database, &mut claimer, commits, &settle(function, &old, more)).await;

            if commits {
                assert_eq!(moved, NOTHING, "{function}");
                assert_eq!(database.status(id).await, "tx_in_flight");
                assert_eq!(claimer.texts(&settle("settle_receipt", &new, "")).await, [id.to_string()]);
            } else {
                // Its lease ran out, and no other worker has claimed it: it may still settle.
                assert_eq!(moved, [id.to_string()], "{function}");
            }
            sound(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_holder_that_extends_during_a_new_claim_has_lost_its_lease() {
    let database = TestDatabase::unlimited().await;
    let (_, old) = in_flight(&database).await;
    expire_leases(&database, "tx").await;
    let extend = format!("select (e).id from tidegate.extend({}, '30 s') as e", leases(&old));
    let mut claimer = Session::begin(&database).await;
    assert_eq!(claimer.texts(&extend).await, NOTHING, "it has run out");
    let new = claimer.claim("tx", 1).await;

    assert_eq!(against(&database, &mut claimer, true, &extend).await, NOTHING);
    assert_eq!(
        claimer.texts(&format!("select (e).id from tidegate.extend({}, '1 s') as e", leases(&new))).await,
        [new[0].id.to_string()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_over_what_is_being_extended() {
    let database = TestDatabase::unlimited().await;
    let (_, held) = in_flight(&database).await;
    let mut holder = Session::begin(&database).await;
    holder.execute(&format!("select tidegate.extend({}, '30 s')", leases(&held))).await;
    let mut claimer = Session::open(&database).await;
    assert!(claimer.claim("tx", 1).await.is_empty());
    holder.commit().await;
    assert!(claimer.claim("tx", 1).await.is_empty());
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_waits_for_a_hand_edit_and_obeys_it() {
    for (edit, settled) in
        [("req_status = 'failure'", false), ("req_status = 'processing'", false), ("submitter = 'me'", true)]
    {
        let database = TestDatabase::unlimited().await;
        let (id, held) = in_flight(&database).await;
        let mut editor = Session::begin(&database).await;
        editor.execute(&format!("update tidegate.request set {edit} where id = '{id}'")).await;

        let moved = against(&database, &mut editor, true, &settle("settle_receipt", &held, "")).await;

        assert_eq!(moved.len(), usize::from(settled), "{edit}");
        // The lease ends with the row's move only.
        assert_eq!(database.number("select count(*) from tidegate.claim").await, i64::from(!settled), "{edit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_submissions_with_one_key_at_once_make_one_request() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let submit = |payload: &str| {
            format!("select id, outcome from tidegate.submit('direct', '{payload}', idempotency_key => 'key')")
        };
        let mut first = Session::begin(&database).await;
        let one = first.text(&submit("{}")).await;
        let two = against(&database, &mut first, commits, &submit("{}")).await;

        if commits {
            assert_eq!(two, [one.replace("accepted", "replayed")]);
        } else {
            assert!(two[0].ends_with("accepted"), "{two:?}");
        }
        assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
        assert_eq!(first.attempt(&submit("{\"other\": 1}")).await.unwrap_err().0, "TG004");
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_a_claim_do_not_wait_for_each_other() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    database.submit("direct").await;
    let mut claimer = Session::begin(&database).await;
    assert_eq!(claimer.claim("tx", 1).await.len(), 1);
    let mut operator = Session::begin(&database).await;
    operator.texts("select tidegate.pause('tx')").await;
    assert_eq!(claimer.claim("tx", 1).await.len(), 1, "the pause is not committed yet");
    operator.commit().await;
    claimer.rollback().await;

    assert!(claimer.claim("tx", 2).await.is_empty());
    operator.texts("select tidegate.pause('tx', false)").await;
    assert_eq!(claimer.claim("tx", 2).await.len(), 2);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waited_for_another_obeys_a_pause_made_meanwhile() {
    for (queue, kind, limit) in
        [("tx", "direct", "per_seconds = 1000"), ("readiness", "public_decrypt", "max_concurrency = 9")]
    {
        let database = TestDatabase::unlimited().await;
        database.execute(&format!("update tidegate.queue set {limit} where name = '{queue}'")).await;
        database.submit(kind).await;
        database.submit(kind).await;
        let mut first = Session::begin(&database).await;
        assert_eq!(first.claim(queue, 1).await.len(), 1);
        let function = if queue == "tx" { "claim_tx" } else { "claim_readiness" };
        let second = Session::open(&database)
            .await
            .start(&format!("select id from tidegate.{function}('{queue}', 'w', 1, '30 s')"));
        second.until_blocked_by(&database, &first).await;
        database.execute(&format!("select tidegate.pause('{queue}')")).await;
        first.commit().await;

        assert_eq!(second.finish().await.1, NOTHING, "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_a_crash_forgot_leaves_its_holder_without_a_lease() {
    // A claim under synchronous_commit = off is a misuse. Here is what its loss looks like: message and row as before.
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    database
        .execute(
            "create table public.messages as select * from pgmq.q_tx;
             create table public.requests as select * from tidegate.request;
             create table public.events as select * from tidegate.stored_event",
        )
        .await;
    let forgotten = Session::open(&database).await.claim("tx", 1).await;
    database
        .past_triggers(
            "delete from tidegate.claim;
             insert into pgmq.q_tx overriding system value select * from public.messages;
             delete from tidegate.stored_event;
             insert into tidegate.stored_event select * from public.events;
             delete from tidegate.request_count_delta where req_status = 'tx_in_flight';
             delete from tidegate.request;
             insert into tidegate.request select * from public.requests",
        )
        .await;
    sound(&database).await;

    let mut session = Session::open(&database).await;
    assert_eq!(session.texts(&settle("settle_receipt", &forgotten, "")).await, NOTHING);
    let again = session.claim("tx", 1).await;
    // The very request and number that the forgotten holder has: only the token tells them apart.
    assert_eq!((again[0].id, again[0].msg_id, again[0].attempt), (id, forgotten[0].msg_id, 1));
    assert_eq!(session.texts(&settle("settle_receipt", &forgotten, "")).await, NOTHING);
    assert_eq!(session.texts(&settle("settle_receipt", &again, "")).await, [id.to_string()]);
    sound(&database).await;
}

//! A strict gate admits exactly as many requests as its high mark, whatever is open, removed or put back meanwhile.

mod stress;

use std::time::{Duration, Instant};

use crate::support::{
    TestDatabase,
    race::{DEPTH, Session, settle, sound, submit_many},
};

const HIGH_WATER: i64 = 100;

/// The gate opens at once when there is room: these tests are about its tickets.
async fn stage() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(&format!(
            "update tidegate.gate set high_water = {HIGH_WATER}, low_water = {HIGH_WATER} - 1;
             update tidegate.setting set jitter = 0"
        ))
        .await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn nextval_keeps_its_lock_until_the_top_transaction_ends() {
    const LOCKED: &str = "select count(*) from pg_locks
        where database = (select oid from pg_database where datname = current_database())
          and relation = 'pgmq.q_tx_msg_id_seq'::regclass and mode = 'RowExclusiveLock' and granted";
    let database = stage().await;
    let mut watch = Session::open(&database).await;
    let mut session = Session::begin(&database).await;
    session.execute("savepoint s").await;
    session.texts("select nextval('pgmq.q_tx_msg_id_seq')").await;
    assert_eq!(watch.text(LOCKED).await, "1");
    session.execute("rollback to s").await;
    assert_eq!(watch.text(LOCKED).await, "1");
    session.commit().await;
    assert_eq!(watch.text(LOCKED).await, "0");

    // Who only reads it takes none of it.
    session.execute("begin").await;
    session.texts("select * from tidegate_internal.queue_numbers('tx')").await;
    let id = session.text("select id from tidegate.submit('direct', '{}')").await;
    session.execute("commit; begin").await;
    session.texts(&format!("select * from tidegate.request_outlook('{id}')")).await;
    assert_eq!(watch.text(LOCKED).await, "0");
    session.commit().await;
}

/// PostgreSQL adds up what a session has deleted until it reports that, a second later.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_a_session_removed_in_earlier_transactions_take_no_room() {
    let database = stage().await;
    let ids = submit_many(&database, "direct", 20).await;
    database.execute("update tidegate.gate set high_water = 20, low_water = 19 where name = 'tx'").await;
    let mut session = Session::open(&database).await;
    for (count, id) in ids.iter().enumerate() {
        session.texts(&format!("select outcome from tidegate.cancel('{id}')")).await;
        assert_eq!(
            session.texts(&format!("select outcome from tidegate.submit('direct', '{{}}', 'key {count}')")).await,
            ["accepted"]
        );
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_thirty_open_draws_the_gate_admits_the_remaining_room() {
    let database = stage().await;
    let mut open = Vec::new();
    for _ in 0..30 {
        let mut session = Session::begin(&database).await;
        session.texts("select * from tidegate.submit_batch('direct', '{1,2}')").await;
        open.push(session);
    }
    let mut other = Session::open(&database).await;
    // Round and round: numbers run out again and again.
    for _ in 0..5 {
        let begun = Instant::now();
        let let_in = other
            .texts("select 1 from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[60])) where outcome = 'accepted'")
            .await;
        assert_eq!(let_in.len(), 40);
        assert!(begun.elapsed() < Duration::from_secs(5), "it waited");
        other
            .texts(
                "select count(*)
                 from (select array_agg(c.lease) as leases from tidegate.claim_tx('tx', 'w', 100, '1 minute') as c) as c
                 cross join lateral tidegate_internal.settle_receipt(c.leases) as s",
            )
            .await;
    }
    for session in &mut open {
        session.commit().await;
    }
    assert_eq!(
        other
            .texts("select 1 from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[60])) where outcome = 'accepted'")
            .await
            .len(),
        40
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_that_stay_open_while_thousands_are_drained_take_their_room_when_they_commit() {
    let database = TestDatabase::unlimited().await;
    let mut open = Session::begin(&database).await;
    open.texts("select id from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[10]))").await;
    let mut other = Session::open(&database).await;
    for _ in 0..9 {
        submit_many(&database, "direct", 1000).await;
        other
            .texts(
                "select count(*)
                 from (select array_agg(c.lease) as leases from tidegate.claim_tx('tx', 'w', 1000, '1 minute') as c) as c
                 cross join lateral tidegate_internal.settle_receipt(c.leases) as s",
            )
            .await;
    }
    database
        .execute(&format!(
            "update tidegate.gate set high_water = {HIGH_WATER}, low_water = {HIGH_WATER} - 1 where name = 'tx'"
        ))
        .await;
    let fill =
        "select 1 from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[200])) where outcome = 'accepted'";
    open.commit().await;
    assert_eq!(other.texts(fill).await.len(), 90);
    sound(&database).await;
}

/// The numbers would run out at the high mark, and each submission under way would then count.
#[tokio::test(flavor = "multi_thread")]
async fn one_submission_counts_what_was_drained_before_the_numbers_run_out() {
    const ALMOST: i64 = HIGH_WATER - HIGH_WATER / 8;
    let database = stage().await;
    let mut worker = Session::open(&database).await;
    let mut session = Session::open(&database).await;
    submit_many(&database, "direct", 40).await;
    let held = worker.claim("tx", 30).await;
    worker.texts(&settle("settle_rejected", &held, "null")).await;

    let dead = "select coalesce(pg_sequence_last_value('tidegate.offset_tx'), 0)";
    for number in 41..=ALMOST {
        assert_eq!(database.number(dead).await, 0, "before number {number}");
        let outcome = session.text("select outcome from tidegate.submit('direct', '{}')").await;
        assert_eq!(outcome, "accepted");
    }
    assert_eq!(database.number(dead).await, 30);
    assert_eq!(database.number(DEPTH).await, ALMOST - 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_put_back_take_the_room_of_new_ones() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let fill =
        "select 1 from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[200])) where outcome = 'accepted'";
    assert_eq!(session.texts(fill).await.len(), 100);
    session.execute("delete from pgmq.q_tx where msg_id <= 40").await;
    session.execute("select tidegate.gates_evaluate()").await;
    assert_eq!(session.texts(fill).await.len(), 40);
    session.execute("select tidegate.recover()").await;
    assert_eq!(session.text("select count(*) from pgmq.q_tx").await, "140");
    session
        .texts(
            "select count(*)
             from (select array_agg(c.lease) as leases from tidegate.claim_tx('tx', 'w', 60, '1 minute') as c) as c
             cross join lateral tidegate_internal.settle_receipt(c.leases) as s",
        )
        .await;
    assert_eq!(session.texts(fill).await.len(), 20);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_of_another_sequence_is_replaced() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let fill =
        "select 1 from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[200])) where outcome = 'accepted'";
    for change in [
        "select setval('tidegate.offset_tx', 1000000)",
        "delete from pgmq.q_tx; select pgmq.drop_queue('tx'); select tidegate.recover_storage()",
    ] {
        session.execute(change).await;
        assert_eq!(session.texts(fill).await.len(), 100, "{change}");
        session
            .execute("update tidegate.request set req_status = 'failure', queue = null, msg_id = null where req_status = 'processing'")
            .await;
        session.execute("delete from pgmq.q_tx; select tidegate.gates_evaluate()").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_removes_messages_and_takes_it_back_leaves_the_gate_strict() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let fill =
        "select 1 from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[200])) where outcome = 'accepted'";
    session.texts("select * from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[99]))").await;
    session.execute("begin").await;
    session
        .texts(
            "select count(*)
             from (select array_agg(c.lease) as leases from tidegate.claim_tx('tx', 'w', 60, '1 minute') as c) as c
             cross join lateral tidegate_internal.settle_receipt(c.leases) as s",
        )
        .await;
    // It finds room for one: the message that it has removed may come back.
    assert_eq!(session.texts(fill).await.len(), 1);
    session.rollback().await;
    assert_eq!(session.texts(fill).await.len(), 1);
    assert_eq!(session.text("select count(*) from pgmq.q_tx").await, "100");
    sound(&database).await;
}

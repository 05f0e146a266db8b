//! What do the messages in front that a claim does not take cost it, and do they hide none from another claim?

use super::add_strange;
use crate::support::{
    TestDatabase,
    race::{Session, settle, submit_many},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_for_some_kinds_hides_nothing_from_other_claims() {
    let database = TestDatabase::unlimited().await;
    add_strange(&database).await;
    submit_many(&database, "strange", 3).await;
    // Far enough that a claim would raise the mark, and each taken after the due time has moved on.
    database.execute("select setval('pgmq.q_tx_msg_id_seq', 100000)").await;
    submit_many(&database, "direct", 50).await;
    let mut session = Session::open(&database).await;
    let claim = |kinds: &str, batch: i32| {
        format!("select r.kind from tidegate.claim_tx('tx', 'w', {batch}, '30 s', {kinds}) as r")
    };

    for _ in 0..10 {
        let taken = session.texts(&claim("'{direct}'", 5)).await;
        assert_eq!(taken, ["direct"; 5]);
    }
    assert!(session.texts(&claim("'{direct}'", 5)).await.is_empty());
    assert!(session.texts(&claim("'{}'", 5)).await.is_empty());
    let wait = session.text("select tidegate.claim_wait_ms('tx', '{direct}')").await;
    assert_eq!(wait, "200", "others wait, so that no submission wakes it");
    let wait = session.text("select tidegate.claim_wait_ms('tx', '{strange,direct}')").await;
    assert_eq!(wait, "0");
    assert_eq!(session.texts(&claim("'{strange}'", 2)).await, ["strange"; 2]);
    assert_eq!(session.texts(&claim("null", 5)).await, ["strange"]);
}

/// `direct` requests behind thousands of another kind, of which two claims have learned.
async fn behind_thousands(database: &TestDatabase) -> Session {
    add_strange(database).await;
    let mut session = Session::open(database).await;
    for _ in 0..2 {
        submit_many(database, "strange", 5000).await;
    }
    for _ in 0..2 {
        submit_many(database, "direct", 5).await;
        assert_eq!(session.texts(&claim_direct(5)).await.len(), 5);
    }
    session
}

fn claim_direct(batch: i32) -> String {
    format!("select r.id from tidegate.claim_tx('tx', 'w', {batch}, '1 minute', '{{direct}}') as r")
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_another_kind_in_front_cost_a_claim_nothing() {
    let mut read = Vec::new();
    for behind in [false, true] {
        let database = TestDatabase::unlimited().await;
        let mut session = if behind {
            behind_thousands(&database).await
        } else {
            add_strange(&database).await;
            Session::open(&database).await
        };
        submit_many(&database, "direct", 50).await;
        database.execute("analyze pgmq.q_tx; analyze tidegate.request").await;
        for statement in [
            claim_direct(20),
            claim_direct(50),
            "select tidegate.claim_wait_ms('tx', '{direct}')".to_owned(),
            claim_direct(1),
        ] {
            let reads = session.reads("q_tx|request", &statement).await;
            assert_eq!(reads.scans, 0, "{statement}");
            read.push(reads.rows_by_index);
        }
    }
    let (without, with) = read.split_at(4);
    for (without, with) in without.iter().zip(with) {
        assert!(with - without <= 30, "{read:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_put_off_in_front_cost_a_claim_of_nothing_nothing() {
    let database = TestDatabase::unlimited().await;
    add_strange(&database).await;
    database
        .execute(
            "select count(*) from tidegate.submit_group(
               'direct', array_fill('{}'::jsonb, array[5000]), not_before => clock_timestamp() + interval '1 day'
             )",
        )
        .await;
    for kinds in ["null", "'{direct}'"] {
        let mut session = Session::open(&database).await;
        let claim = format!("select r.id from tidegate.claim_tx('tx', 'w', 5, '1 minute', {kinds}) as r");
        assert!(session.texts(&claim).await.is_empty());
        let reads = session.reads("q_tx|request", &claim).await;
        assert!(reads.rows_by_index < 20, "{kinds}: {reads:?}");
        database.execute("select setval('tidegate.watermark_tx', 1)").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_rolls_back_leaves_nothing_below_a_mark() {
    for kinds in ["null", "'{direct}'"] {
        let database = TestDatabase::unlimited().await;
        let mut session = behind_thousands(&database).await;
        submit_many(&database, "direct", 5).await;
        let claim = format!("select r.kind from tidegate.claim_tx('tx', 'w', 20000, '1 minute', {kinds}) as r");
        session.execute("begin").await;
        let taken = session.texts(&claim).await;
        session.rollback().await;
        assert_eq!(session.texts(&claim).await, taken, "{kinds}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_again_below_its_kinds_mark_is_claimed_next() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set base_ms = 0, jitter_ms = 0").await;
    let mut late = Session::begin(&database).await;
    let mut expected = late.texts("select id from tidegate.submit('direct', '{}')").await;
    let mut holder = Session::open(&database).await;
    for _ in 0..3 {
        expected.push(database.submit("direct").await.to_string());
    }
    let held = holder.claim("tx", 3).await;
    let mut session = behind_thousands(&database).await;
    let mark = "select mark from tidegate.kind_watermark where kind = 'direct'";
    assert!(database.number(mark).await < held[0].msg_id, "a draw is open");

    late.commit().await;
    submit_many(&database, "direct", 1).await;
    assert_eq!(session.texts(&claim_direct(1)).await, expected[..1]);
    assert_eq!(session.texts(&claim_direct(1)).await.len(), 1);
    assert!(session.texts(&claim_direct(1)).await.is_empty());
    assert!(database.number(mark).await > 10_000);
    // Given back, retried at once, and lost and put back.
    for (sql, id) in [
        (settle("settle_released", &held[..1], ""), &expected[1]),
        (settle("settle_retry", &held[1..2], "null, array[interval '0']"), &expected[2]),
        (format!("with lost as (delete from tidegate.claim where '{}' = any(ids)) select 1", held[2].id), &expected[3]),
    ] {
        session.texts(&sql).await;
        session.texts("select reset from tidegate.recover(force => true)").await;
        assert_eq!(&session.texts(&claim_direct(10)).await, std::slice::from_ref(id));
    }
    assert_eq!(database.violations().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_in_an_old_snapshot_and_a_hand_edit_hide_nothing_below_a_kinds_mark() {
    let database = TestDatabase::unlimited().await;
    add_strange(&database).await;
    for _ in 0..2 {
        submit_many(&database, "strange", 3000).await;
        submit_many(&database, "direct", 1).await;
    }
    let mut holder = Session::open(&database).await;
    let claim = "select q.msg_id || ' ' || r.lease::text from tidegate.claim_tx('tx', 'w', 1, '1 minute', '{direct}') as r join tidegate.request as q using (id)";
    let first = holder.text(claim).await;
    let (number, lease) = first.split_once(' ').unwrap();
    holder.execute("begin isolation level repeatable read; select 1").await;
    let mut session = Session::open(&database).await;
    assert_eq!(session.texts(claim).await.len(), 1);
    let mark = "select mark from tidegate.kind_watermark where kind = 'direct'";
    assert!(database.number(mark).await > number.parse::<i64>().unwrap());
    holder
        .texts(&format!("select r.id from tidegate_internal.settle_released(array['{lease}']::tidegate.lease[]) as r"))
        .await;
    holder.commit().await;
    assert!(session.text(claim).await.starts_with(number));

    assert!(session.texts(claim).await.is_empty());
    database
        .execute(&format!(
            "delete from tidegate.claim;
             update tidegate.request set req_status = 'processing', lease = null where msg_id = {number};
             insert into pgmq.q_tx (msg_id, vt, message) overriding system value
             select msg_id, '-infinity', jsonb_build_object('id', id) from tidegate.request where msg_id = {number};
             select tidegate.recover()"
        ))
        .await;
    assert!(session.text(claim).await.starts_with(number));
}

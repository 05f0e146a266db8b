//! What makes a queue fair: its keys, its kinds and its storage.

use super::fair_queues::{fair_queue, served, submit_names};
use crate::support::{
    TestDatabase,
    race::{Session, sound},
};

/// What has the name of the queue in its own: relations and their indexes, and functions whose branches read it.
const TRACES: &str = "
    select c.relname
    from pg_class as c
    where c.relname ~ '_payf(_|$)'
    union all
    select p.proname
    from pg_proc as p
    where p.pronamespace = 'tidegate_internal'::regnamespace and p.prosrc ~ 'payf'
    order by 1";

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_submitter_share_one_key() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "pay", "-1 -2 -3 b1 b2 b3").await;
    assert_eq!(served(&mut session, 9).await, "-1 b1 -2 b2 -3 b3");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_fair_by_kind_serves_its_kinds_in_turns() {
    let database = fair_queue("kind").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "pay", "p1 q2 p3").await;
    submit_names(&mut session, "refund", "p4 q5").await;
    assert_eq!(served(&mut session, 9).await, "p1 p4 q2 q5 p3");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_leaves_out_kinds_is_refused_with_their_names() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "refund", "a1").await;
    let claim = |kinds: &str| format!("select id from tidegate.claim_tx('payf', 'w', 5, '1 hour', '{{{kinds}}}')");
    for (kinds, missing) in [("pay", "refund"), ("refund", "pay"), ("direct", "pay, refund")] {
        let refusal = database.refused(&claim(kinds)).await;
        assert_eq!(refusal.code, "TG007", "{kinds}");
        let said = format!("queue \"payf\" is fair: a claim must take all its kinds (missing: {missing})");
        assert_eq!(refusal.message, said);
    }
    assert_eq!(session.texts(&claim("direct,refund,pay")).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_stays_what_it_is_fair_by() {
    let database = fair_queue("submitter").await;
    for (queue, by) in [("payf", "'kind'"), ("payf", "null"), ("tx", "'submitter'")] {
        let change = format!("update tidegate.queue set fair_by = {by} where name = '{queue}'");
        assert_eq!(database.refused(&change).await.code, "TG005", "{change}");
    }
    let refusal = database.refused("select tidegate.queue_add('other', 'tx', fair_by => 'payload')").await;
    assert_eq!((refusal.code.as_str(), refusal.constraint.as_str()), ("TG007", "queue_fair_by_is_submitter_or_kind"));
}

/// A queue whose keys are one active, one idle, and one with messages that are due later.
async fn in_use() -> (TestDatabase, Session) {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "pay", "a1 a2 a3 b1").await;
    assert_eq!(served(&mut session, 2).await, "a1 b1");
    submit_names(&mut session, "pay", "a4 c1").await;
    (database, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_serves_everything_after_turns_and_journal_were_deleted_by_hand() {
    for lost in ["turn_payf", "arrival_payf", "turn_payf, arrival_payf"] {
        let (database, mut session) = in_use().await;
        session.execute(&format!("truncate tidegate.{}", lost.replace(", ", ", tidegate."))).await;
        session.execute("select tidegate.recover()").await;
        assert_eq!(served(&mut session, 9).await, "a2 c1 a3 a4", "{lost}");
        assert_eq!(served(&mut session, 9).await, "", "{lost}");
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_removed_and_made_again_leaves_nothing_behind() {
    let (database, mut session) = in_use().await;
    let traces = session.texts(TRACES).await;
    assert!(traces.iter().any(|trace| trace == "turn_payf") && traces.len() > 20, "{traces:?}");
    assert_eq!(served(&mut session, 9).await, "a2 c1 a3 a4");
    session
        .execute(
            "select tidegate.settle(
               array(select row(l.queue, l.token, l.id)::tidegate.lease from tidegate.leased_request as l), '{receipt}',
               responses => array_fill('1'::jsonb, array[6]));
             select tidegate.kind_remove('pay', requests => true);
             select tidegate.kind_remove('refund', requests => true);
             select tidegate.queue_remove('payf')",
        )
        .await;
    assert_eq!(session.texts(TRACES).await, Vec::<String>::new());

    session
        .execute(
            "select tidegate.queue_add('payf', 'tx', high_water => 100, fair_by => 'submitter');
             select tidegate.kind_add('pay', 'direct', tx_queue => 'payf');
             select tidegate.kind_add('refund', 'direct', tx_queue => 'payf')",
        )
        .await;
    assert_eq!(session.texts(TRACES).await, traces);
    let left = "select (select count(*) from tidegate.turn_payf) + (select count(*) from tidegate.arrival_payf)";
    assert_eq!(session.text(left).await, "0");
    submit_names(&mut session, "pay", "b1 b2 a1").await;
    assert_eq!(served(&mut session, 9).await, "b1 a1 b2");
    assert_eq!(session.text("select max(tag) from tidegate.turn_payf").await, "1441440");
    sound(&database).await;
}

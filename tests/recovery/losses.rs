//! Does `recover` bring back exactly what is lost, and leave alone what is not?

use crate::support::{
    TestDatabase,
    race::{NOTHING, Session, a_bit_of_everything, history, settle, sound, submit_many},
};

const RECOVER: &str = "select examined, reset, ended, rebuilt, renumbered from tidegate.recover()";

/// Everything that `recover` could change.
async fn dump(session: &mut Session) -> Vec<String> {
    let mut all = Vec::new();
    for table in [
        "tidegate.request",
        "tidegate.request_event",
        "tidegate.request_count_delta",
        "tidegate.awaiting_response",
        "tidegate.maintenance",
        "tidegate.queue_drain",
        "pgmq.q_tx",
        "pgmq.q_readiness",
        "pgmq.q_tx_msg_id_seq",
        "pgmq.q_readiness_msg_id_seq",
        "tidegate.watermark_tx",
        "tidegate.due_watermark_tx",
        "tidegate.pacing_tx",
    ] {
        all.extend(session.texts(&format!("select '{table}', row(t.*)::text from {table} as t order by 2")).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn live_leases_are_left_alone_and_lost_ones_reset() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 3).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 3).await;
    session
        .execute(&format!(
            "update tidegate.claim set ids = array['{}'::uuid];
             insert into tidegate.claim (token, part, queue, worker, claimed_at, until, lease_ms, ids)
             select token, 1, queue, worker, claimed_at, clock_timestamp(), lease_ms, array['{}'::uuid] from tidegate.claim",
            held[0].id, held[1].id
        ))
        .await;

    assert_eq!(session.texts(RECOVER).await, ["3 2 0 1 0"]);

    assert_eq!(history(&database, ids[0]).await, "submitted claimed");
    for id in &ids[1..] {
        assert_eq!(history(&database, *id).await, "submitted claimed recovered");
    }
    sound(&database).await;
    // Only the live holder may settle.
    assert_eq!(session.texts(&settle("settle_receipt", &held, "")).await, [ids[0].to_string()]);
    let again = session.claim("tx", 3).await;
    assert_eq!(again.iter().map(|held| (held.id, held.attempt)).collect::<Vec<_>>(), [(ids[1], 2), (ids[2], 2)]);
    assert_eq!(session.texts(RECOVER).await, ["2 0 0 0 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_all_takes_live_leases_too() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 1).await;

    assert_eq!(session.texts("select reset from tidegate.recover(reset_all => true, force => true)").await, ["1"]);

    assert_eq!(session.texts(&settle("settle_receipt", &held, "")).await, NOTHING);
    assert_eq!(session.claim("tx", 1).await[0].attempt, 2);
    assert_eq!(history(&database, id).await, "submitted claimed recovered claimed");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_senders_of_at_most_once_kinds_end_as_outcome_unknown() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set semantics = 'at_most_once' where kind = 'direct'").await;
    let ids = submit_many(&database, "direct", 4).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 3).await;
    session
        .execute(&format!(
            "update tidegate.claim set ids = array['{}'::uuid];
             insert into tidegate.claim (token, part, queue, worker, claimed_at, until, lease_ms, ids)
             select token, 1, queue, worker, claimed_at, clock_timestamp(), lease_ms, array['{}'::uuid] from tidegate.claim;
             delete from pgmq.q_tx",
            held[2].id, held[0].id
        ))
        .await;

    assert_eq!(session.texts(RECOVER).await, ["4 0 2 1 0"]);

    for id in &ids[..2] {
        assert_eq!(history(&database, *id).await, "submitted claimed outcome_unknown");
    }
    assert_eq!(history(&database, ids[2]).await, "submitted claimed");
    assert_eq!(history(&database, ids[3]).await, "submitted");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_moved_on_by_hand_gets_a_message_in_its_next_queue() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("public_decrypt").await;
    let mut session = Session::open(&database).await;
    session.execute(&format!("update tidegate.request set req_status = 'processing' where id = '{id}'")).await;

    assert_eq!(session.texts(RECOVER).await, ["1 0 0 1 1"]);
    assert_eq!(session.texts("select removed from tidegate.remove_stray_messages('readiness')").await, ["1"]);

    sound(&database).await;
    assert!(session.claim("readiness", 1).await.is_empty());
    assert_eq!(session.claim("tx", 1).await[0].id, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_the_same_and_changes_nothing() {
    let database = TestDatabase::unlimited().await;
    let mut session = a_bit_of_everything(&database).await;
    session.texts("select pgmq.purge_queue('tx')").await;
    session.execute("insert into pgmq.q_tx (vt, message) values ('-infinity', '{}')").await;
    let before = dump(&mut session).await;

    let dry = session.texts("select examined, reset, ended, rebuilt, ids from tidegate.recover(dry_run => true)").await;
    let strays = session.texts("select removed from tidegate.remove_stray_messages('tx', dry_run => true)").await;

    assert_eq!(dump(&mut session).await, before);
    assert_eq!(session.texts("select removed from tidegate.remove_stray_messages('tx')").await, strays);
    assert_eq!(session.texts("select examined, reset, ended, rebuilt, ids from tidegate.recover()").await, dry);
    let recovered = dump(&mut session).await;
    assert_ne!(recovered, before);

    // And a second run finds nothing to do.
    assert_eq!(session.texts(RECOVER).await, ["10 0 0 0 0"]);
    assert_eq!(dump(&mut session).await, recovered);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_cover_everything_once_and_a_kind_leaves_the_others_alone() {
    let database = TestDatabase::unlimited().await;
    let mut session = a_bit_of_everything(&database).await;
    session
        .texts("with gone as (delete from tidegate.claim) select pgmq.purge_queue('tx'), pgmq.purge_queue('readiness')")
        .await;
    assert_eq!(session.texts("select examined, rebuilt from tidegate.recover(kind => 'input_proof')").await, ["2 2"]);

    let (mut examined, mut ids, mut after) = (0, Vec::new(), "null".to_owned());
    loop {
        let step = session
            .text(&format!(
                "select examined, array_to_string(ids, ','), coalesce(next_after::text, '-') from tidegate.recover(3, {after})"
            ))
            .await;
        let step: Vec<_> = step.split(' ').collect();
        examined += step[0].parse::<usize>().unwrap();
        ids.extend(step[1].split(',').filter(|id| !id.is_empty()).map(ToOwned::to_owned));
        if step[2] == "-" {
            break;
        }
        after = format!("'{}'", step[2]);
    }

    assert_eq!(examined, 10);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8, "all but the two proofs");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_names_an_unknown_queue_does_not_keep_others_from_recovery() {
    let database = TestDatabase::unlimited().await;
    let lost = database.submit("direct").await;
    let cancelled = database.submit("direct").await;
    let other = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    session
        .execute(&format!(
            "update tidegate.request set queue = 'nowhere' where id in ('{lost}', '{cancelled}'); delete from pgmq.q_tx"
        ))
        .await;
    let cancel = format!("select outcome from tidegate.cancel('{cancelled}')");
    assert_eq!(session.texts(&cancel).await, ["cancelled"]);

    assert_eq!(session.texts(RECOVER).await, ["2 0 0 2 1"]);

    assert_eq!(session.claim("tx", 5).await.len(), 2);
    assert_eq!(database.status(lost).await, "tx_in_flight");
    assert_eq!(database.status(other).await, "tx_in_flight");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resetting_everything_is_refused_while_live_leases_exist_unless_it_is_forced() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    database.execute("select * from tidegate.claim_tx('tx', 'alive', 1, '1 minute')").await;

    let refused =
        sqlx::raw_sql("select * from tidegate.recover(reset_all => true)").execute(&database.pool).await.unwrap_err();

    assert!(refused.to_string().contains("live leases"), "{refused}");
    assert_eq!(database.status(id).await, "tx_in_flight");
    assert_eq!(database.number("select reset from tidegate.recover(reset_all => true, dry_run => true)").await, 1);
}

//! Does `recover` bring back exactly what is lost, and leave alone what is not?

use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    invariants::violations,
    race::{Session, expire_leases, history, leases, settle, submit_many},
};

const NOTHING: [String; 0] = [];
const RECOVER: &str = "select examined, reset, ended, rebuilt, renumbered from tidegate.recover()";

async fn sound(database: &TestDatabase) {
    assert_eq!(violations(&database.pool).await, NOTHING);
}

/// Who stands in a queue, in order, with numbers.
async fn line(session: &mut Session, queue: &str) -> Vec<String> {
    session
        .texts(&format!(
            "select msg_id, message ->> 'id' from pgmq.q_{queue} order by msg_id"
        ))
        .await
}

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
        "tidegate.mark_tx",
        "tidegate.due_tx",
        "tidegate.pacing_tx",
    ] {
        all.extend(
            session
                .texts(&format!(
                    "select '{table}', row(t.*)::text from {table} as t order by 2"
                ))
                .await,
        );
    }
    all
}

/// One request in every situation that `recover` tells apart; all messages gone when `purged`.
async fn a_bit_of_everything(database: &TestDatabase) -> Session {
    let mut session = Session::open(database).await;
    submit_many(database, "direct", 6).await;
    submit_many(database, "public_decrypt", 4).await;
    submit_many(database, "input_proof", 2).await;
    let held = session.claim("tx", 4).await;
    session
        .texts(&settle("settle_receipt", &held[..1], ""))
        .await;
    session
        .texts(&settle("settle_rejected", &held[1..2], "null"))
        .await;
    let checked = session.claim("readiness", 2).await;
    session
        .texts(&settle("settle_passed", &checked[..1], ""))
        .await;
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn purged_queues_are_rebuilt_with_their_numbers_and_order() {
    let database = TestDatabase::unlimited().await;
    let mut session = a_bit_of_everything(&database).await;
    let before = (
        line(&mut session, "readiness").await,
        line(&mut session, "tx").await,
    );
    session
        .texts("select pgmq.purge_queue('tx'), pgmq.purge_queue('readiness')")
        .await;

    // Ten live ones, two of them in flight without a message.
    assert_eq!(session.texts(RECOVER).await, ["10 2 0 10 0"]);

    assert_eq!(
        (
            line(&mut session, "readiness").await,
            line(&mut session, "tx").await
        ),
        before
    );
    sound(&database).await;
    assert_eq!(
        session.claim("tx", 100).await.len() + session.claim("readiness", 100).await.len(),
        10
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_message_below_the_low_water_mark_is_claimable_at_once() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 5).await;
    database
        .execute("select setval('tidegate.mark_tx', 5000); select pgmq.purge_queue('tx')")
        .await;
    let mut session = Session::open(&database).await;

    session.texts(RECOVER).await;

    assert_eq!(session.claim("tx", 10).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_dropped_and_made_again_goes_on_numbering_behind_the_old_requests() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 7).await;
    let mut session = Session::open(&database).await;
    let before = line(&mut session, "tx").await;
    session.texts("select pgmq.drop_queue('tx')").await;
    session.texts("select pgmq.create('tx')").await;

    assert_eq!(session.texts(RECOVER).await, ["7 0 0 7 0"]);
    let newcomer = database.submit("direct").await;

    assert_eq!(line(&mut session, "tx").await[..7], before);
    let order: Vec<_> = session
        .claim("tx", 10)
        .await
        .iter()
        .map(|held| held.id)
        .collect();
    assert_eq!(order, [ids, vec![newcomer]].concat());
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_whose_number_was_taken_are_renumbered_whatever_the_batch() {
    for batch in [2, 1000] {
        let database = TestDatabase::unlimited().await;
        let ids = submit_many(&database, "direct", 9).await;
        let mut session = Session::open(&database).await;
        let before = line(&mut session, "tx").await;
        session.texts("select pgmq.drop_queue('tx')").await;
        session.texts("select pgmq.create('tx')").await;
        let newcomers = submit_many(&database, "direct", 3).await;

        let (mut renumbered, mut after) = (0, "null".to_owned());
        loop {
            let sql = format!(
                "select renumbered, coalesce(next_after::text, '-') from tidegate.recover({batch}, {after})"
            );
            let step = session.text(&sql).await;
            let (count, next) = step.split_once(' ').unwrap();
            renumbered += count.parse::<usize>().unwrap();
            if next == "-" {
                break;
            }
            after = format!("'{next}'");
        }

        assert_eq!(renumbered, 3, "batch {batch}");
        assert_eq!(line(&mut session, "tx").await[3..9], before[3..]);
        let order: Vec<_> = session
            .claim("tx", 20)
            .await
            .iter()
            .map(|held| held.id)
            .collect();
        assert_eq!(
            order,
            [&newcomers[..], &ids[3..], &ids[..3]].concat(),
            "batch {batch}"
        );
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_leases_are_left_alone_and_lost_ones_reset() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 3).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 3).await;
    session
        .execute(&format!(
            "update pgmq.q_tx set vt = clock_timestamp() where msg_id = {};
             delete from pgmq.q_tx where msg_id = {}",
            held[1].msg_id, held[2].msg_id
        ))
        .await;

    assert_eq!(session.texts(RECOVER).await, ["3 2 0 1 0"]);

    assert_eq!(history(&database, ids[0]).await, "submitted claimed");
    for id in &ids[1..] {
        assert_eq!(history(&database, *id).await, "submitted claimed recovered");
    }
    sound(&database).await;
    // Only the live holder may settle.
    assert_eq!(
        session.texts(&settle("settle_receipt", &held, "")).await,
        [ids[0].to_string()]
    );
    let again = session.claim("tx", 3).await;
    assert_eq!(
        again
            .iter()
            .map(|held| (held.id, held.attempt))
            .collect::<Vec<_>>(),
        [(ids[1], 2), (ids[2], 2)]
    );
    assert_eq!(session.texts(RECOVER).await, ["2 0 0 0 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_all_takes_live_leases_too() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 1).await;

    assert_eq!(
        session
            .texts("select reset from tidegate.recover(reset_all => true)")
            .await,
        ["1"]
    );

    assert_eq!(
        session.texts(&settle("settle_receipt", &held, "")).await,
        NOTHING
    );
    assert_eq!(session.claim("tx", 1).await[0].attempt, 2);
    assert_eq!(
        history(&database, id).await,
        "submitted claimed recovered claimed"
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_senders_of_at_most_once_kinds_end_as_outcome_unknown() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set semantics = 'at_most_once' where kind = 'direct'")
        .await;
    let ids = submit_many(&database, "direct", 4).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 3).await;
    session
        .execute(&format!(
            "update pgmq.q_tx set vt = clock_timestamp() where msg_id = {};
             delete from pgmq.q_tx where msg_id in ({}, {})",
            held[0].msg_id,
            held[1].msg_id,
            held[2].msg_id + 1
        ))
        .await;

    assert_eq!(session.texts(RECOVER).await, ["4 0 2 1 0"]);

    for id in &ids[..2] {
        assert_eq!(
            history(&database, *id).await,
            "submitted claimed outcome_unknown"
        );
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
    session
        .execute(&format!(
            "update tidegate.request set req_status = 'processing' where id = '{id}'"
        ))
        .await;

    assert_eq!(session.texts(RECOVER).await, ["1 0 0 1 1"]);
    assert_eq!(
        session
            .texts("select removed from tidegate.remove_strays('readiness')")
            .await,
        ["1"]
    );

    sound(&database).await;
    assert!(session.claim("readiness", 1).await.is_empty());
    assert_eq!(session.claim("tx", 1).await[0].id, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_the_same_and_changes_nothing() {
    let database = TestDatabase::unlimited().await;
    let mut session = a_bit_of_everything(&database).await;
    session.texts("select pgmq.purge_queue('tx')").await;
    session
        .execute("insert into pgmq.q_tx (vt, message) values ('-infinity', '{}')")
        .await;
    let before = dump(&mut session).await;

    let dry = session
        .texts("select examined, reset, ended, rebuilt, ids from tidegate.recover(dry_run => true)")
        .await;
    let strays = session
        .texts("select removed from tidegate.remove_strays('tx', dry_run => true)")
        .await;

    assert_eq!(dump(&mut session).await, before);
    assert_eq!(
        session
            .texts("select removed from tidegate.remove_strays('tx')")
            .await,
        strays
    );
    assert_eq!(
        session
            .texts("select examined, reset, ended, rebuilt, ids from tidegate.recover()")
            .await,
        dry
    );
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
        .texts("select pgmq.purge_queue('tx'), pgmq.purge_queue('readiness')")
        .await;
    assert_eq!(
        session
            .texts("select examined, rebuilt from tidegate.recover(kind => 'input_proof')")
            .await,
        ["2 2"]
    );
    assert_eq!(
        session
            .texts("select examined, rebuilt from tidegate.recover(kind => 'no_such')")
            .await,
        ["0 0"]
    );

    let (mut examined, mut ids, mut after) = (0, Vec::new(), "null".to_owned());
    loop {
        let step = session
            .text(&format!(
                "select examined, array_to_string(ids, ','), coalesce(next_after::text, '-') from tidegate.recover(3, {after})"
            ))
            .await;
        let step: Vec<_> = step.split(' ').collect();
        examined += step[0].parse::<usize>().unwrap();
        ids.extend(
            step[1]
                .split(',')
                .filter(|id| !id.is_empty())
                .map(ToOwned::to_owned),
        );
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
async fn strays_are_removed_and_a_message_of_an_uncommitted_submit_is_not() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 2).await;
    let mut submitter = Session::begin(&database).await;
    submitter
        .texts("select id from tidegate.submit('direct', '{}')")
        .await;
    let mut session = Session::open(&database).await;
    let before = line(&mut session, "tx").await;
    session
        .execute(&format!(
            "insert into pgmq.q_tx (vt, message) values ('-infinity', '{{\"id\": \"{}\"}}'), ('-infinity', '[]'),
               ('infinity', 'null'), ('-infinity', '{{\"id\": \"00000000-0000-7000-8000-000000000000\"}}')",
            ids[0]
        ))
        .await;

    let mut removed = 0;
    let mut after = "null".to_owned();
    while after != "-" {
        let step = session
            .text(&format!(
                "select removed, coalesce(next_after::text, '-') from tidegate.remove_strays('tx', 2, {after})"
            ))
            .await;
        let (count, next) = step.split_once(' ').unwrap();
        removed += count.parse::<usize>().unwrap();
        next.clone_into(&mut after);
    }

    assert_eq!(removed, 4);
    assert_eq!(line(&mut session, "tx").await, before);
    submitter.commit().await;
    assert_eq!(
        session
            .texts("select removed from tidegate.remove_strays('tx')")
            .await,
        ["0"]
    );
    assert_eq!(session.claim("tx", 9).await.len(), 3);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_claimers_and_recovery_at_once_claim_each_request_once() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 800).await;
    database
        .execute("delete from pgmq.q_tx where msg_id % 3 <> 0")
        .await;
    let mut recoverers = Vec::new();
    for _ in 0..2 {
        let mut session = Session::open(&database).await;
        recoverers.push(tokio::spawn(async move {
            for _ in 0..30 {
                session
                    .texts("select examined from tidegate.recover(50)")
                    .await;
                session.texts(RECOVER).await;
                session
                    .texts("select removed from tidegate.remove_strays('tx')")
                    .await;
            }
        }));
    }
    let mut claimers = Vec::new();
    for _ in 0..3 {
        let mut session = Session::open(&database).await;
        claimers.push(tokio::spawn(async move {
            let mut settled = 0;
            let mut empty = 0;
            while empty < 200 {
                let held = session.claim("tx", 9).await;
                empty = if held.is_empty() { empty + 1 } else { 0 };
                if !held.is_empty() {
                    settled += session
                        .texts(&settle("settle_receipt", &held, ""))
                        .await
                        .len();
                }
            }
            settled
        }));
    }
    for task in recoverers {
        task.await.unwrap();
    }
    let mut settled = 0;
    for task in claimers {
        settled += task.await.unwrap();
    }
    // What was rebuilt after the claimers had gone.
    let mut session = Session::open(&database).await;
    let rest = session.claim("tx", 1000).await;
    settled += session
        .texts(&settle("settle_receipt", &rest, ""))
        .await
        .len();

    assert_eq!(settled, ids.len());
    for id in ids {
        assert_eq!(history(&database, id).await, "submitted claimed receipt");
    }
    sound(&database).await;
}

async fn moved_and_claimed(session: &mut Session, id: RequestId) -> String {
    let held = session.claim("readiness", 1).await;
    session.execute("begin").await;
    session.texts(&settle("settle_passed", &held, "")).await;
    let held = session.claim("tx", 1).await;
    assert_eq!(held[0].id, id);
    settle("settle_receipt", &held, "")
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_leaves_alone_what_moved_on_while_it_waited() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("public_decrypt").await;
    let mut worker = Session::open(&database).await;
    let settle = moved_and_claimed(&mut worker, id).await;
    let recovery = Session::open(&database).await.start(RECOVER);
    recovery.until_blocked_by(&database, &worker).await;
    worker.commit().await;

    assert_eq!(recovery.finish().await.1, ["1 0 0 0 0"]);
    assert_eq!(
        worker.texts(&settle).await,
        [id.to_string()],
        "its lease is live"
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_leaves_alone_a_lease_that_was_taken_while_it_waited() {
    for take in ["claim", "extend"] {
        let database = TestDatabase::unlimited().await;
        let id = database.submit("direct").await;
        let mut worker = Session::open(&database).await;
        let mut held = worker.claim("tx", 1).await;
        if take == "claim" {
            expire_leases(&database, "tx").await;
        }
        worker.execute("begin").await;
        // Its message is locked before the recovery begins, its lease is given after.
        worker
            .execute(&format!(
                "select from pgmq.q_tx where msg_id = {} for update",
                held[0].msg_id
            ))
            .await;
        let recovery = Session::open(&database).await.start(RECOVER);
        recovery.until_blocked_by(&database, &worker).await;
        if take == "claim" {
            held = worker.claim("tx", 1).await;
        } else {
            worker
                .texts(&format!(
                    "select e from tidegate.extend({}, '30 s') as e",
                    leases(&held)
                ))
                .await;
        }
        worker.commit().await;

        assert_eq!(recovery.finish().await.1, ["1 0 0 0 0"], "{take}");
        assert_eq!(
            worker.texts(&settle("settle_receipt", &held, "")).await,
            [id.to_string()],
            "{take}"
        );
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_holder_that_settles_during_a_recovery_moves_nothing() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let id = database.submit("direct").await;
        let mut worker = Session::open(&database).await;
        let held = worker.claim("tx", 1).await;
        expire_leases(&database, "tx").await;
        let mut recovery = Session::begin(&database).await;
        assert_eq!(recovery.texts(RECOVER).await, ["1 1 0 0 0"]);
        let settling = worker.start(&settle("settle_receipt", &held, ""));
        settling.until_blocked_by(&database, &recovery).await;
        recovery
            .execute(if commits { "commit" } else { "rollback" })
            .await;

        let moved = settling.finish().await.1;
        assert_eq!(moved.len(), usize::from(!commits));
        let expected = if commits {
            "submitted claimed recovered"
        } else {
            "submitted claimed receipt"
        };
        assert_eq!(history(&database, id).await, expected);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_recoveries_at_once_one_rebuilds() {
    let database = TestDatabase::unlimited().await;
    let mut first = a_bit_of_everything(&database).await;
    first.texts("select pgmq.purge_queue('tx')").await;
    // One number is taken, so that one request is renumbered too.
    let taken = first.text("select min(msg_id) from tidegate.request where req_status = 'processing' and queue = 'tx'").await;
    first
        .execute(&format!("insert into pgmq.q_tx (msg_id, vt, message) overriding system value values ({taken}, '-infinity', '[]')"))
        .await;
    first.execute("begin").await;
    let done = first
        .text("select rebuilt, renumbered from tidegate.recover()")
        .await;
    assert!(done.ends_with(" 1"), "{done}");
    let second = Session::open(&database)
        .await
        .start("select rebuilt, renumbered from tidegate.recover()");
    second.until_blocked_by(&database, &first).await;
    first.commit().await;

    assert_eq!(second.finish().await.1, ["0 0"]);
    first
        .texts("select removed from tidegate.remove_strays('tx')")
        .await;
    sound(&database).await;
}

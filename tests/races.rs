//! Who wins when two act on one request at once, and does the loser notice?
//!
//! One session does its work and leaves it uncommitted; the other starts, is seen waiting, and goes on when the first
//! commits or rolls back.

use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    invariants::violations,
    race::{Held, Running, Session, expire_leases, history, leases, receipt, settle},
};

const NOTHING: [String; 0] = [];

async fn sound(database: &TestDatabase) {
    assert_eq!(violations(&database.pool).await, NOTHING);
}

/// `first` has done its part; `sql` runs against it, waits, and goes on once `first` has ended its transaction.
async fn against(
    database: &TestDatabase,
    first: &mut Session,
    commits: bool,
    sql: &str,
) -> Vec<String> {
    let second: Running = Session::open(database).await.start(sql);
    second.until_blocked_by(database, first).await;
    first
        .execute(if commits { "commit" } else { "rollback" })
        .await;
    second.finish().await.1
}

fn cancel(id: RequestId) -> String {
    format!("select outcome, req_status from tidegate.cancel('{id}')")
}

/// A request of a kind in flight, and its holder's lease.
async fn in_flight(database: &TestDatabase) -> (RequestId, Vec<Held>) {
    let id = database.submit("direct").await;
    let held = Session::open(database).await.claim("tx", 1).await;
    (id, held)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_holder_that_settles_during_a_new_claim_moves_nothing() {
    for (function, more) in [
        ("settle_receipt", ""),
        ("settle_retry", "null"),
        ("settle_rejected", "null"),
        ("release", ""),
    ] {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let (id, old) = in_flight(&database).await;
            expire_leases(&database, "tx").await;
            let mut claimer = Session::begin(&database).await;
            let new = claimer.claim("tx", 1).await;
            assert_eq!(new[0].id, id);

            let moved = against(
                &database,
                &mut claimer,
                commits,
                &settle(function, &old, more),
            )
            .await;

            if commits {
                assert_eq!(moved, NOTHING, "{function}");
                assert_eq!(database.status(id).await, "tx_in_flight");
                assert_eq!(
                    claimer.texts(&settle("settle_receipt", &new, "")).await,
                    [id.to_string()]
                );
            } else {
                // Its lease ran out, and nobody has taken over: it may still settle.
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
    let extend = format!(
        "select (e).msg_id from tidegate.extend({}, '30 s') as e",
        leases(&old)
    );
    let mut claimer = Session::begin(&database).await;
    assert_eq!(claimer.texts(&extend).await, NOTHING, "it has run out");
    let new = claimer.claim("tx", 1).await;

    assert_eq!(
        against(&database, &mut claimer, true, &extend).await,
        NOTHING
    );
    assert_eq!(
        claimer
            .texts(&format!(
                "select (e).msg_id from tidegate.extend({}, '1 s') as e",
                leases(&new)
            ))
            .await,
        [new[0].msg_id.to_string()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_over_what_is_being_extended() {
    let database = TestDatabase::unlimited().await;
    let (_, held) = in_flight(&database).await;
    let mut holder = Session::begin(&database).await;
    holder
        .execute(&format!(
            "select tidegate.extend({}, '30 s')",
            leases(&held)
        ))
        .await;
    let mut claimer = Session::open(&database).await;
    assert!(claimer.claim("tx", 1).await.is_empty());
    holder.commit().await;
    assert!(claimer.claim("tx", 1).await.is_empty());
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_meets_a_claim_waits_and_comes_too_late_or_wins() {
    for (queue, kind) in [("tx", "direct"), ("readiness", "public_decrypt")] {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let id = database.submit(kind).await;
            let mut claimer = Session::begin(&database).await;
            let held = claimer.claim(queue, 1).await;

            let said = against(&database, &mut claimer, commits, &cancel(id)).await;

            if queue == "tx" && commits {
                assert_eq!(said, ["not_cancellable tx_in_flight"]);
            } else {
                // A check that runs is cancelled too; its outcome finds nothing to settle.
                assert_eq!(said, ["cancelled failure"]);
                assert_eq!(
                    claimer.texts(&settle("settle_passed", &held, "")).await,
                    NOTHING
                );
            }
            sound(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_over_what_is_being_cancelled() {
    for (queue, kind) in [("tx", "direct"), ("readiness", "public_decrypt")] {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let id = database.submit(kind).await;
            let mut canceller = Session::begin(&database).await;
            assert_eq!(canceller.texts(&cancel(id)).await, ["cancelled failure"]);
            let mut claimer = Session::open(&database).await;
            assert!(claimer.claim(queue, 1).await.is_empty());
            canceller
                .execute(if commits { "commit" } else { "rollback" })
                .await;

            assert_eq!(claimer.claim(queue, 1).await.len(), usize::from(!commits));
            sound(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_meets_a_passed_check_cancels_the_request_in_its_next_queue() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let id = database.submit("public_decrypt").await;
        let mut checker = Session::open(&database).await;
        let held = checker.claim("readiness", 1).await;
        checker.execute("begin").await;
        assert_eq!(
            checker.texts(&settle("settle_passed", &held, "")).await,
            [id.to_string()]
        );

        assert_eq!(
            against(&database, &mut checker, commits, &cancel(id)).await,
            ["cancelled failure"]
        );
        let expected = if commits {
            "submitted readiness_passed cancelled"
        } else {
            "submitted cancelled"
        };
        assert_eq!(history(&database, id).await, expected);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_passes_during_a_cancel_moves_nothing() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let id = database.submit("public_decrypt").await;
        let held = Session::open(&database).await.claim("readiness", 1).await;
        let mut canceller = Session::begin(&database).await;
        canceller.texts(&cancel(id)).await;

        let moved = against(
            &database,
            &mut canceller,
            commits,
            &settle("settle_passed", &held, ""),
        )
        .await;
        assert_eq!(moved.len(), usize::from(!commits));
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_deadline_and_a_settle_at_once_one_moves_the_request() {
    for settle_first in [true, false] {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let (id, held) = in_flight(&database).await;
            database
                .execute("update tidegate.request set deadline_at = clock_timestamp()")
                .await;
            let settle = settle("settle_receipt", &held, "");
            let expire = "select expired from tidegate.expire_by_deadline()".to_owned();
            let (one, two) = if settle_first {
                (&settle, &expire)
            } else {
                (&expire, &settle)
            };
            let mut first = Session::begin(&database).await;
            first.texts(one).await;
            against(&database, &mut first, commits, two).await;

            let settled = settle_first == commits;
            let expected = if settled {
                "submitted claimed receipt"
            } else {
                "submitted claimed deadline_exceeded"
            };
            assert_eq!(history(&database, id).await, expected);
            sound(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_is_enforced_though_the_request_changed_its_queue_just_then() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("public_decrypt").await;
    let after = database.submit("public_decrypt").await;
    let mut checker = Session::open(&database).await;
    let held = checker.claim("readiness", 1).await;
    // Long overdue: nobody swept for a minute.
    database
        .execute(&format!(
            "update tidegate.request set deadline_at = clock_timestamp() - interval '1 minute'
               + case when id = '{after}' then interval '1 second' else interval '0' end"
        ))
        .await;
    checker.execute("begin").await;
    assert_eq!(
        checker.texts(&settle("settle_passed", &held, "")).await,
        [id.to_string()]
    );

    against(
        &database,
        &mut checker,
        true,
        "select expired, more from tidegate.expire_by_deadline(1)",
    )
    .await;
    for _ in 0..4 {
        checker
            .execute("select tidegate.expire_by_deadline(1)")
            .await;
    }

    assert_eq!(
        history(&database, id).await,
        "submitted readiness_passed deadline_exceeded"
    );
    assert_eq!(
        history(&database, after).await,
        "submitted deadline_exceeded"
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_response_and_its_timeout_at_once_one_ends_the_request() {
    for respond_first in [true, false] {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let id = receipt(&database, "direct", None).await;
            database
                .execute("update tidegate.awaiting_response set due_at = clock_timestamp()")
                .await;
            let respond = format!("select outcome from tidegate.respond('1', id => '{id}')");
            let expire = "select expired from tidegate.expire_responses()".to_owned();
            let (one, two) = if respond_first {
                (&respond, &expire)
            } else {
                (&expire, &respond)
            };
            let mut first = Session::begin(&database).await;
            first.texts(one).await;
            let second = against(&database, &mut first, commits, two).await;

            let answered = respond_first == commits;
            assert_eq!(
                database.status(id).await,
                if answered { "completed" } else { "timed_out" }
            );
            let loser = match (respond_first, commits) {
                (true, true) => "0",
                (true, false) => "1",
                (false, true) => "late",
                (false, false) => "completed",
            };
            assert_eq!(second, [loser]);
            sound(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_waits_for_a_hand_edit_and_obeys_it() {
    for (edit, settled) in [
        ("req_status = 'failure'", false),
        ("req_status = 'processing'", false),
        ("submitter = 'me'", true),
    ] {
        let database = TestDatabase::unlimited().await;
        let (id, held) = in_flight(&database).await;
        let mut editor = Session::begin(&database).await;
        editor
            .execute(&format!(
                "update tidegate.request set {edit} where id = '{id}'"
            ))
            .await;

        let moved = against(
            &database,
            &mut editor,
            true,
            &settle("settle_receipt", &held, ""),
        )
        .await;

        assert_eq!(moved.len(), usize::from(settled), "{edit}");
        // The message is deleted with the row's move only.
        assert_eq!(
            database.number("select count(*) from pgmq.q_tx").await,
            i64::from(!settled),
            "{edit}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_submissions_with_one_key_at_once_make_one_request() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let submit = |payload: &str| {
            format!(
                "select id, outcome from tidegate.submit('direct', '{payload}', idempotency_key => 'key')"
            )
        };
        let mut first = Session::begin(&database).await;
        let one = first.text(&submit("{}")).await;
        let two = against(&database, &mut first, commits, &submit("{}")).await;

        if commits {
            assert_eq!(two, [one.replace("accepted", "replayed")]);
        } else {
            assert!(two[0].ends_with("accepted"), "{two:?}");
        }
        assert_eq!(
            database
                .number("select count(*) from tidegate.request")
                .await,
            1
        );
        assert_eq!(
            first
                .attempt(&submit("{\"other\": 1}"))
                .await
                .unwrap_err()
                .0,
            "TG004"
        );
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
    assert_eq!(
        claimer.claim("tx", 1).await.len(),
        1,
        "the pause is not committed yet"
    );
    operator.commit().await;
    claimer.rollback().await;

    assert!(claimer.claim("tx", 2).await.is_empty());
    operator.texts("select tidegate.pause('tx', false)").await;
    assert_eq!(claimer.claim("tx", 2).await.len(), 2);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waited_for_another_obeys_a_pause_made_meanwhile() {
    for (queue, kind, limit) in [
        ("tx", "direct", "per_seconds = 1000"),
        ("readiness", "public_decrypt", "max_concurrency = 9"),
    ] {
        let database = TestDatabase::unlimited().await;
        database
            .execute(&format!(
                "update tidegate.queue set {limit} where name = '{queue}'"
            ))
            .await;
        database.submit(kind).await;
        database.submit(kind).await;
        let mut first = Session::begin(&database).await;
        assert_eq!(first.claim(queue, 1).await.len(), 1);
        let function = if queue == "tx" {
            "claim_tx"
        } else {
            "claim_readiness"
        };
        let second = Session::open(&database).await.start(&format!(
            "select id from tidegate.{function}('{queue}', 'w', 1, '30 s')"
        ));
        second.until_blocked_by(&database, &first).await;
        database
            .execute(&format!("select tidegate.pause('{queue}')"))
            .await;
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
             create table public.events as select * from tidegate.request_event",
        )
        .await;
    let forgotten = Session::open(&database).await.claim("tx", 1).await;
    let mut crash = Session::open(&database).await;
    crash
        .execute(
            "begin;
             set local session_replication_role = replica;
             delete from pgmq.q_tx;
             insert into pgmq.q_tx overriding system value select * from public.messages;
             delete from tidegate.request_event;
             insert into tidegate.request_event select * from public.events;
             delete from tidegate.request_count_delta where req_status = 'tx_in_flight' or delta < 0;
             delete from tidegate.request;
             insert into tidegate.request select * from public.requests;
             commit",
        )
        .await;
    sound(&database).await;

    assert_eq!(
        crash.texts(&settle("settle_receipt", &forgotten, "")).await,
        NOTHING
    );
    let again = crash.claim("tx", 1).await;
    // The very number that the forgotten holder has, and even the same read count: only the nonce tells them apart.
    assert_eq!(
        (again[0].id, again[0].msg_id, again[0].attempt),
        (id, forgotten[0].msg_id, 1)
    );
    assert_eq!(
        crash.texts(&settle("settle_receipt", &forgotten, "")).await,
        NOTHING
    );
    assert_eq!(
        crash.texts(&settle("settle_receipt", &again, "")).await,
        [id.to_string()]
    );
    sound(&database).await;
}

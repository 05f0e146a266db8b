//! When a cancel or a deadline meets a claim, a settle or a response, which of them ends the request?

use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    race::{NOTHING, Session, against, history, in_flight, receipt, settle, sound},
};

fn cancel(id: RequestId) -> String {
    format!("select outcome, req_status from tidegate.cancel('{id}')")
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
                assert_eq!(claimer.texts(&settle("settle_passed", &held, "")).await, NOTHING);
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
            canceller.execute(if commits { "commit" } else { "rollback" }).await;

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

        let moved = against(&database, &mut canceller, commits, &settle("settle_passed", &held, "")).await;
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
    // Long overdue: no sweep ran for a minute.
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
        checker.execute("select tidegate.expire_by_deadline(1)").await;
    }

    assert_eq!(
        history(&database, id).await,
        "submitted readiness_passed deadline_exceeded"
    );
    assert_eq!(history(&database, after).await, "submitted deadline_exceeded");
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

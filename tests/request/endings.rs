//! When a cancel, a failure by hand or a deadline meets a claim, a settle or a response, which of them ends the request?

use std::fmt::Display;

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
                assert_eq!(said, ["cancelling tx_in_flight"]);
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
        assert_eq!(checker.texts(&settle("settle_passed", &held, "")).await, [id.to_string()]);

        assert_eq!(against(&database, &mut checker, commits, &cancel(id)).await, ["cancelled failure"]);
        let expected = if commits { "submitted readiness_passed cancelled" } else { "submitted cancelled" };
        assert_eq!(history(&database, id).await, expected);
        sound(&database).await;
    }
}

/// A claim locks the message of a request before its row. A call that holds the row and waits for the message would deadlock
/// with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_try_to_end_a_request_does_not_wait_for_its_message() {
    let calls: [fn(RequestId) -> String; 2] = [cancel, fail];
    for call in calls {
        let database = TestDatabase::unlimited().await;
        // `lock_messages` waits while another session holds the advisory lock 7.
        database
            .execute(
                "alter function tidegate_internal.lock_messages rename to lock_messages_at_once;
                 create function tidegate_internal.lock_messages(p_queues text[], p_msg_ids bigint[]) returns void
                   language plpgsql as $$ begin
                     perform pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7);
                     perform tidegate_internal.lock_messages_at_once(p_queues, p_msg_ids);
                   end $$",
            )
            .await;
        let id = database.submit("public_decrypt").await;
        let mut checker = Session::open(&database).await;
        let held = checker.claim("readiness", 1).await;
        checker.execute("begin").await;
        assert_eq!(checker.texts(&settle("settle_passed", &held, "")).await, [id.to_string()]);
        let ending = Session::open(&database).await.start(&call(id));
        ending.until_blocked_by(&database, &checker).await;
        let mut holder = Session::open(&database).await;
        holder.texts("select pg_advisory_lock(7)").await;
        checker.commit().await;

        let (_, said) = ending.finish().await;
        assert!(said[0].ends_with("failure"), "{said:?}");
        holder.texts("select pg_advisory_unlock(7)").await;
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

fn fail(id: impl Display) -> String {
    format!("select outcome, req_status from tidegate.fail_request('{id}', 'lost', actor => 'ann')")
}

/// The end of an error's text when it is not known whether the request was executed.
const MAY_HAVE_BEEN: &str = "may have been executed: poll it, ask the downstream, or send it again under a new key";

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_fails_any_live_request_and_is_named_in_its_history() {
    let database = TestDatabase::unlimited().await;
    for (kind, status, fact) in [
        ("public_decrypt", "queued", "was not sent"),
        ("direct", "processing", "was not sent"),
        ("direct", "tx_in_flight", MAY_HAVE_BEEN),
        ("user_decrypt", "receipt_received", "may have been executed, and may be repeated"),
        ("input_proof", "receipt_received", MAY_HAVE_BEEN),
    ] {
        let id = RequestId(database.request_in(kind, status).await);
        let mut operator = Session::open(&database).await;

        for _ in 0..2 {
            assert_eq!(operator.texts(&fail(id)).await, ["failed failure"], "{kind} {status}");
        }

        let told = format!(
            "select concat_ws(' ', r.error ->> 'code', r.error ->> 'message', r.error ? 'on_behalf_of', e.from_status,
               e.detail ->> 'message', e.detail ->> 'on_behalf_of', e.detail ->> 'session_user' = session_user)
             from tidegate.request as r join tidegate.request_event as e on e.request_id = r.id
             where r.id = '{id}' and e.to_status = 'failure'"
        );
        // Its reference, under which the downstream can be asked.
        let reference =
            format!("select coalesce('; taken as ' || reference, '') from tidegate.request where id = '{id}'");
        let reference = database.value(&reference).await;
        assert_eq!(status == "receipt_received", !reference.is_empty());
        assert_eq!(
            database.value(&told).await,
            format!("internal_error lost{reference}; it {fact} f {status} lost{reference}; it {fact} ann t")
        );
        assert_eq!(database.causes(id).await.last().unwrap(), "internal_error");
        let remark = format!(
            "select remark from tidegate.audit_replay('{id}') where cause = 'internal_error' and finding is null"
        );
        assert!(database.value(&remark).await.starts_with("by hand, by ann"), "{kind} {status}");
        sound(&database).await;
    }
    // The name of the operator before is not kept.
    assert_eq!(database.value("select coalesce(current_setting('tidegate.actor', true), '')").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_has_ended_is_not_failed_and_its_status_is_said() {
    let database = TestDatabase::unlimited().await;
    let mut operator = Session::open(&database).await;
    for status in ["completed", "timed_out", "failure"] {
        let id = database.request_in("direct", status).await;
        assert_eq!(operator.texts(&fail(id)).await, [format!("ended {status}")]);
    }
    let id = database.submit("direct").await;
    for _ in 0..2 {
        assert_eq!(operator.texts(&fail(id)).await, ["failed failure"], "a repeated call");
    }
    let missing = "00000000-0000-7000-8000-000000000000";
    let unknown = format!("select outcome, req_status is null from tidegate.fail_request('{missing}', 'lost')");
    assert_eq!(operator.texts(&unknown).await, ["unknown t"]);

    let id = database.submit("direct").await;
    for reason in ["null", "''", "' '", "repeat('x', 1001)"] {
        let refused = database.refused(&format!("select tidegate.fail_request('{id}', {reason})")).await;
        assert_eq!(refused.code, "TG007", "{reason}");
    }
    assert_eq!(database.status(id).await, "processing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_gives_callers_details_and_an_operator_does_not() {
    let error = "'{\"code\": \"rejected\", \"message\": \"no\", \"retryable\": false, \"details\": {\"a\": 1}}'";
    for verb in ["settle_rejected", "settle_retry", "fail_internal"] {
        let database = TestDatabase::unlimited().await;
        let (id, held) = in_flight(&database).await;
        let mut session = Session::open(&database).await;
        if verb == "fail_internal" {
            session.execute(&format!("select tidegate.fail_internal('{{{id}}}', {error})")).await;
        } else {
            session.texts(&settle(verb, &held, &format!("array[{error}::jsonb]"))).await;
        }
        let kept = session.text(&format!("select error - 'retryable' from tidegate.request where id = '{id}'")).await;
        let (details, message) = if verb == "fail_internal" {
            ("", "no; it may have been executed: poll it, ask the downstream, or send it again under a new key")
        } else {
            (r#""details": {"a": 1}, "#, "no")
        };
        assert_eq!(kept, format!(r#"{{"code": "rejected", {details}"message": "{message}"}}"#), "{verb}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_request_is_failed_settles_nothing() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let (id, held) = in_flight(&database).await;
        let mut operator = Session::begin(&database).await;
        assert_eq!(operator.texts(&fail(id)).await, ["failed failure"]);

        let moved = against(&database, &mut operator, commits, &settle("settle_receipt", &held, "")).await;
        assert_eq!(moved.len(), usize::from(!commits));
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_failed_though_it_changes_its_queue_just_then() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("public_decrypt").await;
    let mut checker = Session::open(&database).await;
    let held = checker.claim("readiness", 1).await;
    checker.execute("begin").await;
    checker.texts(&settle("settle_passed", &held, "")).await;

    assert_eq!(against(&database, &mut checker, true, &fail(id)).await, ["failed failure"]);
    assert_eq!(history(&database, id).await, "submitted readiness_passed internal_error");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_deadline_and_a_settle_at_once_one_moves_the_request() {
    for settle_first in [true, false] {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let (id, held) = in_flight(&database).await;
            database.execute("update tidegate.request set deadline_at = clock_timestamp()").await;
            let settle = settle("settle_receipt", &held, "");
            let expire = "select expired from tidegate.expire_by_deadline()".to_owned();
            let (one, two) = if settle_first { (&settle, &expire) } else { (&expire, &settle) };
            let mut first = Session::begin(&database).await;
            first.texts(one).await;
            against(&database, &mut first, commits, two).await;

            let settled = settle_first == commits;
            let expected = if settled { "submitted claimed receipt" } else { "submitted claimed deadline_exceeded" };
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
    assert_eq!(checker.texts(&settle("settle_passed", &held, "")).await, [id.to_string()]);

    against(&database, &mut checker, true, "select expired, more from tidegate.expire_by_deadline(1)").await;
    for _ in 0..4 {
        checker.execute("select tidegate.expire_by_deadline(1)").await;
    }

    assert_eq!(history(&database, id).await, "submitted readiness_passed deadline_exceeded");
    assert_eq!(history(&database, after).await, "submitted deadline_exceeded");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_response_and_its_timeout_at_once_one_ends_the_request() {
    for respond_first in [true, false] {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let id = receipt(&database, "direct", None).await;
            database.execute("update tidegate.awaiting_response set due_at = clock_timestamp()").await;
            let respond = format!("select outcome from tidegate.respond('1', id => '{id}')");
            let expire = "select expired from tidegate.expire_responses()".to_owned();
            let (one, two) = if respond_first { (&respond, &expire) } else { (&expire, &respond) };
            let mut first = Session::begin(&database).await;
            first.texts(one).await;
            let second = against(&database, &mut first, commits, two).await;

            let answered = respond_first == commits;
            assert_eq!(database.status(id).await, if answered { "completed" } else { "timed_out" });
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

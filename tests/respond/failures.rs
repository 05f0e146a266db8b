//! Does a request whose downstream takes its receipt back fail with the error given, once, and only while its response
//! is awaited?

use std::time::Duration;

use tidegate::{
    Tidegate,
    request::{RequestError, RequestId, Status},
};
use uuid::Uuid;

use crate::support::{
    TestDatabase,
    race::{Session, against, sound},
    sql::{FLOWS, STATUSES},
};

const NONE: [&str; 0] = [];

fn fail(id: Uuid) -> String {
    format!(r#"select tidegate.fail_receipt('{id}', '{{"code": "reverted", "message": "no", "retryable": false}}')"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_request_that_awaits_its_response_fails_and_keeps_the_error_given() {
    let database = TestDatabase::unlimited().await;
    for (_, kind) in FLOWS {
        for status in STATUSES {
            if status == "queued" && kind != "public_decrypt" {
                continue;
            }
            let id = database.request_in(kind, status).await;
            let row = format!("select to_jsonb(r) from tidegate.request as r where id = '{id}'");
            let before = database.value(&row).await;
            let awaits = status == "receipt_received";
            assert_eq!(database.value(&fail(id)).await, if awaits { "t" } else { "f" }, "{kind} {status}");
            if awaits {
                let shown = "concat_ws(' ', req_status, cause, error ->> 'code', finished_at is not null)";
                let shown = format!("select {shown} from tidegate.request where id = '{id}'");
                assert_eq!(database.value(&shown).await, "failure rejected reverted t");
                assert_eq!(database.value(&fail(id)).await, "f", "it has ended");
                let wrong = format!("select finding from tidegate.audit_replay('{id}') where finding is not null");
                assert_eq!(database.column(&wrong).await, NONE);
                let late = format!("select outcome from tidegate.respond('1', reference => 'ref-{id}', accept => $a)");
                let accept = if kind == "input_proof" { "true" } else { "null" };
                assert_eq!(database.value(&late.replace("$a", accept)).await, "late");
            } else {
                assert_eq!(database.value(&row).await, before, "{kind} {status}");
            }
            // Nothing may wait when the next one is driven.
            database.execute(&format!("select tidegate.fail_internal(array['{id}']::uuid[])")).await;
        }
    }
    assert_eq!(database.value(&fail(Uuid::nil())).await, "f");
    let id = database.request_in("direct", "receipt_received").await;
    let without = format!("select tidegate.fail_receipt('{id}', null)");
    assert_eq!(database.value(&without).await, "t");
    let error = format!("select error from tidegate.request where id = '{id}'");
    assert!(database.value(&error).await.contains("no reason given"));
    assert_eq!(database.number("select count(*) from tidegate.awaiting_response").await, 0);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_failure_and_a_response_at_once_the_first_one_counts() {
    let database = TestDatabase::unlimited().await;
    for (first, commits, expected, status) in [
        ("fail", true, "late", "failure"),
        ("fail", false, "completed", "completed"),
        ("respond", true, "f", "completed"),
        ("respond", false, "t", "failure"),
    ] {
        let id = database.request_in("direct", "receipt_received").await;
        let respond = format!("select outcome from tidegate.respond('1', id => '{id}')");
        let (one, other) = if first == "fail" { (fail(id), respond) } else { (respond, fail(id)) };
        let mut session = Session::begin(&database).await;
        session.texts(&one).await;
        assert_eq!(against(&database, &mut session, commits, &other).await, [expected], "{first} {commits}");
        assert_eq!(database.status(RequestId(id)).await, status);
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_fails_requests_by_id_and_by_reference_and_calls_that_wait_for_them_return() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    for by_reference in [false, true] {
        let id = RequestId(database.request_in("direct", "receipt_received").await);
        let reference = format!("ref-{id}");
        let error = RequestError::new("reverted", "the chain took it back", true);
        let (ended, failed) = tokio::join!(tidegate.wait(id, Duration::from_secs(30)), async {
            if by_reference {
                tidegate.fail(&*reference, error.clone()).await
            } else {
                tidegate.fail(id, error.clone()).await
            }
        });
        assert!(failed.unwrap());
        let ended = ended.unwrap();
        assert_eq!((ended.status, ended.error), (Status::Failure, Some(error.clone())));
        assert!(!tidegate.fail(&*reference, error.clone()).await.unwrap(), "it has ended");
        assert!(!tidegate.fail("no such reference", error).await.unwrap());
    }
}

//! What becomes of references that two requests have, and of responses under references that none has?

use crate::support::{
    TestDatabase,
    race::{Session, settle, submit_many},
};

/// Settles receipts of `direct` requests under these references; what each is then.
async fn receipts(database: &TestDatabase, session: &mut Session, references: &[&str]) -> Vec<String> {
    let count = i32::try_from(references.len()).unwrap();
    submit_many(database, "direct", count).await;
    let held = session.claim("tx", count).await;
    let list: Vec<_> = references.iter().map(|reference| format!("'{reference}'")).collect();
    session.execute(&settle("settle_receipt", &held, &format!("array[{}]", list.join(", ")))).await;
    let mut ends = Vec::new();
    for held in held {
        ends.push(database.status(held.id).await);
    }
    ends
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_stands_for_one_request_that_awaits_its_response() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    assert_eq!(receipts(&database, &mut session, &["a"]).await, ["receipt_received"]);
    // In another settle, and in one: refused at the receipt, and the row says why.
    assert_eq!(
        receipts(&database, &mut session, &["a", "b", "b", "c"]).await,
        ["failure", "receipt_received", "failure", "receipt_received"]
    );
    let told = database
        .column(
            "select cause || ' ' || (error ->> 'code') from tidegate.request where req_status = 'failure' order by id",
        )
        .await;
    assert_eq!(told, ["outcome_unknown reference_in_use"; 2]);

    // Each response goes to the first, and to no other.
    for reference in ["a", "b", "c"] {
        let respond = format!("select outcome from tidegate.respond('{{}}', reference => '{reference}')");
        assert_eq!(database.value(&respond).await, "completed");
    }
    let late = "select outcome from tidegate.respond('{}', reference => 'a')";
    assert_eq!(database.value(late).await, "late");
    // One whose request has ended is free again.
    assert_eq!(receipts(&database, &mut session, &["a"]).await, ["receipt_received"]);
    let respond = "select outcome from tidegate.respond('{}', reference => 'a')";
    assert_eq!(database.value(respond).await, "completed");
    let violations = database.violations().await;
    assert_eq!(violations, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_receipts_of_one_reference_at_once_leave_one_waiting() {
    let database = TestDatabase::unlimited().await;
    for round in 0..10 {
        submit_many(&database, "direct", 2).await;
        let mut sessions = [Session::open(&database).await, Session::open(&database).await];
        let mut settles = Vec::new();
        for session in &mut sessions {
            let held = session.claim("tx", 1).await;
            settles.push(settle("settle_receipt", &held, &format!("array['same-{round}']")));
        }
        let [one, two] = &mut sessions;
        tokio::join!(one.execute(&settles[0]), two.execute(&settles[1]));
        let ends = database
            .column(&format!("select req_status from tidegate.request where reference = 'same-{round}' order by 1"))
            .await;
        assert_eq!(ends, ["receipt_received", "failure"], "{round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_no_request_can_have_expire_and_are_counted() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    database
        .execute(
            "insert into tidegate.response_inbox (reference, response, received_at)
             select 'unknown-' || i, '{}', clock_timestamp() - interval '61 minutes' from generate_series(1, 2500) as i;
             insert into tidegate.response_inbox (reference, response) select 'new-' || i, '{}' from generate_series(1, 1500) as i",
        )
        .await;
    // The one that a receipt brings within its time is applied, wherever the sweep is.
    assert_eq!(receipts(&database, &mut session, &["new-700"]).await, ["completed"]);

    let left = "select count(*) from tidegate.response_inbox";
    for expected in [2999, 1999, 1499, 1499, 1499, 1499] {
        database.execute("select tidegate.sweep_inbox(1000)").await;
        assert_eq!(database.number(left).await, expected);
    }
    assert_eq!(database.number("select expired from tidegate.inbox_total").await, 2500);
    let recovered = "select applied || ' ' || more from tidegate.recover_responses()";
    assert_eq!(database.value(recovered).await, "0 false");
    assert_eq!(database.number(left).await, 1499);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_with_the_receipt_that_answers_nothing_yet_leaves_the_reference_taken() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for kind in ["user_decrypt", "input_proof"] {
        submit_many(&database, kind, 2).await;
        if kind == "user_decrypt" {
            let held = session.claim("readiness", 2).await;
            session.execute(&settle("settle_passed", &held, "")).await;
        }
        let held = session.claim("tx", 2).await;
        let receipts = format!("array['{kind}', '{kind}'], array['{{}}', '{{}}']::jsonb[]");
        session.execute(&settle("settle_receipt", &held, &receipts)).await;
        assert_eq!(database.status(held[0].id).await, "receipt_received");
        assert_eq!(database.status(held[1].id).await, "failure", "{kind}");
    }
}

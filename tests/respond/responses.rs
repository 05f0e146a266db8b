//! Which responses fit which request, and what do they make of it?

use crate::support::{
    TestDatabase,
    race::{Session, history, receipt, settle, sound},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_accepts_or_rejects_and_nothing_else_answers_a_proof() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for (accept, status, outcome, cause) in
        [("true", "completed", "completed", "verdict_accepted"), ("false", "failure", "rejected", "verdict_rejected")]
    {
        let id = receipt(&database, "input_proof", None).await;
        let missing = session.attempt(&format!("select outcome from tidegate.respond('{{}}', id => '{id}')")).await;
        assert_eq!(missing.unwrap_err().0, "TG007");
        let said = session
            .text(&format!("select outcome from tidegate.respond('{{\"why\": 1}}', id => '{id}', accept => {accept})"))
            .await;
        assert_eq!((said.as_str(), database.status(id).await.as_str()), (outcome, status));
        assert_eq!(database.causes(id).await.pop().as_deref(), Some(cause));
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_do_not_fit_are_refused_and_change_nothing() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for (kind, arguments) in [
        ("direct", "accept => true"),
        ("direct", "part => 'a'"),
        ("public_decrypt", "accept => false"),
        ("user_decrypt", ""),
        ("user_decrypt", "part => 'a', accept => true"),
        ("input_proof", ""),
        ("input_proof", "part => 'a'"),
        ("input_proof", "part => 'a', accept => true"),
    ] {
        let id = receipt(&database, kind, Some(&format!("{kind} {arguments}").replace('\'', "''"))).await;
        let comma = if arguments.is_empty() { "" } else { ", " };
        for address in [format!("id => '{id}'"), format!("reference => $r${kind} {arguments}$r$")] {
            let said = session
                .attempt(&format!("select outcome from tidegate.respond('1', {address}{comma}{arguments})"))
                .await;
            assert_eq!(said.unwrap_err().0, "TG007", "{kind} {arguments} {address}");
        }
        assert_eq!(database.status(id).await, "receipt_received");
    }
    for (arguments, state) in [("'1'", "TG007"), ("'1', id => '00000000-0000-7000-8000-000000000000'", "TG006")] {
        let said = session.attempt(&format!("select outcome from tidegate.respond({arguments})")).await;
        assert_eq!(said.unwrap_err().0, state, "{arguments}");
    }
    assert_eq!(database.number("select count(*) from tidegate.response_inbox").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_came_with_the_receipt_is_applied_in_each_flow() {
    for (kind, status, causes) in [
        ("direct", "completed", "submitted claimed receipt"),
        ("public_decrypt", "completed", "submitted readiness_passed claimed receipt response"),
        // Neither says what is missing (a share's name, a verdict): kept, and the answer is still awaited.
        ("user_decrypt", "receipt_received", "submitted readiness_passed claimed receipt"),
        ("input_proof", "receipt_received", "submitted claimed receipt"),
    ] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        let id = database.submit(kind).await;
        if database.status(id).await == "queued" {
            let held = session.claim("readiness", 1).await;
            session.texts(&settle("settle_passed", &held, "")).await;
        }
        let held = session.claim("tx", 1).await;
        session.texts(&settle("settle_receipt", &held, "array['ref-1'], array['{\"a\": 1}'::jsonb]")).await;

        assert_eq!(
            (database.status(id).await.as_str(), history(&database, id).await.as_str()),
            (status, causes),
            "{kind}"
        );
        let kept = if status == "completed" { 0 } else { 1 };
        assert_eq!(database.number("select count(*) from tidegate.response_inbox where late").await, kept, "{kind}");
        if status == "completed" {
            assert_eq!(
                database.text(&format!("select response from tidegate.request where id = '{id}'")).await.as_deref(),
                Some("{\"a\": 1}")
            );
        }
        sound(&database).await;
    }
}

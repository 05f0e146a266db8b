//! What does a caller hear who repeats a submission that may have been executed?

use serde_json::json;

use super::Api;
use crate::support::TestDatabase;

/// `direct` with a single attempt.
async fn once() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set attempts = 1 where kind = 'direct' and stage = 'tx'").await;
    database
}

/// The downstream takes what waits, and no answer comes.
async fn lose(database: &TestDatabase) {
    database
        .execute(
            "select tidegate_internal.settle_retry(array[c.lease], array['{\"code\": \"connection_lost\", \"message\": \"closed\"}'::jsonb])
             from tidegate.claim_tx('tx', 'w', 1, '1 minute') as c",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_submission_of_what_may_have_been_executed_is_answered_with_its_end() {
    let database = once().await;
    let api = Api::of(&database).await;
    let first = api.post_with_key("/v1/direct", "pay-17", &json!({"cents": 5})).await;
    lose(&database).await;

    let again = api.post_with_key("/v1/direct", "pay-17", &json!({"cents": 5})).await;
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.body["job_id"], first.body["job_id"]);
    assert_eq!(again.body["status"], "failed");
    assert_eq!(again.body["executed"], "unknown");
    assert_eq!(again.body["error"]["retryable"], false);
    let message = again.body["error"]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "attempt 1: closed; it may have been executed: poll it, ask the downstream, or send it again under a new key"
    );
    let other = api.post_with_key("/v1/direct", "pay-17", &json!({"cents": 6})).await;
    other.assert_problem(422, "idempotency_key_reused");
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);

    // Under a key of its own it is another request.
    let deliberate = api.post_with_key("/v1/direct", "pay-17-again", &json!({"cents": 5})).await;
    assert_eq!(deliberate.status, 202);

    // Where a repeat does no harm, the same key is taken again.
    database.execute("update tidegate.kind set key_after_unknown = 'free' where name = 'direct'").await;
    let repeated = api.post_with_key("/v1/direct", "pay-17", &json!({"cents": 5})).await;
    assert_eq!(repeated.status, 202);
    assert_ne!(repeated.body["job_id"], first.body["job_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn derived_keys_batches_and_groups_are_answered_alike() {
    for columns in [
        "key_mode = 'natural', key_paths = '{order}'",
        "key_mode = 'proxy'",
        "key_mode = 'proxy', key_bucket = '10 minutes'",
    ] {
        let database = once().await;
        database.execute(&format!("update tidegate.kind set {columns} where name = 'direct'")).await;
        let api = Api::of(&database).await;
        let first = api.post("/v1/direct", &json!({"order": 1})).await;
        lose(&database).await;
        let again = api.post("/v1/direct", &json!({"order": 1})).await;
        assert_eq!(again.status, 200, "{columns}");
        assert_eq!(again.body["executed"], "unknown", "{columns}");
        assert_eq!(again.body["job_id"], first.body["job_id"]);
    }

    let database = once().await;
    for call in [
        "submit_batch('direct', '{1,2}', '{a,b}')",
        "submit_batch_once('direct', '{1,2}', 'c')",
        "submit_group('direct', '{1,2}', '{d,e}')",
    ] {
        let outcomes = format!("select s.outcome from tidegate.{call} as s");
        assert_eq!(database.column(&outcomes).await, ["accepted", "accepted"], "{call}");
        lose(&database).await;
        lose(&database).await;
        assert_eq!(database.column(&outcomes).await, ["replayed", "replayed"], "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_may_let_its_keys_decide_alone() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.kind set key_mode = 'natural', key_paths = '{order}', key_compares = 'nothing'
             where name = 'direct'",
        )
        .await;
    let api = Api::of(&database).await;
    let first = api.post("/v1/direct", &json!({"order": 1, "at": "12:00"})).await;
    let again = api.post("/v1/direct", &json!({"order": 1, "at": "12:01"})).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.body["job_id"], first.body["job_id"]);
    let keyed = api.post_with_key("/v1/direct", "k", &json!({"at": "12:00"})).await;
    let again = api.post_with_key("/v1/direct", "k", &json!({"at": "12:01"})).await;
    assert_eq!(again.body["job_id"], keyed.body["job_id"]);
}

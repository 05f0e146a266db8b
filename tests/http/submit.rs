//! Is a submission taken under the path of its kind, and answered with what its caller needs?

use chrono::{Duration, Utc};
use serde_json::json;
use uuid::Uuid;

use super::{Api, answer};
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_is_submitted_under_its_kebab_case_path() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for (path, kind, state, seconds) in [
        ("public-decrypt", "public_decrypt", "queued", 5),
        ("user-decrypt", "user_decrypt", "queued", 5),
        ("input-proof", "input_proof", "processing", 3),
        ("direct", "direct", "processing", 3),
    ] {
        database.execute("delete from pgmq.q_readiness; delete from pgmq.q_tx").await;
        let taken = api.post(&format!("/v1/{path}"), &json!({"a": [1, null]})).await;

        assert_eq!(taken.status, 202, "{taken:?}");
        assert!(taken.retry_after() >= seconds, "{taken:?}");
        assert_eq!(taken.header("cache-control"), "no-store");
        assert_eq!(taken.header("content-type"), "application/json");
        let id: Uuid = taken.body["job_id"].as_str().unwrap().parse().unwrap();
        assert_eq!(taken.header("location"), format!("/v1/{path}/{id}"));
        assert_eq!(taken.body["status"], "queued");
        assert_eq!(taken.body["state"], state);
        assert_eq!(taken.body["eta_seconds"], taken.retry_after());
        assert!(taken.body["position"].is_i64());
        let stored = format!("select kind || payload::text from tidegate.request where id = '{id}'");
        assert_eq!(database.text(&stored).await.unwrap(), format!("{kind}{{\"a\": [1, null]}}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_json_value_is_a_payload() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for payload in ["null", "true", "0", "-1.5e3", "\"\"", "[]", " {} ", "\"\u{1f30a}\""] {
        let taken = api.post_text("/v1/direct", payload).await;
        assert_eq!(taken.status, 202, "{payload}: {taken:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_json_media_type_is_taken() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for media_type in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.example+json"] {
        let posting = api.client.post(api.url("/v1/direct")).header("content-type", media_type);
        let taken = answer(posting.body("{}")).await;
        assert_eq!(taken.status, 202, "{media_type}: {taken:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_position_tells_how_many_wait_before() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for position in 0..3 {
        let taken = api.post("/v1/direct", &json!({})).await;
        assert_eq!(taken.body["position"], position);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_answers_as_a_poll_and_says_so() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let first = api.post_with_key("/v1/direct", "k", &json!({"a": 1, "b": 2})).await;
    assert_eq!(first.header("idempotency-replayed"), "");

    let replayed = api.post_with_key("/v1/direct", "k", &json!({"b": 2, "a": 1})).await;

    assert_eq!(replayed.status, 202, "{replayed:?}");
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(replayed.header("location"), first.header("location"));
    assert!(replayed.retry_after() >= 1);
    assert_eq!(replayed.body["job_id"], first.body["job_id"]);
    assert!(replayed.body["elapsed_seconds"].is_u64());
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_an_answered_request_carries_its_result() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let first = api.post_with_key("/v1/direct", "k", &json!({})).await;
    super::responses::send_all(&database, "0x1").await;
    api.post("/v1/responses", &json!({"reference": "0x1", "response": 7})).await;

    let replayed = api.post_with_key("/v1/direct", "k", &json!({})).await;

    assert_eq!(replayed.status, 200, "{replayed:?}");
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(replayed.body["job_id"], first.body["job_id"]);
    assert_eq!(replayed.body["result"], 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_another_payload_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    api.post_with_key("/v1/direct", "k", &json!(1)).await;

    let refused = api.post_with_key("/v1/direct", "k", &json!(2)).await;

    refused.assert_problem(422, "idempotency_key_reused");
    assert_eq!(refused.body["retryable"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_of_two_kinds_is_two_requests() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for kind in ["direct", "input-proof"] {
        let taken = api.post_with_key(&format!("/v1/{kind}"), "k", &json!(kind)).await;
        assert_eq!(taken.status, 202);
        assert_eq!(taken.header("idempotency-replayed"), "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_start_counts_in_the_eta() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let later = (Utc::now() + Duration::seconds(100)).to_rfc3339();

    let posting = api.posting("/v1/direct", &json!({}));
    let taken = answer(posting.header("tidegate-not-before", later)).await;

    assert_eq!(taken.status, 202, "{taken:?}");
    assert!((90..=110).contains(&taken.retry_after()), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_headers_are_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let long = "x".repeat(256);

    for (name, value) in [
        ("idempotency-key", ""),
        ("idempotency-key", "a b"),
        ("idempotency-key", "ü"),
        ("idempotency-key", long.as_str()),
        ("tidegate-not-before", "tomorrow"),
        ("tidegate-not-before", "2030-01-31"),
    ] {
        let posting = api.posting("/v1/direct", &json!({})).header(name, value);
        answer(posting).await.assert_problem(400, "invalid_header");
    }
    let twice = api.posting("/v1/direct", &json!({})).header("idempotency-key", "a").header("idempotency-key", "b");
    answer(twice).await.assert_problem(400, "invalid_header");
    let longest = api.post_with_key("/v1/direct", &long[1..], &json!({})).await;
    assert_eq!(longest.status, 202);
}

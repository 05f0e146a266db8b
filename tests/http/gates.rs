//! Does a caller at a closed gate or a full quota hear when to come back, and do replays pass it?

use std::sync::Arc;

use chrono::{Duration, Utc};
use futures_util::future::join_all;
use serde_json::json;
use tidegate::internals::store::{GroupRequests, GroupTerms, Submitted};

use super::{Answer, Api, answer, hold_submissions, let_go, until_submissions_wait};
use crate::support::{TestDatabase, eventually, race::submit_many, raw};

async fn closed() -> TestDatabase {
    let database = exact().await;
    close(&database).await;
    database
}

/// With refusals told as computed, without jitter.
async fn exact() -> TestDatabase {
    let database = TestDatabase::new().await;
    database.execute("update tidegate.setting set jitter = 0").await;
    database
}

async fn close(database: &TestDatabase) {
    database.execute("update tidegate.gate set state = 'too_many_requests' where queue = 'tx'").await;
}

/// Closes a gate that 350 messages have to pass before it opens: at 10 per second, margin 0.2, in 42 s.
pub(super) async fn close_for_42_seconds(database: &TestDatabase) {
    submit_many(database, "direct", 360).await;
    database
        .execute(
            "update tidegate.gate set low_water = 10 where queue = 'tx';
             update tidegate.setting set jitter = 0",
        )
        .await;
    close(database).await;
}

fn assert_refused(refused: &Answer, seconds: u64) {
    refused.assert_problem(429, "gate_closed");
    assert_eq!(refused.retry_after(), seconds);
    assert_eq!(refused.body["retry_after_seconds"], seconds);
    assert_eq!(refused.body["retryable"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_answers_429_and_when_to_come_back() {
    let database = exact().await;
    let api = Api::of(&database).await;
    submit_many(&database, "direct", 110).await;
    database.execute("update tidegate.gate set low_water = 10 where queue = 'tx'").await;
    close(&database).await;

    // 100 above the low mark at 10 per second, margin 0.2; the decrypt will pass this queue too.
    for kind in ["direct", "public-decrypt"] {
        let path = format!("/v1/{kind}");
        assert_refused(&api.post_with_key(&path, "k", &json!({})).await, 12);
        // From the node's own copy, where the depth goes on falling meanwhile.
        let refused = api.post(&path, &json!({})).await;
        refused.assert_problem(429, "gate_closed");
        assert!((10..=12).contains(&refused.retry_after()), "{refused:?}");
        let later = (Utc::now() + Duration::hours(1)).to_rfc3339();
        let delayed =
            api.posting(&path, &json!({})).header("idempotency-key", "l").header("tidegate-not-before", later);
        assert_refused(&answer(delayed).await, 12);
        eventually("the node has heard which gate it is", || async {
            let refused = api.post(&path, &json!({})).await;
            refused.body["gate"] == "tx" && refused.detail().starts_with("gate \"tx\" is closed; nothing was stored")
        })
        .await;
    }

    database.execute("update tidegate.gate set state = 'accepting', forced = false").await;
    eventually("the node knows", || async { api.post("/v1/direct", &json!({})).await.status == 202 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_answered_while_the_gate_is_closed() {
    let database = exact().await;
    let api = Api::of(&database).await;
    let first = api.post_with_key("/v1/direct", "k", &json!({"a": 1})).await;
    close(&database).await;

    let replayed = api.post_with_key("/v1/direct", "k", &json!({"a": 1})).await;

    assert_eq!(replayed.status, 202, "{replayed:?}");
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(replayed.body["job_id"], first.body["job_id"]);
    let other = api.post_with_key("/v1/direct", "k", &json!({"a": 2})).await;
    other.assert_problem(422, "idempotency_key_reused");
    assert_refused(&api.post_with_key("/v1/direct", "l", &json!({"a": 1})).await, 1);
    // The refused key took nothing.
    assert_eq!(database.number("select count(*) from tidegate.dedup").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_elsewhere_passes_a_closed_gate_and_a_full_quota() {
    let database = exact().await;
    database.execute("select tidegate.quota_set(kind => 'direct', high_water => 1, low_water => 0)").await;
    submit_many(&database, "direct", 1).await;
    close(&database).await;
    let api = Api::of(&database).await;
    eventually("the node knows", || async { api.post("/v1/direct", &json!({})).await.status == 429 }).await;
    let accepted = |path: &str, body| api.posting(path, &body).header("tidegate-admission", "accepted");

    let single = answer(accepted("/v1/direct", json!({"n": 1}))).await;
    assert_eq!(single.status, 202, "{single:?}");
    assert_eq!(single.body["position"], 1);
    let keyed = || accepted("/v1/direct", json!({"n": 2})).header("idempotency-key", "k");
    assert_eq!(answer(keyed()).await.status, 202);
    assert_eq!(answer(keyed()).await.header("idempotency-replayed"), "true");
    for key in [None, Some("b")] {
        let mut batch = accepted("/v1/direct/batch", json!([3, 4]));
        if let Some(key) = key {
            batch = batch.header("idempotency-key", key);
        }
        assert_eq!(answer(batch).await.status, 202);
    }
    // Those that arrive together with others, of which the gate refuses each.
    let held = hold_submissions(&database).await;
    let together: Vec<_> = (0..6)
        .map(|n| {
            let posting = match n % 2 {
                0 => accepted("/v1/direct", json!({"n": n})),
                _ => api.posting("/v1/direct", &json!({"n": n})),
            };
            tokio::spawn(answer(posting.header("idempotency-key", n.to_string())))
        })
        .collect();
    until_submissions_wait(&database, 2).await;
    let_go(held).await;
    for (n, answer) in join_all(together).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap().status, if n % 2 == 0 { 202 } else { 429 }, "{n}");
    }

    // They count: in the queue, and in the quota.
    let counted = "select count(*) from tidegate.quota_usage where gate = 'kind direct'";
    assert_eq!(database.number(counted).await, 10);
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 10);
    for path in ["/v1/direct", "/v1/direct/batch"] {
        let refused = api.post_with_key(path, "l", &json!([1])).await;
        refused.assert_problem(429, "gate_closed");
        for value in ["enforce", "Accepted", "accepted,accepted", ""] {
            let refused = answer(api.posting(path, &json!([1])).header("tidegate-admission", value)).await;
            refused.assert_problem(400, "invalid_header");
            assert!(refused.detail().contains("Tidegate-Admission"), "{refused:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_group_the_replays_pass_and_each_new_request_is_refused() {
    let database = exact().await;
    let api = Arc::new(Api::of(&database).await);
    for key in ["k0", "k2", "k4"] {
        api.post_with_key("/v1/direct", key, &json!({})).await;
    }
    close(&database).await;
    let held = hold_submissions(&database).await;
    let post = |key: String| {
        let api = Arc::clone(&api);
        tokio::spawn(async move { api.post_with_key("/v1/direct", &key, &json!({})).await })
    };
    let first = post("first".to_owned());
    until_submissions_wait(&database, 1).await;
    let rest: Vec<_> = (0..6).map(|n| post(format!("k{n}"))).collect();
    let_go(held).await;

    assert_refused(&first.await.unwrap(), 1);
    for (n, answer) in join_all(rest).await.into_iter().enumerate() {
        let answer = answer.unwrap();
        if n % 2 == 0 {
            assert_eq!(answer.status, 202, "{n}: {answer:?}");
            assert_eq!(answer.header("idempotency-replayed"), "true");
        } else {
            assert_refused(&answer, 1);
        }
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_left_out_by_the_group_that_closes_the_gate_are_told_when_it_opens_again() {
    let database = exact().await;
    database.execute("update tidegate.gate set high_water = 30, low_water = 15").await;
    let payloads = vec![raw(&json!({})); 40];

    let submitted = database
        .store
        .submit_group(
            "direct",
            GroupRequests { payloads: &payloads, ..GroupRequests::default() },
            GroupTerms::default(),
        )
        .await
        .unwrap();

    // 15 above the low mark at 10 per second, margin 0.2.
    let retry_after = tidegate::retry_after::RetryAfter::seconds(2);
    for (place, submitted) in submitted.into_iter().enumerate() {
        if place < 30 {
            assert!(matches!(submitted, Submitted::Accepted(_)), "{submitted:?}");
        } else {
            assert_eq!(submitted, Submitted::Refused { retry_after });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_obeys_the_429_gets_in() {
    let database = closed().await;
    let api = Api::of(&database).await;
    let refused = api.post_with_key("/v1/direct", "k", &json!({})).await;
    assert_refused(&refused, 1);
    database.execute("update tidegate.gate set state = 'accepting', forced = false").await;

    let taken = api.post_with_key("/v1/direct", "k", &json!({})).await;

    assert_eq!(taken.status, 202, "{taken:?}");
    assert_eq!(taken.header("idempotency-replayed"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_held_closed_sends_callers_away_for_ever_longer() {
    let database = exact().await;
    let api = Api::of(&database).await;
    assert_eq!(api.post("/v1/admin/gates/tx/close", &json!({})).await.status, 200);
    let told = async |seconds| {
        assert_refused(&api.post_with_key("/v1/direct", "k", &json!({})).await, seconds);
        eventually("the node's copy says the same", || async {
            api.post("/v1/direct", &json!({})).await.retry_after() == seconds
        })
        .await;
    };
    told(4).await;

    for (held_for, seconds) in [("3 minutes", 30), ("20 minutes", 300)] {
        database
            .execute(&format!(
                "update tidegate.gate set changed_at = clock_timestamp() - interval '{held_for}' where queue = 'tx'"
            ))
            .await;
        told(seconds).await;
    }
}

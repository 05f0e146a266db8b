//! Does a response that comes over HTTP, by id or reference, whole, in shares or as a verdict, end its request once?

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    internals::store::{Outcome, Settle},
    request::Stage,
    stage::Receipt,
};

use super::Api;
use crate::support::TestDatabase;

/// Takes everything that waits to its receipt; the first gets this reference.
pub(super) async fn send_all(database: &TestDatabase, reference: &str) {
    let store = &database.store;
    let lease = Duration::from_secs(60);
    let checked = store.claim(Stage::Readiness, "readiness", "test", 100, lease, None).await.unwrap();
    let passed: Vec<_> = checked.iter().map(|claimed| Settle::new(claimed.lease, Outcome::Passed)).collect();
    store.settle("readiness", &passed).await.unwrap();
    let taken = store.claim(Stage::Tx, "tx", "test", 100, lease, None).await.unwrap();
    let receipts: Vec<_> = taken
        .iter()
        .enumerate()
        .map(|(place, claimed)| {
            let reference = (place == 0).then(|| reference.to_owned());
            Settle::new(claimed.lease, Outcome::Receipt(Receipt { reference, response: None }))
        })
        .collect();
    let settled = store.settle("tx", &receipts).await.unwrap();
    assert_eq!(settled.len(), receipts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_by_reference_answers_the_request() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let path = api.submit("public-decrypt").await;
    send_all(&database, "0xabc").await;

    let stored = api.post("/v1/responses", &json!({"reference": "0xabc", "response": "plain"})).await;

    assert_eq!(stored.status, 200, "{stored:?}");
    assert_eq!(stored.header("cache-control"), "no-store");
    assert_eq!(stored.body["outcome"], "completed");
    assert_eq!(stored.body["state"], "completed");
    assert!(path.ends_with(stored.body["job_id"].as_str().unwrap()));
    assert_eq!(api.get(&path).await.body["result"], "plain");
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_are_collected_up_to_the_threshold() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let path = api.submit("user-decrypt").await;
    let id = path.rsplit('/').next().unwrap();
    send_all(&database, "0x1").await;

    for (part, outcome) in [("a", "stored"), ("b", "stored"), ("b", "duplicate"), ("c", "completed"), ("d", "late")] {
        let share = json!({"job_id": id, "part": part, "response": part});
        let stored = api.post("/v1/responses", &share).await;
        assert_eq!(stored.status, 200);
        assert_eq!(stored.body["outcome"], outcome);
    }

    let result = &api.get(&path).await.body["result"];
    assert_eq!(result["shares"], json!({"a": "a", "b": "b", "c": "c"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_ends_a_proof_either_way() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let accepted = api.submit("input-proof").await;
    let rejected = api.submit("input-proof").await;
    send_all(&database, "0x1").await;

    for (path, accept, outcome, status) in
        [(&accepted, true, "completed", "succeeded"), (&rejected, false, "rejected", "failed")]
    {
        let verdict = json!({"accept": accept, "response": null});
        let stored = api.post(&format!("{path}/responses"), &verdict).await;
        assert_eq!(stored.status, 200);
        assert_eq!(stored.body["outcome"], outcome);
        assert_eq!(api.get(path).await.body["status"], status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_by_reference_are_collected_up_to_the_threshold() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let path = api.submit("user-decrypt").await;
    let share = |part: &str| json!({"reference": "0x5", "part": part, "response": {"of": part}});

    // The first comes before its receipt, and counts.
    let early = api.post("/v1/responses", &share("a")).await;
    assert_eq!((early.status.as_u16(), &early.body["outcome"]), (202, &json!("early")));
    send_all(&database, "0x5").await;
    for (part, outcome) in [("a", "duplicate"), ("b", "stored"), ("b", "duplicate"), ("c", "completed"), ("d", "late")]
    {
        let stored = api.post("/v1/responses", &share(part)).await;
        assert_eq!(stored.status, 200);
        assert_eq!(stored.body["outcome"], outcome, "{part}");
        assert!(path.ends_with(stored.body["job_id"].as_str().unwrap()));
    }

    let polled = api.get(&path).await;
    assert_eq!(polled.body["status"], "succeeded");
    assert_eq!(polled.body["result"]["shares"], json!({"a": {"of": "a"}, "b": {"of": "b"}, "c": {"of": "c"}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_by_reference_ends_a_proof_either_way_even_before_its_receipt() {
    for (accept, outcome, status) in [(true, "completed", "succeeded"), (false, "rejected", "failed")] {
        for early in [false, true] {
            let database = TestDatabase::unlimited().await;
            let api = Api::of(&database).await;
            let path = api.submit("input-proof").await;
            let verdict = json!({"reference": "0x7", "accept": accept, "response": {"why": 1}});
            if !early {
                send_all(&database, "0x7").await;
            }
            let stored = api.post("/v1/responses", &verdict).await;
            if early {
                assert_eq!(stored.status, 202);
                send_all(&database, "0x7").await;
            } else {
                assert_eq!(stored.status, 200, "{stored:?}");
                assert_eq!(stored.body["outcome"], outcome);
            }

            let polled = api.get(&path).await;
            assert_eq!(polled.body["status"], status, "{polled:?}");
            let again = api.post("/v1/responses", &verdict).await;
            assert_eq!(again.body["outcome"], "late");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_by_reference_that_does_not_fit_the_flow_is_refused() {
    for (kind, body) in [
        ("input-proof", json!({"reference": "0x3", "response": 1})),
        ("direct", json!({"reference": "0x3", "accept": true, "response": 1})),
        ("direct", json!({"reference": "0x3", "part": "a", "response": 1})),
        ("user-decrypt", json!({"reference": "0x3", "response": 1})),
    ] {
        let database = TestDatabase::unlimited().await;
        let api = Api::of(&database).await;
        let path = api.submit(kind).await;
        send_all(&database, "0x3").await;

        let refused = api.post("/v1/responses", &body).await;

        refused.assert_problem(422, "response_misfit");
        assert_eq!(api.get(&path).await.body["state"], "receipt_received");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_response_is_kept_and_answered_with_202() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let path = api.submit("direct").await;

    let by_reference = api.post("/v1/responses", &json!({"reference": "0x9", "response": 1})).await;
    assert_eq!(by_reference.status, 202);
    assert!(by_reference.retry_after() >= 1);
    assert_eq!(by_reference.body, json!({"outcome": "early", "job_id": null, "state": null}));
    let by_path = api.post(&format!("{path}/responses"), &json!({"response": 2})).await;
    assert_eq!(by_path.status, 202);
    assert_eq!(by_path.body["state"], "processing");

    send_all(&database, "0x9").await;
    assert_eq!(api.get(&path).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_does_not_fit_the_flow_is_refused() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;

    for (kind, body) in [
        ("input-proof", json!({"response": 1})),
        ("direct", json!({"accept": true, "response": 1})),
        ("direct", json!({"part": "a", "response": 1})),
        ("user-decrypt", json!({"response": 1})),
    ] {
        let path = api.submit(kind).await;
        let refused = api.post(&format!("{path}/responses"), &body).await;
        refused.assert_problem(422, "response_misfit");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_without_a_clear_address_or_shape_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let path = api.submit("direct").await;
    let id = path.rsplit('/').next().unwrap();

    for body in [
        json!({"response": 1}),
        json!({"job_id": id, "reference": "0x1", "response": 1}),
        json!({"job_id": id}),
        json!({"job_id": "7", "response": 1}),
        json!({"job_id": id, "response": 1, "extra": 1}),
        json!({"job_id": id, "part": 1, "response": 1}),
        json!([]),
        Value::Null,
    ] {
        api.post("/v1/responses", &body).await.assert_problem(400, "invalid_body");
    }
    let addressed_twice = json!({"job_id": id, "response": 1});
    let refused = api.post(&format!("{path}/responses"), &addressed_twice).await;
    refused.assert_problem(400, "invalid_body");
    assert!(refused.detail().contains("job_id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_to_no_request_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let body = json!({"job_id": "01890000-0000-7000-8000-000000000000", "response": 1});

    let refused = api.post("/v1/responses", &body).await;

    refused.assert_problem(404, "unknown_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_with_a_nul_character_is_refused_wherever_it_is() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for body in [
        json!({"reference": "0x1", "response": "\0"}),
        json!({"reference": "\0", "response": 1}),
        json!({"reference": "0x1", "part": "\0", "response": 1}),
    ] {
        api.post("/v1/responses", &body).await.assert_problem(422, "unstorable");
    }
}

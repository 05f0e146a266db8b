//! Many requests in one call: all of them, in order, once.

use std::time::Instant;

use serde_json::{Value, json};
use tidegate::internals::api_key::Scope;

use super::{Answer, Api, access::key, answer, hold_submissions, let_go, until_submissions_wait};
use crate::support::TestDatabase;

fn ids(taken: &Answer) -> Vec<&str> {
    assert_eq!(taken.status, 202, "{taken:?}");
    let ids = taken.body["job_ids"].as_array().unwrap();
    ids.iter().map(|id| id.as_str().unwrap()).collect()
}

async fn requests(database: &TestDatabase) -> i64 {
    database.number("select count(*) from tidegate.request").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_stored_in_order_and_told_when_its_last_is_ready() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let payloads: Vec<_> = (0..100).map(|n| json!({"n": n})).collect();

    let taken = api.post("/v1/direct/batch", &json!(payloads)).await;

    let ids = ids(&taken);
    assert_eq!(taken.body["status"], "queued");
    // Position 99 at 10/s, with the margin: ⌈(9.9 + 2.1) × 1.2⌉.
    assert_eq!(taken.body["eta_seconds"], 15);
    assert_eq!(taken.retry_after(), 15);
    assert_eq!(taken.header("idempotency-replayed"), "");
    let stored = database.column("select id from tidegate.request order by (payload ->> 'n')::integer").await;
    assert_eq!(ids, stored);
    let last = api.get(&format!("/v1/direct/{}", ids[99])).await;
    assert_eq!(last.body["position"], 99);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_an_address_and_is_done_when_all_of_it_is() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let payloads: Vec<_> = (0..50).collect();
    let taken = api.post("/v1/input-proof/batch", &json!(payloads)).await;
    let ids = ids(&taken);
    let address = taken.header("location");
    assert!(address.starts_with(&format!("/v1/input-proof?id={}&id={}&id=", ids[0], ids[1])), "{address}");

    let waiting = api.get(address).await;

    assert_eq!(waiting.status, 202, "{waiting:?}");
    assert_eq!(waiting.body["status"], "queued");
    // Position 49 at 10/s, with the margin: ⌈(4.9 + 2.1) × 1.2⌉.
    assert_eq!((waiting.retry_after(), taken.retry_after()), (9, 9));
    assert_eq!(waiting.body["eta_seconds"], 9);
    let statuses = waiting.body["requests"].as_array().unwrap();
    let polled: Vec<_> = statuses.iter().map(|status| status["job_id"].as_str().unwrap()).collect();
    assert_eq!(polled, ids);
    for place in [0, 49] {
        assert_eq!(statuses[place]["position"], place);
        assert_eq!(statuses[place]["status"], "queued");
    }

    for id in &ids[1..] {
        api.delete(&format!("/v1/input-proof/{id}")).await;
    }
    let nearly = api.get(address).await;
    assert_eq!(nearly.status, 202, "{nearly:?}");
    assert_eq!(nearly.body["requests"][0]["status"], "queued");
    assert_eq!(nearly.body["requests"][49]["status"], "failed");
    // Those that have ended need no time: ⌈2.1 × 1.2⌉.
    assert_eq!((nearly.retry_after(), &nearly.body["eta_seconds"]), (3, &json!(3)));

    api.delete(&format!("/v1/input-proof/{}", ids[0])).await;
    // A request may be named twice, as a batch may stand for one request twice.
    let some = [ids[3], ids[0], ids[3]];
    let done = api.get(&format!("/v1/input-proof?id={}&id={}&id={}", some[0], some[1], some[2])).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(done.header("retry-after"), "");
    assert_eq!(done.body["status"], "ended");
    for (id, status) in some.iter().zip(done.body["requests"].as_array().unwrap()) {
        assert_eq!(status, &api.get(&format!("/v1/input-proof/{id}")).await.body);
    }
    assert_eq!(api.get(address).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_requests_are_asked_for_at_once_and_no_more() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let batch = async |requests: usize| api.post("/v1/direct/batch", &json!(vec![0; requests])).await;

    let hundred = batch(100).await;
    let polled = api.get(hundred.header("location")).await;
    assert_eq!(polled.status, 202);
    assert_eq!(polled.body["requests"].as_array().unwrap().len(), 100);
    let larger = batch(101).await;
    assert_eq!((larger.status.as_u16(), larger.header("location")), (202, ""));

    let all: Vec<_> = ids(&larger).iter().map(|id| format!("id={id}")).collect();
    for (query, detail) in [
        (all.join("&"), "1 to 100 requests, not 101"),
        ("id=".to_owned(), "job id"),
        ("id=7".to_owned(), "job id"),
        (format!("{}&state=queued", all[0]), "no other parameter"),
        (format!("limit=1&{}", all[0]), "no other parameter"),
    ] {
        let refused = api.get(&format!("/v1/direct?{query}")).await;
        refused.assert_problem(400, "invalid_parameter");
        assert!(refused.detail().contains(detail), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_a_request_of_another_is_not_found() {
    let database = TestDatabase::new().await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let bob = key(&database, "bob", &[Scope::Submit]).await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let api = Api::of(&database).await;
    let hers = api.bearing(&alice).post("/v1/direct/batch", &json!([1, 2])).await;
    let hers = hers.header("location");
    let his = api.bearing(&bob).post("/v1/direct", &json!(3)).await;
    let his = his.body["job_id"].as_str().unwrap();

    assert_eq!(api.bearing(&alice).get(hers).await.status, 202);
    assert_eq!(api.bearing(&admin).get(hers).await.status, 202);
    let own = api.bearing(&bob).get(&format!("/v1/direct?id={his}")).await;
    assert_eq!(own.status, 202);

    // As one that does not exist, which single polls return, too.
    let nowhere = "00000000-0000-7000-8000-000000000000";
    let hidden = hers.split(['=', '&']).nth(1).unwrap();
    for (path, named) in [
        (hers.to_owned(), hidden),
        (format!("/v1/direct?id={his}&id={hidden}"), hidden),
        (format!("/v1/direct?id={his}&id={nowhere}"), nowhere),
        (format!("/v1/input-proof?id={his}"), his),
        (format!("/v1/teleport?id={his}"), his),
    ] {
        let refused = api.bearing(&bob).get(&path).await;
        refused.assert_problem(404, "unknown_request");
        assert_eq!(refused.detail(), format!("there is no such request {named}"));
    }
    api.get(hers).await.assert_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_batch_is_refused_and_stores_nothing() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let too_many = vec![0; 10_001];
    let deep = format!("[1, {}1{}]", "[".repeat(129), "]".repeat(129));

    for (body, code, detail) in [
        ("[]".to_owned(), "invalid_body", "1 to 10000 elements"),
        ("{}".to_owned(), "invalid_body", "line 1"),
        ("null".to_owned(), "invalid_body", "line 1"),
        ("1".to_owned(), "invalid_body", "line 1"),
        ("[1, null]".to_owned(), "invalid_body", "element 1 is null"),
        (json!(too_many).to_string(), "invalid_body", "not 10001"),
        ("[1,".to_owned(), "malformed_json", "line 1"),
        ("[1] [2]".to_owned(), "malformed_json", "line 1"),
        ("[1, 1e999]".to_owned(), "unstorable", "element 1"),
        (deep, "unstorable", "element 1"),
        ("[1, \"\\u0000\"]".to_owned(), "unstorable", ""),
    ] {
        let refused = api.post_text("/v1/direct/batch", body).await;
        let status = if code == "unstorable" { 422 } else { 400 };
        refused.assert_problem(status, code);
        assert!(refused.detail().contains(detail), "{refused:?}");
    }
    let delayed = api.posting("/v1/direct/batch", &json!([1]));
    let delayed = delayed.header("tidegate-not-before", "2030-01-01T00:00:00Z");
    answer(delayed).await.assert_problem(400, "invalid_header");
    api.post("/v1/teleport/batch", &json!([1])).await.assert_problem(404, "unknown_kind");
    api.get("/v1/direct/batch").await.assert_problem(405, "method_not_allowed");

    assert_eq!(requests(&database).await, 0);
    // An element may be as deep as a body of its own.
    let deepest = format!("[{}1{}]", "[".repeat(128), "]".repeat(128));
    assert_eq!(api.post_text("/v1/direct/batch", deepest).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_ten_thousand_is_taken() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    let payloads: Vec<_> = (0..10_000).collect();
    let taken = api.post_with_key("/v1/direct/batch", "large", &json!(payloads)).await;

    assert_eq!(ids(&taken).len(), 10_000);
    assert_eq!(taken.retry_after(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_batch_is_the_same_batch() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let first = api.post_with_key("/v1/direct/batch", "k", &json!([{"a": 1, "b": 2}, 2, 2])).await;

    let again = api.post_with_key("/v1/direct/batch", "k", &json!([{"b": 2, "a": 1.0}, 2, 2])).await;

    assert_eq!(ids(&again), ids(&first));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert!(again.retry_after() >= 1);
    assert_eq!(requests(&database).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_another_batch_is_refused_and_nothing_of_it_stored() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let first = api.post_with_key("/v1/direct/batch", "k", &json!([1, 2, 3])).await;
    assert_eq!(ids(&first).len(), 3);

    for other in
        [json!([1, 2]), json!([1, 2, 3, 4]), json!([2, 1, 3]), json!([1, 2, 4]), json!([0, 2, 3]), json!([[1, 2, 3]])]
    {
        let refused = api.post_with_key("/v1/direct/batch", "k", &other).await;
        refused.assert_problem(422, "idempotency_key_reused");
        assert!(refused.detail().contains("batch"), "{refused:?}");
    }

    assert_eq!(requests(&database).await, 3);
    // The same key of another kind, or of a request of its own, is another key.
    for path in ["/v1/input-proof/batch", "/v1/direct"] {
        let taken = api.post_with_key(path, "k", &json!([1])).await;
        assert_eq!(taken.status, 202, "{path}: {taken:?}");
        assert_eq!(taken.header("idempotency-replayed"), "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_batch_submits_anew_what_has_failed_and_nothing_else() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let batch = json!(["a", "b", "c"]);
    let first = api.post_with_key("/v1/direct/batch", "k", &batch).await;
    for failed in [0, 1] {
        let path = format!("/v1/direct/{}", ids(&first)[failed]);
        assert_eq!(api.delete(&path).await.status, 200);
    }

    let second = api.post_with_key("/v1/direct/batch", "k", &batch).await;

    assert_ne!(ids(&second)[0], ids(&first)[0]);
    assert_ne!(ids(&second)[1], ids(&first)[1]);
    assert_eq!(ids(&second)[2], ids(&first)[2]);
    assert_eq!(second.header("idempotency-replayed"), "");
    assert_eq!(requests(&database).await, 5);
    let third = api.post_with_key("/v1/direct/batch", "k", &batch).await;
    assert_eq!(ids(&third), ids(&second));
    api.post_with_key("/v1/direct/batch", "k", &json!(["a", "b"])).await.assert_problem(422, "idempotency_key_reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_batch_sent_many_times_at_once_over_two_nodes_is_stored_once() {
    let database = TestDatabase::new().await;
    let nodes = [Api::of(&database).await, Api::of(&database).await];
    let held = hold_submissions(&database).await;
    let batches = [json!([1, 2, 3]), json!([1, 2]), json!([3, 2, 1])];
    let sending: Vec<_> = (0..12)
        .map(|n| {
            let batch = &batches[n % 3];
            let posting = nodes[n % 2].posting("/v1/direct/batch", batch);
            let answering = tokio::spawn(answer(posting.header("idempotency-key", "k")));
            (n % 3, answering)
        })
        .collect();
    until_submissions_wait(&database, 10).await;
    let_go(held).await;

    let mut won: Option<(usize, Value)> = None;
    for (which, answering) in sending {
        let said = answering.await.unwrap();
        if said.status == 202 {
            let (winner, ids) = won.get_or_insert((which, said.body["job_ids"].clone()));
            assert_eq!((&which, &said.body["job_ids"]), (&*winner, &*ids));
        } else {
            said.assert_problem(422, "idempotency_key_reused");
        }
    }

    let (winner, ids) = won.unwrap();
    assert_eq!(ids.as_array().unwrap().len(), batches[winner].as_array().unwrap().len());
    assert_eq!(requests(&database).await, i64::try_from(batches[winner].as_array().unwrap().len()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_belongs_to_its_submitter() {
    let database = TestDatabase::new().await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let bob = key(&database, "bob", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let hers = api.bearing(&alice).post_with_key("/v1/direct/batch", "k", &json!([1, 2])).await;

    let his = api.bearing(&bob).post_with_key("/v1/direct/batch", "k", &json!([1, 2])).await;

    assert_ne!(ids(&his), ids(&hers));
    assert_eq!(his.header("idempotency-replayed"), "");
    let unseen = format!("/v1/direct/{}", ids(&hers)[0]);
    api.bearing(&bob).get(&unseen).await.assert_problem(404, "unknown_request");
    api.post("/v1/direct/batch", &json!([1])).await.assert_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_the_gate_refuses_is_refused_whole() {
    let database = TestDatabase::new().await;
    let began = Instant::now();
    super::gates::close_for_42_seconds(&database).await;
    let api = Api::of(&database).await;

    for key in [None, Some("k")] {
        let mut posting = api.posting("/v1/direct/batch", &json!([1, 2]));
        if let Some(key) = key {
            posting = posting.header("idempotency-key", key);
        }
        let refused = answer(posting).await;
        refused.assert_problem(429, "gate_closed");
        let passed = began.elapsed().as_secs() + 1;
        assert!((42 - passed..=42).contains(&refused.retry_after()), "{refused:?}");
    }
}

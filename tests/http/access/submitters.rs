//! Which requests does a submitter see and cancel, and are its idempotency keys its own?

use reqwest::Method;
use serde_json::json;
use tidegate::internals::api_key::Scope;

use super::{super::Api, SOME_JOB, key, key_of};
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_visible_only_to_the_keys_of_its_submitter() {
    let database = TestDatabase::new().await;
    let alice = key(&database, "alice", &[Scope::Submit, Scope::Respond]).await;
    let other_alice = key_of(&database, "alice's phone", &[Scope::Submit], "alice").await;
    let bob = key(&database, "bob", &[Scope::Submit, Scope::Respond]).await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let nodes = [Api::of(&database).await, Api::of(&database).await];
    let path = nodes[0].bearing(&alice).submit("direct").await;

    for node in &nodes {
        for key in [&alice, &other_alice, &admin] {
            assert_eq!(node.bearing(key).get(&path).await.status, 202);
        }
        let bob = node.bearing(&bob);
        let unseen = bob.get(&path).await;
        unseen.assert_problem(404, "unknown_request");
        bob.delete(&path).await.assert_problem(404, "unknown_request");
        // What is not there is told in the same words.
        let id = path.rsplit('/').next().unwrap();
        let missing = bob.get(SOME_JOB).await;
        assert_eq!(
            unseen.detail().replace(id, "ID"),
            missing.detail().replace(SOME_JOB.rsplit('/').next().unwrap(), "ID")
        );
    }

    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'failure'").await, 0);
    // A downstream answers whosever request it is.
    let early = nodes[1].bearing(&bob).post(&format!("{path}/responses"), &json!({"response": 1})).await;
    assert_eq!(early.body["outcome"], "early", "{early:?}");
    assert_eq!(nodes[1].bearing(&admin).delete(&path).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_kind_with_shared_keys_is_polled_by_every_submitter_and_cancelled_by_its_own() {
    let database = TestDatabase::new().await;
    database.execute("update tidegate.kind set key_scope = 'kind' where name = 'direct'").await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let bob = key(&database, "bob", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let (alice, bob) = (api.bearing(&alice), api.bearing(&bob));
    let first = alice.post_with_key("/v1/direct", "k", &json!(1)).await;
    let replayed = bob.post_with_key("/v1/direct", "k", &json!(1)).await;
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(replayed.body["job_id"], first.body["job_id"]);
    let other = bob.post_with_key("/v1/direct", "k", &json!(2)).await;
    other.assert_problem(422, "idempotency_key_reused");

    let path = replayed.header("location").to_owned();
    let id = path.rsplit('/').next().unwrap();
    for polled in [path.clone(), format!("/v1/direct?id={id}&id={id}")] {
        assert_eq!(bob.get(&polled).await.status, 202, "{polled}");
    }
    bob.get(&format!("/v1/input-proof/{id}")).await.assert_problem(404, "unknown_request");
    bob.delete(&path).await.assert_problem(404, "unknown_request");
    let listed = bob.get("/v1/direct").await;
    assert_eq!(listed.body["requests"], json!([]), "{listed:?}");
    assert_eq!(alice.delete(&path).await.status, 200);
    // It has ended, so the stream of its events has an end.
    let events = bob.ask(Method::GET, &format!("{path}/events")).send().await.unwrap();
    assert_eq!(events.status(), 200);
    assert!(events.text().await.unwrap().contains("cancelled"));
    // Of another kind it is still the submitter's alone.
    let proof = alice.submit("input-proof").await;
    bob.get(&proof).await.assert_problem(404, "unknown_request");
    let events = bob.get(&format!("{proof}/events")).await;
    events.assert_problem(404, "unknown_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_from_before_the_first_key_are_the_admins() {
    let database = TestDatabase::new().await;
    let node = Api::of(&database).await;
    let path = node.submit("direct").await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let node = Api::of(&database).await;

    node.bearing(&alice).get(&path).await.assert_problem(404, "unknown_request");
    assert_eq!(node.bearing(&admin).get(&path).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_of_two_submitters_are_two_keys() {
    let database = TestDatabase::new().await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    // A submitter whose name could be mistaken for another scope of the same key.
    let bob = key(&database, "alice:k", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let hers = api.bearing(&alice).post_with_key("/v1/direct", "k", &json!({"hers": 1})).await;

    let his = api.bearing(&bob).post_with_key("/v1/direct", "k", &json!({"his": 2})).await;
    let same_payload = api.bearing(&bob).post_with_key("/v1/direct", "l", &json!({"hers": 1})).await;

    for taken in [&his, &same_payload] {
        assert_eq!(taken.status, 202, "{taken:?}");
        assert_eq!(taken.header("idempotency-replayed"), "");
        assert_ne!(taken.body["job_id"], hers.body["job_id"]);
    }
    assert_eq!(
        database.text("select string_agg(submitter, ',' order by submitter) from tidegate.request").await.unwrap(),
        "alice,alice:k,alice:k"
    );
}

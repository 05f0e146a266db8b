//! Who may say what was executed, who is believed, and what do callers and callbacks hear of it?

use serde_json::json;
use tidegate::internals::api_key::Scope;

use super::{Api, access::key};
use crate::support::TestDatabase;

/// A request of `direct` that failed during its only send.
async fn lost(database: &TestDatabase, submitter: &str) -> String {
    let id = database
        .value(&format!("select id from tidegate.submit('direct', '1', 'k', submitter => '{submitter}')"))
        .await;
    database.claim_tx(1).await;
    database.execute(&format!("select tidegate.fail_request('{id}', 'lost')")).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_downstream_is_believed_rather_than_an_operator() {
    let database = TestDatabase::unlimited().await;
    let (ann, downstream) =
        (key(&database, "ann", &[Scope::Submit]).await, key(&database, "bank", &[Scope::Respond]).await);
    let operator = key(&database, "op", &[Scope::Admin]).await;
    let api = Api::of(&database).await;
    let [ann, downstream, operator] = [&ann, &downstream, &operator].map(|key| api.bearing(key));
    let id = lost(&database, "ann").await;
    let path = format!("/v1/direct/{id}");
    let resolution = format!("{path}/resolution");

    let (no, yes) = (json!({"executed": "no", "note": "asked by telephone"}), json!({"executed": "yes"}));
    ann.post(&resolution, &no).await.assert_problem(403, "insufficient_scope");
    let said = operator.post(&resolution, &no).await;
    assert_eq!(said.status, 200);
    assert_eq!(said.body, json!({"outcome": "resolved", "job_id": id, "executed": "no"}));
    assert_eq!(operator.post(&resolution, &no).await.body["outcome"], "known");
    let polled = ann.get(&path).await.body;
    assert_eq!(polled["executed"], "no");
    assert_eq!(polled["error"]["retryable"], true);
    let shown = polled["resolution"].as_object().unwrap();
    // The note is the operators'.
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["at", "executed", "source"]);
    assert_eq!(shown["source"], "operator");

    assert_eq!(downstream.post(&resolution, &yes).await.status, 200);
    let polled = ann.get(&path).await.body;
    assert_eq!((&polled["executed"], &polled["resolution"]["source"]), (&json!("yes"), &json!("downstream")));
    assert_eq!(polled["error"]["retryable"], false);
    let kept = operator.post(&resolution, &no).await;
    kept.assert_problem(409, "illegal_state");
    assert_eq!(kept.detail(), "executed is yes, known by downstream, and stays so; what you say is on record");
    assert_eq!(database.value("select contradicted_by ->> 'note' from tidegate.outcome").await, "asked by telephone");
    let metrics = operator.get("/metrics").await.body;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("tidegate_contradicted_requests{kind=\"direct\"} 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_unresolved_can_be_resolved() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let yes = json!({"executed": "yes"});
    let live = api.submit("direct").await;
    let refused = api.post(&format!("{live}/resolution"), &yes).await;
    refused.assert_problem(409, "illegal_state");
    assert_eq!(refused.detail(), "the request is processing, and nothing about its sends is unknown");
    let unknown = "/v1/direct/01890000-0000-7000-8000-000000000000/resolution";
    api.post(unknown, &yes).await.assert_problem(404, "unknown_request");
    let id = database.value("select id from tidegate.request").await;
    let elsewhere = format!("/v1/input-proof/{id}/resolution");
    api.post(&elsewhere, &yes).await.assert_problem(404, "unknown_request");
    for body in
        [json!({}), json!({"executed": "unknown"}), json!({"executed": true}), json!({"executed": "yes", "by": "me"})]
    {
        let refused = api.post(&format!("{live}/resolution"), &body).await;
        refused.assert_problem(400, "invalid_body");
    }
    let long = json!({"executed": "yes", "note": "n".repeat(1001)});
    let refused = api.post(&format!("{live}/resolution"), &long).await;
    refused.assert_problem(400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_show_the_response_that_came_too_late() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let id = lost(&database, "ann").await;
    let late = json!({"response": {"cents": 5}});
    let late = api.post(&format!("/v1/direct/{id}/responses"), &late).await;
    assert_eq!(late.body["outcome"], "late");
    let polled = api.get(&format!("/v1/direct/{id}")).await.body;
    assert_eq!(polled["resolution"]["response"], json!({"cents": 5}));
    assert_eq!(polled["resolution"]["source"], "response");
    assert_eq!((&polled["status"], &polled["executed"]), (&json!("failed"), &json!("yes")));
}

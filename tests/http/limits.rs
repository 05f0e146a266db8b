//! Does a node with too many, too slow or too large calls refuse these, and stay alive?

use std::time::Duration;

use serde_json::json;
use tidegate_node::HttpOptions;

use super::{Api, hold_submissions, let_go, read_to_end, until_submissions_wait};
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_refuses_the_next_call_and_stays_alive() {
    let database = TestDatabase::new().await;
    let options = HttpOptions { concurrency_limit: 1, ..HttpOptions::default() };
    let api = Api::start(database.store.clone(), &options).await;
    let held = hold_submissions(&database).await;
    let posting = tokio::spawn(super::answer(api.posting("/v1/direct", &json!({}))));
    until_submissions_wait(&database, 1).await;

    let refused = api.post("/v1/direct", &json!({})).await;

    refused.assert_problem(503, "overloaded");
    assert_eq!(refused.body["retryable"], true);
    assert_eq!(api.get("/livez").await.status, 200);
    assert_eq!(api.get("/readyz").await.status, 200);
    let_go(held).await;
    assert_eq!(posting.await.unwrap().status, 202);
    api.submit("direct").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_too_long_is_given_up_and_its_lane_goes_on() {
    let database = TestDatabase::new().await;
    let options = HttpOptions { request_timeout: Duration::from_millis(300), ..HttpOptions::default() };
    let api = Api::start(database.store.clone(), &options).await;
    let held = hold_submissions(&database).await;

    for _ in 0..2 {
        let given_up = api.post("/v1/direct", &json!({})).await;
        given_up.assert_problem(503, "call_timed_out");
        assert_eq!(given_up.body["retryable"], true);
    }

    let_go(held).await;
    crate::support::eventually("the lane takes submissions again", || async {
        api.post("/v1/direct", &json!({})).await.status == 202
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_comes_is_given_up() {
    let database = TestDatabase::new().await;
    let options = HttpOptions { request_timeout: Duration::from_millis(100), ..HttpOptions::default() };
    let api = Api::start(database.store.clone(), &options).await;

    let stalled = api
        .raw(
            "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: 10\r\n\r\n{",
        )
        .await;

    let said = read_to_end(stalled).await;
    assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
    assert!(said.to_ascii_lowercase().contains("\r\nretry-after: "), "{said}");
}

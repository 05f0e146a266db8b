//! What ends a wait that brought no result: its time, its caller, a shutdown?

use std::time::Duration;

use serde_json::json;
use tidegate_node::HttpOptions;
use tokio::time::Instant;

use super::{
    super::{answer, responses::send_all},
    Listening, awaiting, get_waiting,
};
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_over_answers_where_the_request_stands_then() {
    let database = TestDatabase::unlimited().await;
    let options = HttpOptions {
        wait_max: Duration::from_secs(2),
        // Shorter than the wait, which must not be cut off by it.
        request_timeout: Duration::from_millis(900),
        ..HttpOptions::default()
    };
    let node = Listening::start(&database, &options).await;
    let path = node.api.submit("direct").await;
    let began = Instant::now();
    let waiting = get_waiting(&node.api, &path, 600);
    node.until_waiting(1).await;
    send_all(&database, "0x1").await;

    let answered = waiting.await.unwrap();

    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(answered.status, 202, "{answered:?}");
    assert_eq!(answered.header("preference-applied"), "wait=2");
    assert_eq!(answered.body["state"], "receipt_received");
    assert_eq!(answered.headers.get_all("retry-after").iter().count(), 1);
    assert_eq!(answered.retry_after(), 4);
    assert_eq!(answered.body["eta_seconds"], 4);
    node.until_waiting(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_without_a_wait_or_of_an_unknown_request_is_answered_at_once() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("direct").await;
    let get = |path: &str, prefer: &str| answer(node.api.client.get(node.api.url(path)).header("prefer", prefer));

    for (prefer, applied) in [("wait=0", "wait=0"), ("wait=soon", ""), ("respond-async, return=minimal", "")] {
        let answered = get(&path, prefer).await;
        assert_eq!(answered.status, 202, "{prefer}: {answered:?}");
        assert_eq!(answered.header("preference-applied"), applied, "{prefer}");
    }
    let unknown = "/v1/direct/01890000-0000-7000-8000-000000000000";
    let refused = get(unknown, "wait=60").await;
    refused.assert_problem(404, "unknown_request");
    assert_eq!(refused.header("preference-applied"), "");
    let of_another_kind = path.replace("direct", "input-proof");
    get(&of_another_kind, "wait=60").await.assert_problem(404, "unknown_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_ends_a_wait() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.kind set response_timeout = '1 ms'").await;
    let node = Listening::of(&database).await;
    let path = awaiting(&database, &node.api).await;
    let waiting = get_waiting(&node.api, &path, 30);
    node.until_waiting(1).await;

    database.execute("select tidegate.expire_responses()").await;

    let answered = waiting.await.unwrap();
    assert_eq!(answered.status, 200);
    assert_eq!(answered.body["status"], "timed_out");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_leaves_leaves_no_waiter_behind() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("direct").await;
    let call = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nprefer: wait=60\r\n\r\n");
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(node.api.raw(&call).await);
    }
    node.until_waiting(20).await;
    assert_eq!(node.node.waiters().waiting().requests, 1);

    drop(streams);

    node.until_waiting(0).await;
    assert_eq!(node.node.waiters().waiting().requests, 0);
    // The node polls for later waiters again.
    let path = node.api.submit("direct").await;
    let waiting = get_waiting(&node.api, &path, 60);
    node.until_waiting(1).await;
    node.until_looked().await;
    node.api.delete(&path).await;
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_answers_those_who_wait() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("direct").await;
    let posting = node.api.posting("/v1/direct", &json!({}));
    let polls = get_waiting(&node.api, &path, 60);
    let submits = tokio::spawn(answer(posting.header("prefer", "wait=60")));
    node.until_waiting(2).await;

    let began = Instant::now();
    node.api.shutdown.cancel();

    for waiting in [polls, submits] {
        let answered = waiting.await.unwrap();
        assert_eq!(answered.status, 202, "{answered:?}");
        assert!(answered.retry_after() >= 1);
        assert_eq!(answered.body["state"], "processing");
    }
    node.api.served.await.unwrap().unwrap();
    // Not after the wait, and not by being cut off at the end of the grace period.
    assert!(began.elapsed() < Duration::from_secs(20));
}

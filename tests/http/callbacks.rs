//! Does a submission with a callback keep it, whatever else it asks for, and is a callback that is not allowed refused?

use serde_json::json;

use super::{Api, answer, hold_submissions, let_go};
use crate::support::{TestDatabase, eventually};

const HEADER: &str = "tidegate-callback-url";
const URL: &str = "https://hooks.example.com/done?job=1";

async fn database() -> TestDatabase {
    let database = TestDatabase::new().await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_names_who_is_told_of_its_end() {
    let database = database().await;
    let api = Api::of(&database).await;
    let posting = api.posting("/v1/user-decrypt", &json!({}));

    let taken = answer(posting.header(HEADER, URL)).await;

    assert_eq!(taken.status, 202, "{taken:?}");
    assert_eq!(taken.body["state"], "queued");
    assert!(taken.retry_after() >= 1);
    assert_eq!(database.column("select callback_url from tidegate.request").await, [URL]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_start_and_a_callback_go_together() {
    let database = database().await;
    let api = Api::of(&database).await;
    let later = (chrono::Utc::now() + chrono::Duration::seconds(100)).to_rfc3339();
    let posting = api.posting("/v1/direct", &json!({}));

    let taken = answer(posting.header(HEADER, URL).header("tidegate-not-before", later)).await;

    assert_eq!(taken.status, 202, "{taken:?}");
    assert!((90..=110).contains(&taken.retry_after()), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_may_not_be_named_is_refused_and_nothing_is_stored() {
    let database = database().await;
    let api = Api::of(&database).await;
    for (url, word) in [
        ("https://elsewhere.example/", "allow-list"),
        ("https://hooks.example.com:8443/", "allow-list"),
        ("http://169.254.169.254/latest/meta-data", "allow-list"),
        ("http://localhost:5432/", "allow-list"),
        ("https://u:p@hooks.example.com/", "http(s)://"),
        ("https://hooks.example.com/#a", "http(s)://"),
        ("file:///etc/passwd", "http(s)://"),
        ("", "http(s)://"),
        ("not a url", "http(s)://"),
    ] {
        let posting = api.posting("/v1/direct", &json!({})).header(HEADER, url);
        let refused = answer(posting).await;
        refused.assert_problem(422, "callback_refused");
        assert!(refused.detail().contains(word), "{url}: {refused:?}");
        assert_eq!(refused.body["retryable"], false);
    }
    let posting = api.posting("/v1/direct", &json!({})).header(HEADER, "ü");
    answer(posting).await.assert_problem(400, "invalid_header");
    let twice = api.posting("/v1/direct", &json!({}));
    let twice = twice.header(HEADER, URL).header(HEADER, URL);
    answer(twice).await.assert_problem(400, "invalid_header");
    let unknown = api.posting("/v1/nothing", &json!({})).header(HEADER, URL);
    answer(unknown).await.assert_problem(404, "unknown_kind");

    assert_eq!(database.number("select count(*) from tidegate.request").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_keeps_the_callback_of_the_first_submission() {
    let database = database().await;
    let api = Api::of(&database).await;
    let submit = |url: Option<&str>| {
        let posting = api.posting("/v1/direct", &json!({"a": 1}));
        let posting = posting.header("idempotency-key", "k");
        answer(match url {
            Some(url) => posting.header(HEADER, url),
            None => posting,
        })
    };

    let first = submit(Some(URL)).await;
    assert_eq!(first.header("idempotency-replayed"), "");
    for url in [Some("https://hooks.example.com/other"), Some("https://elsewhere.example/"), None] {
        let replayed = submit(url).await;
        assert_eq!(replayed.status, 202, "{url:?}: {replayed:?}");
        assert_eq!(replayed.header("idempotency-replayed"), "true");
        assert_eq!(replayed.body["job_id"], first.body["job_id"]);
    }
    assert_eq!(database.column("select callback_url from tidegate.request").await, [URL]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_at_once_with_two_callbacks_is_one_request_with_one_of_them() {
    let database = database().await;
    let nodes = [Api::of(&database).await, Api::of(&database).await];
    let held = hold_submissions(&database).await;
    let submit = |api: &Api, url: &str| {
        let posting = api.posting("/v1/direct", &json!({"a": 1}));
        let posting = posting.header("idempotency-key", "k").header(HEADER, url);
        tokio::spawn(answer(posting))
    };
    let both = [submit(&nodes[0], "https://hooks.example.com/1"), submit(&nodes[1], "https://hooks.example.com/2")];
    eventually("both wait", || async {
        database
            .number(
                "select count(*) from pg_stat_activity
                 where datname = current_database() and wait_event_type = 'Lock'",
            )
            .await
            >= 2
    })
    .await;
    let_go(held).await;

    let mut replayed = 0;
    for answered in both {
        let answered = answered.await.unwrap();
        assert_eq!(answered.status, 202, "{answered:?}");
        replayed += usize::from(answered.header("idempotency-replayed") == "true");
    }
    assert_eq!(replayed, 1);
    assert_eq!(database.number("select count(*) from tidegate.request where callback_url is not null").await, 1);
}

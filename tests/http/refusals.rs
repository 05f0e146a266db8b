//! Is input that cannot be a request refused with the place and the reason, and nothing stored?

use serde_json::json;
use tidegate::internals::error::StoreError;
use tokio::io::AsyncWriteExt;

use super::{Api, answer, read_to_end};
use crate::support::{TestDatabase, submission};

#[tokio::test(flavor = "multi_thread")]
async fn malformed_json_is_refused_with_its_place() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for body in ["", "{", "{\"a\": 1,}", "nul", "[1] 2", "'a'", "\u{feff}{}", "NaN", "{\"a\" 1}"] {
        let refused = api.post_text("/v1/direct", body).await;
        refused.assert_problem(400, "malformed_json");
        assert!(refused.detail().contains("line 1 column"), "{refused:?}");
    }
    let not_utf8 = api.post_text("/v1/direct", vec![b'"', 0xff, b'"']).await;
    not_utf8.assert_problem(400, "malformed_json");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_plain_json_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for media_type in ["text/plain", "application/jsonp", "application/x-www-form-urlencoded", "\u{fc}"] {
        let posting = api.client.post(api.url("/v1/direct")).header("content-type", media_type);
        answer(posting.body("{}")).await.assert_problem(415, "unsupported_media_type");
    }
    let untyped = api.client.post(api.url("/v1/direct")).body("{}");
    answer(untyped).await.assert_problem(415, "unsupported_media_type");
    let packed = api.posting("/v1/direct", &json!({})).header("content-encoding", "gzip");
    answer(packed).await.assert_problem(415, "unsupported_media_type");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_that_postgresql_or_a_stage_cannot_hold_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_objects = format!("{}1{}", "{\"a\":".repeat(1_000), "}".repeat(1_000));

    for body in [
        "\"\\u0000\"",
        "{\"\\u0000\": 1}",
        "\"\\ud800\"",
        "1e999999999",
        "[1e131071]",
        deep.as_str(),
        deep_objects.as_str(),
    ] {
        let refused = api.post_text("/v1/direct", body.to_owned()).await;
        refused.assert_problem(422, "unstorable");
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_itself_refuses_what_its_stack_cannot_hold() {
    let database = TestDatabase::new().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut submission = submission("direct", &json!(1));
    submission.payload = deep.parse().unwrap();

    let refused = database.store.submit(&submission).await;

    assert!(matches!(refused, Err(StoreError::Unstorable(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_does_not_exist_is_unknown() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for path in ["/v1/teleport", "/v1/User-Decrypt", "/v1/user%20decrypt", "/v1/%00", "/v1/%ff", "/v1/-"] {
        api.post(path, &json!({})).await.assert_problem(404, "unknown_kind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snake_case_path_is_unknown_and_names_the_right_one() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    let refused = api.post("/v1/user_decrypt", &json!({})).await;

    refused.assert_problem(404, "unknown_kind");
    assert!(refused.detail().contains("/v1/user-decrypt"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_wrong_methods_are_problems_too() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for path in ["/", "/v1", "/v2/direct", "/v1/direct/", "/v1/direct/x/y", "/metrics.php"] {
        api.get(path).await.assert_problem(404, "unknown_path");
    }
    for (method, path, allowed) in [
        ("PUT", "/v1/direct", "POST"),
        ("GET", "/v1/responses", "POST"),
        ("BREW", "/v1/direct", "POST"),
        ("POST", "/v1/direct/01890000-0000-7000-8000-000000000000", "DELETE"),
        ("OPTIONS", "/livez", "GET"),
    ] {
        let asking = api.client.request(method.parse().unwrap(), api.url(path));
        let refused = answer(asking).await;
        refused.assert_problem(405, "method_not_allowed");
        assert!(refused.header("allow").contains(allowed), "{method} {path}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_limit_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let megabytes = |count: usize| format!("\"{}\"", "x".repeat(count * 1024 * 1024));

    let refused = api.post_text("/v1/direct", megabytes(10)).await;
    refused.assert_problem(413, "payload_too_large");

    // Without a Content-Length, the limit is met on the way.
    let mut sending = api
        .raw(
            "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             transfer-encoding: chunked\r\n\r\n",
        )
        .await;
    let chunk = format!("100000\r\n{}\r\n", "1".repeat(0x10_0000));
    for _ in 0..10 {
        sending.write_all(chunk.as_bytes()).await.unwrap();
    }
    sending.write_all(b"0\r\n\r\n").await.unwrap();
    let said = read_to_end(sending).await;
    assert!(said.starts_with("HTTP/1.1 413 "), "{said}");

    let limit = 1024 * 1024;
    let longest = format!("\"{}\"", "x".repeat(limit - 2));
    assert_eq!(api.post_text("/v1/direct", longest).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_announced_too_large_is_refused_before_it_comes() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let head = "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    for sent in ["", "[1,"] {
        let stream = api.raw(&format!("{head}content-length: 10000000\r\n\r\n{sent}")).await;
        let said = read_to_end(stream).await;
        assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
        assert!(said.contains("payload_too_large"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_expects_100_continue_gets_the_refusal_of_its_body_at_once() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    let asking = api
        .raw(
            "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: 10000000\r\nexpect: 100-continue\r\n\r\n",
        )
        .await;

    let said = read_to_end(asking).await;
    assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_gets_414_or_431_without_a_body() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let (long, longer, longest) = ("x".repeat(60_000), "x".repeat(100_000), "x".repeat(300_000));

    for (head, status) in [
        (format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n"), 404),
        (format!("GET /{longer} HTTP/1.1\r\nhost: localhost\r\n"), 414),
        (format!("GET /livez HTTP/1.1\r\nhost: localhost\r\na: {longest}\r\n"), 431),
    ] {
        let asking = api.raw(&format!("{head}connection: close\r\n\r\n")).await;
        let said = read_to_end(asking).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        assert_eq!(said.ends_with("\r\n\r\n"), status != 404, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_length_that_lies_costs_its_own_sender_only() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let head = "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";

    // Too long: the connection ends in the middle of the body.
    let mut short = api.raw(&format!("{head}content-length: 100\r\n\r\n{{}}")).await;
    short.shutdown().await.unwrap();
    let said = read_to_end(short).await;
    assert!(!said.starts_with("HTTP/1.1 2"), "{said}");
    // Too short: the rest is no request.
    let said = read_to_end(api.raw(&format!("{head}content-length: 1\r\n\r\n{{}}")).await).await;
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
    // No number at all.
    let said = read_to_end(api.raw(&format!("{head}content-length: -1\r\n\r\n{{}}")).await).await;
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");

    assert_eq!(database.number("select count(*) from tidegate.request").await, 0);
    api.submit("direct").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_without_nominal_times_names_what_sets_them() {
    let database = TestDatabase::uninitialised().await;
    let api = Api::of(&database).await;

    let refused = api.post("/v1/direct", &json!({})).await;

    refused.assert_problem(503, "kind_not_configured");
    assert_eq!(refused.body["retryable"], false);
    assert!(refused.detail().contains("tidegate init"), "{refused:?}");
}

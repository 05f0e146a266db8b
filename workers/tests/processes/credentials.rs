//! A service that refuses the credential of its callers until it is renewed.

use std::sync::{Arc, Mutex};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};

use super::{
    Logged, all_completed, count, invariants_hold, serve, spawn, stop,
    support::{TestDatabase, eventually},
    until,
};

/// The keys of the sends that were accepted.
type Accepted = Arc<Mutex<Vec<String>>>;

async fn pay(State(accepted): State<Accepted>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    if headers.get("authorization").is_none_or(|token| token != "Bearer new") {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "detail": "the token has expired" })));
    }
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    accepted.lock().unwrap().push(key);
    (StatusCode::CREATED, Json(json!({ "payment_id": 1 })))
}

async fn database() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set base_ms = 1, cap_ms = 1, jitter_ms = 0, attempts = 2, breaker_open_ms = 200
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_wait_for_a_renewed_credential() {
    let database = database().await;
    let accepted = Accepted::default();
    let router = Router::new().route("/pay", post(pay)).with_state(accepted.clone());
    let url = format!("{}/pay", serve(router).await);
    for _ in 0..20 {
        database.submit("direct").await;
    }
    let arguments =
        |token: &'static str| ["http", "--queue", "tx", "--kind", "direct", "--send-url", &url, "--header", token];
    let expired = Logged::start(&database, &arguments("Authorization: Bearer old"));

    eventually("the breaker was opened, and probes it", || async {
        count(&database, "tidegate.breaker_event where cause = 'unauthorized'").await == 1
            && count(&database, "tidegate.breaker_event where cause = 'probe failed'").await >= 3
    })
    .await;
    let explained = "select count(*) from tidegate.request as r, tidegate.explain(r.id) as e
        where e.sentence like '%the downstream refuses the credential of its calls (401, 403)%'";
    eventually("each request is explained by it", || async { database.number(explained).await == 20 }).await;
    assert_eq!(count(&database, "tidegate.request where req_status = 'failure'").await, 0);
    let said = expired.lines("refuses the credential");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("WARN") && said[0].contains("401"), "{said:?}");
    let error = "select distinct error ->> 'code' || ': ' || (error ->> 'message')
        from tidegate.request where error is not null";
    assert_eq!(database.text(error).await.unwrap(), "http_401: the token has expired");
    stop(expired.process).await;

    let renewed = spawn(&database, &arguments("Authorization: Bearer new"));
    all_completed(&database).await;
    assert_eq!(accepted.lock().unwrap().len(), 20);
    let used = "select max(tx_attempt - tx_unsent) from tidegate.request";
    assert_eq!(database.number(used).await, 1, "a refused credential uses no attempt");
    until(&database, "the breaker is gone", "tidegate.breaker", 0).await;
    stop(renewed).await;
    invariants_hold(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_may_take_a_refused_credential_as_final() {
    let database = database().await;
    database
        .execute("update tidegate.policy set retry_on = '{5xx,timeout,connect,throttled,other}' where kind = 'direct'")
        .await;
    let url = format!("{}/pay", serve(Router::new().route("/pay", post(pay)).with_state(Accepted::default())).await);
    for _ in 0..5 {
        database.submit("direct").await;
    }
    let worker = spawn(&database, &["http", "--queue", "tx", "--kind", "direct", "--send-url", &url]);
    let rejected = "tidegate.request
        where req_status = 'failure' and cause = 'rejected' and error ->> 'code' = 'http_401' and tx_attempt = 1";
    until(&database, "each is rejected", rejected, 5).await;
    assert_eq!(count(&database, "tidegate.breaker_event").await, 0);
    let executed = "select string_agg(distinct tidegate.executed(r)::text, ' ') from tidegate.request as r";
    assert_eq!(database.text(executed).await.unwrap(), "no");
    stop(worker).await;
}

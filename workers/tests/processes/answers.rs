//! Answers of an ordinary service, as responses of requests.

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::post,
};
use serde_json::{Value, json};

use super::{
    Logged, serve, stop,
    support::{TestDatabase, eventually},
    without_kinds,
};

/// The kind, the status and the error of a request, and its response.
async fn ended(database: &TestDatabase, kind: &str) -> Value {
    let request = format!(
        "select jsonb_build_object('status', r.req_status, 'code', r.error ->> 'code', 'executed', tidegate.executed(r),
           'response', r.response)::text
         from tidegate.request as r where r.kind = '{kind}'"
    );
    serde_json::from_str(&database.text(&request).await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_service_answers_with_its_bodies() {
    const NUMBERS: &str = r#"{"id": 123456789012345678901234567890, "eur": 0.10000}"#;
    let database = without_kinds().await;
    let typed = |content_type: &'static str, body: Vec<u8>| ([(CONTENT_TYPE, content_type)], body);
    let json = async move |status, body: &str| (status, typed("application/json", body.into())).into_response();
    let router = Router::new()
        .route("/created", post(async move || json(StatusCode::CREATED, r#"{"payment_id": "p-1"}"#).await))
        .route("/numbers", post(async move || json(StatusCode::OK, NUMBERS).await))
        .route("/text", post(async || "thank you"))
        .route("/bytes", post(async move || typed("image/png", vec![0, 255])))
        .route("/empty", post(async || StatusCode::NO_CONTENT))
        .route("/huge", post(async || "x".repeat(5000)))
        .route("/accepted", post(async || (StatusCode::ACCEPTED, "queued")));
    let service = serve(router).await;
    let kinds = ["created", "numbers", "text", "bytes", "empty", "huge", "accepted"];
    let mut arguments =
        vec!["http".to_owned(), format!("--send-url={service}/{{kind}}"), "--max-response-bytes=4999".to_owned()];
    for kind in kinds {
        database.execute(&format!("select tidegate.kind_add('{kind}', 'direct')")).await;
        database.submit(kind).await;
        arguments.push(format!("--kind={kind}"));
    }
    database.submit("accepted").await;
    let worker = Logged::start(&database, &arguments.iter().map(String::as_str).collect::<Vec<_>>());

    eventually("every request is sent", || async {
        let sent = "select count(*) from tidegate.request
            where req_status in ('completed', 'failure', 'receipt_received')";
        database.number(sent).await == 8
    })
    .await;
    let completed =
        |response: Value| json!({ "status": "completed", "code": null, "executed": "yes", "response": response });
    for (kind, response) in [
        ("created", json!({ "payment_id": "p-1" })),
        ("text", json!({ "content_type": "text/plain; charset=utf-8", "text": "thank you" })),
        ("bytes", json!({ "content_type": "image/png", "base64": "AP8=" })),
        ("empty", json!(null)),
    ] {
        assert_eq!(ended(&database, kind).await, completed(response), "{kind}");
    }
    let numbers = "select response::text from tidegate.request where kind = 'numbers'";
    let stored = database.text(numbers).await.unwrap();
    assert_eq!(stored, r#"{"id": 123456789012345678901234567890, "eur": 0.10000}"#);
    let huge = ended(&database, "huge").await;
    assert_eq!(
        huge,
        json!({ "status": "failure", "code": "unstorable_response", "executed": "yes", "response": null })
    );

    let promised = worker.lines("is a 202");
    assert_eq!(promised.len(), 1, "{promised:?}");
    for part in ["WARN", "--answer accepted=final", "/v1/responses"] {
        assert!(promised[0].contains(part), "{promised:?}");
    }
    let without = "select count(*) from tidegate.request where response is null and req_status = 'completed'";
    assert_eq!(database.number(without).await, 0, "null of the service is JSON");
    stop(worker.process).await;
    super::invariants_hold(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_that_is_none_is_said_once() {
    let database = TestDatabase::unlimited().await;
    let created = async || (StatusCode::CREATED, axum::Json(json!({ "payment_id": 7 })));
    let url = format!("direct={}/pay", serve(Router::new().route("/pay", post(created))).await);
    for _ in 0..3 {
        database.submit("direct").await;
    }
    let arguments = ["http", "--queue", "tx", "--kind", "direct", "--send-url", &url, "--answer", "direct=envelope"];
    let worker = Logged::start(&database, &arguments);

    let awaiting = "tidegate.request where req_status = 'receipt_received'";
    super::until(&database, "all await their responses", awaiting, 3).await;
    let said = worker.lines("has no member `response`");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("--answer direct=body"), "{said:?}");
    stop(worker.process).await;
}

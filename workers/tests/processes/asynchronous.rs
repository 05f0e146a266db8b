//! An asynchronous API: it takes a request, and is asked for its response.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{
        HeaderMap, StatusCode,
        header::{LOCATION, RETRY_AFTER},
    },
    response::IntoResponse,
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{
    Logged, count, invariants_hold, serve, stop,
    support::{TestDatabase, eventually},
    until, without_kinds,
};

/// The payments by their ids, each as it is shown, and how often each was asked for.
#[derive(Clone, Default)]
struct Payments(Arc<Mutex<BTreeMap<String, (Value, u32)>>>);

impl Payments {
    /// Ends every payment: those of the kind `refused` fail.
    fn end(&self) {
        for (id, (shown, _)) in self.0.lock().unwrap().iter_mut() {
            *shown = if id.starts_with("refused") {
                json!({ "status": "failed", "detail": "the account is closed", "code": "account_closed" })
            } else {
                json!({ "status": "done", "result": { "paid": 10.5 } })
            };
        }
    }

    /// Whether there are so many, and each was asked for.
    fn are_asked_for(&self, number: usize) -> bool {
        let payments = self.0.lock().unwrap();
        payments.len() == number && payments.values().all(|(_, asked)| *asked > 0)
    }
}

async fn pay(State(payments): State<Payments>, headers: HeaderMap) -> impl IntoResponse {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let id = format!("{}-{}", header("tidegate-kind"), header("idempotency-key"));
    let running = json!({ "status": "running" });
    payments.0.lock().unwrap().insert(id.clone(), (running, 0));
    let location = [(LOCATION, format!("/payments/{id}"))];
    (StatusCode::CREATED, location, Json(json!({ "id": id })))
}

async fn show(State(payments): State<Payments>, Path(id): Path<String>) -> impl IntoResponse {
    let mut payments = payments.0.lock().unwrap();
    let Some((shown, asked)) = payments.get_mut(&id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    *asked += 1;
    ([(RETRY_AFTER, "0")], Json(shown.clone())).into_response()
}

async fn service() -> (String, Payments) {
    let payments = Payments::default();
    let router = Router::new().route("/pay", post(pay)).route("/payments/{id}", get(show)).with_state(payments.clone());
    (serve(router).await, payments)
}

async fn database(kinds: &[&str]) -> TestDatabase {
    let database = without_kinds().await;
    for kind in kinds {
        database.execute(&format!("select tidegate.kind_add('{kind}', 'direct')")).await;
    }
    // A killed worker delays its asks by this.
    database.execute("update tidegate.policy set timeout_ms = 2000 where stage = 'tx'").await;
    database
}

async fn text(database: &TestDatabase, kind: &str, shown: &str) -> String {
    let sql = format!("select {shown} from tidegate.request as r where kind = '{kind}'");
    database.text(&sql).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_is_asked_until_it_has_the_response_whatever_worker_has_sent() {
    let kinds = ["located", "named", "refused"];
    let database = database(&kinds).await;
    let (url, payments) = service().await;
    for kind in kinds {
        database.submit(kind).await;
    }
    let send = format!("{url}/pay");
    let named = format!("named={url}/payments/{{reference}}");
    let arguments = [
        "http",
        "--kind",
        "located",
        "--kind",
        "named",
        "--kind",
        "refused",
        "--send-url",
        &send,
        "--response-url",
        "location",
        "--response-at",
        "/result",
        "--failed-at",
        "/status=failed,cancelled",
        "--response-url",
        &named,
        "--reference-at",
        "named=/id",
        "--response-at",
        "named=/status=done",
    ]; // fmt: skip
    let mut first = Logged::start(&database, &arguments);
    eventually("each is asked for", || async { payments.are_asked_for(3) }).await;
    assert_eq!(count(&database, "tidegate.request where req_status = 'receipt_received'").await, 3);
    first.process.kill().await.unwrap();

    payments.end();
    let second = Logged::start(&database, &arguments);
    until(&database, "all have ended", "tidegate.request where req_status in ('completed', 'failure')", 3).await;
    assert_eq!(text(&database, "located", "r.response::text").await, r#"{"paid": 10.5}"#);
    assert_eq!(text(&database, "named", "r.response::text").await, r#"{"result": {"paid": 10.5}, "status": "done"}"#);
    assert!(text(&database, "located", "r.reference").await.starts_with("/payments/located-"));
    assert!(text(&database, "named", "r.reference").await.starts_with("named-"));
    let failed = "concat_ws(' ', r.cause, r.error ->> 'code', r.error ->> 'message', tidegate.executed(r))";
    assert_eq!(text(&database, "refused", failed).await, "rejected account_closed the account is closed no");
    assert_eq!(payments.0.lock().unwrap().len(), 3, "each was sent once");
    assert_eq!(second.lines("await a POST"), Vec::<String>::new());
    stop(second.process).await;
    invariants_hold(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_cannot_be_asked_is_said_once() {
    let database = database(&["lost", "nameless"]).await;
    let (url, _) = service().await;
    for kind in ["lost", "lost", "nameless", "nameless"] {
        database.submit(kind).await;
    }
    let send = format!("--send-url={url}/pay");
    let lost = format!("--response-url=lost={url}/nothing/{{id}}");
    let nameless = format!("--response-url=nameless={url}/payments/{{reference}}");
    let silent = Router::new().route("/pay", post(async || StatusCode::ACCEPTED));
    let silent = format!("--send-url=nameless={}/pay", serve(silent).await);
    let arguments = ["http", "--kind=lost", &*send, &silent, &lost, &nameless];
    let worker = Logged::start(&database, &arguments);
    eventually("both kinds are said", || async {
        worker.lines("the service answered 404").len() == 1 && worker.lines("has no reference").len() == 1
    })
    .await;
    assert!(worker.lines("has no reference")[0].contains("--reference-at"));
    assert_eq!(worker.lines("WARN").len(), 2);
    assert_eq!(count(&database, "tidegate.request where req_status = 'receipt_received'").await, 4);
    stop(worker.process).await;
}

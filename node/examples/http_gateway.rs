//! An HTTP API of one's own beside `/v1`, with a worker in the same process. Ctrl-C stops both, and finishes the calls
//! under way.
//!
//! `curl -i -d '"7 to Ann"' -H 'Content-Type: application/json' -H 'Idempotency-Key: a' http://127.0.0.1:PORT/transfers`

use std::{env, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tidegate::{
    Kind, Stages, Submitted, Tidegate,
    request::{Request, RequestId},
    retry_after::RetryAfter,
    stage::Sent,
};
use tidegate_node::{Node, NodeOptions, on_signal};
use tokio::net::TcpListener;
use uuid::Uuid;

/// An answer that names the second of the next call.
fn later(status: StatusCode, retry_after: RetryAfter, body: Value) -> Response {
    (status, [(RETRY_AFTER, retry_after.as_secs().to_string())], Json(body)).into_response()
}

fn failed(error: &tidegate::Error) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
}

async fn submit(State(tidegate): State<Tidegate>, headers: HeaderMap, Json(payload): Json<Value>) -> Response {
    let mut submission = tidegate.submit("transfer", &payload);
    if let Some(key) = headers.get("Idempotency-Key").and_then(|key| key.to_str().ok()) {
        submission = submission.key(key);
    }
    match submission.await {
        Ok(Submitted::Accepted(ticket) | Submitted::Replayed(ticket)) => {
            let retry_after = ticket.eta.map_or(RetryAfter::SOON, |eta| eta.retry_after);
            later(StatusCode::ACCEPTED, retry_after, json!({ "id": ticket.id, "status": ticket.status }))
        }
        Ok(Submitted::Refused { retry_after }) => later(StatusCode::TOO_MANY_REQUESTS, retry_after, Value::Null),
        Err(error) => failed(&error),
    }
}

/// Holds the call for ten seconds, or until the request has ended.
async fn read(State(tidegate): State<Tidegate>, Path(id): Path<Uuid>) -> Response {
    match tidegate.wait(RequestId(id), Duration::from_secs(10)).await {
        Ok(ended) => Json(json!({ "status": ended.status, "response": ended.response })).into_response(),
        Err(tidegate::Error::NotEnded { .. }) => later(StatusCode::ACCEPTED, RetryAfter::SOON, json!({ "id": id })),
        Err(error) => failed(&error),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let tidegate = Tidegate::connect(&env::var("DATABASE_URL")?).await?;
    tidegate.migrate().await?;
    tidegate.register(Kind::direct("transfer").rate(50)).await?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/transfers", listener.local_addr()?);
    let router = Router::new().route("/transfers", post(submit)).route("/transfers/{id}", get(read));
    let node = Node::new(&tidegate, NodeOptions::default());
    let router = router.with_state(tidegate.clone()).merge(node.router());

    let stages = Stages::new().send("transfer", |request: Request<String>| async move {
        Sent::response(format!("paid {}", request.payload))
    });
    let worker = tidegate.worker(stages).start().await?;
    node.serve(listener, router, on_signal()?).await?;
    worker.stop().await?;
    println!("stopped");
    Ok(())
}

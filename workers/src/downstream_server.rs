//! A simulated downstream as an HTTP server, for several worker processes that share it.
//!
//! It speaks the protocol of [`http_stage`](crate::http_stage), so that workers reach it as they reach an operator's
//! own service; `docs/http-stage.md` shows it as an example:
//!
//! | call | answers |
//! |---|---|
//! | `POST /check/{kind}` | 200 ready, 425 not yet, 422 never, 429 too many checks at once |
//! | `POST /send/{kind}` | 202 with a reference, 200 with the response, 422 rejected, 500, 429 too many sends |
//! | `GET /receipt/{kind}/{id}` | 200 as the send, 404 |
//! | `GET /stats` | [`Stats`] |
//! | `GET /healthz` | 200 |

mod problem;

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::Map;
use tidegate::{request::RequestId, stage::Receipt};
use tokio::{net::TcpListener, time::sleep};
use tokio_util::sync::CancellationToken;

use self::problem::Problem;
use crate::simulate::{Checked, Downstream, SendAnswer, Stats};

/// The longest time that a send without an answer is held open.
const SILENCE: Duration = Duration::from_secs(120);
const LONGEST_PAYLOAD: usize = 16 << 20;

#[derive(Clone)]
struct Server {
    downstream: Arc<Downstream>,
    shutdown: CancellationToken,
}

/// Serves `downstream` until `shutdown`, then lets calls under way end.
///
/// Responses on their way are not waited for: [`Downstream::drain`] does that.
///
/// # Errors
///
/// When the listener breaks.
pub async fn serve(
    listener: TcpListener,
    downstream: Arc<Downstream>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let server = Server {
        downstream,
        shutdown: shutdown.clone(),
    };
    let router = Router::new()
        .route("/check/{kind}", post(check))
        .route("/send/{kind}", post(send))
        .route("/receipt/{kind}/{id}", get(receipt))
        .route("/stats", get(stats))
        .route("/healthz", get(async || "ok\n"))
        .layer(DefaultBodyLimit::max(LONGEST_PAYLOAD))
        .with_state(server);
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}

/// Reads the payload, as a real service would, and ignores it.
async fn check(
    State(server): State<Server>,
    Path(kind): Path<String>,
    headers: HeaderMap,
    _payload: Bytes,
) -> Result<StatusCode, Problem> {
    let id = headers
        .contains_key(IDEMPOTENCY_KEY)
        .then(|| request_id(&headers))
        .transpose()?;
    let too_many = "too many checks at once";
    Err(match server.downstream.check(id, &kind).await {
        Checked::Ready => return Ok(StatusCode::OK),
        Checked::Snooze { after } => Problem::new(StatusCode::TOO_EARLY, "snooze", "this cannot run yet").after(after),
        Checked::Never => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_possible", "this can never run"),
        Checked::TooMany { after } => Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", too_many).after(after),
        Checked::UnknownKind => Problem::unknown_kind(&kind),
    })
}

async fn send(
    State(server): State<Server>,
    Path(kind): Path<String>,
    headers: HeaderMap,
    _payload: Bytes,
) -> Result<Response, Problem> {
    let id = request_id(&headers)?;
    let too_many = "too many sends in a second";
    Err(match server.downstream.send(id, &kind).await {
        SendAnswer::Taken(receipt) => return Ok(taken(receipt)),
        SendAnswer::Rejected => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "rejected", "this request is rejected"),
        SendAnswer::Broken => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "broken", "something went wrong"),
        SendAnswer::Silence => {
            tokio::select! {
                () = server.shutdown.cancelled() => {}
                () = sleep(SILENCE) => {}
            }
            Problem::new(StatusCode::GATEWAY_TIMEOUT, "no_answer", "there is no answer")
        }
        SendAnswer::TooMany { after } => Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", too_many).after(after),
        SendAnswer::UnknownKind => Problem::unknown_kind(&kind),
    })
}

async fn receipt(
    State(server): State<Server>,
    Path((kind, id)): Path<(String, RequestId)>,
) -> Result<Response, Problem> {
    let receipt = server.downstream.find_receipt(id, &kind);
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no_receipt", "this request was not taken");
    receipt.map(taken).ok_or_else(missing)
}

async fn stats(State(server): State<Server>) -> Json<Stats> {
    Json(server.downstream.stats())
}

const IDEMPOTENCY_KEY: &str = "idempotency-key";

fn request_id(headers: &HeaderMap) -> Result<RequestId, Problem> {
    headers
        .get(IDEMPOTENCY_KEY)
        .and_then(|key| key.to_str().ok()?.parse().ok())
        .ok_or_else(|| {
            let detail = "send the request id in the header Idempotency-Key";
            Problem::new(StatusCode::BAD_REQUEST, "no_idempotency_key", detail)
        })
}

fn taken(receipt: Receipt) -> Response {
    let status = match receipt.response {
        Some(_) => StatusCode::OK,
        None => StatusCode::ACCEPTED,
    };
    let mut body = Map::new();
    body.extend(
        receipt
            .reference
            .map(|reference| ("reference".to_owned(), reference.into())),
    );
    body.extend(receipt.response.map(|response| ("response".to_owned(), response)));
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests;

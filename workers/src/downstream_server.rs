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

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{AppendHeaders, IntoResponse, Response},
    routing::{get, post},
};
use chrono::{DateTime, Utc};
use tidegate::{
    request::{JsonText, RequestId},
    stage::Receipt,
};
use tokio::{
    net::TcpListener,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use self::problem::Problem;
use crate::{
    http_stage::AnswerForm,
    simulate::{Downstream, Refusal, Stats},
};

/// The longest time that a send without an answer is held open.
const SILENCE: Duration = Duration::from_secs(120);
const LONGEST_PAYLOAD: usize = 16 << 20;

#[derive(Clone)]
struct Server {
    downstream: Arc<Downstream>,
    form: AnswerForm,
    shutdown: CancellationToken,
}

/// Serves `downstream` until `shutdown`, then lets calls under way end. Its 2xx have the given form.
///
/// Responses on their way are not waited for: [`Downstream::drain`] does that.
///
/// # Errors
///
/// When the listener breaks.
pub async fn serve(
    listener: TcpListener,
    downstream: Arc<Downstream>,
    form: AnswerForm,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let server = Server { downstream, form, shutdown: shutdown.clone() };
    let router = Router::new()
        .route("/check/{kind}", post(check))
        .route("/send/{kind}", post(send))
        .route("/receipt/{kind}/{id}", get(receipt))
        .route("/stats", get(stats))
        .route("/healthz", get(async || "ok\n"))
        .layer(DefaultBodyLimit::max(LONGEST_PAYLOAD))
        .with_state(server);
    axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

/// Reads the payload, as a real service would, and ignores it.
async fn check(
    State(server): State<Server>,
    Path(kind): Path<String>,
    headers: HeaderMap,
    _payload: Bytes,
) -> Result<(), Problem> {
    let has_id = headers.contains_key(IDEMPOTENCY_KEY);
    let id = has_id.then(|| request_id(&headers)).transpose()?;
    let checked = server.downstream.check(id, &kind).await;
    checked.map_err(|refusal| Problem::refusal(refusal, &kind))
}

async fn send(
    State(server): State<Server>,
    Path(kind): Path<String>,
    headers: HeaderMap,
    payload: Bytes,
) -> Result<Response, Problem> {
    let (id, began) = (request_id(&headers)?, began_at(&headers));
    if let Some(retry_after) = server.downstream.absurd_retry_after(&kind) {
        return Ok((StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, retry_after)]).into_response());
    }
    let key = server.downstream.key_in(&payload);
    let answer = server.downstream.send_under(id, &kind, key.as_deref(), began).await;
    if answer == Err(Refusal::Silence) {
        let _ = timeout(SILENCE, server.shutdown.cancelled()).await;
    }
    answer.map(|receipt| taken(receipt, server.form)).map_err(|refusal| Problem::refusal(refusal, &kind))
}

async fn receipt(
    State(server): State<Server>,
    Path((kind, id)): Path<(String, RequestId)>,
) -> Result<Response, Problem> {
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no_receipt", "this request was not taken");
    let receipt = server.downstream.find_receipt(id, &kind);
    receipt.map(|receipt| taken(receipt, server.form)).ok_or_else(missing)
}

async fn stats(State(server): State<Server>) -> Json<Stats> {
    Json(server.downstream.stats())
}

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const REFERENCE: &str = "tidegate-reference";
const BEGAN_AT: &str = "tidegate-began-at";

fn request_id(headers: &HeaderMap) -> Result<RequestId, Problem> {
    headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()?.parse().ok()).ok_or_else(|| {
        let detail = "send the request id in the header Idempotency-Key";
        Problem::new(StatusCode::BAD_REQUEST, "no_idempotency_key", detail)
    })
}

/// When the call began: by the time in its header, because a call may be delayed on its way, and all calls that come
/// while this process stands still are served at once afterwards; now without that header, or with another clock's.
fn began_at(headers: &HeaderMap) -> Instant {
    let began = headers.get(BEGAN_AT).and_then(|at| DateTime::parse_from_rfc3339(at.to_str().ok()?).ok());
    let ago = began.and_then(|began| (Utc::now() - began.to_utc()).to_std().ok());
    let now = Instant::now();
    ago.and_then(|ago| now.checked_sub(ago)).unwrap_or(now)
}

fn taken(receipt: Receipt, form: AnswerForm) -> Response {
    let status = match receipt.response {
        Some(_) => StatusCode::OK,
        None => StatusCode::ACCEPTED,
    };
    if form != AnswerForm::Envelope {
        let reference = AppendHeaders(receipt.reference.map(|reference| (REFERENCE, reference)));
        return match receipt.response {
            Some(response) => (status, reference, Json(response)).into_response(),
            None => (status, reference).into_response(),
        };
    }
    let reference = receipt.reference.map(|reference| ("reference", reference.into()));
    let response = receipt.response.map(|response| ("response", response));
    let body: BTreeMap<&str, JsonText> = reference.into_iter().chain(response).collect();
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests;

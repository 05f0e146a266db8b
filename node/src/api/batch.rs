//! Submitting many requests of one kind, all or none, and polling several at once.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tidegate::{
    internals::{
        error::StoreError,
        store::{Eta, Submitted},
    },
    request::RequestId,
    retry_after::RetryAfter,
};
use utoipa::ToSchema;

use super::retry_after_header::WithRetryAfter;
use super::{
    answers::{Ended, InProgress, PublicStatus},
    body::JsonArray,
    context::Api,
    openapi::{
        refusals::{Batching, Call, OfKind, Refusals, Submitting, WithBody},
        schemas,
    },
    path::{KindPath, batch_location, lookup_permit, unknown},
    problem::{INVALID_BODY, INVALID_HEADER, KEY_REUSED, Problem},
    submit::{REPLAYED, SubmissionHeaders, gate_closed, refusal},
};
use crate::state::access::Caller;

/// Requests in a batch, as `tidegate.submit_batch` takes them.
const REQUESTS_MAX: usize = 10_000;

/// Requests polled in one call at most: each may have a large result.
pub(super) const POLLED_MAX: usize = 100;

/// The stored requests of a batch.
#[derive(Serialize, ToSchema)]
struct Batch {
    #[schema(schema_with = schemas::queued)]
    status: PublicStatus,
    /// In the order of the payloads.
    #[schema(value_type = Vec<uuid::Uuid>, min_items = 1, max_items = 10_000)]
    job_ids: Vec<RequestId>,
    /// In how many seconds the last of them is expected to be ready.
    #[schema(value_type = u64, minimum = 1)]
    eta_seconds: RetryAfter,
}

/// Several requests, one of which at least is under way.
#[derive(Serialize, ToSchema)]
pub(super) struct BatchInProgress {
    #[schema(schema_with = schemas::queued)]
    status: PublicStatus,
    /// In how many seconds to ask again: as `Retry-After`. The last of them is expected to be ready then.
    #[schema(value_type = u64, minimum = 1)]
    eta_seconds: RetryAfter,
    /// In the order of the ids.
    requests: Vec<Polled>,
}

/// Several requests, all of which have ended.
#[derive(Serialize, ToSchema)]
pub(super) struct EndedBatch {
    #[schema(schema_with = schemas::all_ended)]
    status: &'static str,
    /// In the order of the ids.
    requests: Vec<Ended>,
}

/// One of several requests, as a poll of it alone answers.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Polled {
    #[schema(title = "Under way")]
    InProgress(InProgress),
    #[schema(title = "Ended")]
    Ended(Ended),
}

/// Submit many requests, all or none.
///
/// Takes an array of payloads; answers with their ids, in order. 202 when all of them are stored, durably; any other
/// status means that none is. `Retry-After` is when to ask for the last of them, and `Location` where to ask for all of
/// them at once, if they are no more than 100. 429 for the whole batch when the gate
/// has no room for all of it; 422 when it never would, because the batch is larger than its high mark.
///
/// `Idempotency-Key` stands for the whole batch: with the same payloads in the same order it is the same batch, marked
/// `Idempotency-Replayed: true` when nothing of it is new; with others, or more or fewer, 422.
#[utoipa::path(
    post,
    path = "/v1/{kind}/batch",
    params(
        KindPath,
        (
            "Idempotency-Key" = Option<String>, Header, nullable = false,
            min_length = 1, max_length = 255, pattern = "^[!-~]+$",
            description = "Makes repeating safe: it stands for the whole batch. 1 to 255 visible characters. \
                Some kinds require it.",
        ),
        (
            "Tidegate-Admission" = Option<String>, Header, nullable = false,
            pattern = "^accepted$", example = "accepted",
            description = "`accepted`: the work was accepted elsewhere, so no closed gate and no full quota refuses it. \
                           A key needs the scope `submit-accepted` for it.",
        ),
        (
            "traceparent" = Option<String>, Header, nullable = false,
            example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            description = "The place of the batch in its caller's trace, as W3C Trace Context has it. An invalid one is \
                           ignored.",
        ),
    ),
    request_body(content = schemas::Payloads, description = "The payloads: 1 to 10,000, any JSON but null"),
    responses(
        (
            status = 202,
            description = "All of them are stored, durably, or were before, under this key",
            body = Batch,
            headers(("Location" = String, description = "Where to poll them all at once; none for more than 100")),
        ),
        Refusals<(Call, OfKind, WithBody, Submitting, Batching)>,
    ),
)]
pub(super) async fn submit_batch(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
    headers: SubmissionHeaders,
    JsonArray(payloads): JsonArray,
) -> axum::response::Result<Response> {
    headers.authorise(&caller)?;
    if headers.not_before.is_some() {
        return Err(INVALID_HEADER.because("a batch starts at once: leave out Tidegate-Not-Before").into());
    }
    if headers.callback_url.is_some() {
        let detail = "a batch has no callback URL but its kind's: leave out Tidegate-Callback-Url";
        return Err(INVALID_HEADER.because(detail).into());
    }
    if payloads.is_empty() || payloads.len() > REQUESTS_MAX {
        let detail = format!("a batch has 1 to {REQUESTS_MAX} elements, not {}", payloads.len());
        return Err(INVALID_BODY.because(detail).into());
    }
    if let Some(index) = payloads.iter().position(|payload| payload.get() == "null") {
        return Err(INVALID_BODY.because(format!("element {index} is null")).into());
    }

    let (key, submitter) = (headers.idempotency_key.as_deref(), caller.submitter());
    let (admission, traceparent) = (headers.admission, headers.traceparent.as_deref());
    let submitted = api.node.submitter.submit_batch(&kind, &payloads, key, submitter, admission, traceparent).await;
    let submitted = submitted.map_err(|error| {
        api.node.metrics.submission_failed(&kind, &error);
        match error {
            // The error names the key that the database derived from this one.
            StoreError::KeyReused(_) if key.is_some() => {
                KEY_REUSED.because("this Idempotency-Key was used for a batch of other payloads")
            }
            error => refusal(&error, &kind),
        }
    })?;
    for one in &submitted {
        api.node.metrics.submitted(&kind, one);
    }
    tracing::debug!(requests = submitted.len(), request.kind = kind, "stored a batch");
    let answer = answer(&kind, submitted, |retry_after| {
        let gates = &api.node.gates;
        let retry_after = gates.in_turn(&kind, submitter, retry_after, payloads.len());
        gate_closed(retry_after, gates.of_submission(&kind, submitter, true).as_ref())
    });
    Ok(answer?)
}

fn answer(
    kind: &str,
    submitted: Vec<Submitted>,
    refused: impl FnOnce(RetryAfter) -> Problem,
) -> Result<Response, Problem> {
    let mut job_ids = Vec::with_capacity(submitted.len());
    let mut etas = Vec::with_capacity(submitted.len());
    let mut replayed = true;
    for one in submitted {
        replayed &= matches!(one, Submitted::Replayed(_));
        let ticket = match one {
            Submitted::Accepted(ticket) | Submitted::Replayed(ticket) => ticket,
            Submitted::Refused { retry_after } => return Err(refused(retry_after)),
        };
        job_ids.push(ticket.id);
        etas.extend(ticket.eta);
    }
    let location = (job_ids.len() <= POLLED_MAX).then(|| [(LOCATION, batch_location(kind, &job_ids))]);
    let body = Batch { status: PublicStatus::Queued, job_ids, eta_seconds: retry_after(&etas) };
    let replayed = replayed.then_some([(REPLAYED, "true")]);
    Ok((StatusCode::ACCEPTED, replayed, location, WithRetryAfter(body.eta_seconds), Json(body)).into_response())
}

/// When to ask again for several requests.
fn retry_after(etas: &[Eta]) -> RetryAfter {
    Eta::last(etas).map_or(RetryAfter::SOON, |last| last.retry_after)
}

/// The answer to a poll of several requests. An id that is unknown, of another kind or of another submitter refuses the
/// call, as it refuses a poll of that request alone.
pub(super) async fn poll(api: &Api, kind: &str, caller: &Caller, ids: &[RequestId]) -> Result<Response, Problem> {
    // Held until the answer, which may be large, has been written to a buffer.
    let _permit = lookup_permit(api, &api.store).await?;
    let outlooks = api.store.outlooks(ids).await?;
    let mut found = Vec::with_capacity(ids.len());
    for (id, outlook) in ids.iter().zip(outlooks) {
        let outlook = outlook.filter(|outlook| caller.may_poll(kind, outlook));
        found.push(outlook.ok_or_else(|| unknown(*id))?);
    }
    for outlook in &found {
        api.node.metrics.found(outlook);
    }
    if found.iter().all(|outlook| outlook.status.is_terminal()) {
        let requests = found.into_iter().map(Ended::of).collect();
        let status = schemas::ALL_ENDED;
        return Ok(Json(EndedBatch { status, requests }).into_response());
    }
    let etas: Vec<_> = found.iter().filter_map(|outlook| outlook.eta).collect();
    let requests = found.into_iter().map(|outlook| match outlook.status.is_terminal() {
        true => Polled::Ended(Ended::of(outlook)),
        false => Polled::InProgress(InProgress::of(&outlook)),
    });
    let body =
        BatchInProgress { status: PublicStatus::Queued, eta_seconds: retry_after(&etas), requests: requests.collect() };
    Ok((StatusCode::ACCEPTED, WithRetryAfter(body.eta_seconds), Json(body)).into_response())
}

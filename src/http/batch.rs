//! Submitting many requests of one kind, all or none.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    access::Caller,
    answers::UnderWay,
    body::JsonArray,
    grouping::Batch,
    openapi::{
        parameters::KindParameter,
        refusals::{Batching, Call, OfKind, Refusals, Submitting, WithBody},
        schemas,
    },
    path::KindPath,
    problem::{INVALID_BODY, INVALID_HEADER, KEY_REUSED, Problem},
    submit::{REPLAYED, Wishes, gate_closed, refusal},
};
use crate::{error::StoreError, request::RequestId, retry_after::RetryAfter, store::Submitted};

/// Requests in a batch, as `tidegate.submit_batch` takes them.
const REQUESTS_MAX: usize = 10_000;

/// Requests that are stored.
#[derive(Serialize, ToSchema)]
#[schema(as = Batch)]
struct Answer {
    #[schema(inline)]
    status: UnderWay,
    /// In the order of the payloads.
    #[schema(value_type = Vec<uuid::Uuid>, min_items = 1, max_items = 10_000)]
    job_ids: Vec<RequestId>,
    /// In how many seconds the last of them is expected to be ready.
    #[schema(value_type = u64, minimum = 1)]
    eta_seconds: RetryAfter,
}

/// What a batch's headers ask for.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what `Wishes` reads, as far as a batch may wish it")]
struct BatchWishes {
    /// Makes repeating safe: it stands for the whole batch. 1 to 255 visible characters.
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]+$",
        nullable = false
    )]
    idempotency_key: Option<String>,
}

/// `POST /v1/{kind}/batch`: an array of payloads in, their ids out, in order. 202 when all of them are stored, durably;
/// anything else means that none is. `Retry-After` is when to ask for the last of them. 429 for the whole batch when
/// the gate has no room for all of it; 422 when it never would, because the batch is larger than its high-water mark.
///
/// `Idempotency-Key` stands for the whole batch: with the same payloads in the same order it is the same batch, marked
/// `Idempotency-Replayed: true` when nothing of it is new; with others, or more or fewer, 422.
#[utoipa::path(
    post,
    path = "/v1/{kind}/batch",
    operation_id = "submit_batch",
    tag = "requests",
    summary = "Submit many requests, all or none",
    params(KindParameter, BatchWishes),
    request_body(content = schemas::Payloads, description = "The payloads: 1 to 10,000, any JSON but null"),
    responses(
        (
            status = 202,
            description = "All of them are stored, durably, or were before, under this key",
            body = Answer,
            headers(("Idempotency-Replayed" = String, description = "`true` when nothing of it is new")),
        ),
        Refusals<(Call, OfKind, WithBody, Submitting, Batching)>,
    ),
    security((), ("api_key" = ["submit"])),
)]
pub(super) async fn submit(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
    wishes: Wishes,
    JsonArray(payloads): JsonArray,
) -> Result<Response, Problem> {
    if wishes.not_before.is_some() {
        return Err(INVALID_HEADER.because("a batch starts at once: leave out Tidegate-Not-Before"));
    }
    if wishes.callback_url.is_some() {
        return Err(INVALID_HEADER
            .because("a batch tells nobody of its own: leave out Tidegate-Callback-Url, or set the kind's"));
    }
    if payloads.is_empty() || payloads.len() > REQUESTS_MAX {
        return Err(INVALID_BODY.because(format!(
            "a batch has 1 to {REQUESTS_MAX} elements, not {}",
            payloads.len()
        )));
    }
    if let Some(index) = payloads.iter().position(|payload| payload.get() == "null") {
        return Err(INVALID_BODY.because(format!("element {index} is null")));
    }

    let batch = Batch {
        kind,
        payloads,
        idempotency_key: wishes.idempotency_key,
        submitter: caller.submitter().map(str::to_owned),
    };
    let submitted = api.submitter.submit_batch(&batch).await;
    match &submitted {
        Ok(submitted) => {
            for one in submitted {
                api.metrics.submitted(&batch.kind, one);
            }
        }
        Err(error) => api.metrics.submission_failed(&batch.kind, error),
    }
    match submitted {
        Ok(submitted) => answer(submitted, |retry_after| {
            let (kind, submitter) = (&batch.kind, batch.submitter.as_deref());
            let count = batch.payloads.len();
            api.gates.in_turn(kind, submitter, retry_after, count)
        }),
        // The database names the key that it made of this one.
        Err(StoreError::KeyReused(_)) if batch.idempotency_key.is_some() => {
            Err(KEY_REUSED.because("this Idempotency-Key was used for a batch of other payloads"))
        }
        Err(error) => Err(refusal(&error, &batch.kind)),
    }
}

/// `in_turn`: when to submit again, told by when the gate opens.
fn answer(submitted: Vec<Submitted>, in_turn: impl FnOnce(RetryAfter) -> RetryAfter) -> Result<Response, Problem> {
    let mut job_ids = Vec::with_capacity(submitted.len());
    let mut last = None;
    let mut replayed = true;
    for one in submitted {
        let ticket = match one {
            Submitted::Accepted(ticket) => {
                replayed = false;
                ticket
            }
            Submitted::Replayed(ticket) => ticket,
            Submitted::Refused { retry_after } => {
                return Err(gate_closed(in_turn(retry_after)));
            }
        };
        job_ids.push(ticket.id);
        // The last to be ready, by its own jitter: the greatest of many jitters is the same for every batch.
        last = last.max(ticket.eta.map(|eta| (eta.p50, eta.retry_after)));
    }
    let eta_seconds = last.map_or(RetryAfter::SOON, |(_, retry_after)| retry_after);
    let body = Answer {
        status: UnderWay::Queued,
        job_ids,
        eta_seconds,
    };
    let accepted = (StatusCode::ACCEPTED, eta_seconds, Json(body));
    Ok(if replayed {
        ([(REPLAYED.clone(), "true")], accepted).into_response()
    } else {
        accepted.into_response()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::header::RETRY_AFTER;

    use super::*;
    use crate::{
        request::Status,
        store::{Eta, Ticket},
    };

    fn accepted(number: u128, p50: u64, retry_after: u64) -> Submitted {
        Submitted::Accepted(Ticket {
            id: RequestId(uuid::Uuid::from_u128(number)),
            status: Status::Processing,
            position: None,
            eta: Some(Eta {
                retry_after: RetryAfter::seconds(retry_after),
                p50: Some(Duration::from_secs(p50)),
                p90: None,
            }),
        })
    }

    #[test]
    fn a_batch_is_told_when_to_ask_for_its_last_request_whatever_the_jitter_of_the_others() {
        let submitted = vec![accepted(1, 60, 90), accepted(2, 62, 70), accepted(3, 61, 80)];
        let answer = answer(submitted, |retry_after| retry_after).unwrap();
        assert_eq!(answer.headers()[RETRY_AFTER], "70");
    }
}

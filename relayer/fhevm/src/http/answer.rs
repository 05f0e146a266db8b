//! The answers of the API: their envelopes, and what a caller gets for each state of a request.

use std::{any::Any, collections::BTreeMap};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::{
    Outlook,
    request::{JsonText, RequestId, Status},
    retry_after::RetryAfter,
};
use uuid::Uuid;

use crate::{
    labels::{Detail, Label, Refusal},
    request::Family,
};

/// An answer to a submission or a poll.
#[derive(Debug)]
pub(super) enum Answer {
    /// The submission is stored, or its duplicate is.
    Accepted {
        /// The request.
        job: RequestId,
        /// When to poll.
        retry_after: RetryAfter,
    },
    /// The request goes on.
    Queued(RetryAfter),
    /// The request has this result.
    Succeeded(JsonText),
    /// The call was refused, or the request has failed.
    Failed(Refusal),
    /// The submission was refused for now, for this reason.
    Busy(RetryAfter, &'static str),
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(refusal)
    }
}

impl From<Label> for Answer {
    fn from(label: Label) -> Self {
        Self::Failed(label.into())
    }
}

/// The body of every answer.
#[derive(Serialize)]
struct Envelope<'a> {
    status: &'static str,
    #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
    request_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a JsonText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure<'a>>,
}

#[derive(Serialize)]
struct Failure<'a> {
    label: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a [Detail]>,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        // Names the answer in the log.
        let id = Uuid::new_v4();
        let envelope = |status| Envelope { status, request_id: Some(id), result: None, error: None };
        match self {
            Self::Accepted { job, retry_after } => {
                tracing::info!(request_id = %id, job_id = %job, "accepted");
                let body = json!({"status": "queued", "requestId": id, "result": {"jobId": job}});
                (StatusCode::ACCEPTED, header(retry_after), Json(body)).into_response()
            }
            Self::Queued(retry_after) => {
                tracing::debug!(request_id = %id, "queued");
                (StatusCode::ACCEPTED, header(retry_after), Json(envelope("queued"))).into_response()
            }
            Self::Succeeded(result) => {
                tracing::info!(request_id = %id, "succeeded");
                let result = Some(&result);
                let body = Envelope { result, ..envelope("succeeded") };
                Json(body).into_response()
            }
            Self::Failed(refusal) => {
                let Refusal { label, message, details } = &refusal;
                tracing::info!(request_id = %id, %label, "failed");
                let status = StatusCode::from_u16(label.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let (label, details) = (label.as_str(), details.as_deref());
                let error = Some(Failure { label, message, details });
                let body = Envelope { error, ..envelope("failed") };
                (status, Json(body)).into_response()
            }
            Self::Busy(retry_after, reason) => {
                tracing::debug!(reason, "refused for now");
                let label = Label::RateLimited;
                let message = format!("{}: {reason}", label.message());
                let body = json!({"status": "failed", "error": {"label": label.as_str(), "message": message}});
                (StatusCode::TOO_MANY_REQUESTS, header(retry_after), Json(body)).into_response()
            }
        }
    }
}

fn header(retry_after: RetryAfter) -> [(axum::http::HeaderName, HeaderValue); 1] {
    [(RETRY_AFTER, retry_after.as_secs().into())]
}

/// The answer to a call whose handler has panicked.
pub(super) fn of_panic(_: Box<dyn Any + Send>) -> Response {
    Answer::from(Label::InternalServerError).into_response()
}

/// What a poll gets for a request of this family.
pub(super) fn of_request(family: Family, outlook: Outlook) -> Answer {
    match outlook.status {
        Status::Completed => match outlook.response.map(|response| result(family, response)) {
            Some(Ok(result)) => Answer::Succeeded(result),
            unreadable => {
                let error = unreadable.and_then(Result::err);
                tracing::error!(job_id = %outlook.id, ?error, "the stored response is not one of the relayer's");
                Label::InternalServerError.into()
            }
        },
        Status::Failure | Status::TimedOut => Answer::Failed(ended(&outlook)),
        _ => Answer::Queued(outlook.eta.map_or(RetryAfter::SOON, |eta| eta.retry_after)),
    }
}

/// Why a request has ended without a result.
fn ended(outlook: &Outlook) -> Refusal {
    let error = outlook.error.as_ref();
    if let Some(refusal) = error.and_then(Refusal::of_error) {
        return refusal;
    }
    match error.map_or("", |error| error.code.as_str()) {
        "readiness_timed_out" => Label::ReadinessCheckTimedOut.into(),
        "response_timed_out" => Label::ResponseTimedOut.into(),
        "deadline_exceeded" | "attempts_exhausted" => {
            // What the last attempt lacked, such as a wallet, or an endpoint.
            let last = outlook.last_error.as_ref().and_then(Refusal::of_error);
            last.filter(|last| last.label != Label::InternalServerError)
                .unwrap_or_else(|| Label::ResponseTimedOut.into())
        }
        code => {
            tracing::warn!(job_id = %outlook.id, code, "a request has ended with an error without a label");
            Label::InternalServerError.into()
        }
    }
}

/// The result of a request, from its stored response.
fn result(family: Family, response: JsonText) -> serde_json::Result<JsonText> {
    #[derive(Deserialize)]
    struct Response {
        shares: BTreeMap<String, Share>,
    }
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Share {
        payload: String,
        signature: String,
        extra_data: String,
        #[serde(skip_serializing)]
        index: String,
    }
    if matches!(family, Family::InputProof | Family::PublicDecrypt) {
        return Ok(response);
    }
    let response: Response = serde_json::from_str(response.get())?;
    let mut shares: Vec<_> = response.shares.into_values().collect();
    // An index is a number of any size, in decimal.
    shares.sort_by(|a, b| (a.index.len(), &a.index).cmp(&(b.index.len(), &b.index)));
    JsonText::of(&BTreeMap::from([("result", shares)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_in_the_order_of_their_indexes_which_are_not_shown() {
        let share = |index: &str| json!({"payload": index, "signature": "", "extraData": "0x", "index": index});
        let shares = json!({"shares": {"a": share("10"), "b": share("9"), "c": share("0")}});

        let result = result(Family::UserDecrypt, shares.into()).unwrap();

        let shown = |index: &str| json!({"payload": index, "signature": "", "extraData": "0x"});
        let result: serde_json::Value = serde_json::from_str(result.get()).unwrap();
        assert_eq!(result, json!({"result": [shown("0"), shown("9"), shown("10")]}));
    }
}

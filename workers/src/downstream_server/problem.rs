//! The errors of a simulated downstream, as problem details (RFC 9457).

use std::time::Duration;

use axum::{
    Json,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use serde_json::json;
use tidegate::retry_after::RetryAfter;

/// One error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry_after: Option<Duration>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            retry_after: None,
        }
    }

    pub(super) fn snooze(after: Option<Duration>) -> Self {
        Self {
            retry_after: after,
            ..Self::new(StatusCode::TOO_EARLY, "snooze", "this cannot run yet")
        }
    }

    pub(super) fn never() -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not_possible", "this can never run")
    }

    pub(super) fn rejected() -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "rejected", "this request is rejected")
    }

    pub(super) fn broken() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "broken", "something went wrong")
    }

    pub(super) fn silence() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "no_answer", "there is no answer")
    }

    pub(super) fn too_many(what: &str, after: Duration) -> Self {
        Self {
            retry_after: Some(after),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", format!("too many {what}"))
        }
    }

    pub(super) fn unknown_kind(kind: &str) -> Self {
        let detail = format!("the kind {kind} is not served here: start with --kind {kind}:FLOW");
        Self::new(StatusCode::NOT_FOUND, "unknown_kind", detail)
    }

    pub(super) fn no_receipt() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_receipt", "this request was not taken")
    }

    pub(super) fn no_key() -> Self {
        let detail = "send the request id in the header Idempotency-Key";
        Self::new(StatusCode::BAD_REQUEST, "no_idempotency_key", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Json(json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        }));
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        let media_type = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, media_type);
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, RetryAfter::from(after).as_secs().into());
        }
        response
    }
}

//! The errors of a simulated downstream, as problem details (RFC 9457).

use std::time::Duration;

use axum::{
    Json,
    http::{
        StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use serde_json::json;
use tidegate::{request::RequestError, retry_after::RetryAfter};

use crate::simulate::Refusal;

/// One error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    error: RequestError,
    retry_after: Option<Duration>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, detail: &str) -> Self {
        Self { status, error: RequestError::new(code, detail, false), retry_after: None }
    }

    /// The refusal of a call for a request of `kind`.
    pub(super) fn refusal(refusal: Refusal, kind: &str) -> Self {
        let status = match refusal {
            Refusal::NotYet { .. } => StatusCode::TOO_EARLY,
            Refusal::NotPossible | Refusal::Rejected => StatusCode::UNPROCESSABLE_ENTITY,
            Refusal::Broken => StatusCode::INTERNAL_SERVER_ERROR,
            Refusal::Silence => StatusCode::GATEWAY_TIMEOUT,
            Refusal::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            Refusal::UnknownKind => StatusCode::NOT_FOUND,
        };
        Self { status, error: refusal.error(kind), retry_after: refusal.after() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Json(json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "code": self.error.code,
            "detail": self.error.message,
        }));
        let content_type = [(CONTENT_TYPE, "application/problem+json")];
        let seconds = |after| RetryAfter::from(after).as_secs().to_string();
        let retry_after = self.retry_after.map(|after| [(RETRY_AFTER, seconds(after))]);
        (self.status, content_type, retry_after, body).into_response()
    }
}

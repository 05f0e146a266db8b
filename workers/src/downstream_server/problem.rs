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
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            retry_after: None,
        }
    }

    pub(super) fn after(self, retry_after: impl Into<Option<Duration>>) -> Self {
        Self {
            retry_after: retry_after.into(),
            ..self
        }
    }

    pub(super) fn unknown_kind(kind: &str) -> Self {
        let detail = format!("the kind {kind} is not served here: start with --kind {kind}:FLOW");
        Self::new(StatusCode::NOT_FOUND, "unknown_kind", detail)
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

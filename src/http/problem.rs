//! Every error of the API, as problem details (RFC 9457) with a stable `code` and `retryable`.

mod classes;

use std::any::Any;

use axum::{
    http::{HeaderValue, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::json;

pub(super) use self::classes::*;
use crate::error::warn_of;
use crate::{error::StoreError, retry_after::RetryAfter};

/// The start of a problem's `type`, before its code.
pub(super) const TYPE_PREFIX: &str = "urn:problem-type:tidegate:";

/// One error, as its caller receives it.
#[derive(Debug)]
pub(super) struct Problem {
    class: &'static Class,
    detail: String,
    retry_after: Option<RetryAfter>,
}

impl Class {
    /// A problem of this class.
    pub(super) fn because(&'static self, detail: impl Into<String>) -> Problem {
        Problem {
            class: self,
            detail: detail.into(),
            retry_after: self.retry_after,
        }
    }
}

impl Problem {
    /// Replaces the time after which to repeat the call.
    pub(super) fn after(mut self, retry_after: RetryAfter) -> Self {
        self.retry_after = Some(retry_after);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Class {
            status,
            code,
            title,
            retryable,
            ..
        } = self.class;
        let body = json!({
            "type": format!("{TYPE_PREFIX}{code}"),
            "title": title,
            "status": status.as_u16(),
            "detail": self.detail,
            "code": code,
            "retryable": retryable,
        });
        let content_type = HeaderValue::from_static("application/problem+json");
        let headers = [(CONTENT_TYPE, content_type)];
        (*status, self.retry_after, headers, body.to_string()).into_response()
    }
}

impl From<&StoreError> for Problem {
    /// Keeps addresses, statements and tables from callers: the detail of unexpected errors is only logged.
    fn from(error: &StoreError) -> Self {
        let class = match error {
            StoreError::UnknownKind(_) => &UNKNOWN_KIND,
            StoreError::KindNotConfigured(_) => &KIND_NOT_CONFIGURED,
            StoreError::KeyReused(_) => &KEY_REUSED,
            StoreError::UnknownRequest(_) => &UNKNOWN_REQUEST,
            StoreError::UnknownSetting(_) => &UNKNOWN_SETTING,
            StoreError::UnknownQueue(_) => &UNKNOWN_QUEUE,
            StoreError::Misuse(_) => &INVALID_REQUEST,
            StoreError::PolicyRefused(_) => &POLICY_REFUSED,
            StoreError::BatchTooLarge(_) => &BATCH_TOO_LARGE,
            StoreError::IllegalTransition(_) => &ILLEGAL_STATE,
            StoreError::Unstorable(_) => &UNSTORABLE,
            StoreError::NotPermitted(detail) => {
                tracing::error!(error = detail, "the database user lacks a permission");
                return NOT_PERMITTED
                    .because("the database user of this node lacks a role for it, such as tidegate_admin");
            }
            StoreError::CallbackRefused(_) => &CALLBACK_REFUSED,
            StoreError::NotMigrated(detail) => {
                tracing::error!(error = detail, "the database is not migrated");
                return NOT_MIGRATED.because("the database is not migrated: run `tidegate migrate`");
            }
            StoreError::GateBusy(detail) => {
                tracing::warn!(error = detail, "a gate is locked by another transaction");
                return GATE_BUSY
                    .because("nothing was stored: another transaction holds the gate's lock; submit again");
            }
            error if error.is_transient() => {
                warn_of!(error, "the database is not available to a call");
                return DATABASE_UNAVAILABLE
                    .because("the database is not available; the call may or may not have taken effect");
            }
            error => {
                tracing::error!(%error, "a call failed with an unexpected error");
                return INTERNAL.because("the server's log says what happened");
            }
        };
        class.because(error.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

/// Answers a call whose handler panicked; other calls are not affected.
#[expect(clippy::needless_pass_by_value, reason = "tower-http hands the panic over")]
pub(super) fn of_panic(panic: Box<dyn Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("not a string");
    tracing::error!(message, "a handler panicked");
    INTERNAL.because("the server's log says what happened").into_response()
}

//! Every error of the API, as problem details (RFC 9457) with a stable `code` and `retryable`.

mod classes;

use std::any::Any;

use axum::{
    Json,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tidegate::{
    internals::error::{StoreError, warn_of},
    request::Status,
    retry_after::RetryAfter,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

use super::retry_after_header::WithRetryAfter;

pub(super) use self::classes::*;

/// The start of a problem's `type`, before its code.
pub(super) const TYPE_PREFIX: &str = "urn:problem-type:tidegate:";

/// The error of a call (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemDocument {
    /// The class of problem, as a URI.
    #[schema(format = "uri", example = "urn:problem-type:tidegate:unknown_kind")]
    r#type: String,
    /// The class of problem, in words.
    title: &'static str,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The cause of this occurrence, and the remedy.
    detail: String,
    /// The class of problem, for programs: stable.
    #[schema(value_type = Code)]
    code: &'static str,
    /// Whether the same call may succeed later without any intervention.
    retryable: bool,
    /// In how many seconds to repeat the call: as `Retry-After`. Every 429 and 503 has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, nullable = false, minimum = 1)]
    retry_after_seconds: Option<RetryAfter>,
    /// The request's status, if that is the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    state: Option<Status>,
    /// Of a 429: the gate that is closed, by its queue, as `kind` and the name, or as `submitter` for the caller's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    gate: Option<String>,
}

/// The codes of all classes.
struct Code;

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let mut codes: Vec<_> = ALL.iter().map(|class| class.code).collect();
        codes.sort_unstable();
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.enum_values(Some(codes)).into()
    }
}

impl ToSchema for Code {}

/// One error, as its caller receives it.
#[derive(Debug)]
pub struct Problem {
    class: &'static Class,
    detail: String,
    retry_after: Option<RetryAfter>,
    state: Option<Status>,
    gate: Option<String>,
}

impl Class {
    /// A problem of this class.
    pub(super) fn because(&'static self, detail: impl Into<String>) -> Problem {
        Problem { class: self, detail: detail.into(), retry_after: self.retry_after, state: None, gate: None }
    }

    /// The body of an answer.
    pub(super) fn document(&self, detail: String, retry_after: Option<RetryAfter>) -> ProblemDocument {
        ProblemDocument {
            r#type: format!("{TYPE_PREFIX}{}", self.code),
            title: self.title,
            status: self.status.as_u16(),
            detail,
            code: self.code,
            retryable: self.retryable,
            retry_after_seconds: retry_after,
            state: None,
            gate: None,
        }
    }
}

impl Problem {
    /// Replaces the time after which to repeat the call.
    pub(super) fn after(mut self, retry_after: RetryAfter) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Shows the status that is the cause.
    pub(super) fn of(mut self, state: Status) -> Self {
        self.state = Some(state);
        self
    }

    /// Names the gate that is closed.
    pub(super) fn at(mut self, gate: Option<&str>) -> Self {
        self.gate = gate.map(str::to_owned);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let headers = [(CONTENT_TYPE, "application/problem+json")];
        let document = ProblemDocument {
            state: self.state,
            gate: self.gate,
            ..self.class.document(self.detail, self.retry_after)
        };
        (self.class.status, self.retry_after.map(WithRetryAfter), headers, Json(document)).into_response()
    }
}

impl From<&StoreError> for Problem {
    /// Keeps addresses, statements and tables from callers: the detail of unexpected errors is only logged.
    fn from(error: &StoreError) -> Self {
        let class = match error {
            StoreError::UnknownKind(_) => &UNKNOWN_KIND,
            StoreError::KindNotConfigured(_) => &KIND_NOT_CONFIGURED,
            StoreError::KeyReused(_) => &KEY_REUSED,
            StoreError::KeyMissing(_) => &KEY_MISSING,
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
                return NOT_PERMITTED.because("this node's database user lacks a role, such as tidegate_admin");
            }
            StoreError::CallbackRefused(_) => &CALLBACK_REFUSED,
            StoreError::NotMigrated(detail) => {
                tracing::error!(error = detail, "the database is not migrated");
                return NOT_MIGRATED.because("the database is not migrated: run `tidegate migrate`");
            }
            StoreError::KeyBusy(_) => &KEY_BUSY,
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
                return INTERNAL.because("the server's log has the cause");
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
    INTERNAL.because("the server's log has the cause").into_response()
}

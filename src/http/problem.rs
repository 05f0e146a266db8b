//! Every error of the API, as problem details (RFC 9457) with a stable `code` and `retryable`.

use std::{any::Any, time::Duration};

use axum::{
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::error::StoreError;

/// What a problem's `type` is before its code.
pub(super) const TYPE_PREFIX: &str = "urn:problem-type:tidegate:";

/// A class of problems: what is the same each time it happens.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) title: &'static str,
    /// Whether the same call may succeed later, with nobody doing anything about it.
    pub(super) retryable: bool,
    /// When to come back, in seconds; 429 and 503 always say so.
    retry_after: Option<u64>,
}

impl Class {
    /// The caller has to change something.
    const fn refused(status: StatusCode, code: &'static str, title: &'static str) -> Self {
        Self {
            status,
            code,
            title,
            retryable: false,
            retry_after: None,
        }
    }

    /// Time helps.
    const fn later(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        retry_after: u64,
    ) -> Self {
        Self {
            status,
            code,
            title,
            retryable: true,
            retry_after: Some(retry_after),
        }
    }

    /// An operator has to do something first. Callers that come back by themselves should take their time.
    const fn operator(code: &'static str, title: &'static str) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code,
            title,
            retryable: false,
            retry_after: Some(30),
        }
    }

    /// A problem of this class.
    pub(super) fn because(&'static self, detail: impl Into<String>) -> Problem {
        Problem {
            class: self,
            detail: detail.into(),
            retry_after: self.retry_after,
        }
    }
}

/// Declares the classes, and the list of them that the API's document is made from.
macro_rules! classes {
    ($($(#[$doc:meta])* pub(super) static $name:ident: Class = $class:expr;)+) => {
        $($(#[$doc])* pub(super) static $name: Class = $class;)+

        /// Every class there is.
        pub(super) static ALL: &[&Class] = &[$(&$name),+];
    };
}

classes! {
pub(super) static MALFORMED_JSON: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "malformed_json",
    "The body is not JSON",
);
pub(super) static INVALID_BODY: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "invalid_body",
    "The body lacks a member, or has a strange one",
);
pub(super) static INVALID_HEADER: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "invalid_header",
    "A header makes no sense",
);
pub(super) static INVALID_REQUEST: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "invalid_request",
    "The request makes no sense",
);
pub(super) static INCOMPLETE_BODY: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "incomplete_body",
    "The body ended too early",
);
pub(super) static INVALID_PARAMETER: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "invalid_parameter",
    "A query parameter makes no sense",
);
pub(super) static UNAUTHENTICATED: Class = Class::refused(
    StatusCode::UNAUTHORIZED,
    "unauthenticated",
    "An API key is needed",
);
pub(super) static FORBIDDEN: Class = Class::refused(
    StatusCode::FORBIDDEN,
    "insufficient_scope",
    "The API key does not allow this",
);
pub(super) static FOREIGN_ORIGIN: Class = Class::refused(
    StatusCode::FORBIDDEN,
    "foreign_origin",
    "The call comes from a web page of another site",
);
pub(super) static UNKNOWN_PATH: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_path",
    "There is nothing at this path",
);
pub(super) static UNKNOWN_KIND: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_kind",
    "There is no such kind",
);
pub(super) static UNKNOWN_REQUEST: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_request",
    "There is no such request",
);
pub(super) static UNKNOWN_SETTING: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_setting",
    "There is no such setting",
);
pub(super) static UNKNOWN_QUEUE: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_queue",
    "There is no such queue",
);
/// 503 and not 403: the caller may be allowed to, this node's database user is not.
pub(super) static NOT_PERMITTED: Class =
    Class::operator("not_permitted", "This node's database user may not do this");
pub(super) static WRONG_METHOD: Class = Class::refused(
    StatusCode::METHOD_NOT_ALLOWED,
    "method_not_allowed",
    "This path does not take this method",
);
pub(super) static NOT_CANCELLABLE: Class = Class::refused(
    StatusCode::CONFLICT,
    "not_cancellable",
    "The request can no longer be cancelled",
);
pub(super) static ILLEGAL_STATE: Class = Class::refused(
    StatusCode::CONFLICT,
    "illegal_state",
    "The request's state does not allow this",
);
pub(super) static PAYLOAD_TOO_LARGE: Class = Class::refused(
    StatusCode::PAYLOAD_TOO_LARGE,
    "payload_too_large",
    "The body is too large",
);
pub(super) static UNSUPPORTED_MEDIA_TYPE: Class = Class::refused(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "unsupported_media_type",
    "The body must be plain JSON",
);
pub(super) static KEY_REUSED: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "idempotency_key_reused",
    "The idempotency key stands for another payload",
);
pub(super) static UNSTORABLE: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "unstorable",
    "The JSON holds a value that cannot be stored",
);
pub(super) static RESPONSE_MISFIT: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "response_misfit",
    "The response does not fit the request's flow",
);
pub(super) static CALLBACK_REFUSED: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "callback_refused",
    "The callback URL may not be named",
);
pub(super) static GATE_CLOSED: Class = Class::later(
    StatusCode::TOO_MANY_REQUESTS,
    "gate_closed",
    "Too much work is waiting",
    1,
);
pub(super) static OVERLOADED: Class = Class::later(
    StatusCode::SERVICE_UNAVAILABLE,
    "overloaded",
    "This node serves as many calls as it can",
    1,
);
pub(super) static TIMED_OUT: Class = Class::later(
    StatusCode::SERVICE_UNAVAILABLE,
    "call_timed_out",
    "The call took too long",
    5,
);
pub(super) static DATABASE_UNAVAILABLE: Class = Class::later(
    StatusCode::SERVICE_UNAVAILABLE,
    "database_unavailable",
    "The database cannot be reached",
    5,
);
pub(super) static NOT_MIGRATED: Class =
    Class::operator("not_migrated", "The database is not set up");
/// 503 and not a 4xx: nothing is wrong with the call, and it succeeds unchanged once the operator has set the kind up.
pub(super) static KIND_NOT_CONFIGURED: Class =
    Class::operator("kind_not_configured", "The kind is not set up");
pub(super) static INTERNAL: Class = Class::refused(
    StatusCode::INTERNAL_SERVER_ERROR,
    "internal",
    "Something is wrong with the server",
);
}

/// One error, as its caller sees it.
#[derive(Debug)]
pub(super) struct Problem {
    class: &'static Class,
    detail: String,
    retry_after: Option<u64>,
}

impl Problem {
    /// With another time to come back; in whole seconds, at least one.
    pub(super) fn after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(whole_seconds(retry_after));
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
        let mut response = (*status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// What `Retry-After` says: whole seconds, never zero, which some clients take for "at once and for ever".
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    seconds.max(1)
}

impl From<&StoreError> for Problem {
    /// What the database said, without what is none of a caller's business: addresses, statements, tables.
    fn from(error: &StoreError) -> Self {
        let class = match error {
            StoreError::UnknownKind(_) => &UNKNOWN_KIND,
            StoreError::KindNotConfigured(_) => &KIND_NOT_CONFIGURED,
            StoreError::KeyReused(_) => &KEY_REUSED,
            StoreError::UnknownRequest(_) => &UNKNOWN_REQUEST,
            StoreError::UnknownSetting(_) => &UNKNOWN_SETTING,
            StoreError::UnknownQueue(_) => &UNKNOWN_QUEUE,
            StoreError::Misuse(_) => &INVALID_REQUEST,
            StoreError::IllegalTransition(_) => &ILLEGAL_STATE,
            StoreError::Unstorable(_) => &UNSTORABLE,
            StoreError::NotPermitted(detail) => {
                tracing::error!(error = detail, "the database user may not do this");
                return NOT_PERMITTED.because(
                    "the database user of this node lacks a role for it, such as tidegate_admin",
                );
            }
            StoreError::CallbackRefused(_) => &CALLBACK_REFUSED,
            StoreError::NotMigrated(detail) => {
                tracing::error!(error = detail, "the database is not migrated");
                return NOT_MIGRATED
                    .because("the database is not migrated: run `tidegate migrate`");
            }
            error if error.is_transient() => {
                tracing::warn!(%error, "the database is unavailable");
                return DATABASE_UNAVAILABLE
                    .because("the database does not answer just now; what was asked may or may not have happened");
            }
            error => {
                tracing::error!(%error, "the database refused");
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

/// A panic costs its own caller an answer, and nobody else.
#[expect(
    clippy::needless_pass_by_value,
    reason = "tower-http hands the panic over"
)]
pub(super) fn of_panic(panic: Box<dyn Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("not a text");
    tracing::error!(message, "a handler panicked");
    INTERNAL
        .because("the server's log says what happened")
        .into_response()
}

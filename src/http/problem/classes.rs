//! The classes of problems.

use axum::http::StatusCode;

use crate::retry_after::RetryAfter;

/// A class of problems: what is the same each time it happens.
#[derive(Debug)]
pub(in crate::http) struct Class {
    pub(in crate::http) status: StatusCode,
    pub(in crate::http) code: &'static str,
    pub(in crate::http) title: &'static str,
    /// Whether the same call may succeed later, with nobody doing anything about it.
    pub(in crate::http) retryable: bool,
    /// When to come back; 429 and 503 always say so.
    pub(super) retry_after: Option<RetryAfter>,
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
    const fn later(status: StatusCode, code: &'static str, title: &'static str, retry_after: u64) -> Self {
        Self {
            status,
            code,
            title,
            retryable: true,
            retry_after: Some(RetryAfter::seconds(retry_after)),
        }
    }

    /// An operator has to do something first. Callers that come back by themselves should take their time.
    const fn operator(code: &'static str, title: &'static str) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code,
            title,
            retryable: false,
            retry_after: Some(RetryAfter::seconds(30)),
        }
    }
}

/// Declares the classes, and the list of them that the API's document is made from.
macro_rules! classes {
    ($($(#[$doc:meta])* pub(in crate::http) static $name:ident: Class = $class:expr;)+) => {
        $($(#[$doc])* pub(in crate::http) static $name: Class = $class;)+

        /// Every class there is.
        pub(in crate::http) static ALL: &[&Class] = &[$(&$name),+];
    };
}

classes! {
pub(in crate::http) static MALFORMED_JSON: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "malformed_json",
    "The body is not JSON",
);
pub(in crate::http) static INVALID_BODY: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "invalid_body",
    "The body lacks a member, or has a strange one",
);
pub(in crate::http) static INVALID_HEADER: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "invalid_header",
    "A header makes no sense",
);
pub(in crate::http) static INVALID_REQUEST: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "invalid_request",
    "The request makes no sense",
);
pub(in crate::http) static INCOMPLETE_BODY: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "incomplete_body",
    "The body ended too early",
);
pub(in crate::http) static INVALID_PARAMETER: Class = Class::refused(
    StatusCode::BAD_REQUEST,
    "invalid_parameter",
    "A query parameter makes no sense",
);
pub(in crate::http) static UNAUTHENTICATED: Class = Class::refused(
    StatusCode::UNAUTHORIZED,
    "unauthenticated",
    "An API key is needed",
);
pub(in crate::http) static FORBIDDEN: Class = Class::refused(
    StatusCode::FORBIDDEN,
    "insufficient_scope",
    "The API key does not allow this",
);
pub(in crate::http) static FOREIGN_ORIGIN: Class = Class::refused(
    StatusCode::FORBIDDEN,
    "foreign_origin",
    "The call comes from a web page of another site",
);
pub(in crate::http) static UNKNOWN_PATH: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_path",
    "There is nothing at this path",
);
pub(in crate::http) static UNKNOWN_KIND: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_kind",
    "There is no such kind",
);
pub(in crate::http) static UNKNOWN_REQUEST: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_request",
    "There is no such request",
);
pub(in crate::http) static UNKNOWN_SETTING: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_setting",
    "There is no such setting",
);
pub(in crate::http) static UNKNOWN_QUEUE: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_queue",
    "There is no such queue",
);
pub(in crate::http) static UNKNOWN_CAP: Class = Class::refused(
    StatusCode::NOT_FOUND,
    "unknown_cap",
    "There is no such cap",
);
/// 503 and not 403: the caller may be allowed to, this node's database user is not.
pub(in crate::http) static NOT_PERMITTED: Class =
    Class::operator("not_permitted", "This node's database user may not do this");
pub(in crate::http) static WRONG_METHOD: Class = Class::refused(
    StatusCode::METHOD_NOT_ALLOWED,
    "method_not_allowed",
    "This path does not take this method",
);
pub(in crate::http) static NOT_CANCELLABLE: Class = Class::refused(
    StatusCode::CONFLICT,
    "not_cancellable",
    "The request can no longer be cancelled",
);
pub(in crate::http) static ILLEGAL_STATE: Class = Class::refused(
    StatusCode::CONFLICT,
    "illegal_state",
    "The request's state does not allow this",
);
pub(in crate::http) static PAYLOAD_TOO_LARGE: Class = Class::refused(
    StatusCode::PAYLOAD_TOO_LARGE,
    "payload_too_large",
    "The body is too large",
);
pub(in crate::http) static UNSUPPORTED_MEDIA_TYPE: Class = Class::refused(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "unsupported_media_type",
    "The body must be plain JSON",
);
pub(in crate::http) static KEY_REUSED: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "idempotency_key_reused",
    "The idempotency key stands for another payload",
);
/// No 429: to repeat it does not help.
pub(in crate::http) static BATCH_TOO_LARGE: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "batch_too_large",
    "The batch is larger than a gate ever has room for",
);
/// The detail has the inequality with its numbers.
pub(in crate::http) static POLICY_REFUSED: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "policy_refused",
    "The policy cannot hold: it is over its budget, or against its semantics",
);
pub(in crate::http) static UNSTORABLE: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "unstorable",
    "The JSON holds a value that cannot be stored",
);
pub(in crate::http) static RESPONSE_MISFIT: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "response_misfit",
    "The response does not fit the request's flow",
);
pub(in crate::http) static CALLBACK_REFUSED: Class = Class::refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "callback_refused",
    "The callback URL may not be named",
);
pub(in crate::http) static GATE_CLOSED: Class = Class::later(
    StatusCode::TOO_MANY_REQUESTS,
    "gate_closed",
    "Too much work is waiting",
    1,
);
pub(in crate::http) static GATE_BUSY: Class = Class::later(
    StatusCode::SERVICE_UNAVAILABLE,
    "gate_busy",
    "Another transaction keeps the gate",
    5,
);
pub(in crate::http) static OVERLOADED: Class = Class::later(
    StatusCode::SERVICE_UNAVAILABLE,
    "overloaded",
    "This node serves as many calls as it can",
    1,
);
pub(in crate::http) static TIMED_OUT: Class = Class::later(
    StatusCode::SERVICE_UNAVAILABLE,
    "call_timed_out",
    "The call took too long",
    5,
);
pub(in crate::http) static DATABASE_UNAVAILABLE: Class = Class::later(
    StatusCode::SERVICE_UNAVAILABLE,
    "database_unavailable",
    "The database cannot be reached",
    5,
);
pub(in crate::http) static NOT_MIGRATED: Class =
    Class::operator("not_migrated", "The database is not set up");
/// 503 and not a 4xx: nothing is wrong with the call, and it succeeds unchanged once the operator has set the kind up.
pub(in crate::http) static KIND_NOT_CONFIGURED: Class =
    Class::operator("kind_not_configured", "The kind is not set up");
pub(in crate::http) static INTERNAL: Class = Class::refused(
    StatusCode::INTERNAL_SERVER_ERROR,
    "internal",
    "Something is wrong with the server",
);
}

//! The classes of problems.

use axum::http::StatusCode;
use tidegate::retry_after::RetryAfter;

/// A class of problems: the parts that are the same for each occurrence.
#[derive(Debug)]
pub(in crate::api) struct Class {
    pub(in crate::api) status: StatusCode,
    pub(in crate::api) code: &'static str,
    pub(in crate::api) title: &'static str,
    /// Whether the same call may succeed later without any intervention.
    pub(in crate::api) retryable: bool,
    /// When to repeat the call; every 429 and 503 has it.
    pub(in crate::api) retry_after: Option<RetryAfter>,
}

impl Class {
    /// The caller has to change something.
    const fn refused(status: StatusCode, code: &'static str, title: &'static str) -> Self {
        Self { status, code, title, retryable: false, retry_after: None }
    }

    /// The same call may succeed later.
    const fn later(status: StatusCode, code: &'static str, title: &'static str, retry_after: u64) -> Self {
        Self {
            retryable: true,
            retry_after: Some(RetryAfter::seconds(retry_after)),
            ..Self::refused(status, code, title)
        }
    }

    /// An operator has to act first. Callers that repeat the call automatically should do so rarely.
    const fn operator(code: &'static str, title: &'static str) -> Self {
        Self {
            retry_after: Some(RetryAfter::seconds(30)),
            ..Self::refused(StatusCode::SERVICE_UNAVAILABLE, code, title)
        }
    }
}

/// Declares the classes, and the list of them that the API's document is generated from.
macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $constructor:ident($($status:ident,)? $($argument:literal),+);)+) => {
        $(
            $(#[$doc])*
            pub(in crate::api) static $name: Class = Class::$constructor($(StatusCode::$status,)? $($argument),+);
        )+

        /// Every class.
        pub(in crate::api) static ALL: &[&Class] = &[$(&$name),+];
    };
}

classes! {
    MALFORMED_JSON = refused(BAD_REQUEST, "malformed_json", "The body is not JSON");
    INVALID_BODY = refused(BAD_REQUEST, "invalid_body", "The body lacks a member, or has an unexpected one");
    INVALID_HEADER = refused(BAD_REQUEST, "invalid_header", "A header has an invalid value");
    INVALID_REQUEST = refused(BAD_REQUEST, "invalid_request", "The request is invalid");
    KEY_MISSING = refused(BAD_REQUEST, "idempotency_key_missing", "The kind requires an idempotency key");
    INCOMPLETE_BODY = refused(BAD_REQUEST, "incomplete_body", "The body ended too early");
    INVALID_PARAMETER = refused(BAD_REQUEST, "invalid_parameter", "A query parameter has an invalid value");
    UNAUTHENTICATED = refused(UNAUTHORIZED, "unauthenticated", "An API key is needed");
    FORBIDDEN = refused(FORBIDDEN, "insufficient_scope", "The API key does not allow this");
    FOREIGN_ORIGIN = refused(FORBIDDEN, "foreign_origin", "The call comes from a web page of another site");
    UNKNOWN_PATH = refused(NOT_FOUND, "unknown_path", "There is nothing at this path");
    UNKNOWN_KIND = refused(NOT_FOUND, "unknown_kind", "There is no such kind");
    UNKNOWN_REQUEST = refused(NOT_FOUND, "unknown_request", "There is no such request");
    UNKNOWN_SETTING = refused(NOT_FOUND, "unknown_setting", "There is no such setting");
    UNKNOWN_QUEUE = refused(NOT_FOUND, "unknown_queue", "There is no such queue");
    UNKNOWN_QUOTA = refused(NOT_FOUND, "unknown_quota", "There is no such quota");
    /// 503 and not 403, because the caller may be allowed to do this, but the node's database user is not.
    NOT_PERMITTED = operator("not_permitted", "This node's database user may not do this");
    WRONG_METHOD = refused(METHOD_NOT_ALLOWED, "method_not_allowed", "This path does not take this method");
    NOT_CANCELLABLE = refused(CONFLICT, "not_cancellable", "The request can no longer be cancelled");
    ILLEGAL_STATE = refused(CONFLICT, "illegal_state", "The request's state does not allow this");
    PAYLOAD_TOO_LARGE = refused(PAYLOAD_TOO_LARGE, "payload_too_large", "The body is too large");
    UNSUPPORTED_MEDIA_TYPE = refused(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "The body must be plain JSON");
    KEY_REUSED =
        refused(UNPROCESSABLE_ENTITY, "idempotency_key_reused", "The idempotency key stands for another payload");
    /// Not 429, because a retry cannot succeed.
    BATCH_TOO_LARGE =
        refused(UNPROCESSABLE_ENTITY, "batch_too_large", "The batch is larger than a gate ever has room for");
    /// The detail has the inequality with its numbers.
    POLICY_REFUSED = refused(
        UNPROCESSABLE_ENTITY, "policy_refused", "The policy cannot be kept: it is over its budget or its latency target, or against its semantics"
    );
    UNSTORABLE = refused(UNPROCESSABLE_ENTITY, "unstorable", "The JSON holds a value that cannot be stored");
    RESPONSE_MISFIT = refused(UNPROCESSABLE_ENTITY, "response_misfit", "The response does not fit the request's flow");
    CALLBACK_REFUSED = refused(UNPROCESSABLE_ENTITY, "callback_refused", "The callback URL is not allowed");
    GATE_CLOSED = later(TOO_MANY_REQUESTS, "gate_closed", "Too much work is waiting", 1);
    GATE_BUSY = later(SERVICE_UNAVAILABLE, "gate_busy", "Another transaction holds the gate", 5);
    KEY_BUSY = later(SERVICE_UNAVAILABLE, "key_busy", "Another transaction holds the idempotency key", 5);
    OVERLOADED = later(SERVICE_UNAVAILABLE, "overloaded", "This node serves as many calls as it can", 1);
    TIMED_OUT = later(SERVICE_UNAVAILABLE, "call_timed_out", "The call took too long", 5);
    DATABASE_UNAVAILABLE = later(SERVICE_UNAVAILABLE, "database_unavailable", "The database cannot be reached", 5);
    NOT_MIGRATED = operator("not_migrated", "The database is not set up");
    /// 503 and not a 4xx: nothing is wrong with the call, and it succeeds unchanged once the operator has set the kind
    /// up.
    KIND_NOT_CONFIGURED = operator("kind_not_configured", "The kind is not set up");
    INTERNAL = refused(INTERNAL_SERVER_ERROR, "internal", "Something is wrong with the server");
}

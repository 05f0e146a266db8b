//! The labels of failed answers: one table with their HTTP status, their message and whether to repeat the call.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate::request::RequestError;

/// What the code of a stage's error begins with when its rest is a label.
const CODE_PREFIX: &str = "label:";

/// Declares the labels: the word of an answer, its HTTP status, its message, and whether the same call may succeed
/// later.
macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $status:literal, $message:literal, $repeat:literal;)+) => {
        /// Why a call or a request has failed, as its caller gets it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Label {
            $($(#[$doc])* $name,)+
        }

        impl Label {
            /// Every label.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The word of the answer.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// The HTTP status of the answer.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }

            /// The message of the answer, unless it has figures or details of its own.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$name => $message,)+ }
            }

            /// Whether the same call may succeed later.
            #[must_use]
            pub const fn repeat(self) -> bool {
                match self { $(Self::$name => $repeat,)+ }
            }
        }
    };
}

labels! {
    /// The body is not JSON.
    MalformedJson = "malformed_json", 400, "Invalid JSON format", false;
    /// The body lacks fields.
    MissingFields = "missing_fields", 400, "Missing required fields in the request", false;
    /// Fields break their rules, or the gateway has refused them.
    ValidationFailed = "validation_failed", 400, "Validation failed", false;
    /// The body could not be read.
    RequestError = "request_error", 400, "Failed to read request body", false;
    /// A handle is of a chain that the relayer does not serve.
    HostChainIdNotSupported = "host_chain_id_not_supported", 400,
        "Host chain ID is not supported by this relayer", false;
    /// The host chain does not allow a handle.
    NotAllowedOnHostAcl = "not_allowed_on_host_acl", 400, "Not allowed on the host chain's ACL", false;
    /// The API key is missing, unknown, or without the scope.
    Unauthorized = "unauthorized", 401, "Missing or invalid API key", false;
    /// There is no such job.
    NotFound = "not_found", 404, "Request not found", false;
    /// The submission was refused, for now.
    RateLimited = "rate_limited", 429, "Server is experiencing high processing load", true;
    /// Anything else.
    InternalServerError = "internal_server_error", 500, "Internal server error", false;
    /// The host chain could not be asked.
    HostAclFailed = "host_acl_failed", 500, "Failed to check the host chain's ACL", true;
    /// The ciphertext was not ready in time.
    ReadinessCheckTimedOut = "readiness_check_timed_out", 503,
        "Ciphertext not ready for decryption on the gateway chain", true;
    /// The gateway did not respond in time.
    ResponseTimedOut = "response_timed_out", 503,
        "Gateway chain did not respond within the expected timeframe", true;
    /// The gateway's contracts are paused.
    ProtocolPaused = "protocol_paused", 503, "Protocol is paused", true;
    /// No wallet has enough fee tokens.
    InsufficientBalance = "insufficient_balance", 503, "Insufficient balance for transaction", false;
    /// No wallet has approved the payment.
    InsufficientAllowance = "insufficient_allowance", 503, "Insufficient allowance for transaction", false;
    /// No endpoint of the gateway chain answers.
    GatewayNotReachable = "gateway_not_reachable", 503, "Gateway chain is not reachable", true;
}

impl Label {
    /// The code of a stage's error that carries this label.
    #[must_use]
    pub fn code(self) -> String {
        format!("{CODE_PREFIX}{self}")
    }

    /// The label that a stage's error carries, by its code.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        let word = code.strip_prefix(CODE_PREFIX)?;
        Self::ALL.iter().copied().find(|label| label.as_str() == word)
    }

    /// The error of a stage that ends a request with this label.
    #[must_use]
    pub fn error(self) -> RequestError {
        RequestError::new(self.code(), self.message(), self.repeat())
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// The field, as its caller named it.
    pub field: String,
    /// What is wrong with it.
    pub issue: String,
}

impl Detail {
    /// A field and its issue.
    pub fn new(field: impl Into<String>, issue: impl Into<String>) -> Self {
        Self { field: field.into(), issue: issue.into() }
    }
}

/// A label with what an answer says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The label.
    pub label: Label,
    /// The message.
    pub message: String,
    /// The fields at fault; only for [`Label::MissingFields`] and [`Label::ValidationFailed`].
    pub details: Option<Vec<Detail>>,
}

impl From<Label> for Refusal {
    fn from(label: Label) -> Self {
        Self::new(label, label.message())
    }
}

impl Refusal {
    /// A label with another message than its own.
    pub fn new(label: Label, message: impl Into<String>) -> Self {
        Self { label, message: message.into(), details: None }
    }

    /// The fields that a body lacks.
    #[must_use]
    pub fn missing(names: &[&str]) -> Self {
        let details = names.iter().map(|name| Detail::new(*name, "Required but missing"));
        Self::of_fields(Label::MissingFields, details.collect())
    }

    /// The fields that break their rules.
    #[must_use]
    pub fn invalid(details: Vec<Detail>) -> Self {
        Self::of_fields(Label::ValidationFailed, details)
    }

    fn of_fields(label: Label, details: Vec<Detail>) -> Self {
        let names: Vec<_> = details.iter().map(|detail| detail.field.as_str()).collect();
        let names = names.join(", ");
        let fields = match details.len() {
            1 => "field",
            _ => "fields",
        };
        let (count, message) = (details.len(), label.message());
        let message = match label {
            Label::MissingFields => format!("Missing {count} required {fields} in the request: {names}"),
            _ => format!("{message} for {count} {fields} in the request: {names}"),
        };
        Self { label, message, details: Some(details) }
    }

    /// What a caller gets for the error in which its request ended; `None` for an error without a label. The message of
    /// the error itself is for operators.
    #[must_use]
    pub fn of_error(error: &RequestError) -> Option<Self> {
        let label = Label::of_code(&error.code)?;
        if !matches!(label, Label::MissingFields | Label::ValidationFailed) {
            return Some(label.into());
        }
        let details = error.details.as_ref().map(|details| serde_json::from_str(details.get()));
        Some(Self::of_fields(label, details.and_then(Result::ok).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use tidegate::request::JsonText;

    use super::*;

    #[test]
    fn a_label_is_found_by_the_code_of_its_error_and_by_no_other() {
        for label in Label::ALL {
            assert_eq!(Label::of_code(&label.error().code), Some(*label));
            assert_eq!(label.error().retryable, label.repeat());
        }
        for code in ["rejected", "label:", "label:unknown", "protocol_paused"] {
            assert_eq!(Label::of_code(code), None, "{code}");
        }
    }

    #[test]
    fn the_message_of_fields_counts_and_names_them() {
        assert_eq!(Refusal::missing(&["extraData"]).message, "Missing 1 required field in the request: extraData");
        let two = vec![Detail::new("a", "x"), Detail::new("b.c", "y")];
        assert_eq!(Refusal::invalid(two.clone()).message, "Validation failed for 2 fields in the request: a, b.c");

        let mut error = Label::ValidationFailed.error();
        error.details = Some(JsonText::of(&two).unwrap());
        assert_eq!(Refusal::of_error(&error), Some(Refusal::invalid(two)));
    }
}

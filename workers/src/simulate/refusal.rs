//! Why a simulated downstream refuses a call.

use std::time::Duration;

use tidegate::request::RequestError;

/// The answer to a check or a send that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request cannot run now.
    NotYet {
        /// When to ask again.
        after: Option<Duration>,
    },
    /// The request can never run.
    NotPossible,
    /// The send was refused permanently.
    Rejected,
    /// A server error: the request may have been taken or not.
    Broken,
    /// No answer will come, though the request was taken.
    Silence,
    /// The call broke the concurrency limit of checks or the rate limit of sends.
    TooMany {
        /// When to call again.
        after: Duration,
    },
    /// The downstream does not serve this kind.
    UnknownKind,
}

impl Refusal {
    /// When the downstream asks for the next call.
    pub(crate) fn after(self) -> Option<Duration> {
        match self {
            Self::NotYet { after } => after,
            Self::TooMany { after } => Some(after),
            _ => None,
        }
    }

    /// The error of a call for a request of `kind`.
    pub(crate) fn error(self, kind: &str) -> RequestError {
        let (code, message) = match self {
            Self::NotYet { .. } => ("snooze", "this cannot run yet"),
            Self::NotPossible => ("not_possible", "the simulated downstream can never run this request"),
            Self::Rejected => ("rejected", "the simulated downstream rejected this request"),
            Self::Broken => ("http_500", "the simulated downstream failed"),
            Self::Silence => ("no_answer", "there is no answer"),
            Self::TooMany { .. } => ("http_429", "this call is beyond the limit"),
            Self::UnknownKind => {
                let message = format!("the kind {kind} is not served here: start with --kind {kind}:FLOW");
                return RequestError::new("unknown_kind", message, false);
            }
        };
        let retryable = !matches!(self, Self::NotPossible | Self::Rejected);
        RequestError::new(code, message, retryable)
    }
}

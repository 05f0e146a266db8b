//! What sort of trouble a failure is, as far as another attempt is concerned.

use std::time::Duration;

/// What an error says of itself, so that a policy can tell whether another attempt may succeed.
pub trait Failure {
    /// What sort of trouble it is.
    fn class(&self) -> Class;

    /// Its code, which a policy may list beside the classes; empty when it has none.
    fn code(&self) -> &str {
        ""
    }

    /// How long the dependency wants to be left alone, such as its `Retry-After`.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// The sorts of trouble, the same as those of `retry_on` in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// `5xx`: the dependency failed.
    ServerError,
    /// `timeout`: it did not answer in time.
    Timeout,
    /// `connect`: it was not reached, or the connection broke.
    Connect,
    /// `throttled`: the same call may be welcome later (408, 409, 425, 429).
    Throttled,
    /// `4xx`: it refused the call. Never retried.
    Refused,
    /// `other`: trouble of a caller's own.
    Other,
}

impl Class {
    /// The class of an answer with this HTTP status.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            408 | 409 | 425 | 429 => Self::Throttled,
            400..=499 => Self::Refused,
            500..=599 => Self::ServerError,
            _ => Self::Other,
        }
    }

    /// Its name in `retry_on`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ServerError => "5xx",
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Throttled => "throttled",
            Self::Refused => "4xx",
            Self::Other => "other",
        }
    }
}

//! The classes of failures, which decide whether another attempt is made.

use std::time::Duration;

/// An error that a policy can classify, to decide whether another attempt is made.
pub trait Failure {
    /// Its class.
    fn class(&self) -> Class;

    /// Its code, which a policy may list as well as classes; empty when it has none.
    fn code(&self) -> &str {
        ""
    }

    /// The dependency's `Retry-After`.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// The classes of failures, the same as those of `retry_on` in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// `5xx`: the dependency failed.
    ServerError,
    /// `timeout`: it did not answer in time.
    Timeout,
    /// `connect`: it was not reached, or the connection broke.
    Connect,
    /// `throttled`: the same call may succeed later (408, 409, 425, 429).
    Throttled,
    /// `unauthorized`: it refused the credential of the call (401, 403).
    Unauthorized,
    /// `4xx`: it refused the call. Never retried.
    Refused,
    /// `other`: any other failure, such as one of the caller.
    Other,
}

impl Class {
    /// The class of an answer with this HTTP status.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            408 | 409 | 425 | 429 => Self::Throttled,
            401 | 403 => Self::Unauthorized,
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
            Self::Unauthorized => "unauthorized",
            Self::Refused => "4xx",
            Self::Other => "other",
        }
    }
}

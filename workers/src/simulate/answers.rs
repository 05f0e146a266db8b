//! The answers of a simulated downstream.

use std::time::Duration;

use tidegate::stage::Receipt;

/// The answer to a readiness check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// It can run.
    Ready,
    /// Not now.
    Snooze {
        /// When to ask again.
        after: Option<Duration>,
    },
    /// It never can.
    Never,
    /// The check broke the concurrency limit.
    TooMany {
        /// When to ask again.
        after: Duration,
    },
    /// The downstream does not serve this kind.
    UnknownKind,
}

/// The answer to a send.
#[derive(Debug, Clone, PartialEq)]
pub enum SendAnswer {
    /// The request was taken, now or by an earlier send.
    Taken(Receipt),
    /// It was refused permanently.
    Rejected,
    /// A server error: it may have been taken or not.
    Broken,
    /// No answer will come, though the request was taken.
    Silence,
    /// The send broke the rate limit.
    TooMany {
        /// When there is room again.
        after: Duration,
    },
    /// The downstream does not serve this kind.
    UnknownKind,
}

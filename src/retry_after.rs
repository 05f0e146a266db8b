//! Retry-After: one number for the header and the body of an answer.
//!
//! The database computes it: `request_outlooks` for polls, `submit` and `submit_etas` for new requests, `gate_wait` at a
//! closed gate. A node that refuses a submission by its copy of the gates computes it from what the database has told it
//! (`node/src/state/gates/known.rs`).

use std::time::Duration;

use serde::Serialize;

/// Whole seconds, at least one: with zero, some clients ask again without any pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct RetryAfter(u64);

impl RetryAfter {
    /// One second.
    pub const SOON: Self = Self(1);

    /// This many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(if seconds == 0 { 1 } else { seconds })
    }

    /// In seconds.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0
    }
}

impl From<Duration> for RetryAfter {
    /// Rounds up.
    fn from(wait: Duration) -> Self {
        Self::seconds(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_to_whole_seconds_and_never_zero() {
        for (milliseconds, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (26_000, 26)] {
            let wait = Duration::from_millis(milliseconds);
            assert_eq!(RetryAfter::from(wait).as_secs(), seconds, "{wait:?}");
        }
    }
}

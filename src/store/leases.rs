//! Leases, and how they and durations become parameters of queries.

use std::time::Duration;

/// What a worker holds of a queue: one message, under the nonce its claim wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The message's number in its queue.
    pub msg_id: i64,
    /// What the claim wrote into it.
    pub nonce: i64,
}

/// Message numbers and nonces, as two arrays.
pub(super) fn columns(leases: &[Lease]) -> (Vec<i64>, Vec<i64>) {
    leases
        .iter()
        .map(|lease| (lease.msg_id, lease.nonce))
        .unzip()
}

pub(super) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

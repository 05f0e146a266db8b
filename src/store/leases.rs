//! Leases, and how they and durations become parameters of queries.

use std::time::Duration;

use uuid::Uuid;

/// What a worker holds of a queue: one request, under the token of its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// The claim's random number.
    pub token: i64,
    /// The request.
    pub id: Uuid,
}

/// Tokens and ids, as two arrays.
pub(super) fn columns(leases: &[Lease]) -> (Vec<i64>, Vec<Uuid>) {
    leases.iter().map(|lease| (lease.token, lease.id)).unzip()
}

pub(super) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

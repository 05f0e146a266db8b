//! Leases, and how they become parameters of statements.

use sqlx::FromRow;
use uuid::Uuid;

/// A lease on one request, under the token of its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, FromRow)]
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

//! The leases of claims: extensions, and what a stage decides under its lease.

use std::time::Duration;

use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use super::{Store, columns::milliseconds};
use crate::{
    error::{Result, StoreError},
    request::{Request, RequestId, Status},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/leases.sql");

/// A lease on one request, under the token of its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, FromRow)]
pub struct Lease {
    /// The claim's random number.
    pub token: i64,
    /// The request.
    pub id: Uuid,
}

impl<P> Request<P> {
    /// The lease under which a stage has the request.
    #[must_use]
    pub const fn lease(&self) -> Lease {
        Lease { token: self.lease_token, id: self.id.0 }
    }
}

/// A request that moved, and where it is now.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Moved {
    /// The request.
    pub id: RequestId,
    /// Its status now.
    pub status: Status,
    /// The queue that it is in now, if nothing waited there before, so that its workers may be asleep.
    pub wakes: Option<String>,
}

/// Tokens and ids, as two arrays.
fn columns(leases: &[Lease]) -> (Vec<i64>, Vec<Uuid>) {
    leases.iter().map(|lease| (lease.token, lease.id)).unzip()
}

impl Store {
    /// Extends leases to `lease_for` from now: `tidegate.extend`. Returns the extended ones; the others are lost.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn extend(&self, queue: &str, leases: &[Lease], lease_for: Duration) -> Result<Vec<Lease>> {
        let (tokens, ids) = columns(leases);
        run!(self, fetch_all query_as "extend"(queue, tokens, ids, milliseconds(lease_for)))
    }

    /// Which of these leases are still held: `tidegate.still_held`. Reads only.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn still_held(&self, queue: &str, leases: &[Lease]) -> Result<Vec<Lease>> {
        let (tokens, ids) = columns(leases);
        run!(self, fetch_all query_as "still_held"(queue, tokens, ids))
    }

    /// Which of these leases are held, their requests locked to the end of the transaction: `tidegate.hold_leases`.
    ///
    /// # Errors
    ///
    /// A database error. The transaction is lost then.
    pub async fn hold_leases(&self, transaction: &mut PgConnection, leases: &[Lease]) -> Result<Vec<Lease>> {
        let (tokens, ids) = columns(leases);
        let query = sqlx::query_as(statement!("hold_leases")).bind(tokens).bind(ids);
        let held = query.fetch_all(transaction).await;
        self.errors.record(held.map_err(StoreError::from), &self.pool)
    }

    /// Sets how many shares complete a request that is being checked: `tidegate.set_response_threshold`. False: the lease
    /// is lost, or the check has passed.
    ///
    /// # Errors
    ///
    /// A threshold below one, a database error.
    pub async fn set_response_threshold(&self, lease: Lease, shares: i32) -> Result<bool> {
        run!(self, fetch_one query_scalar "set_response_threshold"(lease.token, lease.id, shares))
    }
}

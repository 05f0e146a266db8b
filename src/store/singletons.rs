//! The leases of tasks that one process of the fleet runs at a time.

use std::time::Duration;

use super::{Store, columns::milliseconds};
use crate::error::Result;

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/singletons.sql");

impl Store {
    /// Takes the lease of a singleton if it is free: `tidegate.lease_take`. Returns its epoch.
    ///
    /// # Errors
    ///
    /// An invalid name or length, a database error.
    pub async fn lease_take(&self, name: &str, holder: &str, lasts: Duration) -> Result<Option<i64>> {
        run!(self, fetch_one query_scalar "lease_take"(name, holder, milliseconds(lasts)))
    }

    /// Extends the lease of a singleton: `tidegate.lease_keep`. False: it is lost.
    ///
    /// # Errors
    ///
    /// An invalid length, a database error.
    pub async fn lease_keep(&self, name: &str, epoch: i64, lasts: Duration) -> Result<bool> {
        run!(self, fetch_one query_scalar "lease_keep"(name, epoch, milliseconds(lasts)))
    }

    /// Ends the lease of a singleton: `tidegate.lease_release`. False: it was lost before.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn lease_release(&self, name: &str, epoch: i64) -> Result<bool> {
        run!(self, fetch_one query_scalar "lease_release"(name, epoch))
    }
}
